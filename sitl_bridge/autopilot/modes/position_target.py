"""Where the navigator wants the vehicle to go: PX4's position setpoint triplet, in local metres."""

from __future__ import annotations

import math

IDLE, TAKEOFF, GO, HOLD, GROUND = range(5)
"""Kinds of target: motors idle; climb from the ground; pass on the way; stop there; land there."""


class Target:
    """A place to fly to, with the ones before and after.

    Attributes:
        kind: one of the above.
        x: m north, ``y`` east, ``z`` down.
        before: where the leg begins; None for the straight way from here.
        after: where the next leg ends; None to stop at the target.
        yaw: rad; nan leaves the heading to MPC_YAW_MODE.
        acceptance: m within which it counts as reached.
        speed: m/s horizontally; nan for MPC_XY_CRUISE.
    """

    __slots__ = ("acceptance", "after", "before", "kind", "speed", "x", "y", "yaw", "z")

    def __init__(self) -> None:
        self.kind = IDLE
        self.x = self.y = self.z = 0.0
        self.before: tuple[float, float, float] | None = None
        self.after: tuple[float, float, float] | None = None
        self.yaw = math.nan
        self.acceptance = 2.0
        self.speed = math.nan

    def forget_path(self) -> None:
        """Go straight there, and stop."""
        self.before = self.after = None
