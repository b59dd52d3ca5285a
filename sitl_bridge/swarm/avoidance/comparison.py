"""The same scenarios flown by several methods, and a table of how they went."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from sitl_bridge.base.errors import UserError
from sitl_bridge.swarm.avoidance.avoidance_specification import AvoidanceSpecification
from sitl_bridge.swarm.avoidance.classical_methods import METHODS, Law, VelocityPilot
from sitl_bridge.swarm.avoidance.closed_loop import START, AvoidanceController, Flight, fly, make_agents
from sitl_bridge.swarm.avoidance.solver import PlanStatus

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
        ticks: of all vehicles and flights.
        slack: ticks whose plan cannot keep some distance.
        unsolved: ticks without a plan of their own; the one before went on.
        cpu_mean, cpu_worst: ms of the thread's processor time a vehicle and tick.
        wall_mean, wall_worst: ms of wall time, which on a busy machine is mostly others'.
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
    ticks: int
    slack: int
    unsolved: int
    cpu_mean: float
    cpu_worst: float
    wall_mean: float
    wall_worst: float


def pilots(method: str) -> Callable[[AvoidanceSpecification], Sequence[AvoidanceController]]:
    """What makes the pilots of a method.

    Raises:
        UserError: for a method there is not.
    """
    if method == PREDICTIVE:
        return make_agents
    if method not in METHODS:
        raise UserError(f"no method is called {method!r}; there are {', '.join([PREDICTIVE, *METHODS])}")
    return partial(_velocity_pilots, METHODS[method])


def _velocity_pilots(law: Law, scenario: AvoidanceSpecification) -> list[AvoidanceController]:
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
    scenarios: Sequence[AvoidanceSpecification],
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
    cpu, wall = (
        1e3 * np.concatenate([getattr(flight, name).ravel() for flight in flights])
        for name in ("solve_cpu", "solve_wall")
    )
    statuses = sum((flight.statuses for flight in flights), Counter[PlanStatus]())
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
        ticks=statuses.total(),
        slack=statuses[PlanStatus.SLACK],
        unsolved=statuses.total() - statuses[PlanStatus.SOLVED] - statuses[PlanStatus.SLACK],
        cpu_mean=float(cpu.mean()),
        cpu_worst=float(cpu.max()),
        wall_mean=float(wall.mean()),
        wall_worst=float(wall.max()),
    )


def table(rows: Sequence[Row]) -> str:
    """The rows as text in columns, and what became of plans that were not solved without slack."""
    lines = [
        f"{'scenario':16s} {'method':29s} {'success':>8s} {'min d':>6s} {'clear':>6s} {'path':>6s} "
        f"{'time':>6s} {'effort':>7s} {'cpu ms':>6s} {'worst':>6s} {'wall':>6s} {'worst':>7s}"
    ]
    for r in rows:
        lines.append(
            f"{r.scenario:16s} {r.method:29s} {f'{r.successes}/{r.flights}':>8s} {r.minimum_distance:6.2f} "
            f"{r.minimum_clearance:6.2f} {r.path_length:6.1f} {r.time:6.1f} {r.effort:7.1f} "
            f"{r.cpu_mean:6.2f} {r.cpu_worst:6.2f} {r.wall_mean:6.2f} {r.wall_worst:7.2f}"
        )
    for r in rows:
        if r.slack or r.unsolved:
            lines.append(
                f"{r.scenario}, {r.method}: of {r.ticks} plans, {r.slack} cannot keep some distance; "
                f"{r.unsolved} were not solved and the one before went on"
            )
    return "\n".join(lines)
