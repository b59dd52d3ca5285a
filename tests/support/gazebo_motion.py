"""The motor plug-ins' equations of Gazebo and a rigid body, as a reference for imported models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.rotations import matrix_from_quaternion, quaternion_product
from sitl_bridge.core.dynamics.motor import FirstOrderMotor
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.world.world import World

HEIGHT = -0.5
"""m down: the air here is thinner higher up, 0.02 % in 2 m, which is 1.1 mm/s in 0.6 s and not Gazebo's."""
STEP = 1000
"""us."""


@dataclass(frozen=True)
class Plugin:
    """A motor plug-in's figures, as in the model's file."""

    motor_constant: float
    moment_constant: float
    drag: float
    up: float  # s
    down: float  # s
    spin: float  # kg m^2, izz of a rotor link over rotorVelocitySlowdownSim
    classic: bool = False  # PX4's Gazebo classic, since September 2021
    rolling: float = 1.0e-6


class GazeboMotion:
    """Motion in NED and FRD by fourth-order Runge-Kutta steps.

    From gazebo_motor_model.cpp of PX4's Gazebo classic and RotorS, and MulticopterMotorModel.cc of gz-sim.
    """

    def __init__(self, airframe: Airframe, gravity: float, plugin: Plugin) -> None:
        self.mass, self.inertia, self.gravity = airframe.mass, airframe.inertia.matrix(), gravity
        self.hubs = np.array([rotor.position for rotor in airframe.rotors])
        self.turn = np.array([1.0 if rotor.direction == "ccw" else -1.0 for rotor in airframe.rotors])
        self.plugin = plugin
        # position, velocity (NED), quaternion, body rates, rotor speeds
        count = len(self.hubs)
        self.hover = float(np.sqrt(self.mass * gravity / count / plugin.motor_constant))
        self.y = np.concatenate([[0, 0, HEIGHT, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0], np.full(count, self.hover)])

    def rates(self, y: Floats, target: Floats) -> Floats:
        velocity, quaternion, body, speeds, model = y[3:6], y[6:10], y[10:13], y[13:], self.plugin
        turned = matrix_from_quaternion(quaternion)
        gain = (target - speeds) / np.where(target > speeds, model.up, model.down)
        force, moment = np.zeros(3), np.zeros(3)
        for k, hub in enumerate(self.hubs):
            w, air = speeds[k], turned.T @ velocity + np.cross(body, hub)
            across = np.array([air[0], air[1], 0.0])
            thrust = model.motor_constant * w * w
            lift = thrust * (np.clip(1.0 - abs(air[2]) / 25.0, 0.0, 1.0) if model.classic else 1.0)
            own = -w * model.drag * across + np.array([0.0, 0.0, -lift])
            force += own
            moment += np.cross(hub, own)
            moment[2] += self.turn[k] * model.moment_constant * thrust
            moment -= w * model.rolling * (self.turn[k] if model.classic else 1.0) * across
            # A rotor that turns ccw seen from above has its angular momentum along -z.
            momentum = np.array([0.0, 0.0, -self.turn[k] * model.spin])
            moment -= momentum * gain[k] + np.cross(body, momentum * w)
        turning = np.linalg.solve(self.inertia, moment - np.cross(body, self.inertia @ body))
        fall = turned @ force / self.mass + np.array([0.0, 0.0, self.gravity])
        return np.concatenate(
            [velocity, fall, 0.5 * quaternion_product(quaternion, [0.0, *body]), turning, gain]
        )

    def advance(self, seconds: float, target: Floats, step: float = 1e-3) -> None:
        for _ in range(round(seconds / step)):
            a = self.rates(self.y, target)
            b = self.rates(self.y + 0.5 * step * a, target)
            c = self.rates(self.y + 0.5 * step * b, target)
            d = self.rates(self.y + step * c, target)
            self.y = self.y + step / 6.0 * (a + 2.0 * b + 2.0 * c + d)


def assert_moves_as_gazebo(airframe: Airframe, plugin: Plugin, axis: str) -> None:
    """A step of 15 rad/s for 0.6 s moves a vehicle within 1 % of Gazebo, or 1 mm, 1 mm/s, 1 mrad/s."""
    world = World()
    setups = [VehicleSetup(airframe.vehicle(), airframe.sensor_records())]
    simulation = Simulation(world, setups, step=STEP)
    reference = GazeboMotion(airframe, float(world.environment[0]["gravity"]), plugin)
    assert isinstance(airframe.motor, FirstOrderMotor)
    state, idle, span = simulation.states[0], airframe.motor.idle_speed, airframe.motor.speed_range
    x, y = reference.hubs[:, 0], reference.hubs[:, 1]
    mix = {"up": np.ones(len(x)), "roll": -np.sign(y), "pitch": np.sign(x), "yaw": reference.turn}[axis]
    count, place = len(x), np.array([[0.0, 0.0, HEIGHT]])
    simulation.armed[0] = 1
    simulation.controls[0, :count] = (reference.hover - idle) / span
    simulation.put_in_flight(
        np.array([0]), position=place, velocity=0 * place, attitude=np.array([[1.0, 0, 0, 0]]),
        angular_velocity=0 * place, rotor_speed=np.full((1, count), reference.hover),
    )  # fmt: skip
    target = reference.hover + 15.0 * mix
    simulation.controls[0, :count] = (target - idle) / span
    simulation.advance(600_000 // STEP)
    reference.advance(0.6, target)
    moved = np.concatenate([state["position"] - place[0], state["velocity"], state["angular_velocity"]])
    expected = np.concatenate([reference.y[:3] - place[0], reference.y[3:6], reference.y[10:13]])
    for part in (slice(0, 3), slice(3, 6), slice(6, 9)):
        size = max(float(np.linalg.norm(expected[part])), 0.1)
        assert np.linalg.norm(moved[part] - expected[part]) < 0.01 * size, (moved, expected)
    np.testing.assert_allclose(state["rotor_speed"][:count], reference.y[13:], rtol=1e-3)
