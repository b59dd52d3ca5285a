"""The built-in stack's log holds what the tools for PX4's logs read.

Fields are those that Flight Review's plots (configured_plots.py, helper.py), pyulog's ulog2kml and PX4's
Tools/ecl_ekf access without looking whether they are there; all three were run on such logs by hand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyulog import ULog
from pyulog.px4 import PX4ULog

from sitl_bridge.autopilot.stack import StackVehicle
from sitl_bridge.autopilot.stack_fleet import StackFleet
from sitl_bridge.autopilot.topic_log import formats, topics
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.geography import Projection
from sitl_bridge.core.world.world import World, WorldSpecification

NAN = math.nan
LATITUDE, LONGITUDE = 47.397742, 8.545594

FLIGHT_REVIEW = {
    "actuator_motors": ["control[0]", "control[11]"],
    "actuator_outputs": ["noutputs", "output[0]", "output[15]"],
    "battery_status": [
        *(
            "voltage_v",
            "current_a",
            "discharged_mah",
            "remaining",
            "internal_resistance_estimate",
            "cell_count",
        ),
    ],
    "estimator_status": [
        *("health_flags", "timeout_flags", "filter_fault_flags", "gps_check_fail_flags"),
        *("hdg_test_ratio", "vel_test_ratio", "pos_test_ratio", "hgt_test_ratio"),
    ],
    "position_setpoint_triplet": [
        "current.lat",
        "current.lon",
        "current.alt",
        "current.valid",
        "current.type",
    ],
    "sensor_baro": ["pressure", "temperature"],
    "sensor_combined": ["gyro_rad[0]", "accelerometer_m_s2[2]"],
    "vehicle_air_data": ["baro_alt_meter"],
    "vehicle_angular_velocity": ["xyz[0]"],
    "vehicle_attitude": ["q[0]"],
    "vehicle_attitude_setpoint": ["q_d[0]", "yaw_sp_move_rate", "thrust_body[2]"],
    "vehicle_global_position": ["lat", "lon", "alt"],
    "vehicle_gps_position": [
        *("latitude_deg", "longitude_deg", "altitude_msl_m", "fix_type", "eph", "epv", "hdop", "vdop"),
        *(
            "s_variance_m_s",
            "satellites_used",
            "noise_per_ms",
            "jamming_indicator",
            "time_utc_usec",
            "vel_m_s",
        ),
    ],
    "vehicle_local_position": ["x", "vz", "heading", "dist_bottom", "dist_bottom_valid"],
    "vehicle_local_position_setpoint": ["x", "vx"],
    "vehicle_magnetometer": ["magnetometer_ga[0]"],
    "vehicle_rates_setpoint": ["roll", "pitch", "yaw"],
    "vehicle_status": [
        *("is_vtol", "is_vtol_tailsitter", "vehicle_type", "in_transition_mode", "nav_state", "arming_state"),
    ],
    "vehicle_thrust_setpoint": ["xyz[2]"],
    "vehicle_torque_setpoint": ["xyz[0]"],
}
ECL_EKF = {
    "estimator_innovations": [
        *("gps_hvel[0]", "gps_vvel", "gps_hpos[1]", "gps_vpos", "baro_vpos", "heading", "mag_field[0]"),
        *("airspeed", "beta", "flow[1]", "hagl"),
    ],
    "estimator_innovation_variances": ["gps_hvel[0]", "baro_vpos", "heading", "mag_field[2]", "airspeed"],
    "estimator_sensor_bias": ["gyro_bias[0]", "accel_bias[2]"],
    "estimator_states": ["states[0]", "states[15]", "states[18]", "states[23]"],
    "estimator_status": [
        *("tas_test_ratio", "hagl_test_ratio", "accel_device_id", "pos_horiz_accuracy", "pos_vert_accuracy"),
        *("output_tracking_error[0]", "output_tracking_error[2]"),
    ],
    "estimator_status_flags": [
        *(
            "cs_tilt_align",
            "cs_yaw_align",
            "cs_gnss_pos",
            "cs_gnss_vel",
            "cs_ev_pos",
            "cs_opt_flow",
            "cs_in_air",
        ),
        *("cs_baro_hgt", "cs_gps_hgt", "cs_rng_hgt", "cs_ev_hgt", "cs_mag_hdg", "cs_mag_3d", "cs_mag_dec"),
        *("cs_wind", "reject_hor_vel", "reject_ver_vel", "reject_hor_pos", "reject_ver_pos", "reject_yaw"),
        *("reject_hagl", "reject_airspeed", "reject_sideslip", "reject_optflow_x", "reject_optflow_y"),
        *("fs_bad_mag_x", "fs_bad_mag_y", "fs_bad_mag_z"),
    ],
    "vehicle_land_detected": ["landed"],
}
INFORMATION = {"sys_name", "ver_hw", "ver_sw", "ver_sw_release", "ver_data_format", "time_ref_utc"}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a short flight: armed, up to 5 m, down again by a changed parameter."""
    path = tmp_path_factory.mktemp("log") / "flight.ulg"
    fleet = StackFleet(World(WorldSpecification()), [StackVehicle(load_airframe("iris"), name="a", log=path)])
    try:
        commander = fleet.pilots[0].commander
        while commander.arming_problems:
            fleet.advance()
        commander.parameters.set("MIS_TAKEOFF_ALT", 5.0)
        assert commander.command(22, [NAN] * 7, fleet.time) == 0
        assert commander.command(400, [1.0, *[NAN] * 6], fleet.time) == 0
        fleet.advance(200)
    finally:
        fleet.close()
    return path


@pytest.fixture(scope="module")
def log(path: Path) -> ULog:
    return ULog(str(path))


def table(log: ULog, name: str) -> Mapping[str, Any]:
    data: Mapping[str, Any] = log.get_dataset(name).data
    return data


@pytest.mark.parametrize("tool", [FLIGHT_REVIEW, ECL_EKF], ids=["Flight Review", "ecl_ekf"])
def test_a_tool_finds_its_fields(log: ULog, tool: dict[str, list[str]]) -> None:
    for topic, names in tool.items():
        data = table(log, topic)
        assert len(data["timestamp"]) > 0, topic
        assert [name for name in names if name not in data] == [], topic


def test_the_log_says_what_flew_and_when(log: ULog) -> None:
    assert set(log.msg_info_dict) >= INFORMATION
    assert log.msg_info_dict["ver_data_format"] == 2
    assert log.get_version_info() is not None
    assert log.initial_parameters["MAV_TYPE"] == 2
    assert PX4ULog(log).get_mav_type() == "Quadrotor"


def test_texts_and_changed_parameters_are_logged(log: ULog) -> None:
    texts = [message.message for message in log.logged_messages]
    assert any(text.startswith("Armed by") for text in texts)
    assert "Takeoff detected" in texts
    assert [(name, value) for _, name, value in log.changed_parameters] == [("MIS_TAKEOFF_ALT", 5.0)]


def test_values_are_those_of_the_flight(log: ULog) -> None:
    gps = table(log, "vehicle_gps_position")
    assert np.abs(gps["latitude_deg"] - LATITUDE).max() < 1e-4
    assert np.abs(gps["longitude_deg"] - LONGITUDE).max() < 1e-4
    assert set(gps["fix_type"]) == {3}
    force = table(log, "sensor_combined")["accelerometer_m_s2[2]"]
    assert np.median(force) == pytest.approx(-9.81, abs=0.2)
    height = -table(log, "vehicle_local_position")["z"]
    assert height.max() == pytest.approx(5.0, abs=0.5)
    assert table(log, "actuator_outputs")["noutputs"][-1] == 4
    assert table(log, "actuator_motors")["control[3]"].max() > 0.3
    wanted, flown = table(log, "vehicle_attitude_setpoint"), table(log, "vehicle_attitude")
    assert abs(wanted["q_d[0]"][-1]) == pytest.approx(abs(flown["q[0]"][-1]), abs=0.05)
    baro = table(log, "vehicle_air_data")["baro_alt_meter"]
    assert baro[-1] - baro[0] == pytest.approx(height[-1] - height[0], abs=1.0)
    field = [table(log, "vehicle_magnetometer")[f"magnetometer_ga[{axis}]"] for axis in range(3)]
    assert np.sqrt(sum(np.square(part) for part in field)).mean() == pytest.approx(0.48, abs=0.03)
    assert table(log, "battery_status")["discharged_mah"][-1] > 1.0


def test_the_true_place_far_away_is_that_of_the_worlds_frame(tmp_path: Path) -> None:
    file = tmp_path / "flight.ulg"
    fleet = StackFleet(World(WorldSpecification()), [StackVehicle(load_airframe("iris"), name="a", log=file)])
    reader, frame = fleet.pilots[0].reader, Projection.from_degrees(LATITUDE, LONGITUDE)
    try:
        commander = fleet.pilots[0].commander
        while commander.arming_problems:
            fleet.advance()
        assert commander.command(400, [1.0, *[NAN] * 6], fleet.time) == 0
        for position in ((0.0, 0.0, 0.0), (2000.0, 0.0, -5.0)):
            # As HIL_STATE_QUATERNION says it over a link.
            reader["truth_position"], reader["truth_time"] = frame.place(position), fleet.time
            fleet.advance(20)
    finally:
        fleet.close()
    truth = table(ULog(str(file)), "vehicle_local_position_groundtruth")
    # A plane that touches the Earth at the start is 0.31 m above it after 2 km.
    for name, value in (("x", 2000.0), ("y", 0.0), ("z", -5.0)):
        assert truth[name][-1] == pytest.approx(value, abs=0.02)


def test_every_topic_has_its_timestamp_first() -> None:
    assert all(formats()[name][0] == "uint64_t timestamp" for name in topics())
