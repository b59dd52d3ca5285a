"""The navigator's position target: PX4's position setpoint triplet, in local metres."""

from __future__ import annotations

import math

IDLE, TAKEOFF, GO, HOLD, GROUND = range(5)
"""Kinds of target: idle motors; climb from the ground; pass a waypoint; hold; land."""


class PositionTarget:
    """A target position with the previous and the next one.

    Attributes:
        kind: one of the above.
        x: m north, ``y`` east, ``z`` down.
        before: start of the leg; None for a straight line from the present position.
        after: end of the next leg; None to stop at the target.
        yaw: rad; nan turns the nose to the target.
        acceptance: acceptance radius, m.
        speed: horizontal speed, m/s; nan for MPC_XY_CRUISE.
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

    def aim(self, kind: int, x: float, y: float, z: float) -> None:
        """Fly straight to another position, with the nose to it, and stop there."""
        self.kind, self.x, self.y, self.z, self.yaw = kind, x, y, z, math.nan
        self.clear_path()

    def clear_path(self) -> None:
        """Fly straight to the target and stop there."""
        self.before = self.after = None
