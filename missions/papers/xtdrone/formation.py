"""XTDrone's nine vehicles in formation: on point masses, and on full dynamics with the built-in stack.

K. Xiao et al., "XTDrone: a customizable multi-rotor UAVs simulation platform", 2020, section V.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from comparison import new_figure, save
from numpy.typing import NDArray

import sitl_bridge as sb
from sitl_bridge.api.formation_flight import fly_formation
from sitl_bridge.api.scenarios import LoadedScenario, load_scenario
from sitl_bridge.api.swarms import fly_quick

SCENARIO = Path(__file__).resolve().with_name("reconfiguration.yaml")
CONFIGURATIONS = {"cube": 24.5, "pyramid": 49.5, "triangle": 74.5}
"""s at which each is drawn, at its end."""
SETTLED = 5.0
"""s before the end of each configuration in which its errors are taken."""
SHORT = 25.0
"""s of a quick form's flight: the first configuration."""


@dataclass(frozen=True)
class Flown:
    """A formation flight: rows ten a second, of n vehicles.

    Attributes:
        time: (k,) s since the start.
        position, slot: (k, n, 3) m NED.
        error: (k, n) m from the slots, true on full dynamics.
        separation: m, least of any two.
        contacts: between vehicles.
    """

    time: NDArray[np.float64]
    position: NDArray[np.float64]
    slot: NDArray[np.float64]
    error: NDArray[np.float64]
    separation: float
    contacts: int = 0

    def settled(self, name: str) -> float:
        """Largest slot error in m over the last seconds of a configuration."""
        end = CONFIGURATIONS[name]
        return float(np.nanmax(self.error[(self.time > end - SETTLED) & (self.time <= end)]))


def scenario(seed: int = 1, *, wake: bool = False, short: bool = False) -> LoadedScenario:
    """The scenario, with its wakes or, as in Gazebo, without; short: of the first configuration alone."""
    found = load_scenario(SCENARIO, seed=seed)
    if short and found.formation is not None:
        found = replace(found, formation=replace(found.formation, duration=SHORT))
    if wake:
        found = replace(
            found,
            specification=found.specification.model_copy(update={"proximity": sb.Proximity()}),
        )
    return found


@cache
def quick(*, short: bool = False) -> Flown:
    """On point masses, XTDrone's simple 3-D simulator."""
    plan = scenario(short=short).formation
    assert plan is not None
    result = fly_quick(plan)
    return Flown(result.time, result.position, result.slot, result.error, float(result.separation.min()))


@cache
def full(seed: int = 1, *, wake: bool = False, short: bool = False) -> Flown:
    """On full dynamics, with nine built-in stacks."""
    flown = fly_formation(scenario(seed, wake=wake, short=short), say=lambda _line: None)
    result = flown.result
    return Flown(
        result.time, result.position, result.slot, flown.true_error, flown.separation, flown.contacts
    )


def draw(flown: Flown | None, picture: Path, slots: dict[str, NDArray[np.float64]]) -> None:
    """Draw three configurations in space, the leader grey: of a flight, or of slots (n, 3) m FRD alone."""
    figure = new_figure(9.0, 3.2)
    for column, (name, at) in enumerate(CONFIGURATIONS.items()):
        axes = figure.add_subplot(1, 3, column + 1, projection="3d")
        if flown is None:
            places = slots[name]
        else:
            k = int(np.argmin(np.abs(flown.time - at)))
            places = flown.position[k] - flown.position[k, 0]
            trail = flown.position[max(0, k - 245) : k + 1] - flown.position[k, 0]
            for i in range(1, len(places)):
                axes.plot(
                    trail[:, i, 0], -trail[:, i, 1], -trail[:, i, 2], color="tab:blue", lw=0.5, alpha=0.6
                )
        axes.scatter(places[1:, 0], -places[1:, 1], -places[1:, 2], color="k", s=25)
        axes.scatter(*(places[0] * (1.0, -1.0, -1.0)), color="0.6", s=35)
        axes.set_title(name, y=0.95)
        axes.set(xlim=(-5, 5), ylim=(-5, 5), zlim=(-5, 5))
        axes.set_box_aspect((1, 1, 1))
        axes.tick_params(labelsize=6)
    save(figure, picture)


def worst(flown: Flown) -> float:
    """Largest settled slot error in m of the three configurations."""
    return max(map(flown.settled, CONFIGURATIONS), default=math.nan)
