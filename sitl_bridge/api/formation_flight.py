"""Formations flown by the built-in stack in this process, by the commands of every other flight.

The formation uses the vehicles' own estimates, as with PX4; the truth judges it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sitl_bridge.api.in_process import InProcessStacks
from sitl_bridge.autopilot.stack_fleet import StackFleet
from sitl_bridge.base.arrays import Floats
from sitl_bridge.core.simulation.events import OnEvent, Timeline, actions, ignore_event
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.session.formation_flight import BUILTIN_INTERVAL, FormationFlight
from sitl_bridge.session.scenario import LoadedScenario
from sitl_bridge.session.scenario_settings import settings_of
from sitl_bridge.session.settings import FlightOptions
from sitl_bridge.session.swarm_vehicles import SwarmVehicles
from sitl_bridge.swarm.formation.formation import true_slot_errors
from sitl_bridge.swarm.formation.patterns import closest_pair
from sitl_bridge.swarm.formation.specification import FormationPlan
from sitl_bridge.swarm.quick_simulation import FormationResult


@dataclass(frozen=True)
class Flown:
    """Result of a formation flight."""

    result: FormationResult  # by the vehicles' estimates
    true_error: Floats  # (k, n) m, true distances from the slots at the result's rows
    separation: float  # m, smallest true distance of any two vehicles
    contacts: int  # between vehicles
    errors: tuple[str, ...] = ()  # of tables that could no longer be written

    @property
    def worst_steady_error(self) -> float:
        """Largest true error in m with a steady centre; nan if it was never steady."""
        rows = self.true_error[self.result.steady]
        return float(np.nanmax(rows)) if np.isfinite(rows).any() else float("nan")


def fly_formation(
    scenario: LoadedScenario,
    airframes: Sequence[Airframe] = (),
    *,
    tables: Path | None = None,
    say: Callable[[str], None] = print,
    record: Callable[[StackFleet], OnEvent] | None = None,
) -> Flown:
    """Take off and fly a formation with the built-in stack, in one process.

    Args:
        scenario: with a formation; its events count from the start on the ground, and concern no processes
            of flight stacks.  The vehicles stand below their places.
        airframes: one per vehicle; those of the scenario if empty.
        tables: directory for the tables of custom sensors; None writes none.
        say: prints a line for each event.
        record: called before the first step; attaches a recorder, and returns what notes the events.
    """
    plan = scenario.formation
    assert plan is not None
    settings = settings_of(scenario, Path(scenario.document.source), FlightOptions(autopilot="builtin"))
    if airframes:
        pairs = zip(settings.vehicles, airframes, strict=True)
        settings = replace(settings, vehicles=tuple(replace(v, airframe=frame) for v, frame in pairs))
    stacks = InProcessStacks(settings, record=False, tables=tables)
    try:
        fleet = stacks.fleet
        on_event = ignore_event if record is None else record(fleet)
        due = actions(scenario.events, fleet.simulation, say, names=stacks.names, on_event=on_event)
        fleet.timeline = Timeline(fleet.time, due)
        return _fly(plan, stacks, on_event)
    finally:
        stacks.close()


def _fly(plan: FormationPlan, stacks: InProcessStacks, on_event: OnEvent) -> Flown:
    vehicles, simulation = (
        SwarmVehicles(stacks.commands, lambda _line: None, BUILTIN_INTERVAL),
        stacks.simulation,
    )
    vehicles.take_off(plan.places, float(plan.path.yaw[0]))
    flight = FormationFlight(plan, vehicles, on_event=on_event)
    separation, true = [], []

    def watch(stored: bool) -> None:
        position = simulation.states["position"]
        if stored:
            true.append(position.copy())
        separation.append(closest_pair(position)[0])

    result = flight.fly(watch)
    return Flown(
        result,
        true_slot_errors(result.tracks(), np.stack(true)),
        min(separation),
        int(simulation.proximity[0]["count"]),
        tuple(stacks.fleet.errors.lines),
    )
