"""Height over the ground under the sticks, by the range finder: MPC_ALT_MODE 1 and 2.

The conditions are those of PX4's FlightTaskManualAltitude and FlightTaskManualAltitudeSmoothVel (v1.16).
"""

from __future__ import annotations

import math

from sitl_bridge.autopilot.estimate import EstimatedState

FOLLOW, HOLD = 1, 2
"""MPC_ALT_MODE: over the terrain always, or while the vehicle stands."""
DIRECT_VELOCITY = 0
"""MPC_POS_MODE.  With smoothed sticks (4), PX4 overwrites the height setpoint of mode 1."""


class TerrainHold:
    """Moves the height setpoint with the ground.

    Args:
        values: parameter values.
        state: estimated state of the vehicle.
    """

    __slots__ = ("_lock", "_resets", "_state", "_values")

    def __init__(self, values: dict[str, float], state: EstimatedState) -> None:
        self._values = values
        self._state = state
        self._resets = 0
        self._lock = math.nan

    def release(self) -> None:
        """Forget the height over the ground."""
        self._lock = math.nan

    def follow(self, z: float, moved: bool) -> float:
        """Return the height setpoint, m down, while the height is held.

        Args:
            z: height setpoint so far, m down.
            moved: whether the pitch or the roll stick is moved.
        """
        state = self._state
        if state.resets != self._resets:
            self._resets = state.resets
            self._lock = math.nan
        ground = state.z + state.height_above_ground
        if math.isnan(ground) or not self._applies(moved):
            self._lock = math.nan
            return z
        if math.isnan(self._lock):
            self._lock = ground - z
        return ground - self._lock

    def _applies(self, moved: bool) -> bool:
        values, mode = self._values, self._values["MPC_ALT_MODE"]
        if mode == FOLLOW:
            return values["MPC_POS_MODE"] == DIRECT_VELOCITY
        if mode != HOLD or moved:
            return False
        share = 0.5 if math.isnan(self._lock) else 1.0
        return math.hypot(self._state.vx, self._state.vy) < share * values["MPC_HOLD_MAX_XY"]
