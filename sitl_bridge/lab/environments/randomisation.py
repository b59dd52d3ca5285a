"""What is drawn anew at each reset: airframe, wind, errors of the sensors, and the state at the start."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np

from sitl_bridge.base.arrays import Records
from sitl_bridge.base.errors import UserError
from sitl_bridge.lab.environments.records import RESET

Range: TypeAlias = tuple[float, float]
"""Least and greatest value of a uniform distribution."""
Point: TypeAlias = tuple[float, float, float]

_FACTORS = ("mass", "inertia", "rotor", "motor", "drag")


@dataclass(frozen=True, kw_only=True)
class Randomisation:
    """Distributions of a reset; each sub-environment draws from its own random stream.

    The built-in controllers keep the gains of the airframe as its file describes it.

    Attributes:
        mass: factor on the mass; the inertia follows.
        inertia: further factor on the inertia.
        rotor: factor on thrust and torque of each rotor, drawn for each.
        motor: factor on the motors' time constants.
        drag: factor on the body's drag.
        noise: factor on noise and biases of all sensors, which are themselves drawn anew at each reset.
        wind: m/s, steady and horizontal, from any direction; adds to that of the world.
        turbulence: m/s, wind at 20 ft that sets the intensity of Dryden turbulence; adds likewise.
        position: m NED, lowest and highest corner of the box around the start.
        yaw: rad, heading at the start.
        speed: m/s, largest velocity at the start along each axis.
        tilt: rad, largest tilt at the start.
        rate: rad/s, largest angular velocity at the start about each axis.

    Raises:
        UserError: for a range that ends before it begins, a factor of 0 or less, or a negative magnitude.
    """

    mass: Range = (1.0, 1.0)
    inertia: Range = (1.0, 1.0)
    rotor: Range = (1.0, 1.0)
    motor: Range = (1.0, 1.0)
    drag: Range = (1.0, 1.0)
    noise: Range = (1.0, 1.0)
    wind: Range = (0.0, 0.0)
    turbulence: Range = (0.0, 0.0)
    position: tuple[Point, Point] = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    yaw: Range = (0.0, 0.0)
    speed: float = 0.0
    tilt: float = 0.0
    rate: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = np.asarray(getattr(self, field.name), dtype=np.float64)
            where = f"randomisation: {field.name}: {getattr(self, field.name)!r}"
            expected = {"position": (2, 3), "speed": (), "tilt": (), "rate": ()}.get(field.name, (2,))
            if value.shape != expected or not np.isfinite(value).all():
                raise UserError(f"{where} must be {'a finite number' if not expected else 'finite limits'}")
            if expected and bool((value[0] > value[1]).any()):
                raise UserError(f"{where} ends before it begins")
            least = float(value.min())
            if field.name in _FACTORS and least <= 0.0:
                raise UserError(f"{where} must be above 0")
            if field.name not in (*_FACTORS, "position", "yaw") and least < 0.0:
                raise UserError(f"{where} must not be negative")
        if self.tilt > math.pi:
            raise UserError(f"randomisation: tilt: {self.tilt:g} rad is more than half a turn")

    @property
    def moves_air(self) -> bool:
        """Whether the air of the episodes moves, beyond that of the world."""
        return tuple(self.wind) != (0.0, 0.0) or tuple(self.turbulence) != (0.0, 0.0)

    @property
    def varies_rotors(self) -> bool:
        """Whether the rotors of an episode differ from those of the airframe."""
        return tuple(self.rotor) != (1.0, 1.0)

    @property
    def varies(self) -> bool:
        """Whether airframe, air or errors of the sensors differ from episode to episode."""
        return self.moves_air or any(
            tuple(getattr(self, name)) != (1.0, 1.0) for name in (*_FACTORS, "noise")
        )

    def pack(self) -> Records:
        """(1,) RESET."""
        record = np.zeros(1, RESET)
        for field in fields(self):
            record[0][field.name] = getattr(self, field.name)
        return record
