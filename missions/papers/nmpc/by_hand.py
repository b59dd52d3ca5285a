"""The experiment of figure 6 as the paper flew it: one vehicle by hand, the other one avoids it.

M. Kamel, J. Alonso-Mora, R. Siegwart, J. Nieto, "Nonlinear model predictive control for multi-micro aerial
vehicle robust collision avoidance", 2017, section 5.2.  Both are AscTec Neos on full dynamics; poses are
those of a motion-capture system, and commands go out as attitude and thrust, 100 times a second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import sitl_bridge as sb
from sitl_bridge.api.swarms import Agent, Broadcast, ControllerSettings, OwnState, Route, to_vector
from sitl_bridge.api.vehicles import Vehicles
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.rotations import euler_angles

Array = NDArray[np.float64]

HEIGHT = 5.0
"""m."""
NOISE = (0.002, 0.02, 0.005)
"""m, m/s and rad, deviations of the measured position, velocity and attitude on each axis."""
STICK = 0.4
"""Of its end: 2 m/s in Position mode, by PX4's MPC_VEL_MANUAL and MPC_XY_MAN_EXPO."""
ENDS = 4.0
"""m north and south of the one that hovers, between which the other one is flown to and fro."""
SIDE = 0.3
"""Of the stick forward, to the right, on the way: each pass comes by at another distance."""
PASSES = 4
"""Alternately from the south and from the north."""
PASS_LIMIT, REST = 15.0, 2.0
"""s."""


@dataclass(frozen=True)
class Flown:
    """True positions (k, 3) m NED, over time (k,) s, of the vehicle that hovers and of the flown one.

    ``active``: whether the hard constraint was active in a plan.
    """

    time: Array
    hovering: Array
    flown: Array
    active: bool

    @property
    def distance(self) -> Array:
        """(k,) m."""
        return np.linalg.norm(self.hovering - self.flown, axis=1)


class Avoiding:
    """The controller of the vehicle that hovers; it knows the poses of both as a motion-capture system does.

    Args:
        vehicle: that it controls.
        other: that it avoids, and whose velocity it extrapolates (eq. 13).
        settings: of the controller.
        random: of the poses' noise.
    """

    def __init__(
        self,
        vehicle: Vehicles,
        other: Vehicles,
        settings: ControllerSettings,
        random: np.random.Generator,
    ) -> None:
        self.vehicle, self.other, self.random = vehicle, other, random
        self.ticks, self.active = 0, False
        self.hover = vehicle.parameter("MPC_THR_HOVER")
        start = round(vehicle.time * 1e6)
        self.agent = Agent("hovering", Route([(0.0, 0.0, -HEIGHT)]), settings, avoids=["flown"], start=start)

    def tick(self) -> None:
        """Command the vehicle, and let 8 or 12 ms pass: 100 ticks a second."""
        vehicle, other = self.vehicle, self.other
        noise = self.random.standard_normal((5, 3)) * np.array([*NOISE, *NOISE[:2]])[:, None]
        now = round(vehicle.time * 1e6)
        attitude = np.add(euler_angles(*vehicle.attitude), noise[2])
        deviations = (NOISE[0],) * 3, (NOISE[1],) * 3
        own = OwnState(
            to_vector(vehicle.position + noise[0]),
            to_vector(vehicle.velocity + noise[1]),
            to_vector(attitude),
            *deviations,
            NOISE[2],
        )
        place, velocity = other.position + noise[3], other.velocity + noise[4]
        heard = Broadcast("flown", now, to_vector(place), to_vector(velocity), *deviations)
        command = self.agent.tick(now, own, [heard])
        self.active |= self.agent.solver.active > 0
        thrust = min(self.hover * command.thrust / STANDARD_GRAVITY, 1.0)
        vehicle.set_attitude(command.roll, command.pitch, command.yaw, thrust=thrust)
        vehicle.step(2 + self.ticks % 2)
        self.ticks += 1


def fly(settings: ControllerSettings, *, passes: int = PASSES, seed: int = 1) -> Flown:
    """Hover with the controller, and fly the other vehicle at it by the sticks."""
    random = np.random.default_rng(seed)
    with sb.Sitl(["neo11", "neo11"], positions=[(0.0, 0.0), (-ENDS - 1.0, -0.5)], seed=seed) as sitl:
        hovering, flown = sitl[0], sitl[1]
        sitl.arm()
        sitl.take_off(HEIGHT)
        flown.sticks()
        avoiding = Avoiding(hovering, flown, settings, random)
        begun = sitl.time
        for k in range(passes):
            ahead = 1.0 if k % 2 == 0 else -1.0
            until = sitl.time + PASS_LIMIT
            flown.sticks(ahead * STICK, SIDE * STICK)
            while ahead * flown.position[0] < ENDS and sitl.time < until:
                avoiding.tick()
            flown.sticks()
            until = sitl.time + REST
            while sitl.time < until:
                avoiding.tick()
        truths = hovering.truth, flown.truth
    shown = truths[0].time >= begun
    return Flown(
        truths[0].time[shown] - begun, truths[0].position[shown], truths[1].position[shown], avoiding.active
    )
