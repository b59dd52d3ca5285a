"""Statistics of the sensors in a log, of a log whose figures are known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from support.commands import run_command

from sitl_bridge.base.errors import UserError
from sitl_bridge.lab.validation.log_statistics import statistics
from sitl_bridge.record.ulog_writer import UlogWriter

FORMATS = {
    "vehicle_land_detected": ["uint64_t timestamp", "bool landed"],
    "vehicle_imu_status": [
        "uint64_t timestamp",
        "float accel_vibration_metric",
        "float gyro_vibration_metric",
    ],
    "vehicle_magnetometer": ["uint64_t timestamp", "float[3] magnetometer_ga"],
    "vehicle_gps_position": [
        "uint64_t timestamp",
        "float eph",
        "float epv",
        "uint8_t satellites_used",
    ],
    "battery_status": ["uint64_t timestamp", "float voltage_v", "float current_a"],
    "actuator_motors": ["uint64_t timestamp", "float[12] control"],
    "estimator_innovations": ["uint64_t timestamp", "float baro_vpos"],
    "estimator_innovation_variances": ["uint64_t timestamp", "float baro_vpos"],
}


def write(
    path: Path,
    seconds: int = 40,
    vibration: float = 5.0,
    resistance: float = 0.02,
    parameters: Mapping[str, float] | None = None,
) -> Path:
    """A log at 10 Hz of a flight from 5 s to 5 s before its end; on the ground all figures are others."""
    with UlogWriter(path, 0, FORMATS, list(FORMATS), parameters=parameters) as log:
        for k in range(10 * seconds):
            now, even = 1_000_000 + 100_000 * k, k % 2
            air = 50 <= k < 10 * seconds - 50
            current = 20.0 + 4.0 * math.sin(0.3 * k)
            rows: dict[str, list[float]] = {
                "vehicle_land_detected": [not air],
                "vehicle_imu_status": [vibration, 0.1] if air else [90.0, 9.0],
                "vehicle_magnetometer": [0.3, 0.4, 0.01 * even] if air else [9.0, 9.0, 9.0],
                "vehicle_gps_position": [0.5 + 0.02 * even, 0.85 + 0.034 * even, 14 + 2 * even],
                "battery_status": [16.0 - 0.01 * k - resistance * current, current],
                "actuator_motors": [0.5, 0.5, 0.6, 0.6, *[math.nan] * 8],
                "estimator_innovations": [0.3 if even else -0.3],
                "estimator_innovation_variances": [0.36],
            }
            for name, row in rows.items():
                log.write(name, now, *row)
        log.flush()
    return path


def test_a_rotor_s_line_stays_in_its_band_though_every_eighth_sample_is_missing(tmp_path: Path) -> None:
    formats = {
        "vehicle_land_detected": ["uint64_t timestamp", "bool landed"],
        "sensor_combined": ["uint64_t timestamp", "float[3] gyro_rad", "float[3] accelerometer_m_s2"],
    }
    random = np.random.default_rng(0)
    noise = 0.01 * random.normal(size=(7500, 3))
    with UlogWriter(tmp_path / "line.ulg", 0, formats, list(formats), parameters=None) as log:
        for k in range(7500):
            now, line = 1_000_000 + 4000 * k, math.sin(2.0 * math.pi * 95.0 * 0.004 * k)
            log.write("vehicle_land_detected", now, k < 250 or k > 7250)
            if random.random() > 0.125:
                log.write("sensor_combined", now, 0.0, 0.0, 0.01 * line, noise[k, 0] + line, *noise[k, 1:])
        log.flush()
    found = statistics(tmp_path / "line.ulg")
    assert found["acceleration, 80 to 100 Hz, m/s²"] == pytest.approx(math.sqrt(0.5 / 3.0), rel=0.03)
    assert found["angular velocity, 80 to 100 Hz, rad/s"] == pytest.approx(
        0.01 * math.sqrt(0.5 / 3.0), rel=0.03
    )
    white = found["acceleration, 20 to 40 Hz, m/s²"]
    assert white == pytest.approx(0.01 * math.sqrt(20.0 / 125.0), rel=0.25)


def test_a_line_that_stands_before_the_motors_turn_is_no_vibration(tmp_path: Path) -> None:
    formats = {
        "vehicle_land_detected": ["uint64_t timestamp", "bool landed"],
        "sensor_combined": ["uint64_t timestamp", "float[3] gyro_rad", "float[3] accelerometer_m_s2"],
        "actuator_motors": ["uint64_t timestamp", "float[12] control"],
        "vehicle_torque_setpoint": ["uint64_t timestamp", "float[3] xyz"],
        "ekf2_innovations": ["uint64_t timestamp", "float[6] vel_pos_innov", "float[6] vel_pos_innov_var"],
    }
    with UlogWriter(tmp_path / "still.ulg", 0, formats, list(formats), parameters=None) as log:
        for k in range(7500):
            now, turns = 1_000_000 + 4000 * k, 1250 <= k < 6750
            line, rotors = (
                math.sin(2.0 * math.pi * 50.0 * 0.004 * k),
                math.sin(2.0 * math.pi * 30.0 * 0.004 * k),
            )
            log.write("vehicle_land_detected", now, not turns)
            log.write("sensor_combined", now, 0.0, 0.0, 0.0, line + 0.1 * turns * rotors, 0.0, 0.0)
            if k % 5 == 0:
                log.write("actuator_motors", now, *[0.5 * turns] * 4, *[math.nan] * 8)
                slow, quick = (
                    math.sin(2.0 * math.pi * 0.1 * 0.004 * k),
                    math.sin(2.0 * math.pi * 2.0 * 0.004 * k),
                )
                log.write("vehicle_torque_setpoint", now, 0.0, 0.0, 0.1 * slow + 0.01 * quick)
                log.write("ekf2_innovations", now, 0.3, 0.0, 0.0, 0.2, *[0.0] * 2, *[0.36] * 3, *[0.25] * 3)
        log.flush()
    found = statistics(tmp_path / "still.ulg")
    assert found["acceleration, 40 to 60 Hz, m/s²"] == pytest.approx(0.0, abs=0.01)
    assert found["acceleration, 20 to 40 Hz, m/s²"] == pytest.approx(0.1 * math.sqrt(0.5 / 3.0), rel=0.05)
    assert found["yaw torque set-point: deviation above 0.5 Hz"] == pytest.approx(
        0.01 * math.sqrt(0.5), rel=0.05
    )
    assert found["innovation of GPS velocity, deviations"] == pytest.approx(0.5)
    assert found["innovation of GPS position, deviations"] == pytest.approx(0.4)


def test_each_statistic_is_that_of_the_time_in_the_air(tmp_path: Path) -> None:
    found = statistics(write(tmp_path / "flight.ulg"))
    expected = {
        "accelerometer: vibration metric, m/s²": 5.0,
        "gyroscope: vibration metric, rad/s": 0.1,
        "magnetic field: magnitude, G": 0.5 * (0.5 + math.hypot(0.5, 0.01)),
        "magnetic field: deviation of it, G": 0.5 * (math.hypot(0.5, 0.01) - 0.5),
        "receiver: eph, m": 0.51,
        "receiver: motion of eph, m": 0.01,
        "receiver: epv over eph": 1.7,
        "receiver: satellites": 15.0,
        "receiver: motion of satellites": 1.0,
        "innovation of the barometer, deviations": 0.5,
        "battery: sag, ohm": 0.02,
        "motors: unevenness of their signals": 0.05 / 0.55,
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=5e-3), name
    assert found["innovation of the heading, deviations"] is None


def test_motors_are_compared_by_their_signals_not_by_their_thrusts(tmp_path: Path) -> None:
    found = statistics(write(tmp_path / "flight.ulg", parameters={"THR_MDL_FAC": 1.0}))
    thrusts = np.sqrt([0.5, 0.6])  # thrust = signal^2 with a factor of 1
    expected = np.std(thrusts) / np.mean(thrusts)
    assert found["motors: unevenness of their signals"] == pytest.approx(expected, rel=1e-3)


def test_an_innovation_is_divided_by_the_deviation_of_its_time(tmp_path: Path) -> None:
    """Variances are logged half as often: 0.25 at first, later 1; the innovation is 1, later 2."""
    with UlogWriter(tmp_path / "log.ulg", 0, FORMATS, list(FORMATS)) as log:
        for k in range(400):
            now, late = 1_000_000 + 100_000 * k, k >= 200
            log.write("vehicle_land_detected", now, k < 50 or k >= 350)
            log.write("estimator_innovations", now, 2.0 if late else 1.0)
            if k % 2 == 0:
                log.write("estimator_innovation_variances", now + 4_000, 1.0 if late else 0.25)
        log.flush()
    found = statistics(tmp_path / "log.ulg")["innovation of the barometer, deviations"]
    assert found == pytest.approx(2.0, rel=0.01)


def test_a_log_that_is_no_flight_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"short\.ulg: is too short"):
        statistics(write(tmp_path / "short.ulg", seconds=15))
    with UlogWriter(tmp_path / "idle.ulg", 0, FORMATS, ["vehicle_land_detected"]) as log:
        log.write("vehicle_land_detected", 1_000_000, True)
        log.flush()
    with pytest.raises(UserError, match=r"idle\.ulg: is no flight"):
        statistics(tmp_path / "idle.ulg")


def test_the_command_sets_simulated_logs_beside_the_range_of_real_ones(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    write(real / "a.ulg", vibration=4.0)
    write(real / "short.ulg", seconds=15)
    simulated = write(tmp_path / "simulated.ulg", vibration=6.0, resistance=0.1)
    arguments = ["log-statistics", str(real), str(simulated)]
    refused = run_command(*arguments)
    assert isinstance(refused.exception, UserError)
    assert "a range needs two flights at least" in str(refused.exception)
    write(real / "b.ulg", vibration=8.0)
    result = run_command(*arguments)
    assert result.exit_code == 0, result.output
    assert "short.ulg: is too short" in result.output
    assert "| accelerometer: vibration metric, m/s² | 4 to 8 (2) | **6** |" in result.output
    assert "| battery: sag, ohm | 0.02 to 0.02 (2) | 0.1 |" in result.output


def test_logs_of_one_name_are_told_apart_by_their_directories(tmp_path: Path) -> None:
    for name in ("real", "one", "other"):
        (tmp_path / name).mkdir()
    for name in ("a", "b"):
        write(tmp_path / "real" / f"{name}.ulg")
    logs = [str(write(tmp_path / name / "flight.ulg")) for name in ("one", "other")]
    arguments = ["log-statistics", str(tmp_path / "real"), *logs]
    result = run_command(*arguments)
    assert "| | real | one/flight | other/flight |" in result.output
    arguments = ["log-statistics", str(tmp_path / "real"), logs[0], logs[0]]
    result = run_command(*arguments)
    assert "given twice" in str(result.exception)
