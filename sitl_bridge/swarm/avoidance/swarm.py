"""The controllers of an avoidance scenario, each with its own vehicle's estimate and the others' broadcasts.

The fleet brings time and estimates and carries the setpoints; which flight stack flies is not known here.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.swarm.avoidance.agent import ControlCommand, OwnState
from sitl_bridge.swarm.avoidance.closed_loop import BroadcastNetwork, Flight, make_agents
from sitl_bridge.swarm.avoidance.neighbours import Broadcast, Vector, to_vector
from sitl_bridge.swarm.avoidance.solver import PlanStatus
from sitl_bridge.swarm.avoidance.specification import AvoidanceSpecification
from sitl_bridge.swarm.interface import Setpoints, States

TICK_DEVIATION = 0.02
"""m and m/s, what a flight stack's estimate of position or velocity jumps by from one report to the next."""

TILT_DEVIATION = 0.02
"""rad; a report of the attitude may be 50 ms old, in which a vehicle tilts on by as much."""


REHEARSED = 20
"""Ticks of 50 ms in a rehearsal: within a second all have received from all."""


class Swarm:
    """Steers the vehicles of a scenario; before the start they hold at its first points.

    The paper commands attitude and thrust.  Here the acceleration goes out that they stand for, with the
    position and velocity from which the plan sets out: the flight stack turns it back into the same attitude,
    keeps the height by itself, and holds on to a place when nothing more comes.

    Over eight seeds of the swap of six on the built-in stack at 20 Hz the least true distance was 1.19 m this
    way, the last vehicle there within 6.7 to 7.8 s; by attitude and thrust 1.02 m, within 6.9 to 11.0 s; by
    what is planned a grid step ahead 0.52 m.

    Args:
        start: us of the fleet's clock at which the references start.
        deviation: m, of ``lasting_deviation``.
        seed: of the radio's losses.

    Attributes:
        agents: of the vehicles, in the scenario's order.
        statuses: how many plans came about how, from the start on.
    """

    def __init__(self, scenario: AvoidanceSpecification, start: int, deviation: float, seed: int = 0) -> None:
        self.scenario, self.start, self._seed = scenario, start, seed
        self._lasting = 2.0 * deviation
        self.statuses: Counter[PlanStatus] = Counter()
        self.agents = make_agents(scenario, start)
        self._network = BroadcastNetwork(scenario.radio, len(self.agents), 0, seed)
        self._rows: list[tuple[int, Floats, Floats, Floats]] = []

    def tick(self, states: States) -> Setpoints:
        """Setpoints of this moment; none for those that are gone."""
        now, count = states.time, len(self.agents)
        setpoints = Setpoints.none(count)
        row = np.full((count, 3), math.nan)
        solved = np.zeros((count, 4))
        received = self._network.receive(now, states.alive)
        for i in np.flatnonzero(states.alive).tolist():
            agent, own = self.agents[i], self._own_state(states, i)
            wall, cpu = time.perf_counter(), time.thread_time()
            command = agent.tick(now, own, self._widen(received[i]))
            solved[i] = time.thread_time() - cpu, time.perf_counter() - wall, 0.0, 0.0
            solved[i, 2:] = agent.solver.active, agent.solver.slack
            row[i] = command.roll, command.pitch, command.thrust
            setpoints.position[i], setpoints.velocity[i] = agent.observer.state[:3], agent.observer.state[3:6]
            setpoints.acceleration[i], setpoints.yaw[i] = (
                commanded_acceleration(command, own.attitude[2]),
                command.yaw,
            )
            self.statuses[command.status] += now >= self.start
        self._network.send(now, states.position, states.alive, lambda i: self.agents[i].broadcast())
        state = np.column_stack([states.position, states.velocity, _tilt(states), states.yaw])
        self._rows.append((now, state, row, solved))
        return setpoints

    def _own_state(self, states: States, i: int) -> OwnState:
        roll, pitch = _tilt(states)[i].tolist()
        return OwnState(
            position=to_vector(states.position[i]),
            velocity=to_vector(states.velocity[i]),
            attitude=(roll, pitch, float(states.yaw[i])),
            position_deviation=(TICK_DEVIATION,) * 3,
            velocity_deviation=(TICK_DEVIATION,) * 3,
            attitude_deviation=TILT_DEVIATION,
        )

    def _widen(self, received: Iterable[Broadcast]) -> list[Broadcast]:
        """Broadcasts with the lasting errors of both vehicles added to the sender's deviation.

        An agent's observer averages noise away.  It can neither see nor average an error that lasts, of the
        receiver or of the common frame; so that error is added here: eq. 15 adds the deviations of a pair,
        whichever of the two has them.
        """
        return [
            replace(one, position_deviation=to_vector(np.add(one.position_deviation, self._lasting)))
            for one in received
        ]

    @property
    def has_flown(self) -> bool:
        """Whether anything was flown from the start on."""
        return bool(self._rows) and self._rows[-1][0] >= self.start

    def flight(self) -> Flight:
        """Return the flight from the start on, by the vehicles' own estimates.

        Raises:
            ValueError: before the start.
        """
        rows = [row for row in self._rows if row[0] >= self.start]
        if not rows:
            raise ValueError("nothing has been flown yet")
        seconds = (np.array([row[0] for row in rows]) - self.start) * 1e-6
        solved = np.stack([row[3] for row in rows])
        plans = self.scenario.plans()
        return Flight(
            self.scenario,
            self._seed,
            tuple(plan.name for plan in plans),
            seconds,
            np.stack([row[1] for row in rows]),
            np.stack([plan.reference().sample(seconds)[:, :3] for plan in plans], axis=1),
            np.stack([row[2] for row in rows]),
            solved[:, :, 0],
            solved[:, :, 1],
            solved[:, :, 2].astype(np.int64),
            solved[:, :, 3],
            self.statuses,
        )


def rehearse(scenario: AvoidanceSpecification, deviation: float) -> None:
    """Tick a swarm that hovers at its first points: all is compiled and loaded before anything flies."""
    plans = scenario.plans()
    count = len(plans)
    swarm = Swarm(scenario, 0, deviation)
    place = np.array([plan.start() for plan in plans])
    zero, yaw = np.zeros((count, 3)), np.array([plan.heading for plan in plans])
    for k in range(REHEARSED):
        states = States(k * 50_000, place, zero, yaw, np.ones(count, np.bool_), np.zeros((count, 2)))
        swarm.tick(states)


def commanded_acceleration(command: ControlCommand, yaw: float) -> Vector:
    """Acceleration NED in m/s^2 that a flight stack turns into the commanded attitude and thrust.

    g e3 - T z, with z the body's down axis at the commanded roll and pitch (eq. 3b without drag).
    """
    sin_roll, cos_roll = math.sin(command.roll), math.cos(command.roll)
    sin_pitch, cos_pitch = math.sin(command.pitch), math.cos(command.pitch)
    sin_yaw, cos_yaw = math.sin(yaw), math.cos(yaw)
    return (
        -command.thrust * (cos_yaw * sin_pitch * cos_roll + sin_yaw * sin_roll),
        -command.thrust * (sin_yaw * sin_pitch * cos_roll - cos_yaw * sin_roll),
        STANDARD_GRAVITY - command.thrust * cos_pitch * cos_roll,
    )


def _tilt(states: States) -> Floats:
    if states.tilt is None:
        raise ValueError("the fleet must know roll and pitch of its vehicles")
    return states.tilt
