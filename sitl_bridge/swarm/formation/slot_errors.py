"""True slot errors of a formation flown on the vehicles' own estimates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]


def true_slot_errors(tracks: Mapping[str, Any], true: Array) -> Array:
    """Return true distances (k, n) in m of the vehicles from their slots, by the leader's true position.

    A vehicle's position error is added to its estimated slot error; the leader's position error is common to
    all and cancels.

    Args:
        tracks: of ``Result.tracks``.
        true: (k, n, 3) m NED at the times of the tracks.

    Returns:
        nan if the vehicle is not in formation, or there is no leader.
    """
    leader = tracks["leader"]
    error = true - tracks["position"]
    common = error[np.arange(len(leader)), np.maximum(leader, 0)]
    apart = tracks["position"] - tracks["slot"] + error - common[:, None]
    errors: Array = np.linalg.norm(apart, axis=2)
    return np.where((leader >= 0)[:, None] & np.isfinite(tracks["slot_error"]), errors, np.nan)
