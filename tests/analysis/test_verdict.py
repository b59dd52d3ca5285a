"""One verdict: a flight is judged at its end, and everything that shows it shows that verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.run_directories import make_run

from sitl_bridge.analysis.evaluation.estimator_health import rejection_in_words
from sitl_bridge.analysis.evaluation.flight_record import Estimator
from sitl_bridge.analysis.evaluation.run_changes import stalls
from sitl_bridge.analysis.evaluation.run_record import read_run
from sitl_bridge.analysis.evaluation.verdict import Verdict, conclude
from sitl_bridge.analysis.report.reported_run import report


def verdict(path: Path) -> Verdict:
    (one,) = report([read_run(path)])
    return one.verdict


def stall(vehicle: int, begin: float, end: float | None = None) -> list[dict[str, Any]]:
    entries = [{"time": round(begin * 1e6), "kind": "stall", "vehicle": vehicle, "begins": True}]
    if end is not None:
        entries.append({"time": round(end * 1e6), "kind": "stall", "vehicle": vehicle, "begins": False})
    return entries


def happened(kind: str, time: float, vehicle: int, begins: bool = True, **facts: Any) -> dict[str, Any]:
    event = {"at": time, "kind": kind, "vehicles": [vehicle], **facts}
    return {
        "time": round(time * 1e6), "kind": "event", "begins": begins, "vehicles": [vehicle], "event": event
    }  # fmt: skip


def with_events(path: Path, *entries: dict[str, Any]) -> Path:
    (path / "events.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def test_a_vehicle_that_was_left_behind_fails_the_flight_of_a_fleet(tmp_path: Path) -> None:
    run = with_events(make_run(tmp_path / "run", vehicles=3), *stall(1, 12.5, 18.75))
    found = verdict(run)
    assert found.word == "failed"
    (reason,) = found.reasons
    assert reason.startswith(
        "1: the flight stack did not answer for 6.25 s from 12.5 s on; the vehicle flew on"
    )
    (one,) = report([read_run(run)])
    (entry,) = [e for e in one.events if e.lane == "stall"]
    assert (entry.begin, entry.end, entry.vehicle, entry.level) == (12.5, 18.75, "1", "error")


def test_a_stall_without_an_end_lasts_to_the_end_of_the_run(tmp_path: Path) -> None:
    run = read_run(with_events(make_run(tmp_path / "run"), *stall(0, 30.0)))
    (one,) = stalls(run)
    assert one.end == pytest.approx(42.0, abs=0.02)


def test_a_stall_for_which_simulated_time_waited_is_a_note(tmp_path: Path) -> None:
    found = verdict(with_events(make_run(tmp_path / "run"), *stall(0, 12.5, 12.5)))
    assert found.succeeded
    assert found.notes == ("the flight stack did not answer at 12.5 s; simulated time waited",)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (happened("stack_stopped", 12.0, 1), True),
        (happened("stack_stopped", 5.0, 1), False),
        (happened("stack_stopped", 12.0, 2), False),
        (happened("sensor_fault", 8.0, 1, sensor="imu", fault="off"), True),
        (happened("sensor_fault", 8.0, 1, sensor="imu", fault="off", lasts=2.0), False),
        (happened("sensor_fault", 12.0, 1, sensor="gps", fault="off"), False),
    ],
)
def test_a_stall_that_an_injected_fault_explains_is_a_note(
    tmp_path: Path, event: dict[str, Any], expected: bool
) -> None:
    run = with_events(make_run(tmp_path / "run", vehicles=3), event, *stall(1, 12.5, 18.75))
    found = verdict(run)
    assert found.succeeded is expected
    lines = found.notes if expected else found.reasons
    assert any("did not answer for 6.25 s" in line for line in lines)


def test_default_limits_give_notes_after_a_fault_and_limits_of_the_user_count(tmp_path: Path) -> None:
    contact = {"time": 20.0, "object": "wall", "part": "body", "closing_speed": 2.0, "position": [0, 0, 0]}
    run = make_run(tmp_path / "run", contacts=[contact])
    assert verdict(run).reasons == ("the body hit wall at 2.0 m/s, 20.0 s",)
    gust = {**happened("gust", 9.0, 0), "vehicles": None}
    assert verdict(with_events(run, gust)).word == "failed", "weather is no fault"
    with_events(run, happened("motor_loss", 20.5, 0, motor=1))
    assert verdict(run).word == "failed", "the contact came before"
    with_events(run, happened("motor_loss", 10.0, 0, motor=1))
    found = verdict(run)
    assert found.succeeded
    assert found.notes == ("the body hit wall at 2.0 m/s, 20.0 s, after motor loss (motor 1) at 10.0 s",)
    description = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(description | {"limits": {"object_contacts": 0}}))
    assert verdict(run).word == "failed"


@pytest.mark.parametrize("in_process", [True, False])
def test_a_fault_after_the_end_excuses_nothing_and_is_told(tmp_path: Path, in_process: bool) -> None:
    contact = {"time": 20.0, "object": "wall", "part": "body", "closing_speed": 2.0, "position": [0, 0, 0]}
    run = make_run(tmp_path / "run", contacts=[contact])
    scheduled = {"events": [{"at": 60.0, "kind": "motor_loss", "motor": 1}]}
    description = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(description | scheduled))
    if in_process:
        (run / "events.jsonl").unlink(missing_ok=True)
    else:
        with_events(run)
    found = verdict(run)
    assert found.word == "failed"
    assert found.notes == ("motor loss (motor 1) at 60 s did not happen: the flight had ended",)


@pytest.mark.parametrize("what", ["failsafe", "estimator"])
def test_what_went_wrong_before_a_fault_is_not_excused_by_it(tmp_path: Path, what: str) -> None:
    path = with_events(make_run(tmp_path / "run"), happened("motor_loss", 10.0, 0, motor=1))
    for begin, word in ((9.5, "failed"), (10.5, "succeeded")):
        run = read_run(path)
        (vehicle,) = run.vehicles
        assert vehicle.record is not None
        if what == "failsafe":
            vehicle.record.failsafes = [(begin, "battery unhealthy")]
        else:
            vehicle.record.estimators = [Estimator(0, {}, {}, ("yaw rejected",), (), begin)]
        assert conclude(run, run.summary)[0].word == word


def test_a_collision_fails_the_flight_whatever_was_injected(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", vehicles=2, collision_count=1)
    with_events(run, happened("motor_loss", 10.0, 0, motor=1))
    assert verdict(run).word == "failed"


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        ({}, "succeeded"),
        ({"reason": "the mission exited with 1"}, "failed"),
        ({"errors": ["recording of the flight failed"]}, "failed"),
        ({"reason": "the flight was interrupted", "interrupted": True}, "interrupted"),
    ],
)
def test_the_flight_s_verdict_is_stored_and_shown(tmp_path: Path, facts: dict[str, Any], word: str) -> None:
    path = make_run(tmp_path / "run")
    run = read_run(path)
    flown, _ = conclude(run, run.summary | facts)
    assert flown.word == word
    assert bool(flown.reasons) == (word != "succeeded")
    (path / "summary.json").write_text(json.dumps(run.summary))
    shown = verdict(path)
    assert shown == flown
    assert json.loads((path / "summary.json").read_text())["succeeded"] is flown.succeeded


def test_a_share_that_rounds_to_nothing_is_not_printed_as_nothing() -> None:
    assert rejection_in_words("yaw", 0.04) == "yaw rejected in less than 0.1 % of the flight"
    assert rejection_in_words("yaw", 0.24) == "yaw rejected in 0.2 % of the flight"
