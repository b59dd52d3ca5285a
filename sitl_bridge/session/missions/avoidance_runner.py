"""Flies an avoidance scenario with running vehicles: real PX4, the built-in stack, or both.

``python -m sitl_bridge.session.missions.avoidance_runner FILE --instances 0..5``, or :func:`fly_scenario`
with the
connection URLs of the vehicles.  The controllers of all vehicles run in this program, but each knows only the
telemetry of its own vehicle and the broadcasts of the others, which the radio delays and loses.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.kernels.announcement import announced
from sitl_bridge.base.output_file import write_arrays, write_whole
from sitl_bridge.session.identified_models import identified_model
from sitl_bridge.session.missions.mavsdk_fleet import MavsdkFleet
from sitl_bridge.session.missions.mavsdk_vehicle import MissionFailedError
from sitl_bridge.session.missions.mission_script import run_coroutine
from sitl_bridge.session.missions.swarm_flight import (
    clear_to_land,
    connect_fleet,
    finish,
    in_the_air,
    parse,
    swarm_command_line,
    until_landed,
)
from sitl_bridge.session.missions.swarm_vehicle import Place, Say
from sitl_bridge.session.missions.time_gate import time_gate
from sitl_bridge.session.scenario import load_scenario
from sitl_bridge.swarm.avoidance.closed_loop import Flight, succeeded
from sitl_bridge.swarm.avoidance.flight_conditions import check_launch, lasting_deviation
from sitl_bridge.swarm.avoidance.solver import PlanStatus
from sitl_bridge.swarm.avoidance.specification import (
    AvoidanceSpecification,
    RouteSpecification,
    check_scenario,
    goal,
)
from sitl_bridge.swarm.avoidance.swarm import Swarm, rehearse
from sitl_bridge.swarm.interface import Setpoints, States

RATE = 25.0
"""Hz of telemetry and setpoints: two vehicles that approach at 2 m/s each come 16 cm closer in one period."""

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


async def fly_scenario(
    scenario: AvoidanceSpecification,
    urls: Sequence[str],
    deviation: float,
    say: Say = print,
    *,
    systems: Sequence[int] | None = None,
    origin: Place | None = None,
    surveyed: bool = False,
    seed: int = 0,
    flown: Callable[[Flight], None] = lambda _flight: None,
) -> Flight:
    """Fly a scenario with vehicles that stand on the ground below its first points, and land them.

    They climb vertically to these points, begin together, and land at their last points.  If these are too
    close together for landing, they return to their first points, avoiding one another, and land there.

    Args:
        scenario: checked here.
        urls: connection URL of each vehicle, in the scenario's order; see ``connect_fleet``.
        deviation: m, of ``flight_conditions.lasting_deviation``.
        say: receives lines for the user.
        systems: MAVLink system id of each vehicle; needed if vehicles share a URL.
        origin: the scenario's origin, deg and m AMSL; None computes it from the vehicles' positions.
        surveyed: whether the vehicles stand exactly below their first points; else their positions are those
            of their own receivers.
        seed: of the radio's losses.
        flown: receives the flight before the vehicles land.

    Returns:
        the flight from the start of the references on, by the vehicles' own estimates.

    Raises:
        ConfigurationError: for a scenario that cannot be flown.
        MissionFailedError: if the vehicles cannot fly it, with the vehicle and the reason.
    """
    check_scenario(scenario)
    check_launch(scenario, deviation, f"scenario {scenario.name}")
    plans = scenario.plans()
    if len(urls) != len(plans):
        raise MissionFailedError(f"the scenario has {len(plans)} vehicles, but {len(urls)} are given")
    places = np.array([plan.start() for plan in plans])
    with announced(say):
        rehearse(scenario, deviation)
    await time_gate().ready()
    async with connect_fleet(urls, say, systems=systems, rate=RATE, attitude_rate=RATE) as fleet:
        say(f"connected to {len(fleet)} vehicles")
        headings = np.array([plan.heading for plan in plans])
        async with in_the_air(fleet, places, headings, origin=origin, surveyed=surveyed):
            flight = await _fly(fleet, scenario, deviation, seed)
            say(verdict(flight))
            flown(flight)
            await _return_if_close(fleet, scenario, deviation, seed)
    return flight


async def _fly(fleet: MavsdkFleet, scenario: AvoidanceSpecification, deviation: float, seed: int) -> Flight:
    """Hold for LEAD_IN, then fly for the scenario's duration, or GRACE longer until all have arrived."""
    begun = round(1e6 * (fleet.time + LEAD_IN))
    swarm = Swarm(scenario, begun, deviation, seed)
    printed: set[tuple[str, PlanStatus]] = set()

    end = EndCondition(scenario, begun)

    def watch(states: States, _setpoints: Setpoints) -> None:
        end.update(states)
        for agent in swarm.agents:
            for status in agent.solver.counts:
                if status not in PLANNED and (agent.name, status) not in printed:
                    printed.add((agent.name, status))
                    fleet.say(f"[{states.time * 1e-6:9.2f} s] {agent.name}: plan {status.value}")

    await fleet.steer(swarm, end, watch)
    return swarm.flight()


class EndCondition:
    """End of a flight: a function that returns us of the fleet's clock.

    A flight ends after the scenario's duration, once all connected vehicles have been at their goals for
    ARRIVAL_TIME, and at the latest GRACE after the duration.

    Args:
        scenario: of the flight.
        begun: us at which its references start.
    """

    def __init__(self, scenario: AvoidanceSpecification, begun: int) -> None:
        self._goals = np.array([goal(plan) for plan in scenario.plans()])
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


async def _return_if_close(
    fleet: MavsdkFleet, scenario: AvoidanceSpecification, deviation: float, seed: int
) -> None:
    """Return to the first points if the vehicles are too close together for landing."""
    states = fleet.states()
    if clear_to_land(states.position[states.alive]):
        return
    fleet.say("too close together for landing: returning to the first points")
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
    await _fly(fleet, way, deviation, seed)


def verdict(flight: Flight) -> str:
    """Result of a flight in one line."""
    arrival = flight.arrival()
    late = [name for name, time in zip(flight.names, arrival, strict=True) if not np.isfinite(time)]
    arrived = f"all arrived within {arrival.max():.1f} s" if not late else f"{', '.join(late)} did not arrive"
    clear = flight.clearances().min()
    obstacles = f", {clear:.2f} m from an obstacle" if np.isfinite(clear) else ""
    return f"least distance {flight.distances().min():.2f} m by their own estimates{obstacles}; {arrived}"


def write(flight: Flight, directory: Path) -> None:
    """Write summary and tracks into a directory, which is created if it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps(summary(flight), indent=2, allow_nan=False)
    write_whole(directory / "summary.json", text + "\n")
    tracks = {
        "names": np.array(flight.names),
        "time": flight.time,
        "state": flight.state,
        "reference": flight.reference,
        "command": flight.command,
    }
    write_arrays(directory / "tracks.npz", tracks)


def summary(flight: Flight) -> dict[str, Any]:
    """Figures of a flight by the vehicles' own estimates, as plain values; null if there is none."""
    arrival, keep = flight.arrival(), flight.scenario.controller.distances
    cpu = 1e3 * flight.solve_cpu[2:]
    return {
        "scenario": flight.scenario.name,
        "succeeded": succeeded(flight),
        "vehicles": list(flight.names),
        "least_distance_m": _number(flight.distances().min()),
        "minimum_distance_m": keep.minimum,
        "least_clearance_m": _number(flight.clearances().min()),
        "arrival_s": [_number(time) for time in arrival],
        "path_length_m": [_number(length) for length in flight.path_lengths()],
        "plans": {status.value: count for status, count in flight.statuses.items()},
        "most_slack_m": _number(flight.slack.max()),
        "solve_cpu_mean_ms": _number(cpu.mean()),
        "solve_cpu_worst_ms": _number(cpu.max()),
        "tick_mean_ms": _number(1e3 * np.diff(flight.time).mean()),
        "tick_longest_ms": _number(1e3 * np.diff(flight.time).max()),
    }


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def main(arguments: list[str] | None = None) -> int:
    """Fly a scenario; exit codes are those of mission scripts."""
    parser = swarm_command_line(
        "Fly an avoidance scenario with running vehicles, and land them.", "avoidance scenario"
    )
    parser.add_argument(
        "--stack",
        choices=("px4", "builtin"),
        default="px4",
        help="flight stack whose identified attitude model is used",
    )
    parser.add_argument("--seed", type=int, help="seed of the radio's losses (default: the file's)")
    options = parse(parser, arguments)
    return run_coroutine(lambda: _run(options))


async def _run(options: argparse.Namespace) -> None:
    loaded = load_scenario(options.file, seed=options.seed)
    scenario = loaded.avoidance
    if scenario is None:
        raise UserError(f"{options.file}: contains no section avoidance")
    first = loaded.vehicles[0]
    known = identified_model(first.airframe_name, options.stack)
    if known is not None:
        scenario = scenario.with_model(known.model)
    # Present objects are permanent: the garbage collector need not examine them in flight.
    gc.freeze()
    flown: list[Flight] = []
    landing = await until_landed(
        fly_scenario(
            scenario,
            options.url,
            lasting_deviation(scenario, first.airframe),
            lambda line: print(line, flush=True),
            systems=options.system,
            origin=options.origin,
            surveyed=options.surveyed,
            seed=loaded.seed,
            flown=flown.append,
        ),
        flown,
    )
    flight = flown[0]
    finish(
        options.output,
        "avoidance",
        lambda directory: write(flight, directory),
        succeeded=succeeded(flight),
        verdict=verdict(flight),
        landing=landing,
    )


if __name__ == "__main__":
    sys.exit(main())
