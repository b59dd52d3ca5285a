"""One vehicle's controller: estimate and received broadcasts in, one command a tick out.

No clock, no socket, no flight stack: the caller brings the time and carries the command.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.rotations import wrap_angle
from sitl_bridge.swarm.avoidance.controller_settings import ControllerSettings
from sitl_bridge.swarm.avoidance.disturbance_observer import Observer
from sitl_bridge.swarm.avoidance.neighbours import Broadcast, Neighbourhood, Obstacle, Vector, to_vector
from sitl_bridge.swarm.avoidance.optimal_control_problem import follow_yaw
from sitl_bridge.swarm.avoidance.records import SPHERE, STATES
from sitl_bridge.swarm.avoidance.references import Route
from sitl_bridge.swarm.avoidance.solver import PlanStatus, Solver


@dataclass(frozen=True)
class OwnState:
    """Estimate by a vehicle of itself."""

    position: Vector  # m NED
    velocity: Vector  # m/s NED
    attitude: Vector  # roll, pitch, yaw in rad
    # position_deviation, velocity_deviation: standard deviations NED, m and m/s, of errors that change from
    # tick to tick; what the observer makes of them widens the distances
    position_deviation: Vector = (0.02, 0.02, 0.02)
    velocity_deviation: Vector = (0.02, 0.02, 0.02)
    attitude_deviation: float = 0.005  # rad, of roll and pitch


@dataclass(frozen=True)
class ControlCommand:
    """Command of a vehicle until the next tick."""

    # roll, pitch: rad
    roll: float
    pitch: float
    yaw: float  # rad, where the heading should be
    yaw_rate: float  # rad/s that leads there
    thrust: float  # m/s^2 along body up; over the vehicle's hover thrust it is thrust over weight times g
    status: PlanStatus  # how the plan came about


class Agent:
    """The predictive controller of one vehicle.

    Args:
        name: by which others know it.
        avoids: names of the vehicles it avoids.
        start: us at which the reference starts.

    Attributes:
        solver: with the plan, the counters of every status and the use of slack.
        observer: with the estimated state and disturbances.
        neighbourhood: what it knows of others.
    """

    _rehearsed = False

    def __init__(
        self,
        name: str,
        reference: Route,
        settings: ControllerSettings | None = None,
        *,
        avoids: Iterable[str] = (),
        obstacles: Sequence[Obstacle] = (),
        start: int = 0,
    ) -> None:
        Agent._rehearse()
        self.name = name
        self.reference = reference
        self.settings = settings or ControllerSettings()
        self.neighbourhood = Neighbourhood(avoids, obstacles, self.settings)
        record = self.settings.record()
        self.observer = Observer(record)
        self.solver = Solver(
            record,
            self.settings.horizon,
            self.neighbourhood.capacity,
            self.settings.iterations,
            self.settings.limits.speed,
        )
        self._start = start
        self._course = np.zeros(self.settings.horizon + 1)
        self._ahead: Floats = np.arange(self.settings.horizon + 1, dtype=np.float64) * self.settings.step
        self._pace, self._behind = 1.0, 0.0
        self._last: int | None = None
        self._input: Floats | None = None

    @classmethod
    def _rehearse(cls) -> None:
        """Once a process: let somebody else tick first, so that no tick of a flight waits for a kernel."""
        if cls._rehearsed:
            return
        cls._rehearsed = True
        still = (0.0, 0.0, 0.0)
        reference = Route([still, (1.0, 0.0, 0.0)])
        obstacle = Obstacle(SPHERE, (2.0, 0.0, 0.0), (0.5, 0.0, 0.0))
        other = Broadcast("other", 0, (0.0, 1.5, 0.0), (0.0, -1.0, 0.0))
        agent = cls("rehearsal", reference, avoids=["other"], obstacles=[obstacle])
        for k in range(3):
            agent.tick(10_000 * k, OwnState(still, still, still), [other])
        agent.broadcast()

    def tick(self, now: int, own: OwnState, neighbours: Iterable[Broadcast]) -> ControlCommand:
        """Command for the time from ``now`` on.

        Args:
            now: us; later than at the last call.
            own: state of the vehicle now; where it holds what is no number, the last plan goes on.
            neighbours: what arrived since the last call, in any order.
        """
        seconds = 0.0 if self._last is None else (now - self._last) * 1e-6
        first = self._last is None or seconds > self.settings.step
        self._last = now
        variance = np.square(
            [*own.position_deviation, *own.velocity_deviation, own.attitude_deviation, own.attitude_deviation]
        )
        measured = np.array([*own.position, *own.velocity, own.attitude[0], own.attitude[1]])
        sound = bool(np.isfinite(measured).all() and math.isfinite(own.attitude[2]))
        if sound:
            self.observer.update(measured, variance, None if first else self._input, own.attitude[2], seconds)
            self._course[0] = own.attitude[2]
        self.neighbourhood.receive(neighbours)
        reference = self._sample_reference(now, seconds)
        yaw_rate = follow_yaw(
            reference,
            self.settings.yaw_gain,
            math.radians(self.settings.limits.yaw_rate),
            self.settings.step,
            self._course,
        )
        if first:
            self.solver.restart(self.observer.state)
        share = min(seconds / self.settings.step, 1.0)
        if sound:
            status = self.solver.step(
                self.observer.state,
                np.ascontiguousarray(self.observer.covariance[:STATES, :STATES]),
                self._course,
                self.observer.disturbance,
                reference,
                self.neighbourhood.entities(now),
                share,
            )
        else:
            status = self.solver.coast(self._course, self.observer.disturbance, share)
        self._input = u = self.solver.plan_u[0].copy()
        yaw = wrap_angle(float(reference[0, 9]))
        return ControlCommand(float(u[0]), float(u[1]), yaw, yaw_rate, float(u[2]), status)

    def broadcast(self) -> Broadcast:
        """Broadcast after a tick: the observer's estimate with its deviations, and the plan.

        Raises:
            ValueError: before the first tick.
        """
        if self._last is None:
            raise ValueError(f"{self.name} has nothing to tell before its first tick")
        state = self.observer.state
        deviation = np.sqrt(np.diag(self.observer.covariance))
        plan = self.solver.plan_x if self.settings.share_plans else self.solver.plan_x[:0]
        return Broadcast(
            self.name,
            self._last,
            to_vector(state[:3]),
            to_vector(state[3:6]),
            to_vector(deviation[:3]),
            to_vector(deviation[3:6]),
            plan[:, :3].copy(),
            self.settings.step,
        )

    def _sample_reference(self, now: int, seconds: float) -> Floats:
        """(n + 1, 11) of the reference along the horizon, slowed down where it runs ahead of the vehicle."""
        self._behind += (1.0 - self._pace) * seconds
        clock = (now - self._start) * 1e-6 - self._behind
        here = self.reference.sample(np.array([clock]))[0]
        speed = float(np.linalg.norm(here[3:6]))
        lead = float(here[3:6] @ (here[:3] - self.observer.state[:3])) / speed if speed > 0.0 else 0.0
        self._pace = min(max(2.0 - 2.0 * lead / self.settings.lead, 0.0), 1.0)
        reference = self.reference.sample(clock + self._pace * self._ahead)
        reference[:, 3:6] *= self._pace
        reference[:, 6:9] *= self._pace**2
        reference[:, 10] *= self._pace
        return reference
