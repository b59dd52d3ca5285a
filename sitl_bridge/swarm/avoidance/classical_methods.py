"""Classical avoidance to compare with: a repelling velocity, reciprocal velocity obstacles, Voronoi cells.

Each gives a velocity from the same beliefs, references and broadcasts that the predictive controller gets;
one velocity loop turns it into attitude and thrust, with the same disturbance observer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import daqp
import numpy as np
from numpy.typing import NDArray

from sitl_bridge.swarm.avoidance.agent import ControlCommand, OwnState, to_vector
from sitl_bridge.swarm.avoidance.controller_settings import ControllerSettings
from sitl_bridge.swarm.avoidance.disturbance_observer import Observer
from sitl_bridge.swarm.avoidance.neighbours import Broadcast, Neighbourhood, Obstacle
from sitl_bridge.swarm.avoidance.plan_shift import follow_yaw, level_inputs
from sitl_bridge.swarm.avoidance.records import STATES, VEHICLE
from sitl_bridge.swarm.avoidance.references import Reference
from sitl_bridge.swarm.avoidance.separation import separation
from sitl_bridge.swarm.avoidance.solver import PlanStatus

Floats = NDArray[np.float64]
Law = Callable[["VelocityPilot", Floats, Floats, Floats, Floats, Floats], Floats]
"""Velocity to fly, from the pilot, own position and velocity, the velocity wanted, and positions (m, 3) and
velocities (m, 3) of the others."""

POSITION_GAIN = 1.0
"""1/s, XTDrone's Kp; the other methods share it, so that only avoidance differs."""
VELOCITY_GAIN = 2.0
"""1/s of the loop from velocity to acceleration: half the bandwidth of an attitude response of 0.25 s."""
XTDRONE_RADIUS = 1.5
"""m, avoid_radius of robin-shaun/XTDrone coordination/formation_demo/avoid.py."""
XTDRONE_GAIN = 2.0
"""m/s, Kp_avoid of robin-shaun/XTDrone coordination/formation_demo/follower.py."""
ORCA_HORIZON = 2.0
"""s within which velocities must be free of collisions; the predictive controller's horizon."""


def repelling_velocity(
    pilot: VelocityPilot, p: Floats, v: Floats, wanted: Floats, others: Floats, velocities: Floats
) -> Floats:
    """XTDrone's velocity avoidance: within a radius, a push aside, across the line between the two.

    As in robin-shaun/XTDrone, coordination/formation_demo: push = (1 - d/R) unit(e x a), e the line between
    the two and a that of the axes x, y which it is further from; the sum times Kp_avoid is added to the
    velocity.  There, of each pair the one of lower number is pushed along and the other against; here the
    line always leads from the neighbour to oneself, which gives the same two opposite pushes.
    """
    del v, velocities
    total = wanted.copy()
    for other in others:
        line = p - other
        distance = float(np.linalg.norm(line))
        share = 1.0 - distance / XTDRONE_RADIUS
        if share <= 0.0 or distance < 1e-9:
            continue
        axis = np.eye(3)[0 if abs(line[0]) < abs(line[1]) else 1]
        side = np.cross(line, axis)
        total += XTDRONE_GAIN * share * side / np.linalg.norm(side)
    return _limited(total, pilot.speed)


def orca_velocity(
    pilot: VelocityPilot, p: Floats, v: Floats, wanted: Floats, others: Floats, velocities: Floats
) -> Floats:
    """Optimal reciprocal collision avoidance (van den Berg, Guy, Lin and Manocha 2011, Robotics Research).

    In three dimensions: for each neighbour the half-space of velocities at (v + u/2) . n, where u is the
    smallest change of the relative velocity out of the truncated cone of velocity obstacles and n its
    direction (their eqs 3 to 5).  Of the velocities in all half-spaces the one closest to the wanted one is
    a quadratic program; where there is none, the half-spaces are softened, in place of their linear program
    of the least penetration.
    """
    normals, bounds = [], []
    radius = pilot.settings.distances.minimum
    for other, velocity in zip(others, velocities, strict=True):
        change, normal = _out_of_cone(other - p, v - velocity, radius, 1.0 / pilot.settings.rate)
        normals.append(normal)
        bounds.append(float(normal @ (v + 0.5 * change)))
    return _closest(_limited(wanted, pilot.speed), normals, bounds, pilot.speed)


def voronoi_velocity(
    pilot: VelocityPilot, p: Floats, v: Floats, wanted: Floats, others: Floats, velocities: Floats
) -> Floats:
    """Buffered Voronoi cells (Zhou, Wang, Bandyopadhyay and Schwager 2017, IEEE RA-L 2(2)).

    The cell of a vehicle is all that is nearer to it than to any other, withdrawn by half the distance to be
    kept (their definition 2).  It heads for the point of its cell closest to where it wants to be (their
    algorithm 1, here one second ahead at the wanted velocity), which needs positions only.
    """
    del v, velocities
    normals, bounds = [], []
    for other in others:
        line = p - other
        distance = max(float(np.linalg.norm(line)), 1e-9)
        normals.append(line / distance)
        # Position q is in the cell where n . (q - p) >= r - d/2, with r half the distance to be kept.
        bounds.append(0.5 * (pilot.settings.distances.minimum - distance))
    return _limited(_closest(_limited(wanted, pilot.speed), normals, bounds, pilot.speed), pilot.speed)


def _out_of_cone(line: Floats, relative: Floats, radius: float, tick: float) -> tuple[Floats, Floats]:
    """Smallest change of a relative velocity out of the velocity obstacle, and its outward direction."""
    distance = float(np.linalg.norm(line))
    if distance <= radius:  # too close already: out within a tick
        w = relative - line / tick
        length = max(float(np.linalg.norm(w)), 1e-9)
        return (radius / tick - length) * w / length, w / length
    w = relative - line / ORCA_HORIZON
    length = max(float(np.linalg.norm(w)), 1e-9)
    along = float(w @ line)
    if along < 0.0 and along**2 > radius**2 * length**2:  # the ball that truncates the cone
        return (radius / ORCA_HORIZON - length) * w / length, w / length
    # The cone's side: the nearest point of its surface in the plane of line and relative velocity.
    axis = line / distance
    forward = float(relative @ axis)
    across = relative - forward * axis
    spread = float(np.linalg.norm(across))
    if spread < 1e-9:  # on the axis: to the right, as by the rules of the air
        across = np.array([-axis[1], axis[0], 0.0])
        across = across if np.linalg.norm(across) > 1e-9 else np.array([1.0, 0.0, 0.0])
        across /= np.linalg.norm(across)
    else:
        across = across / spread
    sine = radius / distance
    cosine = math.sqrt(1.0 - sine * sine)
    normal = cosine * across - sine * axis
    return -float(normal @ relative) * normal, normal


def _closest(wanted: Floats, normals: Sequence[Floats], bounds: Sequence[float], speed: float) -> Floats:
    """Velocity closest to the wanted one with |v_i| <= speed and, as far as can be, n . v >= b for all."""
    if not normals:
        return wanted
    rows = np.array(normals)
    m = len(rows)
    sense = np.array([0] * 3 + [8] * m, np.int32)
    upper = np.concatenate([np.full(3, speed), np.full(m, 1e30)])
    lower = np.concatenate([np.full(3, -speed), bounds])
    found, _, flag, _ = daqp.solve(np.eye(3), -wanted, rows, upper, lower, sense, rho_soft=1e-4)
    return np.asarray(found) if flag > 0 and np.isfinite(found).all() else np.zeros(3)


def _limited(velocity: Floats, speed: float) -> Floats:
    length = float(np.linalg.norm(velocity))
    return velocity if length <= speed else velocity * (speed / length)


METHODS: dict[str, Law] = {
    "repelling velocity": repelling_velocity,
    "reciprocal velocity obstacles": orca_velocity,
    "buffered Voronoi cells": voronoi_velocity,
}


class VelocityPilot:
    """A vehicle that follows its reference at a velocity which one of the classical laws has corrected.

    Args:
        name, reference, settings, avoids, obstacles, start: as of ``Agent``.
        law: that corrects the velocity.
        speed: m/s, at most.
    """

    def __init__(
        self,
        name: str,
        reference: Reference,
        settings: ControllerSettings,
        law: Law,
        *,
        speed: float,
        avoids: Iterable[str] = (),
        obstacles: Sequence[Obstacle] = (),
        start: int = 0,
    ) -> None:
        self.name = name
        self.settings = settings
        self.speed = speed
        self._law = law
        self._reference = reference
        self._start = start
        self._neighbourhood = Neighbourhood(avoids, obstacles, settings)
        self._record = settings.record()
        self._observer = Observer(self._record)
        self._last: int | None = None
        self._input: Floats | None = None

    def tick(self, now: int, own: OwnState, neighbours: Iterable[Broadcast]) -> ControlCommand:
        """Command for the time from ``now`` (us) on."""
        seconds = 0.0 if self._last is None else (now - self._last) * 1e-6
        self._last = now
        variance = np.square(
            [*own.position_deviation, *own.velocity_deviation, own.attitude_deviation, own.attitude_deviation]
        )
        measured = np.array([*own.position, *own.velocity, own.attitude[0], own.attitude[1]])
        self._observer.update(measured, variance, self._input, own.attitude[2], seconds)
        self._neighbourhood.hear(neighbours)
        target = self._reference.sample(np.array([(now - self._start) * 1e-6]))
        state = self._observer.state
        p, v = state[:3].copy(), state[3:6].copy()
        wanted = target[0, 3:6] + POSITION_GAIN * (target[0, :3] - p)
        velocity = self._law(self, p, v, wanted, *self._others(now, p))
        acceleration = VELOCITY_GAIN * (velocity - v)
        course = np.array([own.attitude[2]])
        limits = self.settings.limits
        yaw_rate = follow_yaw(
            target, self.settings.yaw_gain, math.radians(limits.yaw_rate), self.settings.step, course
        )
        attitude, u = np.zeros(STATES), np.zeros(3)
        level_inputs(
            self._record[0], acceleration, v, own.attitude[2], self._observer.disturbance, attitude, u
        )
        self._input = u
        return ControlCommand(
            roll=float(u[0]),
            pitch=float(u[1]),
            yaw=float(target[0, 9]),
            yaw_rate=yaw_rate,
            thrust=float(u[2]),
            position=to_vector(p),
            velocity=to_vector(velocity),
            acceleration=to_vector(acceleration),
            status=PlanStatus.SOLVED,
        )

    def broadcast(self) -> Broadcast:
        """What to tell others after a tick."""
        state = self._observer.state
        return Broadcast(self.name, self._last or 0, to_vector(state[:3]), to_vector(state[3:6]))

    def _others(self, now: int, position: Floats) -> tuple[Floats, Floats]:
        """Positions now and velocities of neighbours; of obstacles a standing neighbour as far off."""
        places, velocities = [], []
        normal = np.zeros(3)
        distances = self.settings.distances
        for entity in self._neighbourhood.entities(now):
            clear = separation(entity, entity["position"], position, normal)
            if entity["kind"] == VEHICLE:
                places.append(entity["position"] + entity["age"] * entity["velocity"])
            else:
                margin = distances.minimum - distances.obstacle_minimum
                places.append(position - normal * (clear + margin))
            velocities.append(entity["velocity"].copy())
        return np.array(places).reshape(-1, 3), np.array(velocities).reshape(-1, 3)
