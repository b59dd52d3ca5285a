"""One verdict: a flight is judged at its end, and everything that shows it shows that verdict."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from support.run_directories import GOALS, HEIGHT, LANDING, TAKE_OFF, make_run, write_truth

from sitl_bridge.analysis.evaluation.estimator_health import rejection_in_words
from sitl_bridge.analysis.evaluation.flight_record import Estimator
from sitl_bridge.analysis.evaluation.run_changes import stalls
from sitl_bridge.analysis.evaluation.run_evaluation import evaluate
from sitl_bridge.analysis.evaluation.run_record import RunRecord, read_run
from sitl_bridge.analysis.evaluation.summary import Outcome, summarise
from sitl_bridge.analysis.evaluation.verdict import Verdict, conclude, judge
from sitl_bridge.analysis.report.report_text import body
from sitl_bridge.analysis.report.reported_run import report
from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.cli.flight_display import show


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


def shown_of(run: RunRecord) -> tuple[str, str]:
    """What the table of ``fly`` and the page of ``report`` say of a flight of one vehicle."""
    (vehicle,), (one,) = run.vehicles, report([run])
    console = Console(width=200, record=True, quiet=True)
    with console.capture() as captured:
        console.quiet = False
        show(console, Outcome("m.py", "iris", True, figures=vehicle.figures), vehicle.record, [], one.verdict)
    return captured.get(), body([one])


def test_figures_of_a_flight_are_those_of_the_truth(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run"))
    figures = run.vehicles[0].figures
    assert figures.air_time == pytest.approx(LANDING - TAKE_OFF, abs=0.02)
    assert figures.max_height == pytest.approx(HEIGHT, abs=0.01)
    assert figures.distance == pytest.approx(GOALS[-1][1] + HEIGHT, abs=0.1)
    table, page = shown_of(run)
    assert "38.0 s in the air" in table
    assert "estimate" not in table.partition("Modes")[0], "the estimate is no other"
    assert "38.0 s" in page


def test_a_vehicle_that_slid_and_believed_to_fly_is_told_by_the_truth(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run")
    (path / "truth.npy").unlink()
    write_truth(path / "truth.npy", slides=(0,))
    run = read_run(path)
    (vehicle,) = run.vehicles
    assert vehicle.record is not None
    assert vehicle.figures.air_time == vehicle.figures.distance == 0.0
    assert vehicle.record.distance > 10.0
    table, page = shown_of(run)
    assert "0.0 s (estimate 38.0 s) in the air, 0 m (estimate" in table
    assert "0.0 m (estimate 5.0 m)" in page
    data = summarise(Outcome("m.py", "iris", True, figures=vehicle.figures), vehicle.record, [])["flight"]
    assert data["distance"] == 0.0
    assert data["estimated"]["distance"] == vehicle.record.distance


@pytest.mark.parametrize("vehicles", [1, 2])
def test_a_flight_that_ends_in_the_air_says_so_and_fails_where_it_must_land(
    tmp_path: Path, vehicles: int
) -> None:
    path = make_run(tmp_path / "run", vehicles)
    (path / "truth.npy").unlink()
    write_truth(path / "truth.npy", vehicles, end=LANDING - 5.0)
    found = verdict(path)
    told = "the flight ended in the air: " + ("5.0 m up" if vehicles == 1 else "0 (5.0 m up), 1 (5.0 m up)")
    assert found.succeeded
    assert found.notes == (told,)
    description = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps(description | {"limits": {"landed": True}}))
    found = verdict(path)
    assert (found.word, found.reasons, found.notes) == ("failed", (told,), ())


def test_a_bounce_at_the_end_is_no_flight(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run"))
    (vehicle,) = run.vehicles
    assert vehicle.rows is not None
    rows = vehicle.rows.copy()
    rows["in_contact"][-1] = 0
    for up, told in ((0.02, None), (0.5, 0.5)):
        rows["position_down"][-1] = rows["position_down"][0] - up
        found = replace(vehicle, rows=rows).height_at_end
        assert found == (None if told is None else pytest.approx(told, abs=0.02))


def test_what_only_showed_the_flight_may_end(tmp_path: Path) -> None:
    errors = ErrorLog()
    errors.lose("the page", ValueError("killed"))
    assert errors.lines == []
    run = read_run(make_run(tmp_path / "run"))
    found, _ = conclude(run, run.summary | {"errors": errors.lines, "losses": errors.losses})
    assert found.succeeded
    assert found.notes == ("the page has ended, and the simulation went on without: ValueError: killed",)


@pytest.mark.parametrize(
    ("limit", "seconds", "expected"),
    [(20.0, 2.0, True), (20.0, 0.1, False), (30.0, 2.0, False), (None, 2.0, False)],
)
def test_controllers_for_long_at_their_limit_are_a_note_with_the_time(
    tmp_path: Path, limit: float | None, seconds: float, expected: bool
) -> None:
    run = make_run(tmp_path / "run")
    file = run / "run.json"
    told = json.loads(file.read_text())
    told["vehicles"][0]["airframe"] |= {"esc": {"current_limit": limit}, "motor": {"kind": "first_order"}}
    file.write_text(json.dumps(told))
    rows = np.load(run / "truth.npy")
    steps = round(seconds / (float(np.median(np.diff(rows["time"]))) * 1e-6))
    rows["motor_current_2"][100 : 100 + steps] = 20.0
    np.save(run / "truth.npy", rows)
    note = f"speed controllers at their current limit for {seconds:.1f} s"
    assert (note in verdict(run).notes) is expected
    assert any("current limit" in found for found in verdict(run).notes) is expected


@pytest.mark.parametrize(
    ("shaken", "told"), [(4.0, ""), (6.0, "more than 4.905 in orange"), (10.3, "more than 9.81 in red")]
)
def test_vibration_is_a_note_in_flight_review_s_colours_and_fails_where_the_user_says_so(
    tmp_path: Path, shaken: float, told: str
) -> None:
    run = read_run(make_run(tmp_path / "run"))
    (vehicle,) = run.vehicles
    assert vehicle.record is not None
    vehicle.record.vibration = shaken
    (one,) = report([run])
    assert one.verdict.succeeded
    assert [note.partition("shows ")[2] for note in one.verdict.notes] == ([told] if told else [])
    (limited,) = report([run], {"vibration": 9.81})
    assert limited.verdict.succeeded is (shaken < 9.81)


@pytest.mark.parametrize(("wind", "expected"), [((0.0, 8.0), True), ((8.0, 0.0), False), ((0.0, 0.0), False)])
def test_a_flight_that_drifted_into_a_fence_names_the_drift(
    tmp_path: Path, wind: tuple[float, float], expected: bool
) -> None:
    run = make_run(tmp_path / "run")
    rows = np.load(run / "truth.npy")
    rows["position_north"], rows["position_east"] = 0.0, np.linspace(0.0, 100.0, len(rows))
    rows["wind_north"], rows["wind_east"] = wind
    np.save(run / "truth.npy", rows)
    record = read_run(run)
    vehicle = record.vehicles[0]
    assert vehicle.record is not None
    end = float(vehicle.time[-10])
    failsafe = [(end, "Geofence violation: approaching or outside geofence")]
    vehicle.record = replace(vehicle.record, take_off=float(vehicle.time[10]), failsafes=failsafe)
    notes = judge(record, evaluate(record)).notes
    assert any("m downwind of its take-off to the fence, in 8.0 m/s" in note for note in notes) is expected
