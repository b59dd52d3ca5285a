"""Imported Gazebo models: every figure as the model has it, and the motion of Gazebo's own equations."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from support.gazebo_models import BASE, CLASSIC, GZ, PLACES, TURNS, channels, motors, rotor_links, write_sdf
from support.gazebo_motion import Plugin, assert_moves_as_gazebo

from sitl_bridge.base.errors import UserError
from sitl_bridge.core.dynamics.motor import FirstOrderMotor
from sitl_bridge.core.dynamics.rotor import CoefficientRotor
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.lab.importing.importer import Choices, import_vehicle

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


@pytest.mark.parametrize("file", [CLASSIC, GZ])
@pytest.mark.parametrize("axis", ["up", "roll", "pitch", "yaw"])
def test_as_gazebo_moves_within_a_percent_of_the_plug_ins_own_equations(
    tmp_path: Path, file: str, axis: str
) -> None:
    model = write_sdf(tmp_path, motors(file) + (channels() if file == CLASSIC else ""))
    airframe = load_airframe(import_vehicle([model], tmp_path / "q.yaml", None, AS_GAZEBO).path)
    plugin = Plugin(8.0e-6, 0.016, 8.0e-5, 0.02, 0.04, 2.0e-5 / 10.0, classic=file == CLASSIC)
    assert_moves_as_gazebo(airframe, plugin, axis)
