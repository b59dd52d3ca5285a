"""A thermal as an example of a wind of one's own: one file, one line in a world.

    wind: {custom: {file: thermal.py, class: Thermal, options: {strength: 3.0, radius: 30.0}}}

Gedeon's model of an updraught, a core that rises in a ring that sinks, w = W exp(-(r/R)^2) (1 - (r/R)^2) (J.
Gedeon, "Dynamic analysis of dolphin-style thermal cross-country flight", Technical Soaring, 1973).  It is
weaker below ``base`` metres, and drifts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sitl_bridge.api.models import Place, WindField


class Thermal(WindField):
    """An updraught of ``strength`` m/s in its core.

    Args:
        strength: m/s, W.
        radius: m, R, where the air neither rises nor sinks.
        north: m, of the core at the start.
        east: m.
        drift_north: m/s with which it moves.
        drift_east: m/s.
        base: m above the origin, where it has its full strength.
    """

    def __init__(
        self,
        strength: float = 3.0,
        radius: float = 30.0,
        north: float = 0.0,
        east: float = 0.0,
        drift_north: float = 0.0,
        drift_east: float = 0.0,
        base: float = 20.0,
    ) -> None:
        self.strength, self.radius, self.base = strength, radius, base
        self.core, self.drift = (north, east), (drift_north, drift_east)

    def velocity(self, t: float, place: Place) -> Sequence[float]:
        """Velocity of the air, m/s north, east, down."""
        north = place[0] - self.core[0] - t * self.drift[0]
        east = place[1] - self.core[1] - t * self.drift[1]
        share = (north * north + east * east) / (self.radius * self.radius)
        rising = self.strength * math.exp(-share) * (1.0 - share)
        height = min(max(-place[2] / self.base, 0.0), 1.0)
        return self.drift[0], self.drift[1], -rising * height
