"""RotorS's hovering example: a Firefly, Lee's controller with RotorS's gains, odometry of the true state.

F. Furrer, M. Burri, M. Achtelik, R. Siegwart, "RotorS - A modular Gazebo MAV simulator framework", 2016,
sections 2.2, 3.3 and 3.6.  ``sb.Simulation`` is the vehicle; the controller stands here, as there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

import sitl_bridge as sb
from sitl_bridge.base.rotations import matrix_from_quaternion, quaternion_product

Array = NDArray[np.float64]

STEP = 0.01
"""s, max_step_size of rotors_gazebo/worlds/basic.world; odometry and controller run at every step."""
WORLD = sb.World(origin=(38.0, 8.55, 0.0))
"""Where gravity is the 9.80 m/s^2 of basic.world."""
TAKE_OFF = 5.0
"""s, at which the hovering example sends its setpoint."""


def published() -> sb.Airframe:
    """The Firefly by RotorS's laws alone, with the mass of the odometry sensor."""
    firefly = sb.Airframe.load("firefly")
    return firefly.changed(
        mass=firefly.mass + 0.015,
        ground_effect=False,
        rotor_model={"inflow": "none", "chord": None, "rolling_moment_released": True},
        drag={"force": (0.0, 0.0, 0.0)},
    )


class LeeController:
    """Lee's controller (CDC 2010, eqs 10, 11, 15 and 16) as RotorS has it: the gains of the airframe file.

    Args:
        airframe: one with a section ``controller.rotors``.
    """

    def __init__(self, airframe: sb.Airframe) -> None:
        gains = airframe.controller.rotors
        assert gains is not None
        self.mass, self.gravity = gains.mass, gains.gravity
        self.position_gain, self.velocity_gain = np.array(gains.position_gain), np.array(gains.velocity_gain)
        self.attitude_gain, self.rate_gain = np.array(gains.attitude_gain), np.array(gains.angular_rate_gain)
        model = airframe.rotor_model
        x, y, _ = np.array([rotor.position for rotor in airframe.rotors]).T
        turning = np.array([1.0 if rotor.direction == "ccw" else -1.0 for rotor in airframe.rotors])
        # Eq. 10 in FRD: thrust up, and moments about forward, right and down.
        rows = [np.ones(len(x)), -y, x, turning * model.torque_thrust_ratio]
        self.to_squares = np.linalg.pinv(model.thrust_c2 * np.array(rows))
        self.full_speed = airframe.motor.speed_range

    def commands(
        self, position: Array, velocity: Array, attitude: Array, rates: Array, setpoint: Array
    ) -> Array:
        """Motor commands, 0..1, for one step; NED and FRD, heading north."""
        turned = matrix_from_quaternion(attitude)
        force = -self.position_gain * (position - setpoint) - self.velocity_gain * velocity
        force[2] -= self.mass * self.gravity
        down = -force / np.linalg.norm(force)
        right = np.cross(down, (1.0, 0.0, 0.0))
        right /= np.linalg.norm(right)
        wanted = np.column_stack([np.cross(right, down), right, down])
        skew = 0.5 * (wanted.T @ turned - turned.T @ wanted)
        moment = -self.attitude_gain * (skew[2, 1], skew[0, 2], skew[1, 0]) - self.rate_gain * rates
        squares = self.to_squares @ [-float(force @ turned[:, 2]), *moment]
        return np.clip(np.sqrt(np.clip(squares, 0.0, None)) / self.full_speed, 0.0, 1.0)


@dataclass(frozen=True)
class Flown:
    """A flight; ``time`` (k,) s, the others (k, 3), true, NED and FRD."""

    time: Array
    position: Array
    rates: Array
    setpoint: Array


class StateSource(Protocol):
    """What tells the controller the vehicle's state."""

    def state(self, simulation: sb.Simulation) -> tuple[Array, Array, Array, Array]:
        """Position and velocity, m and m/s NED, attitude, and rates, rad/s FRD; once a step."""
        ...


class Pose:
    """The pose sensor: true position and attitude with white noise.

    Args:
        noise: deviations of the position, m, and attitude, rad, on each axis.
        seed: of the noise.
    """

    def __init__(self, noise: tuple[float, float] = (0.0, 0.0), seed: int = 1) -> None:
        self.noise, self.random = noise, np.random.default_rng(seed)

    def measure(self, simulation: sb.Simulation) -> tuple[Array, Array]:
        """Position, (3,) m NED, and attitude, (4,) body to NED."""
        tilted = [1.0, *(0.5 * self.noise[1] * self.random.standard_normal(3))]
        seen = quaternion_product(simulation.attitude[0], tilted / np.linalg.norm(tilted))
        return simulation.position[0] + self.noise[0] * self.random.standard_normal(3), seen


class Odometry(Pose):
    """The odometry sensor: a pose with the true velocity and rates."""

    def state(self, simulation: sb.Simulation) -> tuple[Array, Array, Array, Array]:
        """Position and velocity, m and m/s NED, attitude, and rates, rad/s FRD."""
        position, attitude = self.measure(simulation)
        return position, simulation.velocity[0], attitude, simulation.angular_velocity[0]


def fly(
    airframe: sb.Airframe,
    setpoint: Callable[[float], ArrayLike],
    seconds: float,
    *,
    source: StateSource | None = None,
    force: Callable[[float], ArrayLike] = lambda _t: 0.0,
    full_battery: bool = False,
    sensors: bool = False,
    seed: int = 1,
) -> Flown:
    """Fly from the ground.

    Args:
        airframe: the vehicle.
        setpoint: (3,) m NED at a time in s.
        seconds: of simulated time.
        source: of the controller's state; None for ideal odometry.
        force: (3,) N NED on the body at a time in s.
        full_battery: whether motors run at the battery's voltage instead of the nominal one.
        sensors: whether those of the airframe are simulated, for the source.
        seed: of the sensors.
    """
    simulation = sb.Simulation(airframe, world=WORLD, step=STEP, sensors=sensors, seed=seed)
    controller, source = LeeController(airframe), source or Odometry()
    if not full_battery:
        simulation.supply(airframe.battery.nominal_voltage)
    rows = []
    for k in range(round(seconds / STEP)):
        t = k * STEP
        wanted = np.asarray(setpoint(t), float)
        rows.append((t, *simulation.position[0], *simulation.angular_velocity[0], *wanted))
        position, velocity, attitude, rates = source.state(simulation)
        simulation.push(force(t))
        commands = controller.commands(position, velocity, attitude, rates, wanted)
        simulation.step(commands if t >= TAKE_OFF else np.zeros(len(airframe.rotors)))
    table = np.array(rows)
    return Flown(table[:, 0], table[:, 1:4], table[:, 4:7], table[:, 7:10])
