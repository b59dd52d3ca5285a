"""The same scenarios flown by several methods, and a table of how they went."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from sitl_bridge.errors import UserError
from sitl_bridge.flight.avoidance.classics import METHODS, Law, VelocityPilot
from sitl_bridge.flight.avoidance.closed_loop import START, Flight, Pilot, fly, make_agents
from sitl_bridge.flight.avoidance.scenario import Scenario

PREDICTIVE = "nmpc"


@dataclass(frozen=True)
class Row:
    """One method in one scenario, over all seeds.

    Attributes:
        scenario, method: what and who.
        flights: number of seeds.
        successes: flights in which all arrived and no distance was ever below its minimum.
        minimum_distance: m, least of all flights; inf for a single vehicle.
        minimum_clearance: m from an obstacle's surface, least of all flights; inf without obstacles.
        path_length: m, mean of all vehicles.
        time: s until the last vehicle arrived, mean of the flights in which all did; nan: none.
        effort: m^2/s^3, mean of all vehicles: integral of the squared deviation from hover's acceleration.
        solve_median, solve_worst: ms of CPU a vehicle and tick.
    """

    scenario: str
    method: str
    flights: int
    successes: int
    minimum_distance: float
    minimum_clearance: float
    path_length: float
    time: float
    effort: float
    solve_median: float
    solve_worst: float


def pilots(method: str) -> Callable[[Scenario], Sequence[Pilot]]:
    """What makes the pilots of a method.

    Raises:
        UserError: for a method there is not.
    """
    if method == PREDICTIVE:
        return make_agents
    if method not in METHODS:
        raise UserError(f"no method is called {method!r}; there are {', '.join([PREDICTIVE, *METHODS])}")
    return partial(_velocity_pilots, METHODS[method])


def _velocity_pilots(law: Law, scenario: Scenario) -> list[Pilot]:
    graph, obstacles = scenario.graph(), scenario.bodies()
    return [
        VelocityPilot(
            plan.name,
            plan.reference(),
            scenario.controller,
            law,
            speed=plan.speed,
            avoids=graph[plan.name],
            obstacles=obstacles,
            start=START,
        )
        for plan in scenario.plans()
    ]


def succeeded(flight: Flight) -> bool:
    """Whether all arrived, and no distance was ever below its minimum."""
    distances = flight.scenario.controller.distances
    return bool(
        np.isfinite(flight.arrival()).all()
        and flight.distances().min() >= distances.minimum
        and flight.clearances().min() >= distances.obstacle_minimum
    )


def compare(
    scenarios: Sequence[Scenario],
    methods: Sequence[str] = (PREDICTIVE, *METHODS),
    seeds: Sequence[int] = (0,),
) -> list[Row]:
    """Fly every scenario by every method with every seed.

    Raises:
        UserError: for a method there is not, or a scenario that cannot be flown.
    """
    rows = []
    for scenario in scenarios:
        for method in methods:
            make = pilots(method)
            flights = [fly(scenario, seed=seed, method=method, pilots=make) for seed in seeds]
            rows.append(row(scenario.name, method, flights))
    return rows


def row(scenario: str, method: str, flights: Sequence[Flight]) -> Row:
    """How a method's flights of a scenario went."""
    times = [float(flight.arrival().max()) for flight in flights]
    arrived = [time for time in times if math.isfinite(time)]
    cpu = 1e3 * np.concatenate([flight.solve_cpu[2:].ravel() for flight in flights])
    return Row(
        scenario=scenario,
        method=method,
        flights=len(flights),
        successes=sum(succeeded(flight) for flight in flights),
        minimum_distance=float(min(flight.distances().min() for flight in flights)),
        minimum_clearance=float(min(flight.clearances().min() for flight in flights)),
        path_length=float(np.mean([flight.path_lengths().mean() for flight in flights])),
        time=float(np.mean(arrived)) if arrived else math.nan,
        effort=float(np.mean([flight.effort().mean() for flight in flights])),
        solve_median=float(np.median(cpu)),
        solve_worst=float(cpu.max()),
    )


def table(rows: Sequence[Row]) -> str:
    """The rows as text in columns."""
    head = (
        f"{'scenario':20s} {'method':30s} {'success':>9s} {'min d':>6s} {'clear':>6s} "
        f"{'path':>6s} {'time':>6s} {'effort':>7s} {'ms':>6s} {'worst':>6s}"
    )
    lines = [head]
    for r in rows:
        lines.append(
            f"{r.scenario:20s} {r.method:30s} {f'{r.successes}/{r.flights}':>9s} {r.minimum_distance:6.2f} "
            f"{r.minimum_clearance:6.2f} {r.path_length:6.1f} {r.time:6.1f} {r.effort:7.1f} "
            f"{r.solve_median:6.2f} {r.solve_worst:6.2f}"
        )
    return "\n".join(lines)
