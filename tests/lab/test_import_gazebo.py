"""Imported Gazebo models: every figure as the model has it, and the motion of Gazebo's own equations."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml
from support.gazebo_models import BASE, CLASSIC, GZ, PLACES, TURNS, channels, motors, rotor_links, write_sdf
from support.gazebo_motion import Plugin, assert_moves_as_gazebo

from sitl_bridge.base.errors import UserError
from sitl_bridge.core.dynamics.motor import FirstOrderMotor
from sitl_bridge.core.dynamics.performance import performance
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


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("<mass>1.4<", "<mass>nan<", "needs 1 numbers"),
        ("<mass>1.4<", "<mass>1e308<", "needs 1 numbers"),
        ("<mass>1.4<", "<mass>-0.03<", "<mass> is below 0"),
        ("8.0e-06", "1e-300", "is not a figure of a vehicle"),
        ("8.0e-06", "-8.0e-06", "motorConstant: rotor_model.thrust_c2 is -8e-06, not above 0"),
        ("<izz>0.03<", "<izz>-3<", "not written, the sources make no valid vehicle"),
    ],
)
def test_numbers_that_no_vehicle_has_leave_the_file_of_before(
    tmp_path: Path, before: str, after: str, message: str
) -> None:
    """Also the numbers that only the whole airframe refuses; the draft is not left behind."""
    model, output = write_sdf(tmp_path, motors(GZ)), tmp_path / "q.yaml"
    output.write_text("of before", encoding="utf-8")
    model.write_text(model.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")
    with pytest.raises(UserError, match=message):
        import_vehicle([model], output, None, AS_GAZEBO)
    assert output.read_text(encoding="utf-8") == "of before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["q.yaml", "quad"]


def test_an_inertia_that_no_body_has_is_kept_and_said(tmp_path: Path) -> None:
    body = (BASE + rotor_links()).replace("<izz>0.03<", "<izz>0.3<")
    made = import_vehicle([write_sdf(tmp_path, motors(GZ), body)], tmp_path / "q.yaml", None, AS_GAZEBO)
    inertia = load_airframe(made.path).inertia
    assert inertia.as_published
    assert inertia.zz > inertia.xx + inertia.yy
    assert any("no rigid body" in note for note in made.notes)


def test_models_that_are_not_there_are_left_out_by_name_with_their_joints(tmp_path: Path) -> None:
    """Cameras of a repository that is not at hand, files outside the models' directories, Fuel's models."""
    (tmp_path.parent / "stranger.sdf").write_text("<sdf><model name='s'/></sdf>", encoding="utf-8")
    strangers = ("model://camera", "https://fuel.example/camera", f"file://{tmp_path.parent}/stranger.sdf")
    included = "".join(f"<include><uri>{uri}</uri></include>" for uri in strangers)
    joint = "<joint name='mount' type='fixed'><parent>base</parent><child>camera::link</child>"
    joint += "<pose relative_to='camera::link'/></joint>"
    model = write_sdf(tmp_path, motors(GZ) + included + joint)
    made = import_vehicle([model], tmp_path / "q.yaml", None, AS_GAZEBO)
    assert load_airframe(made.path).mass == pytest.approx(1.44)
    for what in (*(f"the included model {uri}" for uri in strangers), "the joint mount"):
        assert [text for text in made.left_out if text.startswith(what)], what


SENSORS = """<link name='yaw'><inertial><mass>0.01</mass></inertial></link>
<link name='camera'><inertial><mass>0.01</mass></inertial><sensor name='eye' type='camera'><camera>
<horizontal_fov>1.2</horizontal_fov><image><width>640</width><height>480</height></image></camera></sensor>
<sensor name='sonar' type='ray'><update_rate>20</update_rate><ray><scan><horizontal><samples>3</samples>
<min_angle>-0.35</min_angle><max_angle>0.35</max_angle></horizontal><vertical><samples>3</samples></vertical>
</scan><range><min>0.03</min><max>3</max></range></ray></sensor></link>
<joint name='j1' type='revolute'><parent>base</parent><child>yaw</child><axis><xyz>0 0 1</xyz></axis></joint>
<joint name='j2' type='revolute'><parent>yaw</parent><child>camera</child><axis><xyz>0 1 0</xyz>
<limit><lower>-1</lower><upper>0.5</upper></limit></axis></joint>
<plugin name='gps' filename='libgazebo_gps_plugin.so'><gpsNoise>1</gpsNoise>
<gpsXYNoiseDensity>2e-4</gpsXYNoiseDensity><gpsZNoiseDensity>4e-4</gpsZNoiseDensity></plugin>
<plugin name='i' filename='libgazebo_imu_plugin.so'>
<gyroscopeNoiseDensity>0.0003</gyroscopeNoiseDensity></plugin>"""


def test_sensors_have_the_models_axes_ranges_and_noises(tmp_path: Path) -> None:
    model = write_sdf(tmp_path, motors(CLASSIC) + SENSORS)
    made = import_vehicle([model], tmp_path / "q.yaml", None, AS_GAZEBO)
    sensors = {one["kind"]: one for one in yaml.safe_load(made.path.read_text(encoding="utf-8"))["sensors"]}
    camera, sonar = sensors["payload_camera"], sensors["range_finder"]
    # Gazebo's pitch is about the left axis: a positive one looks down.
    assert camera["gimbal"]["pitch"] == pytest.approx([-math.degrees(0.5), math.degrees(1.0)], abs=1e-3)
    assert camera["field_of_view"] == pytest.approx(math.degrees(1.2), abs=1e-3)
    assert (sonar["rate"], sonar["minimum"], sonar["maximum"]) == (20.0, 0.03, 3.0)
    assert sonar["cone"] == pytest.approx(math.degrees(0.7), abs=1e-3)
    # Gazebo classic's GPS multiplies its densities by the root of the step, 4 ms.
    horizontal, vertical = 2e-4 * math.sqrt(0.004), 4e-4 * math.sqrt(0.004)
    noise = sensors["gps"]["position_noise"]["noise_deviation"]
    assert noise == pytest.approx([horizontal, horizontal, vertical], rel=1e-4)
    assert sensors["imu"]["gyroscope"] == {"noise_density": 0.0003}
    assert not made.left_out  # nor the gimbal's joints, which turn here, too


def test_the_vehicle_of_a_world_is_the_model_with_motors(tmp_path: Path) -> None:
    model = write_sdf(tmp_path, motors(GZ)).read_text(encoding="utf-8")
    ground = "<model name='ground'><link name='plane'/></model>"
    inner = model.removeprefix("<sdf version='1.9'>").removesuffix("</sdf>")
    world = tmp_path / "field.sdf"
    world.write_text(f"<sdf version='1.9'><world name='w'>{ground}{inner}</world></sdf>", encoding="utf-8")
    made = import_vehicle([world], tmp_path / "q.yaml", None, AS_GAZEBO)
    airframe = load_airframe(made.path)
    assert (airframe.name, len(airframe.rotors)) == ("quad", 4)


def test_speeds_in_a_unit_of_their_own_make_the_same_forces_in_rad_per_second(tmp_path: Path) -> None:
    """From 0 to 1, as MRS's models have them: thrusts, torques and drags of a command stay."""
    own = motors(GZ)
    for before, after in {
        "<maxRotVelocity>1000<": "<maxRotVelocity>1<",
        "8.0e-06": "8.0",  # N at full command
        "8.0e-05": "0.08",
    }.items():
        own = own.replace(before, after)
    airframe = load_airframe(
        import_vehicle([write_sdf(tmp_path, own)], tmp_path / "q.yaml", None, Choices(Path("/nowhere"))).path
    )
    motor, rotor = airframe.motor, airframe.rotor_model
    assert isinstance(motor, FirstOrderMotor)
    assert isinstance(rotor, CoefficientRotor)
    assert 500.0 < motor.speed_range < 2000.0
    assert rotor.thrust_c2 * motor.speed_range**2 == pytest.approx(8.0, rel=1e-4)
    assert rotor.drag == pytest.approx(0.08 / motor.speed_range, rel=1e-4)
    assert rotor.torque_thrust_ratio == 0.016


def test_a_top_speed_that_no_motor_has_is_not_that_of_full_command(tmp_path: Path) -> None:
    """gz's worlds have 8000 rad/s for their X3: 150 times its weight."""
    fast = motors(GZ).replace("<maxRotVelocity>1000<", "<maxRotVelocity>8000<")
    made = import_vehicle([write_sdf(tmp_path, fast)], tmp_path / "q.yaml", None, AS_GAZEBO)
    airframe = load_airframe(made.path)
    assert performance(airframe.record, 1.225, 9.80665).thrust_to_weight == pytest.approx(2.0, rel=0.1)
    assert "motor.speed_range" in made.estimated
    assert any("145 times the weight" in note for note in made.notes)


@pytest.mark.parametrize("file", [CLASSIC, GZ])
@pytest.mark.parametrize("axis", ["up", "roll", "pitch", "yaw"])
def test_as_gazebo_moves_within_a_percent_of_the_plug_ins_own_equations(
    tmp_path: Path, file: str, axis: str
) -> None:
    model = write_sdf(tmp_path, motors(file) + (channels() if file == CLASSIC else ""))
    airframe = load_airframe(import_vehicle([model], tmp_path / "q.yaml", None, AS_GAZEBO).path)
    plugin = Plugin(8.0e-6, 0.016, 8.0e-5, 0.02, 0.04, 2.0e-5 / 10.0, classic=file == CLASSIC)
    assert_moves_as_gazebo(airframe, plugin, axis)
