"""Levels of actions, and spaces of observations and actions, the same for every environment of a task."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from gymnasium.spaces import Box

from sitl_bridge.base.arrays import Floats, Singles
from sitl_bridge.base.errors import UserError, did_you_mean
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.lab.environments.records import ATTITUDE, MOTORS, RATES, VELOCITY
from sitl_bridge.lab.environments.tasks import Task


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


LIMIT = 1e4
"""Greatest magnitude of a figure in an observation, in its unit."""
_MOST = np.float32(LIMIT)


@compiled
def bounded(figure: float) -> np.float32:
    """A figure as float32, within the limit; not a number stays so."""
    single = np.float32(figure)
    if single > _MOST:
        return _MOST
    if single < -_MOST:
        return -_MOST
    return single


@compiled
def write_ways(goals: Floats, truth: Floats, first: int, observations: Singles) -> None:
    """Write the ways from vehicles, truth (n, 13), to goals (n, 3) into columns from ``first`` on."""
    for i in range(goals.shape[0]):
        for axis in range(3):
            observations[i, first + axis] = bounded(goals[i, axis] - truth[i, axis])


@compiled
def write_figures(figures: Floats, first: int, observations: Singles) -> None:
    """Write figures (n, k) into the observations (n, m) float32, from column ``first`` on."""
    for i in range(figures.shape[0]):
        for k in range(figures.shape[1]):
            observations[i, first + k] = bounded(figures[i, k])


Observation: TypeAlias = Singles

TRUTH_FIGURES = (
    *(f"position {axis}, m" for axis in ("north", "east", "down")),
    *(f"velocity {axis}, m/s" for axis in ("north", "east", "down")),
    *(f"attitude {part}, quaternion body to NED" for part in "wxyz"),
    *(f"angular velocity about body {axis}, rad/s" for axis in "xyz"),
)
SENSOR_FIGURES = (
    *(f"specific force along body {axis}, m/s^2" for axis in "xyz"),
    *(f"gyroscope about body {axis}, rad/s" for axis in "xyz"),
    *(f"magnetic field along body {axis}, uT" for axis in "xyz"),
    "pressure altitude, m",
    *(f"GPS position {axis}, m" for axis in ("north", "east", "down")),
    *(f"GPS velocity {axis}, m/s" for axis in ("north", "east", "down")),
)
SOURCES = {"truth": TRUTH_FIGURES, "sensors": SENSOR_FIGURES}


def observation_figures(source: str, task: Task) -> tuple[str, ...]:
    """Names and units of an observation's figures.

    Raises:
        UserError: for a source that is none.
    """
    if source not in SOURCES:
        raise UserError(f"observations: {source!r} is not one of {', '.join(SOURCES)}")
    if not isinstance(task, Task):
        raise UserError(f"task: {task!r} is no object of a task; give ReachWaypoint()")
    return (*SOURCES[source], *task.figures)


def observation_space(figures: tuple[str, ...]) -> Box[np.float32]:
    """The space of observations with these figures."""
    limits = np.array([1.0 if "quaternion" in figure else LIMIT for figure in figures], dtype=np.float32)
    return Box(-limits, limits, dtype=np.float32)


def action_space(level: ActionLevel) -> Box[np.float32]:
    """The space of actions of a level."""
    return Box(level.low.astype(np.float32), level.high.astype(np.float32), dtype=np.float32)
