"""What is said after a flight, checked on logs written here with deviations that are known."""

from __future__ import annotations

import io
import json
import math
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from support.vehicle_logs import read_flight

from sitl_bridge.analysis.evaluation.flight_record import TOPICS, FlightRecord
from sitl_bridge.analysis.evaluation.run_record import RecordedVehicle, RunRecord
from sitl_bridge.analysis.evaluation.summary import Outcome, summarise, warnings_of
from sitl_bridge.analysis.evaluation.verdict import FAILED, SUCCEEDED, Verdict, conclude
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import plain_values
from sitl_bridge.base.output_file import write_json, write_whole
from sitl_bridge.cli.flight_display import show
from sitl_bridge.link.px4.startup import LOGGED
from sitl_bridge.link.px4.vehicle_status import VehicleMessage

START = 1_000.0  # s on PX4's clock
HOME = (47.397742, 8.545594, 488.0)
METRE = 180 / math.pi / 6_371_000.0  # deg of latitude a metre


class LogWriter:
    """Writes ULog files (PX4 user guide, "ULog File Format"): formats, subscriptions, data, texts."""

    def __init__(self) -> None:
        self.definitions = b""
        self.data = b""
        self.ids: dict[str, tuple[int, list[str]]] = {}

    @staticmethod
    def message(kind: bytes, content: bytes) -> bytes:
        return struct.pack("<H", len(content)) + kind + content

    def add(self, topic: str, seconds: Any, **columns: Any) -> None:
        """One topic whole: times in s, one column a field (all float64)."""
        names = [name.replace("__", ".").replace("_at_", "[") for name in columns]
        if topic not in self.ids:
            plain: list[str] = []
            for name in names:
                base = name.split("[")[0]
                if base not in plain:
                    plain.append(base)
            sizes = {base: sum(name.split("[")[0] == base for name in names) for base in plain}
            nested = {base.split(".")[0] for base in plain if "." in base}
            fields = ["uint64_t timestamp"]
            for base in plain:
                if "." not in base:
                    count = sizes[base]
                    fields.append(f"double[{count}] {base}" if count > 1 else f"double {base}")
            for outer in sorted(nested):
                inner = [f"double {base.split('.')[1]}" for base in plain if base.startswith(outer + ".")]
                self.definitions += self.message(b"F", f"{topic}_{outer}:{';'.join(inner)};".encode())
                fields.append(f"{topic}_{outer} {outer}")
            self.definitions += self.message(b"F", f"{topic}:{';'.join(fields)};".encode())
            self.ids[topic] = (len(self.ids), names)
            self.data += self.message(b"A", struct.pack("<BH", 0, self.ids[topic][0]) + topic.encode())
        table = np.broadcast_arrays(
            np.asarray(seconds, float), *[np.asarray(c, float) for c in columns.values()]
        )
        for row in zip(*table, strict=True):
            content = struct.pack("<HQ", self.ids[topic][0], round(row[0] * 1e6))
            self.data += self.message(b"D", content + struct.pack(f"<{len(row) - 1}d", *row[1:]))

    def say(self, seconds: float, level: int, text: str) -> None:
        content = struct.pack("<BQ", ord("0") + level, round(seconds * 1e6)) + text.encode()
        self.data += self.message(b"L", content)

    def write(self, path: Path) -> Path:
        header = b"ULog\x01\x12\x35\x01" + struct.pack("<Q", round(START * 1e6))
        flags = self.message(b"B", bytes(40))
        path.write_bytes(header + flags + self.definitions + self.data)
        return path


def flight(way: Any, modes: list[tuple[float, int]], *, truth: Any = None) -> LogWriter:
    """A log of a flight from 10 s to 90 s: ``way(t)`` gives north, east, down at times (k,)."""
    log = LogWriter()
    time = np.arange(0.0, 100.0, 0.02)
    north, east, down = way(time)
    rates = [np.gradient(values, time) for values in (north, east, down)]
    reference = {"ref_timestamp": 1.0, "ref_lat": HOME[0], "ref_lon": HOME[1], "ref_alt": HOME[2]}
    log.add(
        "vehicle_local_position",
        START + time,
        x=north,
        y=east,
        z=down,
        vx=rates[0],
        vy=rates[1],
        vz=rates[2],
        **reference,
    )
    landed = np.array([1.0, 0.0, 1.0])
    log.add("vehicle_land_detected", START + np.array([0.0, 10.0, 90.0]), landed=landed)
    stamps = np.array([t for t, _ in modes])
    nav, zeros = [m for _, m in modes], np.zeros(len(modes))
    log.add("vehicle_status", START + stamps, nav_state=nav, arming_state=zeros + 2, failsafe=zeros)
    if truth is not None:
        north, east, down = truth(time)
        log.add("vehicle_local_position_groundtruth", START + time, x=north, y=east, z=down, **reference)
    return log


def triplet(log: LogWriter, seconds: list[float], previous: Any, current: Any) -> None:
    def columns(which: str, points: Any) -> dict[str, Any]:
        p = np.asarray(points, float)
        return {
            f"{which}__lat": HOME[0] + p[:, 0] * METRE,
            f"{which}__lon": HOME[1] + p[:, 1] * METRE / math.cos(math.radians(HOME[0])),
            f"{which}__alt": HOME[2] - p[:, 2],
            f"{which}__valid": np.ones(len(p)),
        }

    # Nested records follow one another in the order of their names.
    log.add(
        "position_setpoint_triplet",
        START + np.array(seconds),
        **columns("current", current),
        **columns("previous", previous),
    )


def hovering(offset: tuple[float, float, float]) -> Any:
    def way(time: Any) -> tuple[Any, Any, Any]:
        up = np.clip(time - 10.0, 0.0, 5.0) - np.clip(time - 85.0, 0.0, 5.0)
        ones = np.ones_like(time)
        return offset[0] * ones, offset[1] * ones, -up + offset[2] * (up > 0)

    return way


@pytest.fixture
def hover(tmp_path: Path) -> FlightRecord:
    log = flight(hovering((0.3, 0.4, 0.0)), [(0.0, 4), (85.0, 18)], truth=hovering((0.0, 0.0, 0.0)))
    triplet(log, [9.0], [[0.0, 0.0, -5.0]], [[0.0, 0.0, -5.0]])
    log.say(START + 20.0, 4, "[commander] Strong wind\t")
    log.say(START + 21.0, 6, "[commander] Takeoff detected")
    return read_flight(log.write(tmp_path / "hover.ulg"))


@pytest.mark.parametrize(("name", "width"), [("a" * 200 + "/long.py", 80), ("b" * 30, 40), ("short.py", 80)])
def test_the_headline_shows_its_verdict_however_long_the_name(name: str, width: int) -> None:
    console = Console(width=width, file=io.StringIO())
    show(console, Outcome(name, "iris", True), None, [], Verdict(SUCCEEDED))
    file = console.file
    assert isinstance(file, io.StringIO)
    title = file.getvalue().splitlines()[0]
    assert ": succeeded" in title
    assert title.startswith("╭─ " + name[:8])


def test_a_flight_is_measured_from_takeoff_to_landing(hover: FlightRecord) -> None:
    assert hover.air_time == pytest.approx(80.0)
    assert hover.max_height == pytest.approx(5.0, abs=0.05)
    assert hover.max_speed == pytest.approx(1.0, abs=0.01)
    assert hover.distance == pytest.approx(10.0, abs=0.2)
    assert dict(hover.modes) == pytest.approx({"Hold": 75.0, "Land": 5.0})


def test_hover_deviation_is_that_of_the_estimate_and_beside_it_that_of_the_truth(hover: FlightRecord) -> None:
    assert hover.deviations["hold"].rms == pytest.approx(0.5, abs=0.01)
    assert hover.true_deviations["hold"].rms == pytest.approx(0.0, abs=0.01)
    assert hover.estimate_error is not None
    assert hover.estimate_error.rms == pytest.approx(0.5, abs=0.01)
    # 5 m up at 1 m/s, near after 4 s, settled 5 s later.
    assert hover.deviations["hold"].seconds == pytest.approx(85.0 - 10.0 - 4.2 - 5.0, abs=0.5)


def test_mission_legs_are_measured_across_the_track_and_over_both_sides_of_a_corner(tmp_path: Path) -> None:
    # North for 40 m and then east for 40 m, 0.7 m beside both legs, turning 2 m before the corner.
    def way(time: Any) -> tuple[Any, Any, Any]:
        along = np.clip(time - 20.0, 0.0, 40.0)
        beyond = np.clip(time - 58.0, 0.0, 40.0)
        north = np.where(time < 58.0, along, 38.0 + np.clip(time - 58.0, 0.0, 2.7))
        return north, 0.7 + beyond, np.where((time > 10.0) & (time < 90.0), -10.0, 0.0)

    log = flight(way, [(0.0, 3)])
    corners = [[0.0, 0.0, -10.0], [40.0, 0.0, -10.0], [40.0, 40.0, -10.0]]
    triplet(log, [15.0, 58.0], corners[:2], corners[1:])
    record = read_flight(log.write(tmp_path / "legs.ulg"))
    legs = record.deviations["mission legs"]
    assert legs.mean == pytest.approx(0.7, abs=0.15)
    assert legs.max < 2.0  # not the 2 m to the corner that was cut
    assert np.isfinite(record.reference).any()


def test_offboard_setpoints_that_move_are_followed_between_logged_ones_and_steps_are_not_held_against_it(
    tmp_path: Path,
) -> None:
    def way(time: Any) -> tuple[Any, Any, Any]:
        moved = np.clip(time - 30.0, 0.0, 30.0) - 0.25 * (time > 31.0) * (time < 60.0)
        return moved, np.zeros_like(time), np.where((time > 10.0) & (time < 90.0), -5.0, 0.0)

    log = flight(way, [(0.0, 14)])
    stamps = np.arange(9.0, 80.0, 0.2)
    moving = (stamps >= 30.0) & (stamps < 60.0)
    log.add(
        "trajectory_setpoint",
        START + stamps,
        position_at_0=np.clip(stamps - 30.0, 0.0, 30.0),
        position_at_1=np.zeros_like(stamps),
        position_at_2=np.full_like(stamps, -5.0),
        velocity_at_0=np.where(moving, 1.0, np.nan),
        velocity_at_1=np.where(moving, 0.0, np.nan),
        velocity_at_2=np.where(moving, 0.0, np.nan),
    )
    record = read_flight(log.write(tmp_path / "offboard.ulg"))
    assert record.deviations["offboard position"].max == pytest.approx(0.25, abs=0.03)
    assert "offboard velocity" not in record.deviations


def test_failsafes_and_rejected_measurements_are_what_went_wrong(tmp_path: Path) -> None:
    log = flight(hovering((0.0, 0.0, 0.0)), [(0.0, 4)])
    stamps = START + np.array([40.0, 60.0])
    log.add("vehicle_status", stamps, nav_state=[4, 5], arming_state=[2, 2], failsafe=[1.0, 1.0])
    log.add(
        "failsafe_flags",
        START + np.array([5.0, 20.0, 39.5, 60.0]),
        manual_control_signal_lost=[1, 1, 1, 1],
        battery_warning=[0, 1, 2, 2],  # a warning is no failsafe yet
        offboard_control_signal_lost=[0, 0, 0, 1],
        mode_req_attitude=[0, 1, 0, 1],
    )
    moments = np.arange(0.0, 100.0, 1.0)
    zeros = np.zeros_like(moments)
    log.add(
        "estimator_status_flags",
        START + moments,
        reject_hor_pos=np.where((moments >= 30) & (moments < 38), 1.0, 0.0),
        reject_yaw=np.where(moments < 14, 1.0, 0.0),  # near the ground only
    )
    log.add(
        "estimator_status",
        START + moments,
        hdg_test_ratio=zeros,
        vel_test_ratio=np.where(moments < 70, 0.6, 0.1),
        pos_test_ratio=np.full_like(moments, 0.2),
        hgt_test_ratio=zeros,
        filter_fault_flags=zeros,
        output_tracking_error_at_0=zeros,
        output_tracking_error_at_1=np.full_like(moments, 0.06),
        output_tracking_error_at_2=zeros,
    )
    record = read_flight(log.write(tmp_path / "bad.ulg"))
    assert record.failsafes == [
        (START + 40.0, "battery warning"),
        (START + 60.0, "offboard control signal lost"),
    ]
    (estimator,) = record.estimators
    assert estimator.begin == START + 30.0
    assert estimator.rejected == {"horizontal position": pytest.approx(10.0)}
    assert estimator.failures == (
        "horizontal position rejected in 10.0 % of the flight",
        "velocity test ratio above 0.5 in 75 % of the flight",
    )
    assert estimator.warnings == ("output velocity error, m/s: median 0.06, above 0.05",)
    run = RunRecord(tmp_path, "bad", vehicles=[RecordedVehicle("0", record=record)])
    verdict, _ = conclude(run, {})
    assert "failsafe: battery warning" in verdict.reasons
    assert "estimator 0: horizontal position rejected in 10.0 % of the flight" in verdict.reasons


def test_rejections_are_those_of_px4s_innovation_tests_where_they_are_logged(tmp_path: Path) -> None:
    log = flight(hovering((0.0, 0.0, 0.0)), [(0.0, 4)])
    moments = np.arange(0.0, 100.0, 0.2)
    zeros = np.zeros_like(moments)
    status = ("hdg_test_ratio", "vel_test_ratio", "pos_test_ratio", "hgt_test_ratio", "filter_fault_flags")
    tracking = (f"output_tracking_error_at_{i}" for i in range(3))
    log.add("estimator_status", START + moments, **dict.fromkeys((*status, *tracking), zeros))
    log.add("estimator_status_flags", START + moments, reject_hor_pos=zeros)
    for name, rejected in {
        "gnss_pos": (moments >= 30) & (moments < 38),
        "baro_hgt": (moments >= 40) & (moments < 40.1),
        "ev_pos": moments >= 0,  # never fused
    }.items():
        heard = (name != "baro_hgt") | (moments < 40.1) | (moments > 55)  # silent after its rejection
        log.add(
            f"estimator_aid_src_{name}",
            START + moments[heard],
            estimator_instance=zeros[heard],
            innovation_rejected=1.0 * rejected[heard],
            fused=1.0 * ~rejected[heard],
        )
    (estimator,) = read_flight(log.write(tmp_path / "rejected.ulg")).estimators
    assert estimator.rejected == {
        "GNSS position": pytest.approx(10.0),
        "barometric height": pytest.approx(1.8, abs=0.1),
    }
    assert estimator.failures == ("GNSS position rejected in 10.0 % of the flight",)


def test_vehicles_of_a_fleet_log_what_a_flight_is_judged_by() -> None:
    assert TOPICS.keys() <= LOGGED.keys()


def test_warnings_of_link_and_log_are_told_once(hover: FlightRecord) -> None:
    heard = [
        VehicleMessage(START + 20.1, 4, "Strong wind"),
        VehicleMessage(START + 40.0, 6, "Landing"),
        VehicleMessage(START + 60.0, 2, "Motor failure"),
        VehicleMessage(START + 1.0, 2, "Preflight Fail: ekf2 missing data"),
    ]
    found = [(round(t - START), level, text) for t, level, text in warnings_of(hover, heard)]
    assert found == [(20, "warning", "Strong wind"), (60, "critical", "Motor failure")]
    waited = warnings_of(None, [VehicleMessage(START, 3, "poll timeout 0, 22")])
    assert "busy machine" in waited[0][2]


def test_a_vehicle_that_never_flew_is_told_so(tmp_path: Path) -> None:
    log = LogWriter()
    log.add("vehicle_land_detected", START + np.array([0.0, 50.0]), landed=np.array([1.0, 1.0]))
    record = read_flight(log.write(tmp_path / "ground.ulg"))
    assert record.air_time == 0.0
    console = Console(width=100, record=True, file=io.StringIO())
    verdict = Verdict(FAILED, ("PX4 refuses to arm",))
    outcome = Outcome("m.py", "iris", False, "PX4 refuses to arm", impact_speed=0.0)
    show(console, outcome, record, [], verdict)
    text = console.export_text()
    assert "Touchdown" not in text
    assert "never left the ground" in text
    assert "PX4 refuses to arm" in text
    assert "failed" in text


def test_a_file_that_is_no_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.ulg"
    path.write_bytes(b"not a log")
    with pytest.raises(UserError, match="cannot be read as a ULog"):
        read_flight(path)


def test_a_log_cut_off_by_a_crash_is_read_as_far_as_it_goes(hover: FlightRecord, tmp_path: Path) -> None:
    whole = hover.path.read_bytes()
    cut = tmp_path / "cut.ulg"
    # The position topic comes first in the file and is the greatest part of it.
    cut.write_bytes(whole[: len(whole) // 3])
    assert len(read_flight(cut).estimate) > 0


def test_summary_json_has_null_for_what_is_unknown(hover: FlightRecord, tmp_path: Path) -> None:
    outcome = Outcome("hover.py", "iris", True, logs={"ground truth": tmp_path / "truth.npy"})
    path = tmp_path / "summary.json"
    write_json(path, plain_values(summarise(outcome, hover, [])))
    data = json.loads(path.read_text())
    assert data["impact_speed"] is None
    assert data["flight"]["deviations"]["hold"]["rms"] == pytest.approx(0.5, abs=0.01)


def test_a_path_that_is_no_utf_8_stands_in_summary_and_report(tmp_path: Path) -> None:
    place = os.fsdecode(b"l\xe4ufe/truth.npy")
    write_json(tmp_path / "summary.json", plain_values({"logs": {"ground truth": place}}))
    assert json.loads((tmp_path / "summary.json").read_bytes())["logs"]["ground truth"] == place
    write_whole(tmp_path / "report.html", place)
    assert (tmp_path / "report.html").read_text() == "l?ufe/truth.npy"
