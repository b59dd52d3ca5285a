"""True slot errors of a formation that was flown by the vehicles' own estimates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]


def true_slot_errors(tracks: Mapping[str, Any], true: Array) -> Array:
    """True distance (k, n) in m of each vehicle from its slot, as the leader's true position has it.

    A vehicle's position error is added to the slot error that it knows of; the leader's position error is
    common to all and cancels.

    Args:
        tracks: of ``Result.tracks``.
        true: (k, n, 3) m NED at the times of the tracks.

    Returns:
        nan where the vehicle is not in formation, or nobody leads.
    """
    leader = tracks["leader"]
    error = true - tracks["position"]
    common = error[np.arange(len(leader)), np.maximum(leader, 0)]
    apart = tracks["position"] - tracks["slot"] + error - common[:, None]
    errors: Array = np.linalg.norm(apart, axis=2)
    return np.where((leader >= 0)[:, None] & np.isfinite(tracks["slot_error"]), errors, np.nan)
