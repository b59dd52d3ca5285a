"""A ULog's motor commands on an airframe reproduce the motion of the vehicle that flew them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.commands import run_command
from support.vehicle_logs import FORMATS, WIND, write_flight

from sitl_bridge.analysis.replay import estimator_replay
from sitl_bridge.analysis.replay.estimator_replay import run_estimator_replay, write_replay_files
from sitl_bridge.analysis.replay.vehicle_log import Series, read_vehicle_log, signals_of
from sitl_bridge.analysis.replay.vehicle_replay import replay_log
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.record.ulog_writer import UlogWriter


@pytest.mark.parametrize("commands", ["actuator_motors", "actuator_outputs"])
def test_the_vehicle_that_flew_is_reproduced_and_the_wind_is_found(tmp_path: Path, commands: str) -> None:
    frame = load_airframe("iris")
    log = read_vehicle_log(write_flight(tmp_path / "log.ulg", commands), 4)
    assert log.commands.rate == pytest.approx(250.0)
    result = replay_log(log, frame)
    assert result.wind == pytest.approx(WIND, abs=0.3)
    assert max(result.wind_error) < 0.3
    for error in result.errors:
        assert error.rms < {"rad/s": 0.02, "m/s^2": 0.1, "m/s": 0.05}[error.unit], error


def test_another_airframe_shows_larger_errors(tmp_path: Path) -> None:
    log = read_vehicle_log(write_flight(tmp_path / "log.ulg"), 4)
    frame = load_airframe("iris")
    heavy = frame.model_copy(update={"mass": 1.2 * frame.mass})
    down = {error.name: error.bias for error in replay_log(log, heavy, wind="none").errors}
    assert down["velocity down"] > 0.3  # a rotor that sinks gains thrust


def test_the_wind_of_the_log_is_taken_where_it_has_one(tmp_path: Path) -> None:
    log = read_vehicle_log(write_flight(tmp_path / "log.ulg", wind_topic=True), 4)
    result = replay_log(log, load_airframe("iris"))
    assert result.wind == pytest.approx(WIND)
    assert "log" in result.wind_source


def test_thrust_is_turned_into_the_signal_as_px4_does(tmp_path: Path) -> None:
    linear = read_vehicle_log(write_flight(tmp_path / "a.ulg"), 4)
    path = write_flight(tmp_path / "b.ulg", parameters={"THR_MDL_FAC": 0.8})
    curved = read_vehicle_log(path, 4)
    signal = curved.commands.values
    np.testing.assert_allclose(0.8 * signal**2 + 0.2 * signal, linear.commands.values, atol=1e-6)


def test_outputs_are_assigned_to_motors_by_their_functions(tmp_path: Path) -> None:
    plain = read_vehicle_log(write_flight(tmp_path / "a.ulg", "actuator_outputs"), 4)
    functions = {f"PWM_MAIN_FUNC{k + 1}": 104 - k for k in range(4)}
    path = write_flight(tmp_path / "b.ulg", "actuator_outputs", parameters=functions)
    turned = read_vehicle_log(path, 4)
    np.testing.assert_array_equal(turned.commands.values, plain.commands.values[:, ::-1])
    limits = {"PWM_MIN": 1100, "PWM_MAX": 1900}
    path = write_flight(tmp_path / "c.ulg", "actuator_outputs", parameters=limits)
    scaled = read_vehicle_log(path, 4)
    np.testing.assert_allclose(
        scaled.commands.values, np.clip((plain.commands.values * 1000.0 - 100.0) / 800.0, 0.0, 1.0), atol=1e-4
    )


def test_outputs_of_can_speed_controllers_are_scaled_and_those_of_a_gimbal_left_out(tmp_path: Path) -> None:
    """PX4 logs UAVCAN outputs as 0 to 8191 (src/drivers/uavcan/module.yaml)."""
    plain = read_vehicle_log(write_flight(tmp_path / "a.ulg", "actuator_outputs"), 4)
    can = read_vehicle_log(write_flight(tmp_path / "b.ulg", "actuator_outputs", output=(0.0, 8191.0)), 4)
    assert "UAVCAN" in can.source
    np.testing.assert_allclose(can.commands.values, plain.commands.values, atol=1e-4)
    lamp = {f"output[{k}]": np.full(50, 1500.0) for k in range(16)} | {"timestamp": np.arange(50) * 10_000}
    lamp["output[1]"] = np.linspace(1000.0, 1100.0, 50)
    assert signals_of({}, lamp, 2, 4) is None


def test_seldom_logged_commands_leave_rotation_as_measured(tmp_path: Path) -> None:
    """PX4's default of 10 Hz: the simulated vehicle would turn over within a window."""
    log = read_vehicle_log(write_flight(tmp_path / "log.ulg"), 4)
    seldom = Series(log.commands.time[::25], log.commands.values[::25])
    result = replay_log(replace(log, commands=seldom), load_airframe("iris"))
    assert not result.turning
    assert {error.unit for error in result.errors} == {"m/s^2", "m/s"}
    assert max(error.rms for error in result.errors if error.unit == "m/s") < 0.1
    assert result.wind == pytest.approx(WIND, abs=0.3)


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("vehicle_attitude", "topic vehicle_attitude is missing"),
        ("actuator_motors", "no motor commands of 4 motors"),
        ("vehicle_land_detected", "topic vehicle_land_detected is missing"),
    ],
)
def test_a_log_that_lacks_something_says_what(tmp_path: Path, missing: str, words: str) -> None:
    kept = [name for name in FORMATS if name not in (missing, "actuator_outputs")]
    path = write_flight(tmp_path / "log.ulg", topics=kept)
    with pytest.raises(UserError, match=words):
        read_vehicle_log(path, 4)
    result = run_command("replay", str(path))
    assert "name the airframe" in str(result.exception)


def test_files_that_are_no_log_or_end_early(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.ulg"
    foreign.write_bytes(b"\x00" * 500)
    with pytest.raises(UserError, match="cannot be read as a ULog"):
        read_vehicle_log(foreign, 4)
    whole = write_flight(tmp_path / "whole.ulg")
    cut = tmp_path / "cut.ulg"
    cut.write_bytes(whole.read_bytes()[: int(0.7 * whole.stat().st_size)])
    frame = load_airframe("iris")
    shorter = replay_log(read_vehicle_log(cut, 4), frame, wind="none")
    longer = replay_log(read_vehicle_log(whole, 4), frame, wind="none")
    assert 0 < shorter.windows < longer.windows
    data, middle = whole.read_bytes(), whole.stat().st_size // 2
    cut.write_bytes(data[:middle] + b"\xff" * 100 + data[middle + 100 :])
    arguments = ["replay", str(cut), "--airframe", "iris", "--wind", "none"]
    assert "cut.ulg: is damaged" in run_command(*arguments).output


def test_an_origin_that_is_not_on_earth_is_passed_over(tmp_path: Path) -> None:
    path = write_flight(tmp_path / "log.ulg")
    known = read_vehicle_log(path, 4).origin
    place = np.array([known[1]]).tobytes()
    data = path.read_bytes()
    last = data.rfind(place)
    path.write_bytes(data[:last] + np.array([2.1e23]).tobytes() + data[last + 8 :])
    assert read_vehicle_log(path, 4).origin == known


def test_a_log_whose_topic_has_no_timestamp_is_damaged(tmp_path: Path) -> None:
    path = write_flight(tmp_path / "log.ulg")
    data = path.read_bytes()
    path.write_bytes(
        data.replace(b"vehicle_attitude:uint64_t timestamp", b"vehicle_attitude:uint64_t timestump")
    )
    with pytest.raises(UserError, match=r"is missing, .*; the file is damaged"):
        read_vehicle_log(path, 4)


def test_a_log_that_px4_cannot_replay_says_what_to_record(tmp_path: Path) -> None:
    path = write_flight(tmp_path / "log.ulg")
    with pytest.raises(UserError, match=r"lacks ekf2_timestamps, .* SDLOG_PROFILE"):
        write_replay_files(path, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_px4_that_hangs_at_its_exit_has_replayed_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In lockstep nobody lets its time go on then: one of its threads may wait for another for ever."""
    monkeypatch.setattr(estimator_replay, "EXIT_LIMIT", 0.1)
    log = tmp_path / "log.ulg"
    topic = "vehicle_local_position"
    fields = ["uint64_t timestamp", "uint64_t timestamp_sample", *(f"float {axis}" for axis in "xyz")]
    with UlogWriter(log, 0, {topic: fields}, [topic]) as made:
        made.write(topic, 0, 0, 1.0, 2.0, 3.0)
    script = tmp_path / estimator_replay.SCRIPT
    copy = f"cp {log.name} 1_replayed.ulg"
    script.write_text(
        f"#!/bin/sh\ncd {tmp_path}\n{copy}; echo Replay done; echo closed logfile\nexec sleep 1000\n"
    )
    script.chmod(0o755)
    result = run_estimator_replay(log, tmp_path)
    assert (result.samples, result.largest) == (1, 0.0)
