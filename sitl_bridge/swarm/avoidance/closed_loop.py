"""Flies whole scenarios in closed loop, without a flight stack, and tabulates how the flights went.

What flies is a ``Plant``, here the prediction model itself.
"""

from __future__ import annotations

import contextlib
import gc
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sitl_bridge.base.arrays import Floats, Ints, Mask
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.kernels.random_streams import stream
from sitl_bridge.swarm.avoidance.agent import Agent, ControlCommand, OwnState
from sitl_bridge.swarm.avoidance.controller_settings import AttitudeModel, ControllerSettings
from sitl_bridge.swarm.avoidance.neighbours import Broadcast, obstacle_entities, to_vector
from sitl_bridge.swarm.avoidance.prediction_model import predict
from sitl_bridge.swarm.avoidance.records import DISTURBANCES, INPUTS, STATES
from sitl_bridge.swarm.avoidance.separation import separation
from sitl_bridge.swarm.avoidance.solver import PlanStatus
from sitl_bridge.swarm.avoidance.specification import (
    AvoidanceSpecification,
    RouteSpecification,
    check_scenario,
)
from sitl_bridge.swarm.radio import RadioSpecification


class BroadcastNetwork:
    """Carries broadcasts between vehicles.

    Args:
        specification: how messages travel; without a graph of its own, from everybody to everybody.
        start: us from which on the vehicles broadcast.
    """

    def __init__(self, specification: RadioSpecification, count: int, start: int, seed: int) -> None:
        self._topology = specification.topology("complete")
        self._radio = specification.radio(count, object, seed)
        self._period = 1e6 / specification.rate
        self._next = float(start)
        self._on_air = np.zeros(count, dtype=np.bool_)

    def send(self, now: int, position: Floats, on_air: Mask, broadcast: Callable[[int], Broadcast]) -> None:
        """Send a broadcast of every vehicle that is on air, where one is due at ``now`` (us).

        Args:
            now: us.
            position: (n, 3) m.
            on_air: (n,) which vehicles send and receive.
            broadcast: makes the message of a vehicle.
        """
        if now < self._next:
            return
        # A late broadcast is not made up for by more of them.
        self._next = max(self._next + self._period, now - self._period)
        if self._topology.kind == "nearest" or not np.array_equal(on_air, self._on_air):
            self._on_air = on_air.copy()
            self._radio.connect(self._topology.edges(position, on_air, ()))
        messages = np.zeros(len(on_air), dtype=object)
        for i in np.flatnonzero(on_air).tolist():
            messages[i] = broadcast(i)
        self._radio.send(now, messages, position, on_air)

    def receive(self, now: int, on_air: Mask) -> list[list[Broadcast]]:
        """Return the messages that have reached each vehicle by ``now`` (us), in the order of arrival."""
        received: list[list[Broadcast]] = [[] for _ in range(len(on_air))]
        for links in self._radio.arrivals(now, on_air):
            for link in links.tolist():
                received[int(self._radio.edges[link, 1])].append(self._radio.heard[link])
        return received


START = 1_000_000_000
"""us of simulated time at which flights begin."""


class Plant(Protocol):
    """Vehicles that obey commands."""

    def state(self) -> Floats:
        """(n, 9) position, velocity (NED), roll, pitch, yaw."""
        ...

    def advance(self, commands: Sequence[ControlCommand], seconds: float) -> None:
        """Fly on for ``seconds`` with commands held."""
        ...


class ModelPlant:
    """The prediction model of eqs 2 to 4, with parameters of its own.

    Args:
        starts: (n, 3) m NED.
        yaws: (n,) rad.
        force: m/s^2 NED, steady and unknown to the vehicles.
    """

    def __init__(
        self,
        starts: Sequence[Sequence[float]],
        yaws: Sequence[float],
        model: AttitudeModel,
        force: Sequence[float] = (0.0, 0.0, 0.0),
    ) -> None:
        self._settings = ControllerSettings(model=model).record()
        self._x = np.zeros((len(starts), STATES))
        self._x[:, :3] = starts
        self._yaw = np.array(yaws, dtype=np.float64)
        self._disturbance = np.zeros(DISTURBANCES)
        self._disturbance[:3] = force
        self._a, self._b = np.zeros((STATES, STATES)), np.zeros((STATES, INPUTS))
        self._after, self._work = np.zeros(STATES), np.zeros((6, STATES, STATES + 1))

    def state(self) -> Floats:
        """(n, 9)."""
        return np.column_stack([self._x, self._yaw])

    def advance(self, commands: Sequence[ControlCommand], seconds: float) -> None:
        """Fly on for ``seconds``; yaw follows its rate at once (eq. 4c)."""
        for i, command in enumerate(commands):
            u = np.array([command.roll, command.pitch, command.thrust])
            predict(
                self._settings[0], self._x[i], u, float(self._yaw[i]), self._disturbance, seconds, 1,
                self._after, self._a, self._b, self._work,
            )  # fmt: skip
            self._x[i] = self._after
            self._yaw[i] += command.yaw_rate * seconds


@dataclass
class Flight:
    """A scenario as it was flown."""

    scenario: AvoidanceSpecification  # what was to be flown
    seed: int  # of errors and radio
    names: tuple[str, ...]  # of the vehicles
    time: Floats  # (t,) s
    state: Floats  # (t, n, 9) truth: position, velocity, roll, pitch, yaw
    reference: Floats  # (t, n, 3) m NED
    command: Floats  # (t, n, 3) roll, pitch, thrust
    # solve_cpu, solve_wall: (t, n) s that each tick took, CPU of the thread and wall; no part of what is
    # repeatable
    solve_cpu: Floats
    solve_wall: Floats
    active: Ints  # (t, n) distance constraints a plan rests on
    slack: Floats  # (t, n) m
    statuses: Counter[PlanStatus]  # of all ticks

    def distances(self) -> Floats:
        """(t,) m between the two closest vehicles; inf for a single one."""
        p = self.state[:, :, :3]
        apart = np.linalg.norm(p[:, :, None] - p[:, None], axis=-1)
        n = p.shape[1]
        apart[:, np.arange(n), np.arange(n)] = math.inf
        return np.asarray(apart.min(axis=(1, 2)), dtype=np.float64)

    def clearances(self) -> Floats:
        """(t,) m from the surface of the nearest obstacle; inf without obstacles."""
        entities = obstacle_entities(self.scenario.obstacles, self.scenario.controller.distances)
        normal = np.zeros(3)
        out = np.full(len(self.time), math.inf)
        for k, positions in enumerate(np.ascontiguousarray(self.state[:, :, :3])):
            for entity in entities:
                for position in positions:
                    out[k] = min(out[k], separation(entity, entity["position"], position, normal))
        return out

    def arrival(self) -> Floats:
        """(n,) s at which each vehicle came within the tolerance of its goal to stay; inf: never."""
        away = np.linalg.norm(self.state[:, :, :3] - self.reference[-1], axis=-1)
        outside = away > self.scenario.tolerance
        last = np.where(outside.any(axis=0), len(self.time) - np.argmax(outside[::-1], axis=0), 0)
        return np.where(last < len(self.time), self.time[np.minimum(last, len(self.time) - 1)], math.inf)

    def path_lengths(self) -> Floats:
        """(n,) m flown."""
        steps = np.diff(self.state[:, :, :3], axis=0)
        return np.asarray(np.linalg.norm(steps, axis=-1).sum(axis=0), dtype=np.float64)

    def effort(self) -> Floats:
        """(n,) integral of the squared commanded deviation from hover's acceleration, m^2/s^3."""
        roll, pitch, thrust = np.moveaxis(self.command, -1, 0)
        vertical = thrust * np.cos(roll) * np.cos(pitch)
        sideways = np.square(thrust) - np.square(vertical)
        squares = sideways + np.square(vertical - STANDARD_GRAVITY)
        return np.asarray(squares.sum(axis=0) * (self.time[1] - self.time[0]), dtype=np.float64)


def make_agents(scenario: AvoidanceSpecification, start: int = START) -> list[Agent]:
    """The predictive controllers of a scenario's vehicles, whose references start at ``start`` us."""
    graph = scenario.graph()
    return [
        Agent(
            plan.name,
            plan.reference(),
            scenario.controller,
            avoids=graph[plan.name],
            obstacles=scenario.obstacles,
            start=start,
        )
        for plan in scenario.plans()
    ]


@contextlib.contextmanager
def frozen_garbage() -> Iterator[None]:
    """Leave alone what is in memory now: a full collection among all modules' objects takes tens of ms.

    A program that has frozen its memory by itself keeps it so.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def fly(
    scenario: AvoidanceSpecification,
    *,
    seed: int = 0,
    plant: Plant | None = None,
) -> Flight:
    """Fly a scenario.

    Args:
        scenario: is checked first.
        seed: of the vehicles' errors and of the radio's losses.
        plant: the vehicles; without: the prediction model, on which the steady wind acts by its drag.

    Raises:
        ConfigurationError: for a scenario that cannot be flown.
    """
    check_scenario(scenario)
    plans = scenario.plans()
    agents = make_agents(scenario)
    if plant is None:
        model = scenario.controller.model
        force = [model.drag * STANDARD_GRAVITY * w for w in (*scenario.wind()[:2], 0.0)]
        plant = ModelPlant([plan.start() for plan in plans], [plan.heading for plan in plans], model, force)
    errors = [_Errors(scenario, seed, plan) for plan in plans]
    network = BroadcastNetwork(scenario.radio, len(plans), START, seed)
    on_air = np.ones(len(plans), dtype=np.bool_)
    tick = round(1e6 / scenario.controller.rate)
    ticks, n = round(scenario.duration * 1e6 / tick) + 1, len(plans)
    seconds: Floats = np.arange(ticks, dtype=np.float64) * (tick * 1e-6)
    state, command = np.zeros((ticks, n, 9)), np.zeros((ticks, n, 3))
    cpu, wall, slack = np.zeros((ticks, n)), np.zeros((ticks, n)), np.zeros((ticks, n))
    active = np.zeros((ticks, n), np.int64)
    statuses: Counter[PlanStatus] = Counter()
    with frozen_garbage():
        for k in range(ticks):
            now = START + k * tick
            state[k] = plant.state()
            commands = []
            received = network.receive(now, on_air)
            for i, agent in enumerate(agents):
                own = errors[i].estimate(state[k, i])
                cpu_before, wall_before = time.thread_time(), time.perf_counter()
                commands.append(agent.tick(now, own, received[i]))
                wall[k, i], cpu[k, i] = time.perf_counter() - wall_before, time.thread_time() - cpu_before
                command[k, i] = commands[-1].roll, commands[-1].pitch, commands[-1].thrust
                statuses[commands[-1].status] += 1
                active[k, i], slack[k, i] = agent.solver.active, agent.solver.slack
            network.send(now, state[k, :, :3], on_air, lambda i: agents[i].broadcast())
            plant.advance(commands, tick * 1e-6)
    reference = np.stack([plan.reference().sample(seconds)[:, :3] for plan in plans], axis=1)
    names = tuple(plan.name for plan in plans)
    return Flight(
        scenario, seed, names, seconds, state, reference, command, cpu, wall, active, slack, statuses
    )


class _Errors:
    def __init__(self, scenario: AvoidanceSpecification, seed: int, plan: RouteSpecification) -> None:
        noise = scenario.noise
        self._random = np.random.default_rng(int(stream(seed, plan.name, "avoidance", "errors")[0]))
        self._deviation = np.array([noise.position] * 3 + [noise.velocity] * 3)
        self._attitude = math.radians(noise.attitude)
        tick = 1.0 / scenario.controller.rate
        self._keep = math.exp(-tick / noise.correlation) if noise.correlation > 0.0 else 0.0
        self._error = self._deviation * self._random.standard_normal(6)
        # A vehicle knows how good its source is, and no source is perfect.
        self._reported_deviation = np.maximum(self._deviation, 0.01)

    def estimate(self, truth: Floats) -> OwnState:
        drive = math.sqrt(1.0 - self._keep**2)
        self._error *= self._keep
        self._error += drive * self._deviation * self._random.standard_normal(6)
        believed = truth[:6] + self._error
        return OwnState(
            position=to_vector(believed[:3]),
            velocity=to_vector(believed[3:]),
            attitude=to_vector(truth[6:9] + self._attitude * self._random.standard_normal(3)),
            position_deviation=(float(self._reported_deviation[0]),) * 3,
            velocity_deviation=(float(self._reported_deviation[3]),) * 3,
            attitude_deviation=max(self._attitude, 0.002),
        )


@dataclass(frozen=True)
class Row:
    """The flights of one scenario, over all seeds."""

    scenario: str  # its name
    flights: int  # number of seeds
    successes: int  # flights in which all arrived and no distance was ever below its minimum
    minimum_distance: float  # m, least of all flights; inf for a single vehicle
    minimum_clearance: float  # m from an obstacle's surface, least of all flights; inf without obstacles
    path_length: float  # m, mean of all vehicles
    time: float  # s until the last vehicle arrived, mean of the flights in which all did; nan: none
    # m^2/s^3, mean of all vehicles: integral of the squared deviation from hover's acceleration
    effort: float
    ticks: int  # of all vehicles and flights
    slack: int  # ticks whose plan cannot keep some distance
    unsolved: int  # ticks without a plan of their own; the one before went on
    # cpu_mean, cpu_worst: ms of the thread's processor time a vehicle and tick
    cpu_mean: float
    cpu_worst: float
    # wall_mean, wall_worst: ms of wall time, which on a busy machine is mostly others'
    wall_mean: float
    wall_worst: float


def reason(flight: Flight) -> str:
    """Why it has failed: vehicles that did not arrive, distances below their minimum; else empty."""
    least = flight.scenario.controller.distances
    apart, clear = float(flight.distances().min()), float(flight.clearances().min())
    late = [name for name, time in zip(flight.names, flight.arrival(), strict=True) if not np.isfinite(time)]
    found = [f"{', '.join(late)} did not arrive"] if late else []
    if not apart >= least.minimum:
        found.append(f"two vehicles were {apart:.2f} m apart, less than {least.minimum:g} m")
    if not clear >= least.obstacle_minimum:
        found.append(f"one was {clear:.2f} m from an obstacle, less than {least.obstacle_minimum:g} m")
    return " and ".join(found)


def has_succeeded(flight: Flight) -> bool:
    """Whether all arrived, and no distance was ever below its minimum."""
    return not reason(flight)


def row(scenario: str, flights: Sequence[Flight]) -> Row:
    """How the flights of a scenario went."""
    times = [float(flight.arrival().max()) for flight in flights]
    arrived = [time for time in times if math.isfinite(time)]
    cpu, wall = (
        1e3 * np.concatenate([getattr(flight, name).ravel() for flight in flights])
        for name in ("solve_cpu", "solve_wall")
    )
    statuses = sum((flight.statuses for flight in flights), Counter[PlanStatus]())
    return Row(
        scenario=scenario,
        flights=len(flights),
        successes=sum(has_succeeded(flight) for flight in flights),
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
        f"{'scenario':16s} {'success':>8s} {'min d':>6s} {'clear':>6s} {'path':>6s} "
        f"{'time':>6s} {'effort':>7s} {'cpu ms':>6s} {'worst':>6s} {'wall':>6s} {'worst':>7s}"
    ]
    for r in rows:
        lines.append(
            f"{r.scenario:16s} {f'{r.successes}/{r.flights}':>8s} {r.minimum_distance:6.2f} "
            f"{r.minimum_clearance:6.2f} {r.path_length:6.1f} {r.time:6.1f} {r.effort:7.1f} "
            f"{r.cpu_mean:6.2f} {r.cpu_worst:6.2f} {r.wall_mean:6.2f} {r.wall_worst:7.2f}"
        )
    for r in rows:
        if r.slack or r.unsolved:
            lines.append(
                f"{r.scenario}: of {r.ticks} plans, {r.slack} cannot keep some distance; "
                f"{r.unsolved} were not solved and the one before went on"
            )
    return "\n".join(lines)
