"""Levels of actions, and spaces of observations and actions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from gymnasium.spaces import Box

from sitl_bridge.base.arrays import Floats, Singles


@dataclass(frozen=True)
class ActionLevel:
    """Figures of an action and their limits."""

    name: str  # by which a user chooses it
    figures: tuple[str, ...]  # names with units
    low: Floats  # (k,) least values
    high: Floats  # (k,) greatest values

    @property
    def size(self) -> int:
        """k."""
        return len(self.figures)


def _level(name: str, *figures: tuple[str, float, float]) -> ActionLevel:
    return ActionLevel(
        name,
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
            _THRUST,
            *(
                (f"{axis} rate, rad/s about body {part}", -4.0, 4.0)
                for axis, part in zip("pq", "xy", strict=True)
            ),
            ("r rate, rad/s about body z", -2.0, 2.0),
        ),
        _level(
            "attitude",
            _THRUST,
            ("roll, rad", -math.radians(35.0), math.radians(35.0)),
            ("pitch, rad", -math.radians(35.0), math.radians(35.0)),
            _YAW,
        ),
        _level(
            "velocity",
            ("velocity north, m/s", -5.0, 5.0),
            ("velocity east, m/s", -5.0, 5.0),
            ("velocity down, m/s", -3.0, 1.5),
            _YAW,
        ),
    )
}
LIMIT = 1e4
"""Greatest magnitude of a figure in an observation, in its unit."""

Observation: TypeAlias = Singles

TRUTH_FIGURES = (
    *(f"position {axis}, m" for axis in ("north", "east", "down")),
    *(f"velocity {axis}, m/s" for axis in ("north", "east", "down")),
    *(f"attitude {part}, quaternion body to NED" for part in "wxyz"),
    *(f"angular velocity about body {axis}, rad/s" for axis in "xyz"),
)


def observation_space(figures: tuple[str, ...]) -> Box[np.float32]:
    """The space of observations with these figures."""
    limits = np.array([1.0 if "quaternion" in figure else LIMIT for figure in figures], dtype=np.float32)
    return Box(-limits, limits, dtype=np.float32)


def action_space(level: ActionLevel) -> Box[np.float32]:
    """The space of actions of a level."""
    return Box(level.low.astype(np.float32), level.high.astype(np.float32), dtype=np.float32)
