"""Imported Gazebo models: every figure as the model has it, and the motion of Gazebo's own equations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from support.gazebo_models import BASE, CLASSIC, GZ, PLACES, TURNS, channels, motors, rotor_links, write_sdf

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.rotations import matrix_from_quaternion, quaternion_product
from sitl_bridge.core.dynamics.motor import FirstOrderMotor
from sitl_bridge.core.dynamics.rotor import CoefficientRotor
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World
from sitl_bridge.lab.importing.importer import Choices, import_vehicle

HEIGHT = -2.0
"""m down: higher up, the air here is thinner, which Gazebo does not know."""
AS_GAZEBO = Choices(px4=Path("/nowhere"), as_gazebo=True)


def test_figures_are_the_models_about_the_common_centre_of_gravity(tmp_path: Path) -> None:
    made = import_vehicle(
        [write_sdf(tmp_path, motors(CLASSIC) + channels())], tmp_path / "q.yaml", None, AS_GAZEBO
    )
    airframe = load_airframe(made.path)
    assert airframe.mass == pytest.approx(1.44)
    height = 0.04 * 0.05 / 1.44  # of the centre of gravity above the base's
    for rotor, (x, y), turn in zip(airframe.rotors, PLACES, TURNS, strict=True):
        assert rotor.position == pytest.approx((x, -y, -(0.05 - height)), abs=1e-5)
        assert rotor.direction == turn
    lever = 1.4 * height**2 + 0.04 * (0.05 - height) ** 2
    assert airframe.inertia.xx == pytest.approx(0.015 + 0.04 * 0.15**2 + 4e-6 + lever, rel=1e-4)
    assert airframe.inertia.zz == pytest.approx(0.03 + 0.04 * (0.2**2 + 0.15**2) + 8e-5, rel=1e-4)
    motor, rotor_model = airframe.motor, airframe.rotor_model
    assert isinstance(motor, FirstOrderMotor)
    assert isinstance(rotor_model, CoefficientRotor)
    assert (motor.idle_speed, motor.speed_range) == (100.0, 800.0)
    assert rotor_model.inflow_loss_speed == 25.0
    assert not rotor_model.rolling_moment_released
    assert airframe.battery.capacity is None
    assert airframe.contact.points[0][2] == pytest.approx(0.155 + height, abs=1e-4)


def test_rotors_come_in_the_order_of_px4s_outputs(tmp_path: Path) -> None:
    model = write_sdf(tmp_path, motors(CLASSIC) + channels((2, 3, 0, 1)))
    airframe = load_airframe(import_vehicle([model], tmp_path / "q.yaml", None, AS_GAZEBO).path)
    assert [rotor.direction for rotor in airframe.rotors] == ["cw", "cw", "ccw", "ccw"]


def test_merged_and_nested_models_are_followed(tmp_path: Path) -> None:
    write_sdf(tmp_path, "", BASE + rotor_links(), "quad_base")
    merged = "<include merge='true'><uri>model://quad_base</uri><pose>0 0 0.3 0 0 0</pose></include>"
    nested = "<include><uri>model://quad_base</uri><pose>0 0 0.3 0 0 0</pose></include>"
    files = (
        write_sdf(tmp_path, motors(GZ), merged, "merging"),
        write_sdf(tmp_path, motors(GZ, "quad_base::"), nested, "nesting"),
    )
    first, second = (
        load_airframe(import_vehicle([file], tmp_path / f"{i}.yaml", None, AS_GAZEBO).path)
        for i, file in enumerate(files)
    )
    assert first.rotors == second.rotors
    assert first.rotors[0].position[:2] == (0.2, 0.15)


def test_the_default_keeps_what_flies_and_says_what_it_estimated(tmp_path: Path) -> None:
    exaggerated = motors(CLASSIC).replace("0.016", "0.06") + channels()
    made = import_vehicle(
        [write_sdf(tmp_path, exaggerated)], tmp_path / "q.yaml", None, Choices(Path("/nowhere"))
    )
    airframe = load_airframe(made.path)
    assert any("torque" in note and "keeps the battery honest" in note for note in made.notes)
    assert isinstance(airframe.rotor_model, CoefficientRotor)
    assert airframe.rotor_model.torque_thrust_ratio == 0.06
    assert isinstance(airframe.motor, FirstOrderMotor)
    assert airframe.motor.efficiency > 1.0
    assert airframe.battery.capacity is not None
    assert "battery.capacity" in made.estimated
    assert "battery.capacity" in yaml.safe_load(made.path.read_text(encoding="utf-8"))["sources"]


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        ("", "has 0 rotors with a motor plug-in"),
        (motors(CLASSIC).replace("rotor_2<", "wing<"), "'wing' is not a link of the model"),
        (motors(CLASSIC).replace("8.0e-06", "much"), "needs 1 numbers"),
        (motors(CLASSIC) + "<plugin name='w' filename='libLiftDragPlugin.so'/>", "only multirotors"),
        ("<include><uri>model://quad</uri></include>" + motors(CLASSIC), "nests models deeper"),
    ],
)
def test_other_models_are_refused_with_one_message(tmp_path: Path, plugins: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        import_vehicle([write_sdf(tmp_path, plugins)], tmp_path / "q.yaml", None, AS_GAZEBO)
    assert not (tmp_path / "q.yaml").exists()


class GazeboMotion:
    """The motor plug-ins' equations and a rigid body, in NED and FRD, by fourth-order Runge-Kutta steps.

    From gazebo_motor_model.cpp of PX4's Gazebo classic and MulticopterMotorModel.cc of gz-sim.
    """

    def __init__(self, airframe: Airframe, gravity: float, *, classic: bool) -> None:
        self.mass, self.inertia, self.gravity = airframe.mass, airframe.inertia.matrix(), gravity
        self.hubs = np.array([rotor.position for rotor in airframe.rotors])
        self.turn = np.array([1.0 if turn == "ccw" else -1.0 for turn in TURNS])
        self.classic = classic
        # position, velocity (NED), quaternion, body rates, rotor speeds
        hover = np.sqrt(self.mass * gravity / 4.0 / 8.0e-6)
        self.y = np.concatenate([[0, 0, HEIGHT, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0], np.full(4, hover)])

    def rates(self, y: Floats, target: Floats) -> Floats:
        velocity, quaternion, body, speeds = y[3:6], y[6:10], y[10:13], y[13:]
        turned = matrix_from_quaternion(quaternion)
        gain = (target - speeds) / np.where(target > speeds, 0.02, 0.04)
        force, moment = np.zeros(3), np.zeros(3)
        spin = 2.0e-5 / 10.0  # izz of a rotor over rotorVelocitySlowdownSim
        for k, hub in enumerate(self.hubs):
            w, air = speeds[k], turned.T @ velocity + np.cross(body, hub)
            across = np.array([air[0], air[1], 0.0])
            thrust = 8.0e-6 * w * w
            lift = thrust * (np.clip(1.0 - abs(air[2]) / 25.0, 0.0, 1.0) if self.classic else 1.0)
            own = -w * 8.0e-5 * across + np.array([0.0, 0.0, -lift])
            force += own
            moment += np.cross(hub, own)
            moment[2] += self.turn[k] * 0.016 * thrust
            moment -= w * 1.0e-6 * (self.turn[k] if self.classic else 1.0) * across
            # A rotor that turns ccw seen from above has its angular momentum along -z.
            momentum = np.array([0.0, 0.0, -self.turn[k] * spin])
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


@pytest.mark.parametrize("file", [CLASSIC, GZ])
@pytest.mark.parametrize(
    "mix", [(1, 1, 1, 1), (-1, 1, 1, -1), (1, -1, 1, -1), (1, 1, -1, -1)], ids=["up", "roll", "pitch", "yaw"]
)
def test_as_gazebo_moves_within_a_percent_of_the_plug_ins_own_equations(
    tmp_path: Path, file: str, mix: tuple[int, ...]
) -> None:
    model = write_sdf(tmp_path, motors(file) + (channels() if file == CLASSIC else ""))
    airframe = load_airframe(import_vehicle([model], tmp_path / "q.yaml", None, AS_GAZEBO).path)
    world = World()
    simulation = Simulation(world, [VehicleSetup(airframe.vehicle(), airframe.sensor_records())])
    reference = GazeboMotion(airframe, float(world.environment[0]["gravity"]), classic=file == CLASSIC)
    assert isinstance(airframe.motor, FirstOrderMotor)
    state, idle, span = simulation.states[0], airframe.motor.idle_speed, airframe.motor.speed_range
    simulation.armed[0] = 1
    hover = float(reference.y[13])
    place = np.array([[0.0, 0.0, HEIGHT]])
    simulation.controls[0, :4] = (hover - idle) / span
    simulation.put_in_flight(
        np.array([0]), position=place, velocity=0 * place, attitude=np.array([[1.0, 0, 0, 0]]),
        angular_velocity=0 * place, rotor_speed=np.full((1, 4), hover),
    )  # fmt: skip
    target = hover + 15.0 * np.array(mix)
    simulation.controls[0, :4] = (target - idle) / span
    simulation.advance(150)
    reference.advance(0.6, target)
    moved = np.concatenate([state["position"] - place[0], state["velocity"], state["angular_velocity"]])
    expected = np.concatenate([reference.y[:3] - place[0], reference.y[3:6], reference.y[10:13]])
    for part in (slice(0, 3), slice(3, 6), slice(6, 9)):
        # At least 1.5 mm, 1.5 mm/s, 1.5 mrad/s: steps of 4 ms leave 1.1 mm/s of climb in yaw.
        size = max(float(np.linalg.norm(expected[part])), 0.15)
        assert np.linalg.norm(moved[part] - expected[part]) < 0.01 * size, (moved, expected)
    assert state["rotor_speed"][:4] == pytest.approx(reference.y[13:], rel=1e-3)
