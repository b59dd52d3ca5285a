"""Airframes that are based on another: sections merge field by field, sensors by kind and instance."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.airframe_texts import write_based
from support.paths import AIRFRAMES

from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.core.dynamics.rotor import CoefficientRotor
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import inheritance, load_airframe
from sitl_bridge.core.vehicle.propellers import propellers_of_size
from sitl_bridge.link.px4.airframe_parameters import parameters_for

SOURCE = 'sources: {motor: "derived: for a test", sensors: "derived: for a test"}\n'


def faults_of(file: Path) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        load_airframe(file)
    return caught.value.faults


def sensors_of(airframe: Airframe) -> list[tuple[str, int]]:
    return [(sensor.kind, sensor.instance) for sensor in airframe.sensors]


def figures(airframe: Airframe) -> dict[str, Any]:
    kept = airframe.model_dump(mode="json", by_alias=True)
    for own in ("name", "description", "sources"):
        del kept[own]
    return kept


def test_iris_rtk_is_the_iris_but_for_its_receiver() -> None:
    rtk, iris = figures(load_airframe("iris_rtk")), figures(load_airframe("iris"))
    written = yaml.safe_load((AIRFRAMES / "iris_rtk.yaml").read_text(encoding="utf-8"))
    assert [sensor["kind"] for sensor in written["sensors"]] == ["gps"]
    at = [sensor["kind"] for sensor in iris["sensors"]].index("gps")
    receiver = iris["sensors"][at] | {
        "position_correlation_time": 0.455,
        "eph": 0.01,
        "epv": 0.01,
        "satellites": 24,
        "fix": 6,
    }
    receiver["velocity"] = receiver["velocity"] | {"noise_deviation": 0.0325}
    receiver["position_noise"] = receiver["position_noise"] | {"noise_deviation": [0.0, 0.0, 0.012]}
    iris["sensors"][at] = receiver
    assert rtk == iris


def test_a_section_is_merged_field_by_field(tmp_path: Path) -> None:
    airframe = load_airframe(write_based(tmp_path, SOURCE + "motor: {speed_range: 900}\n"))
    iris = load_airframe("iris")
    assert airframe.motor == iris.motor.model_copy(update={"speed_range": 900.0})


def test_a_section_of_another_kind_is_replaced_whole(tmp_path: Path) -> None:
    motor = "motor: {kind: dc, flux: 0.01, resistance: 0.2, inertia: 3.0e-5, alpha: 1.0, beta: 1.0}\n"
    assert load_airframe(write_based(tmp_path, SOURCE + motor)).motor.kind == "dc"


def test_one_sensor_is_changed_by_kind_and_instance(tmp_path: Path) -> None:
    text = "sensors: [{kind: imu, instance: 2, accelerometer: {noise_density: 0.01}}]\n"
    airframe = load_airframe(write_based(tmp_path, SOURCE + text, "iris_full"))
    full = load_airframe("iris_full")
    assert sensors_of(airframe) == sensors_of(full)
    at = sensors_of(full).index(("imu", 2))
    changed: Any = airframe.sensors[at]
    before: Any = full.sensors[at]
    error = before.accelerometer.model_copy(update={"noise_density": 0.01})
    assert changed == before.model_copy(update={"accelerometer": error})
    assert airframe.sensors[:at] == full.sensors[:at]


def test_a_sensor_of_the_base_is_removed(tmp_path: Path) -> None:
    text = "sensors: [{kind: imu, instance: 1, remove: true}, {kind: airspeed, remove: true}]\n"
    airframe = load_airframe(write_based(tmp_path, text, "iris_full"))
    left = [key for key in sensors_of(load_airframe("iris_full")) if key not in (("imu", 1), ("airspeed", 0))]
    assert sensors_of(airframe) == left


@pytest.mark.parametrize(
    ("sensor", "told"),
    [
        ("{kind: gps, instance: 3, remove: true}", "the base has no such sensor to remove"),
        ("{kind: gps, remove: 1}", "remove must be true"),
        ("{kind: gps, rate: 4, remove: true}", "takes no other fields"),
    ],
)
def test_a_faulty_removal_is_told_with_its_line(tmp_path: Path, sensor: str, told: str) -> None:
    file = write_based(tmp_path, f"sensors:\n  - {sensor}\n")
    (fault,) = faults_of(file)
    assert fault.startswith("line 5: sensors")
    assert told in fault


def test_a_fault_of_a_changed_sensor_is_told_at_its_own_line(tmp_path: Path) -> None:
    file = write_based(tmp_path, SOURCE + "sensors:\n  - kind: barometer\n    rate: -3\n")
    (fault,) = faults_of(file)
    assert fault.startswith("line 7: sensors[2].rate: Input should be greater than")


def test_the_same_sensor_given_twice_is_refused(tmp_path: Path) -> None:
    file = write_based(tmp_path, SOURCE + "sensors:\n  - {kind: gps, rate: 4}\n  - {kind: gps, rate: 3}\n")
    assert any("gps 0 exists already" in fault for fault in faults_of(file))


FOUR_FIFTY = """
rotors:
  - {position: [0.159, 0.159, -0.05], direction: ccw}
  - {position: [-0.159, -0.159, -0.05], direction: ccw}
  - {position: [0.159, -0.159, -0.05], direction: cw}
  - {position: [-0.159, 0.159, -0.05], direction: cw}
"""


def test_rotors_of_its_own_give_an_allocation_of_its_own_in_metres(tmp_path: Path) -> None:
    told = parameters_for(load_airframe(write_based(tmp_path, FOUR_FIFTY, "x500")))
    assert [told[f"CA_ROTOR{i}_PX"] for i in range(4)] == [0.159, -0.159, 0.159, -0.159]
    assert [told[f"CA_ROTOR{i}_PY"] for i in range(4)] == [0.159, -0.159, -0.159, 0.159]
    assert {told[f"CA_ROTOR{i}_PZ"] for i in range(4)} == {-0.05}
    # torque_thrust_ratio of the x500's rotors
    assert [told[f"CA_ROTOR{i}_KM"] for i in range(4)] == pytest.approx([0.0143, 0.0143, -0.0143, -0.0143])


def test_an_allocation_in_the_file_itself_is_kept(tmp_path: Path) -> None:
    text = FOUR_FIFTY + (
        "px4: {allocation: {moment_ratio: 0.04,"
        " positions: [[0.1, 0.2], [-0.1, -0.2], [0.1, -0.2], [-0.1, 0.2]]}}"
        '\nsources: {px4.allocation: "derived: for a test"}\n'
    )
    told = parameters_for(load_airframe(write_based(tmp_path, text, "x500")))
    assert (told["CA_ROTOR0_PX"], told["CA_ROTOR0_PY"], told["CA_ROTOR0_KM"]) == (0.1, 0.2, 0.04)


def test_what_the_rotors_do_not_change_keeps_the_allocation_of_the_base(tmp_path: Path) -> None:
    assert (
        load_airframe(write_based(tmp_path, "mass: 1.8\n")).px4.allocation
        == load_airframe("iris").px4.allocation
    )


def test_gains_limits_and_thrust_follow_from_the_file_not_from_parameters_of_the_base(tmp_path: Path) -> None:
    tuned = tmp_path / "tuned.yaml"
    tuned.write_text(
        "base: iris\nname: tuned\ndescription: tuned in flight\n"
        "px4: {parameters: {MC_ROLLRATE_K: 0.31, MPC_THR_HOVER: 0.44, MPC_XY_VEL_MAX: 7, SDLOG_PROFILE: 3}}",
        encoding="utf-8",
    )
    file = write_based(tmp_path, "mass: 1.1\ninertia: {xx: 0.031}\n", "tuned")
    given = load_airframe(file).px4
    assert (given.parameters, given.airframe) == ({"SDLOG_PROFILE": 3}, None)
    assert load_airframe(write_based(tmp_path, "ground_effect: false\n", "tuned")).px4.parameters == {
        "MC_ROLLRATE_K": 0.31, "MPC_THR_HOVER": 0.44, "MPC_XY_VEL_MAX": 7, "SDLOG_PROFILE": 3,
    }  # fmt: skip


def test_a_description_follows_from_the_base(tmp_path: Path) -> None:
    file = tmp_path / "light.yaml"
    file.write_text("base: x500\nname: light\nmass: 1.8\n", encoding="utf-8")
    assert load_airframe(file).description == "x500, changed"


def test_it_is_known_what_is_still_the_bases(tmp_path: Path) -> None:
    taken = inheritance(
        write_based(tmp_path, "mass: 1.2\nrotor_model: {radius: 0.12}\n" + FOUR_FIFTY, "x500")
    )
    assert taken is not None
    assert (taken.base, taken.mass) == ("x500", 1.708)
    assert {"inertia", "rotor_model.thrust_c2", "rotor_model.inertia", "battery", "motor"} <= set(taken.kept)
    assert not {"mass", "rotors", "rotor_model.radius", "px4"} & set(taken.kept)
    assert {"px4.allocation", "px4.airframe", "px4.parameters.MC_ROLLRATE_P"} <= set(taken.computed)
    assert inheritance("x500") is None


def test_a_propeller_is_named_by_its_size(tmp_path: Path) -> None:
    # UIUC Propeller Data Site, apcsf_10x4.7_static_kt0835.txt: C_T 0.1274, C_P 0.0531 at 6528 rpm;
    # gwssf_10x4.7_static_jb0875.txt the other.  T/w^2 = C_T rho D^4/(2 pi)^2, Q/T = C_P D/(2 pi C_T).
    model = load_airframe(write_based(tmp_path, "rotor_model: {propeller: 10x4.5}\n", "hector")).rotor_model
    assert isinstance(model, CoefficientRotor)
    assert model.radius == pytest.approx(0.127)
    slow_flyer = 0.1274 * 1.225 * 0.254**4 / (2.0 * math.pi) ** 2
    assert model.thrust_c2 == pytest.approx(slow_flyer, rel=0.06)
    assert model.torque_thrust_ratio == pytest.approx(0.0531 * 0.254 / (2.0 * math.pi * 0.1274), rel=0.03)
    assert (model.thrust_c1, model.thrust_b1, model.torque_g1) == (0.0, 0.0, 0.0)


def test_a_figure_of_the_file_counts_more_than_that_of_its_propeller(tmp_path: Path) -> None:
    text = (
        'sources: {rotor_model.thrust_c2: "thrust stand"}\n'
        "rotor_model: {propeller: 10x4.5, thrust_c2: 1.5e-5}\n"
    )
    airframe = load_airframe(write_based(tmp_path, text))
    assert isinstance(airframe.rotor_model, CoefficientRotor)
    assert airframe.rotor_model.thrust_c2 == 1.5e-5
    assert airframe.source("rotor_model.thrust_c2") == "thrust stand"
    assert "apcsf_10x4.7_static_kt0835" in airframe.source("rotor_model.radius")


def test_the_scatter_over_makers_is_stated() -> None:
    nine_by_four = propellers_of_size("9x4")
    assert len(nine_by_four.tests) == 8
    # C_T from 0.069 (Graupner CAM) to 0.103 (APC Slow Flyer 9x3.8)
    assert "C_T 0.0859 +- 14%" in nine_by_four.scatter()
    assert "no scatter is known" in propellers_of_size("7x4").scatter()


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ("10x12", "no propeller of 10x12 is measured; the nearest are 10x10, "),
        ("1045", "'1045' is not a size: give diameter x pitch in inches, as in 10x4.5"),
    ],
)
def test_a_size_that_is_not_measured_is_refused_with_the_nearest(
    tmp_path: Path, size: str, said: str
) -> None:
    (fault,) = faults_of(write_based(tmp_path, f"rotor_model: {{propeller: {size}}}\n"))
    assert fault.startswith(f"line 4: rotor_model.propeller: {said}")


def test_a_suite_gives_all_sensors_and_their_sources_and_replaces_those_of_the_base(tmp_path: Path) -> None:
    suite = load_airframe(write_based(tmp_path, "sensors: pixhawk_6x"))
    iris = load_airframe("iris")
    assert [sensor.kind for sensor in suite.sensors] == [sensor.kind for sensor in iris.sensors]
    assert "ICM-42688-P" in suite.source("sensors.imu.accelerometer.noise_density")
    assert "Gazebo" not in suite.source("sensors.gps.velocity")
    clean = load_airframe(write_based(tmp_path, "sensors: ideal", base="x500"))
    assert clean.sensors == iris.sensors
    taken = inheritance(write_based(tmp_path, "sensors: pixhawk_6x"))
    assert taken is not None
    assert not [path for path in taken.kept if path.startswith("sensors")]


def test_a_suite_of_ones_own_stands_beside_the_file_and_its_faults_are_told(tmp_path: Path) -> None:
    (tmp_path / "sensors").mkdir()
    own = tmp_path / "sensors" / "mine.yaml"
    text = (AIRFRAMES / "sensors" / "ideal.yaml").read_text(encoding="utf-8")
    own.write_text(text.replace("satellites: 10", "satellites: 20"), encoding="utf-8")
    assert load_airframe(write_based(tmp_path, "sensors: mine")).sensors[3].model_dump()["satellites"] == 20
    airframe = write_based(tmp_path, "sensors: mine")
    for old, new, place in (
        ("description:", "describes:", "line 1: describes: unknown field"),
        (
            "latency: 0.12",
            "latency: -1",
            "line 26: sensors[3].latency: Input should be greater than or equal",
        ),
        (
            "  sensors.battery:",
            "  sensors.batery:",
            "line 12: sources.sensors.batery: no figure has this path",
        ),
    ):
        own.write_text(text.replace(old, new), encoding="utf-8")
        with pytest.raises(ConfigurationError) as caught:
            load_airframe(airframe)
        assert caught.value.source == str(own)
        assert [fault for fault in caught.value.faults if fault.startswith(place)]
    (fault,) = faults_of(write_based(tmp_path, "sensors: pixhawk"))
    assert "no sensor suite is called 'pixhawk'" in fault
    assert "pixhawk_6x" in fault
