"""The rays of a sample with their ranges: what a map is built from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sitl_bridge.base.arrays import Floats


@dataclass(frozen=True)
class Sight:
    """Rays and where they end."""

    origins: Floats  # (n, 3) m NED, or (1, 3) for all rays
    directions: Floats  # (n, 3) unit vectors NED
    ranges: Floats  # (n,) m; inf where nothing is within the sensor's range, nan for no reading
    maximum: float  # m up to which a ray counts

    def points(self) -> Floats:
        """Return the (k, 3) places that rays met, m NED."""
        met = np.isfinite(self.ranges)
        origins = np.broadcast_to(self.origins, self.directions.shape)[met]
        return np.asarray(origins + self.ranges[met, None] * self.directions[met])
