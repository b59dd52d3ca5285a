"""The levels of actions: what a policy commands, in which units and within which limits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError, did_you_mean
from sitl_bridge.lab.environments.records import ATTITUDE, MOTORS, RATES, VELOCITY


@dataclass(frozen=True)
class ActionLevel:
    """Figures of an action and their limits."""

    name: str  # by which a user chooses it
    number: int  # in the compiled step
    figures: tuple[str, ...]  # names with units
    low: Floats  # (k,) least values
    high: Floats  # (k,) greatest values

    @property
    def size(self) -> int:
        """k."""
        return len(self.figures)


def _level(name: str, number: int, *figures: tuple[str, float, float]) -> ActionLevel:
    return ActionLevel(
        name,
        number,
        tuple(figure for figure, _, _ in figures),
        np.array([low for _, low, _ in figures]),
        np.array([high for _, _, high in figures]),
    )


_THRUST = ("thrust, share of full thrust", 0.0, 1.0)
_YAW = ("yaw, rad from north", -math.pi, math.pi)
LEVELS = {
    level.name: level
    for level in (
        _level(
            "rates",
            RATES,
            _THRUST,
            *(
                (f"{axis} rate, rad/s about body {part}", -4.0, 4.0)
                for axis, part in zip("pq", "xy", strict=True)
            ),
            ("r rate, rad/s about body z", -2.0, 2.0),
        ),
        _level(
            "attitude",
            ATTITUDE,
            _THRUST,
            ("roll, rad", -math.radians(35.0), math.radians(35.0)),
            ("pitch, rad", -math.radians(35.0), math.radians(35.0)),
            _YAW,
        ),
        _level(
            "velocity",
            VELOCITY,
            ("velocity north, m/s", -5.0, 5.0),
            ("velocity east, m/s", -5.0, 5.0),
            ("velocity down, m/s", -3.0, 1.5),
            _YAW,
        ),
    )
}
"""Levels with as many figures for each airframe; that of the motors has one a motor."""


def action_level(name: str, rotors: int) -> ActionLevel:
    """The level of a name, for an airframe with so many rotors.

    Raises:
        UserError: for a name that is none.
    """
    if name == "motors":
        return _level(
            "motors", MOTORS, *((f"motor {k + 1}, share of full command", 0.0, 1.0) for k in range(rotors))
        )
    if name not in LEVELS:
        raise UserError(f"actions: there is no level {name!r}{did_you_mean(name, ['motors', *LEVELS])}")
    return LEVELS[name]
