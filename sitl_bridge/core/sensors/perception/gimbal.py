"""A gimbal with two or three motors that carries a camera: its limits, and how it turns.

The camera's attitude is given as in MAVLink's gimbal protocol: roll and pitch from the horizon, yaw from
north or from the vehicle's heading.  The motors are yaw, roll and pitch, from the vehicle to the camera.
"""

from __future__ import annotations

import math

import numpy as np
from pydantic import BaseModel, Field, model_validator

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.quantities import STRICT, Degrees, Vector
from sitl_bridge.base.rotations import matrix_from_euler, wrap_angle

Range = tuple[Degrees, Degrees]
Angles = tuple[float, float, float]
"""Roll, pitch, yaw in rad."""


class GimbalSpecification(BaseModel):
    """A gimbal.  The defaults are chosen: ranges of a small three-axis gimbal, such as Gremsy's Pixy."""

    model_config = STRICT

    roll: Range = Field((-45.0, 45.0), description="deg, range of the roll motor")
    pitch: Range = Field((-120.0, 45.0), description="deg, range of the pitch motor; -90 looks down")
    yaw: Range | None = Field(
        (-320.0, 320.0),
        description="deg, range of the yaw motor; null: two axes, the camera turns with the body",
    )
    rate: float = Field(90.0, gt=0.0, le=1000.0, description="deg/s, greatest rate of each axis")
    neutral_pitch: float = Field(0.0, ge=-180.0, le=180.0, description="deg, at the start and on command")
    arm: Vector = Field((0.0, 0.0, 0.0), description="m, from the pivot to the lens, in the camera's axes")

    @model_validator(mode="after")
    def _ranges_rise(self) -> GimbalSpecification:
        for name in ("roll", "pitch", "yaw"):
            ends = getattr(self, name)
            if ends is not None and not ends[0] <= ends[1]:
                raise ValueError(
                    f"{name}: the range begins with the lower end, not [{ends[0]:g}, {ends[1]:g}]"
                )
        return self


def _motor_rotation(roll: float, pitch: float, yaw: float) -> Floats:
    """(3, 3) of motor angles in rad, in the order yaw, roll, pitch from the outside."""
    return (
        matrix_from_euler(0.0, 0.0, yaw)
        @ matrix_from_euler(roll, 0.0, 0.0)
        @ matrix_from_euler(0.0, pitch, 0.0)
    )


def heading_of(body: Floats) -> float:
    """rad from north of a rotation body to NED."""
    return math.atan2(float(body[1, 0]), float(body[0, 0]))


class Gimbal:
    """The motion of a gimbal, stabilised in roll and pitch.

    Attributes:
        locked: whether yaw is counted from north; else from the vehicle's heading.
        angles: rad, roll, pitch and yaw that the camera has, before the motors' limits.
        target: rad, likewise, where they go.
        rates: rad/s at which the target moves.
    """

    def __init__(self, specification: GimbalSpecification) -> None:
        self.specification = specification
        self.locked = False
        self.angles = self.neutral
        self.target = self.angles
        self.rates: Angles = (0.0, 0.0, 0.0)

    @property
    def neutral(self) -> Angles:
        """rad, roll, pitch and yaw of the neutral attitude."""
        return 0.0, math.radians(self.specification.neutral_pitch), 0.0

    def point(self, target: Angles, rates: Angles, locked: bool, heading: float) -> None:
        """Set where the camera is to look.

        Args:
            target: rad, roll, pitch, yaw; nan keeps an axis where its target is.
            rates: rad/s; nan for 0.
            locked: whether yaw is counted from north.
            heading: rad, the vehicle's.
        """
        if locked != self.locked:
            change = heading if locked else -heading
            self.angles = (*self.angles[:2], wrap_angle(self.angles[2] + change))
            self.target = (*self.target[:2], wrap_angle(self.target[2] + change))
            self.locked = locked
        kept = [t if math.isfinite(t) else k for t, k in zip(target, self.target, strict=True)]
        self.target = (kept[0], kept[1], kept[2])
        moved = [r if math.isfinite(r) else 0.0 for r in rates]
        self.rates = (moved[0], moved[1], moved[2])

    def advance(self, seconds: float) -> None:
        """Turn for a while."""
        most = math.radians(self.specification.rate) * seconds
        roll, pitch, yaw = (t + r * seconds for t, r in zip(self.target, self.rates, strict=True))
        low, high = (math.radians(v) for v in self.specification.pitch)
        self.target = (wrap_angle(roll), min(max(pitch, low), high), wrap_angle(yaw) if self.locked else yaw)
        now = list(self.angles)
        for k in range(3):
            way = self.target[k] - now[k]
            if self.locked or k < 2:
                way = wrap_angle(way)
            now[k] += min(max(way, -most), most)
        self.angles = (now[0], now[1], now[2])

    def pose(self, body: Floats) -> Floats:
        """(3, 3) camera's axes to NED within the limits, on a vehicle turned by ``body`` (3, 3) to NED."""
        yaw = self.angles[2] + (0.0 if self.locked else heading_of(body))
        relative = body.T @ matrix_from_euler(self.angles[0], self.angles[1], yaw)
        found = body @ _motor_rotation(*self._limit_angles(relative))
        return np.ascontiguousarray(found)

    def _limit_angles(self, relative: Floats) -> Angles:
        """Motor angles in rad for a rotation camera to body, within the limits."""
        r = relative
        roll = math.asin(min(max(float(r[2, 1]), -1.0), 1.0))
        pitch = math.atan2(-float(r[2, 0]), float(r[2, 2]))
        yaw = math.atan2(-float(r[0, 1]), float(r[1, 1]))
        found = []
        for angle, ends in zip(
            (roll, pitch, yaw),
            (self.specification.roll, self.specification.pitch, self.specification.yaw),
            strict=True,
        ):
            low, high = (0.0, 0.0) if ends is None else (math.radians(ends[0]), math.radians(ends[1]))
            found.append(min(max(angle, low), high))
        return found[0], found[1], found[2]
