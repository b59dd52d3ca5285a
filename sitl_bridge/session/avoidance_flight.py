"""Avoidance scenarios flown by flight stacks, PX4 or the built-in one, from the ground to the ground.

The controllers of all vehicles run in this program, but each knows only the estimates of its own vehicle and
the broadcasts of the others, which the radio delays and loses.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from sitl_bridge.base.json_data import JsonObject, plain_values
from sitl_bridge.base.output_file import write_arrays, write_json
from sitl_bridge.session.stacks import FlightStacks
from sitl_bridge.session.swarm_vehicles import SwarmVehicles, is_clear_to_land
from sitl_bridge.swarm.avoidance.closed_loop import Flight, has_succeeded
from sitl_bridge.swarm.avoidance.solver import PlanStatus
from sitl_bridge.swarm.avoidance.specification import AvoidanceSpecification, RouteSpecification
from sitl_bridge.swarm.avoidance.swarm import Swarm
from sitl_bridge.swarm.interface import States

RATE = 25.0
"""Hz of reports and set-points: two vehicles that approach at 2 m/s each come 16 cm closer in one period."""

LEAD_IN = 1.0
"""s for which the controllers hold the vehicles at their first points before the references start: by then
every vehicle has received broadcasts of all others, and the disturbance observers have converged."""

PLANNED = (PlanStatus.SOLVED, PlanStatus.SLACK)
"""Outcomes of a plan that are not printed; the summary counts those with slack."""

GRACE = 10.0
"""s beyond a scenario's duration, for vehicles that had to give way for long."""

ARRIVAL_TIME = 1.0
"""s for which all vehicles must be within the tolerance of their goals before a flight ends: several samples,
so that a vehicle that overshoots the tolerance in one of them has not arrived."""

RETURN_TIME = 10.0
"""s for the return to clear ground, beyond the duration of its reference."""


def fly_avoidance(
    scenario: AvoidanceSpecification,
    stacks: FlightStacks,
    deviation: float,
    seed: int,
    say: Callable[[str], None],
    directory: Path,
) -> None:
    """Fly a scenario with vehicles below its first points, and land them.

    They climb vertically to these points, begin together, and land at their last points.  If these are too
    close together for landing, they return to their first points, avoiding one another, and land there.

    Args:
        stacks: of the vehicles, in the scenario's order.
        deviation: m, of ``lasting_deviation``.
        seed: of the radio's losses.
        directory: of the result; a flight that has failed or was broken off, and one after which a vehicle
            does not land, is in it, too.

    Raises:
        UserError: if the vehicles cannot fly it, with the vehicle and the reason, or have not flown it well.
    """
    plans = scenario.plans()
    vehicles = SwarmVehicles(stacks, say, round(1e6 / RATE))
    swarm: Swarm | None = None
    try:
        with vehicles.hold_on_failure():
            heading = np.array([plan.heading for plan in plans])
            vehicles.take_off(np.array([plan.start() for plan in plans]), heading)
            swarm = Swarm(scenario, stacks.now + round(1e6 * LEAD_IN), deviation, seed)
            flight = fly_references(vehicles, swarm)
            say(verdict(flight))
            _return_if_close(vehicles, scenario, deviation, seed)
        vehicles.finish("" if has_succeeded(flight) else verdict(flight))
    finally:
        if swarm is not None and swarm.has_flown:
            write(swarm.flight(), directory)


def fly_references(vehicles: SwarmVehicles, swarm: Swarm) -> Flight:
    """Hold until a swarm starts, fly for the scenario's duration, at most GRACE longer, until all arrive.

    Raises:
        UserError: when the simulation fails.
    """
    end = EndCondition(swarm.scenario, swarm.start)
    printed: set[tuple[str, PlanStatus]] = set()

    def watch(states: States) -> None:
        end.update(states)
        for agent in swarm.agents:
            for status in agent.solver.counts:
                if status not in PLANNED and (agent.name, status) not in printed:
                    printed.add((agent.name, status))
                    vehicles.say(f"{agent.name}: plan {status.value}")

    vehicles.fly(swarm, end, watch)
    return swarm.flight()


class EndCondition:
    """End of a flight: a function that returns us of simulated time.

    A flight ends after the scenario's duration, once all connected vehicles have been at their goals for
    ARRIVAL_TIME, and at the latest GRACE after the duration.

    Args:
        begun: us at which its references start.
    """

    def __init__(self, scenario: AvoidanceSpecification, begun: int) -> None:
        self._goals = np.array([plan.goal() for plan in scenario.plans()])
        self._tolerance = scenario.tolerance
        self._planned = begun + round(1e6 * scenario.duration)
        self._there_since: int | None = None
        self._now = begun

    def update(self, states: States) -> None:
        """Take the states of a tick into account."""
        away = np.linalg.norm(states.position - self._goals, axis=1)[states.alive]
        self._now = states.time
        if (away > self._tolerance).any():
            self._there_since = None
        elif self._there_since is None:
            self._there_since = states.time

    def __call__(self) -> int:
        """Us at which the flight ends, as far as is known by now."""
        arrived = self._there_since is not None and self._now - self._there_since >= 1e6 * ARRIVAL_TIME
        return self._planned if arrived else self._planned + round(1e6 * GRACE)


def _return_if_close(
    vehicles: SwarmVehicles, scenario: AvoidanceSpecification, deviation: float, seed: int
) -> None:
    """Return to the first points if the vehicles are too close together for landing."""
    states = vehicles.states()
    if is_clear_to_land(states.position[states.alive]):
        return
    vehicles.say("too close together for landing: returning to the first points")
    back = tuple(
        RouteSpecification(
            name=plan.name,
            points=((here[0], here[1], here[2]), plan.start()),
            speed=plan.speed,
            acceleration=plan.acceleration,
            yaw=plan.yaw,
        )
        for plan, here in zip(scenario.plans(), states.position.tolist(), strict=True)
    )
    duration = max(plan.reference().duration for plan in back) + RETURN_TIME
    way = scenario.model_copy(update={"routes": back, "circle": None, "duration": duration})
    start = vehicles.stacks.now + round(1e6 * LEAD_IN)
    fly_references(vehicles, Swarm(way, start, deviation, seed))


def verdict(flight: Flight) -> str:
    """Result of a flight in one line."""
    arrival = flight.arrival()
    late = [name for name, time in zip(flight.names, arrival, strict=True) if not np.isfinite(time)]
    arrived = f"all arrived within {arrival.max():.1f} s" if not late else f"{', '.join(late)} did not arrive"
    found = [("least distance", flight.distances().min()), ("from an obstacle", flight.clearances().min())]
    listed = ", ".join(f"{what} {value:.2f} m" for what, value in found if np.isfinite(value))
    return f"{listed} by their own estimates; {arrived}" if listed else arrived


def write(flight: Flight, directory: Path) -> None:
    """Write summary and tracks into a directory, which is created if it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    write_json(directory / "summary.json", summary(flight))
    tracks = {
        "names": np.array(flight.names),
        "time": flight.time,
        "state": flight.state,
        "reference": flight.reference,
        "command": flight.command,
    }
    write_arrays(directory / "tracks.npz", tracks)


def summary(flight: Flight) -> JsonObject:
    """Figures of a flight by the vehicles' own estimates, as plain values; null if there is none."""
    arrival, keep = flight.arrival(), flight.scenario.controller.distances
    cpu = 1e3 * flight.solve_cpu[2:]
    found: JsonObject = {
        "scenario": flight.scenario.name,
        "succeeded": has_succeeded(flight),
        "vehicles": list(flight.names),
        "least_distance_m": float(flight.distances().min()),
        "minimum_distance_m": keep.minimum,
        "least_clearance_m": float(flight.clearances().min()),
        "arrival_s": arrival.tolist(),
        "path_length_m": flight.path_lengths().tolist(),
        "plans": {status.value: count for status, count in flight.statuses.items()},
        "most_slack_m": float(flight.slack.max()),
        "solve_cpu_mean_ms": float(cpu.mean()),
        "solve_cpu_worst_ms": float(cpu.max()),
        "tick_mean_ms": float(1e3 * np.diff(flight.time).mean()),
        "tick_longest_ms": float(1e3 * np.diff(flight.time).max()),
    }
    return plain_values(found)
