"""hector's test trajectory in wind, flown by its cascade with released gains, or by a built-in law.

J. Meyer, A. Sendobry, S. Kohlbrecher, U. Klingauf, O. von Stryk, "Comprehensive simulation of quadrotor UAVs
using ROS and Gazebo", 2012, sections 3.4 and 4.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sitl_bridge as sb
from sitl_bridge.base.rotations import heading, matrix_from_quaternion

Array = NDArray[np.float64]

VELOCITIES = (
    (0, 0, -2), (0, 0, 0), (3, 0, 0), (0, 0, 0), (0, -3, 0), (0, 0, 0), (-3, 0, 0), (0, 0, 0), (0, 3, 0),
    (0, 0, 0), (0, 0, 1), (0, 0, 0),
)  # fmt: skip
"""m/s NED, 3 s each: hector_quadrotor_controller/src/test_trajectory.cpp, heading north."""
HELD = 3.0
"""s."""
WIND = "5@270"
"""The paper's 5 m/s; it gives no direction."""


class Pid:
    """A PID of an error whose input passes a first-order filter; integration stops at the limit.

    Args:
        p, i, d: gains.
        filtered: s, time constant of the filter.
        limit: of the output.
    """

    def __init__(self, p: float, i: float, d: float, filtered: float, limit: float = math.inf) -> None:
        self.p, self.i, self.d, self.filtered, self.limit = p, i, d, filtered, limit
        self.integral, self.before = np.zeros(1), np.full(1, np.nan)
        self.smooth = np.full(1, np.nan)

    def update(self, wanted: Array, known: Array, dt: float) -> Array:
        """Output of one step."""
        if np.isnan(self.smooth).any():
            self.smooth = wanted
        self.smooth = self.smooth + dt / (dt + self.filtered) * (wanted - self.smooth)
        error = self.smooth - known
        rate = np.nan_to_num((error - self.before) / dt)
        self.before = error
        out = self.p * error + self.i * (self.integral + error * dt) + self.d * rate
        free = (np.abs(out) < self.limit) | (out * error < 0.0)
        self.integral = self.integral + np.where(free, error * dt, 0.0)
        return np.clip(out, -self.limit, self.limit)


class HectorController(sb.Controller):
    """The cascade of figure 3, with the gains of hector_quadrotor_controller/params/controller.yaml.

    Args:
        vehicle: what it flies.
        stiffness: of the attitude loop: its natural frequency over that of the released gains.
    """

    def __init__(self, vehicle: sb.VehicleModel, *, stiffness: float = 1.0) -> None:
        super().__init__(vehicle)
        self.stiffness = stiffness
        self.reset()

    def reset(self) -> None:
        """Called before the first step and while the vehicle stands on the ground."""
        s = self.stiffness
        self.linear = Pid(5.0, 1.0, 0.0, 0.05, 10.0)
        self.attitude = Pid(10.0 * s**2, 5.0 * s**3, 5.0 * s, 0.01)
        self.yaw_rate = Pid(5.0, 2.5, 0.0, 0.1, 3.0)

    def control(self, estimate: NDArray[np.void], setpoint: NDArray[np.void], dt: float) -> sb.Wrench:
        """Velocity by acceleration, acceleration by attitude, attitude by torque."""
        gravity = self.vehicle.gravity
        velocity = 2.0 * np.nan_to_num(setpoint["position"] - estimate["position"])
        velocity = np.clip(velocity, -5.0, 5.0) + np.nan_to_num(setpoint["velocity"])
        acceleration = self.linear.update(velocity, estimate["velocity"], dt)
        body = matrix_from_quaternion(estimate["attitude"])
        force = body.T @ (acceleration - (0.0, 0.0, gravity)) / gravity
        turning = self.attitude.update(np.array([force[1], -force[0]]), np.zeros(2), dt)
        turn = math.remainder(float(setpoint["yaw"]) - heading(*estimate["attitude"]), 2.0 * math.pi)
        rate = np.clip(2.0 * np.nan_to_num([turn]), -1.0, 1.0)
        yawing = self.yaw_rate.update(rate, estimate["angular_velocity"][2:], dt)
        load = 1.0 / max(body[2, 2], 1.0 / 1.5)
        thrust = self.vehicle.mass * (gravity - acceleration[2] * load)
        moment = self.vehicle.inertia @ np.concatenate([turning, yawing])
        return sb.Wrench(max(thrust, 0.0), moment)


@dataclass(frozen=True)
class Flown:
    """A flight; ``time`` (k,) s since the trajectory began, the others (k, 3), NED and FRD, true."""

    time: Array
    velocity: Array
    rates: Array
    wanted: Array


def fly(controller: Any = None, *, dead_time: float = 0.0, seed: int = 1) -> Flown:
    """Fly the test trajectory with a controller, or the built-in stack's own, and s of motors' dead time."""
    hector = sb.Airframe.load("hector").changed(motor={"dead_time": dead_time})
    with sb.Sitl(hector, world=sb.World(wind=WIND), controller=controller, seed=seed) as sitl:
        drone = sitl.vehicle
        drone.arm()
        drone.take_off(10.0)
        drone.set_velocity((0.0, 0.0, 0.0), yaw=0.0)
        drone.run(5.0)
        begun = drone.time
        for velocity in VELOCITIES:
            drone.set_velocity(velocity, yaw=0.0)
            drone.run(HELD)
        truth = drone.truth
    flown = truth.time >= begun
    time = truth.time[flown] - begun
    place = np.minimum((time / HELD).astype(int), len(VELOCITIES) - 1)
    return Flown(
        time, truth.velocity[flown], truth.angular_velocity[flown], np.array(VELOCITIES, float)[place]
    )
