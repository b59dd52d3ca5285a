"""The report of a run: evaluation, limits, exit code, page; of whole, killed and damaged runs."""

from __future__ import annotations

import base64
import io
import json
import math
import re
import shutil
import struct
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from support.docs_pages import write_files
from support.paths import DOCS
from support.run_directories import (
    END,
    FORMATS,
    GOALS,
    LAG,
    LANDING,
    OFFSET,
    TAKE_OFF,
    YAW_RATE,
    make_run,
    true_motion,
    write_truth,
)

from sitl_bridge.analysis.evaluation.flight_record import TOPICS
from sitl_bridge.analysis.evaluation.measures import (
    KINDS,
    Measure,
    limit_of_option,
    limits_of_file,
    validate_limits,
)
from sitl_bridge.analysis.evaluation.run_changes import run_changes
from sitl_bridge.analysis.evaluation.run_evaluation import evaluate, event_times
from sitl_bridge.analysis.evaluation.run_record import read_run
from sitl_bridge.analysis.evaluation.ulog_analysis import results_of
from sitl_bridge.analysis.evaluation.verdict import judge
from sitl_bridge.analysis.report.report_page import LARGEST, page
from sitl_bridge.analysis.report.reported_run import report
from sitl_bridge.analysis.report.run_events import timeline
from sitl_bridge.analysis.report.time_lines import vehicle_plots
from sitl_bridge.base.errors import ConfigurationError, UserError
from sitl_bridge.cli.report import report as command
from sitl_bridge.record.ulog_reader import FlightLog
from sitl_bridge.record.ulog_writer import UlogWriter


def values(path: Path, **limits: float | None) -> dict[str, float]:
    return {m.kind.name: m.value for m in evaluate(read_run(path), limits).measures}


def run_command(*runs: Path, **options: Any) -> int:
    with pytest.raises(typer.Exit) as ended:
        command(list(runs), **options)
    return ended.value.exit_code


class Checked(HTMLParser):
    """Opens and closes of elements, and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "br", "img"):
            self.open.append(tag)
        for name, value in attrs:
            if name in ("href", "src"):
                self.links.append(str(value))
            if name == "id":
                self.ids.append(str(value))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_evaluation_finds_the_figures_of_a_known_flight(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run"))
    assert np.allclose(run.vehicles[0].to_world, OFFSET, atol=0.01)
    found = evaluate(run)
    measured = {m.kind.name: m.value for m in found.measures}
    # A step of 3 m enters a ball of 0.1 m after tau ln 30.
    expected = LAG * np.log(3.0 / 0.1)
    vehicle = found.vehicles[0]
    assert [w.settling for w in vehicle.waypoints[1:]] == pytest.approx([expected, expected], abs=0.25)
    assert measured["waypoint_settling"] == pytest.approx(expected, abs=0.25)
    assert measured["waypoints_settled"] == 100.0
    assert measured["rates_peak_frequency"] == pytest.approx(3.0, abs=0.13)
    assert measured["rates_rms"] == pytest.approx(np.hypot(0.2 / np.sqrt(2.0), YAW_RATE), rel=0.02)
    assert measured["touchdown"] == 0.5
    assert measured["battery_used"] == pytest.approx(10.0)
    assert measured["vortex_ring_time"] == 1.5
    assert measured["real_time_factor"] == pytest.approx(2.0)
    # The gust begins 2 s after the last goal was set, so no reaction to it can be told apart.
    assert GOALS[-1][0] + 5.0 > 30.0
    assert vehicle.disturbances == []


def test_the_page_is_whole_small_and_escaped(tmp_path: Path) -> None:
    text = page(report([read_run(make_run(tmp_path / "run"))]))
    assert len(text) < LARGEST
    parser = Checked()
    parser.feed(text)
    assert parser.open == []
    assert all(link.startswith(("#", "data:")) for link in parser.links), "needs a network"
    assert {link[1:] for link in parser.links if link.startswith("#")} <= set(parser.ids)
    assert "there &amp; &lt;b&gt;back&lt;/b&gt;.py" in text
    assert "<b>back" not in text
    assert "<script>alert" not in text
    assert text.index("Succeeded") < text.index('id="flight"') < text.index('id="measures"')


def test_a_verdict_of_other_words_is_none_and_is_not_shown(tmp_path: Path) -> None:
    evil = {"word": "<img src=x onerror=alert(1)>", "reasons": ["<b>r</b>"], "notes": [], "measures": []}
    one = report([read_run(make_run(tmp_path / "run", verdict=evil))])
    assert one[0].verdict.word == "succeeded", "it is judged anew"
    assert "<img src=x" not in page(one)


def test_the_pages_data_holds_what_it_shows(tmp_path: Path) -> None:
    text = page(report([read_run(make_run(tmp_path / "run"))]))
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert found
    data = json.loads(found[1])
    (run,) = data["runs"]
    assert run["tracks"][0]["points"][0] == [0, 0, 0]
    assert run["scene"][0]["name"] == "wall <i>"
    assert run["scene"][0]["prisms"][0]["top"] == 2.0
    lanes = [(data["lanes"][e["lane"]], e["text"]) for e in run["events"]]
    assert ("injected", "gust") in lanes
    assert ("flight mode", "Offboard") in lanes
    plots = {plot["key"]: plot for plot in run["vehicles"][0]["plots"]}
    assert {
        "height",
        "north",
        "velocity_north",
        "rates",
        "motors",
        "voltage",
        "rates_spectrum",
    } <= plots.keys()
    assert all(plot["title"] and plot["unit"] and plot["xTitle"] for plot in plots.values())
    height = plots["height"]
    assert [line["name"] for line in height["lines"]] == ["true", "estimated", "setpoint"]
    assert all(len(line["y"]) == len(height["x"]) for line in height["lines"])


def test_exit_code_and_json_follow_the_limits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run")
    assert run_command(run) == 0
    assert (run / "report.html").is_file()
    assert run_command(run, limit=["touchdown=0.4"]) == 1
    assert "exceeded" in capsys.readouterr().out
    assert run_command(run, limit=["touchdown=none", "battery_voltage=13"], as_json=True) == 1
    (one,) = json.loads(capsys.readouterr().out)
    exceeded = [m["name"] for m in one["measures"] if m["passed"] is False]
    assert exceeded == ["battery_voltage"]
    file = tmp_path / "limits.yaml"
    file.write_text("touchdown: 0.4\nvibration: null\n")
    assert run_command(run, limits=file) == 1
    assert run_command(run, limits=file, limit=["touchdown=0.6"]) == 0


def test_a_limit_without_a_value_fails_the_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    assert run_command(run, limit=["slot_error_steady=0.5"]) == 1


def test_faulty_limits_are_named_with_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean vibration"):
        limit_of_option("vibratoin=3")
    with pytest.raises(UserError, match="write NAME=VALUE"):
        limit_of_option("vibration")
    with pytest.raises(UserError, match="not a number"):
        limit_of_option("vibration=high")
    with pytest.raises(UserError, match="must be a number"):
        validate_limits({"vibration": "high"}, "limits")
    file = tmp_path / "limits.yaml"
    file.write_text("vibration: 3\nspeed: 4\n")
    with pytest.raises(UserError, match="line 2: speed: no such measure"):
        run_command(make_run(tmp_path / "run"), limits=file)


def test_a_killed_run_says_so_and_shows_what_it_recorded(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", summary=False)
    (one,) = report([read_run(run)])
    assert one.verdict.word == "no verdict"
    text = page([one])
    assert "Incomplete" in text
    assert "killed or is not over" in text
    assert run_command(run) == 1


def test_the_last_lines_of_a_process_stand_below_their_sentence(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    summary["reason"] = "PX4 ended; its last lines:\nINFO one\nINFO <two>"
    summary["name"] = summary["mission"] = "/home/someone/square.plan"
    (run / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    text = page(report([read_run(run)]))
    assert "<li>PX4 ended; its last lines:<pre>INFO one\nINFO &lt;two&gt;</pre></li>" in text
    assert "<h1>square.plan</h1>" in text


def test_the_report_shows_the_faults_and_changes_that_happened(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", vehicles=2)
    scheduled = {"at": 30.0, "kind": "gust", "lasts": 2.0, "vehicles": None}
    (only,) = run_changes(read_run(run))
    assert (only.begin, only.end, only.vehicles) == (30.0, 32.0, ())
    entries = [
        {"time": 5_000_000, "kind": "link", "text": "connected"},
        {"time": 12_000_000, "kind": "command", "command": "motor_loss", "vehicle": 1, "data": {"motor": 2}},
        {"time": 13_000_000, "kind": "command", "command": "pause", "vehicle": None, "data": {}},
        {"time": 14_000_000, "kind": "command", "command": "gps_jamming", "vehicle": 0, "data": {"level": 2}},
        {"time": 30_004_000, "kind": "event", "begins": True, "vehicles": [0, 1], "event": scheduled},
        {"time": 31_000_000, "kind": "event", "begins": False, "vehicles": [0, 1], "event": scheduled},
    ]
    for entry in entries:
        if entry["kind"] == "command":
            entry["refused"] = "level is 0 to 1" if entry["command"] == "gps_jamming" else None
    lines = [json.dumps(entry) for entry in entries]
    # A killed program: the last line is not whole, and an event scheduled for later never happened.
    (run / "events.jsonl").write_text("\n".join([*lines, '{"time": 40_0']))
    rotor, gust = run_changes(read_run(run))
    assert (rotor.begin, rotor.text, rotor.vehicles) == (12.0, "command motor loss (motor 2)", ("1",))
    assert (gust.begin, gust.end) == pytest.approx((30.004, 31.0))
    assert gust.vehicles == ()
    assert event_times(read_run(run), "0") == pytest.approx([30.004])
    (run / "events.jsonl").write_text("")
    assert run_changes(read_run(run)) == []


def test_an_empty_run_is_refused_and_one_without_a_step_is_incomplete(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="holds nothing of a run that can be read"):
        command([tmp_path / "empty"])
    run = make_run(tmp_path / "begun", summary=False)
    shutil.rmtree(run / "autopilot")
    (run / "events.jsonl").write_text("")
    (run / "truth.npy").unlink()
    write_truth(run / "truth.npy", end=0.0)
    (one,) = report([read_run(run)])
    assert one.verdict.word == "no verdict"
    assert "Incomplete" in page([one])


def test_of_a_damaged_run_the_rest_is_shown(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "run.json").write_text("{")
    with (run / "truth.npy").open("r+b") as file:
        file.truncate((run / "truth.npy").stat().st_size // 2 + 17)
    log = run / "autopilot/log/flight.ulg"
    log.write_bytes(log.read_bytes()[:60_000])
    found = read_run(run)
    assert any("run.json: is damaged" in note for note in found.notes)
    (cut,) = (note for note in found.notes if "is cut off" in note)
    assert re.search(r"of 4200 rows the first 2\d\d\d are there", cut)
    assert found.vehicles[0].rows is not None
    assert len(found.vehicles[0].rows) == pytest.approx(2100, abs=5)
    assert "cut off" in page(report([found]))


def test_a_row_of_a_vehicle_that_cannot_be_is_damage_and_takes_no_time(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "run.json").write_text("{")
    rows = np.load(run / "truth.npy", mmap_mode="r+")
    rows["vehicle"][50] = 1_000_000_000
    rows.flush()
    found = read_run(run)
    assert any("truth.npy: is damaged" in note for note in found.notes)
    assert len(found.vehicles) == 1


def test_truth_that_a_disk_has_lost_is_read_up_to_there(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    rows = np.load(run / "truth.npy", mmap_mode="r+")
    rows[len(rows) // 2 :] = np.zeros((), rows.dtype)
    rows.flush()
    found = read_run(run)
    assert any(f"damaged from row {len(rows) // 2} on" in note for note in found.notes)
    assert "damaged from row" in page(report([found]))


@pytest.mark.parametrize("key", ["collisions", "contacts"])
@pytest.mark.parametrize(
    "damage", [0.5, [3], [{"time": "soon"}], [{"time": 1.0, "closing_speed": "fast"}], [{"time": 10**400}]]
)
def test_damaged_collisions_and_contacts_of_a_summary_are_left_out(
    tmp_path: Path, key: str, damage: object
) -> None:
    run = make_run(tmp_path / "run")
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps(summary | {key: damage}))
    assert not [entry for entry in timeline(read_run(run)) if entry.lane == "contact"]


def test_a_damaged_level_of_a_logged_message_is_debug(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    log = run / "autopilot/log/flight.ulg"
    body = struct.pack("<BQ", 0xC1, 3_000_000) + b"an odd message"
    log.write_bytes(
        log.read_bytes() + struct.pack("<HcBQ", len(body), b"L", 0xC1, 3_000_000) + b"an odd message"
    )
    assert "debug: an odd message" in page(report([read_run(run)]))


@pytest.mark.parametrize("content", [b"", b"not a log", b"ULog\x01\x12\x35\x01" + bytes(8)])
def test_foreign_logs_in_a_run_are_notes(tmp_path: Path, content: bytes) -> None:
    run = make_run(tmp_path / "run")
    (run / "autopilot/log/flight.ulg").write_bytes(content)
    (run / "truth.npy").write_bytes(content)
    found = read_run(run)
    assert found.notes
    assert page(report([found]))


def test_what_is_no_run_is_refused_in_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UserError, match="holds nothing of a run"):
        run_command(empty)
    with pytest.raises(UserError, match="no such run directory"):
        run_command(tmp_path / "nowhere")
    text = tmp_path / "notes.txt"
    text.write_text("hello")
    with pytest.raises(UserError, match="cannot be read as a ULog"):
        run_command(text)
    good = make_run(tmp_path / "run")
    assert run_command(empty, good, out=tmp_path / "both.html") == 2
    assert capsys.readouterr().err.count("holds nothing of a run") == 1
    assert (tmp_path / "both.html").is_file()


def test_a_flight_log_alone_can_be_reported(tmp_path: Path) -> None:
    log = make_run(tmp_path / "run") / "autopilot/log/flight.ulg"
    (one,) = report([read_run(log)])
    assert one.verdict.word == "no verdict"
    keys = {m.kind.name for m in one.evaluation.measures}
    assert {"waypoint_settling", "offboard_position_rms"} <= keys
    assert "Position north" in page([one])
    assert run_command(log, out=tmp_path / "log.html") == 0
    assert run_command(log, out=tmp_path / "log.html", limit=["offboard_position_rms=0.0001"]) == 1


def test_several_runs_stand_side_by_side(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name) for name in ("first", "second")]
    text = page(report([read_run(run) for run in runs]))
    assert text.count('class="verdict passed"') == 2
    assert "<th>first</th><th>second</th>" in text
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert [line["name"] for line in data["compared"][0]["lines"]] == ["first", "second"]


def test_a_fleet_shows_its_distances_and_each_vehicle(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", vehicles=3)
    assert values(run)["separation"] == pytest.approx(3.0)
    text = page(report([read_run(run)]))
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])["runs"][0]
    assert [v["name"] for v in data["vehicles"]] == ["0", "1", "2"]
    assert {"closest_pair", "fleet_height"} == {plot["key"] for plot in data["fleet"]}
    assert run_command(run, limit=["separation=4"]) == 1


def test_a_large_fleet_stays_small(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    write_truth(run / "truth.npy", vehicles=60, end=12.0)
    assert len(page(report([read_run(run)]))) < LARGEST


def test_figures_for_papers_are_of_three_kinds(tmp_path: Path) -> None:
    from sitl_bridge.analysis.report.paper_figures import plot_figure
    from sitl_bridge.analysis.report.time_lines import spectrum_plot

    (one,) = report([read_run(make_run(tmp_path / "run"))])
    rates = one.evaluation.vehicles[0].rates
    assert rates is not None
    figure = plot_figure(spectrum_plot(rates))
    (axes,) = figure.axes
    assert axes.get_title() == "Power spectral density of the angular rates"
    assert axes.get_xlabel() == "frequency, Hz"
    assert "Hz" in axes.get_ylabel()
    assert axes.get_xscale() == "log"


def test_rates_of_a_log_are_measured_at_their_own_times(tmp_path: Path) -> None:
    """A shaking at 10 Hz in a log with rates at 50 Hz and positions at 10 Hz, which see it always alike."""
    formats = {
        "vehicle_land_detected": ["uint64_t timestamp", "bool landed"],
        "vehicle_local_position": [
            "uint64_t timestamp",
            "float x",
            "float y",
            "float z",
            "float vx",
            "float vy",
            "float vz",
        ],
        "vehicle_angular_velocity": ["uint64_t timestamp", "float[3] xyz"],
    }
    with UlogWriter(tmp_path / "log.ulg", 0, formats, list(formats)) as log:
        for k in range(50 * 30):
            now = 1_000_000 + 20_000 * k
            log.write("vehicle_angular_velocity", now, 0.0, 0.3 * math.sin(0.4 * math.pi * k), 0.0)
            if k % 5 == 0:
                log.write("vehicle_land_detected", now, not 100 <= k < 1400)
                log.write("vehicle_local_position", now, 0.0, 0.0, -5.0, 0.0, 0.0, 0.0)
        log.flush()
    measured = {m.kind.name: m.value for m in evaluate(read_run(tmp_path / "log.ulg")).measures}
    assert measured["rates_rms"] == pytest.approx(0.3 / math.sqrt(2.0), rel=0.01)
    assert measured["rates_peak_frequency"] == pytest.approx(10.0, abs=0.3)


def test_every_measure_has_a_title_and_a_default_limit_names_its_source() -> None:
    for kind in KINDS.values():
        assert kind.title
        assert (kind.limit is None) == (kind.source == "")


def test_the_evaluation_is_a_library(tmp_path: Path) -> None:
    import sitl_bridge as sb

    run = sb.report.read_run(make_run(tmp_path / "run"))
    found = sb.report.evaluate(run, {"touchdown": 0.4})
    assert [one.kind.name for one in found.exceeded] == ["touchdown"]
    sb.report.write_report(sb.report.report([run]), tmp_path / "page.html")
    assert (tmp_path / "page.html").is_file()
    for name in sb.report.__all__:
        assert getattr(sb.report, name)


def test_simulated_avoidance_is_reported_from_its_tracks(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    time = np.arange(0.0, 10.0, 0.1)
    position = np.zeros((len(time), 2, 3))
    position[:, 0, 0], position[:, 1, 0], position[:, :, 2] = time, 2.0 + time, -5.0
    np.savez(run / "tracks.npz", time=time, position=position, reference=position, names=np.array(["a", "b"]))
    (run / "run.json").write_text(json.dumps({"scenarios": ["missions/pair.yaml"], "vehicles": []}))
    (run / "summary.json").write_text(json.dumps({"succeeded": True, "rows": []}))
    (one,) = report([read_run(run)])
    assert one.verdict.succeeded
    assert one.run.name == "pair"
    assert [m.value for m in one.evaluation.measures] == pytest.approx([2.0])
    data = json.loads(page([one]).split('id="data">')[1].split("</script>")[0])["runs"][0]
    assert [track["name"] for track in data["tracks"]] == ["a", "b"]


def test_a_simulated_formation_with_its_truth_is_on_the_clock_of_the_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 2)
    time = np.arange(0.0, 10.0, 0.1)
    np.savez(run / "tracks.npz", time=time, slot_error=np.zeros((len(time), 2)))
    summary = json.loads((run / "summary.json").read_text())
    found = {"started_at_s": 18.0, "events": ["-1.50 s: start at 18.00 s"]}
    (run / "summary.json").write_text(json.dumps(summary | found))
    (one,) = report([read_run(run)])
    data = json.loads(page([one]).split('id="data">')[1].split("</script>")[0])["runs"][0]
    (slots,) = [plot for plot in data["fleet"] if plot["key"] == "slot_error"]
    assert slots["x"][0] == pytest.approx(18.0)
    assert [event["begin"] for event in data["events"] if event["text"] == "start at 18.00 s"] == [16.5]


def test_pose_errors_of_the_estimate_are_those_of_its_known_error(tmp_path: Path) -> None:
    """0.1 m at 0.5 Hz, downwards: 0.1 / sqrt(2) in all, and twice that between two poses 1 s apart."""
    run = make_run(tmp_path / "run")
    formats = FORMATS | {"vehicle_attitude": ["uint64_t timestamp", "float[4] q"]}
    file = run / "autopilot" / "log" / "flight.ulg"
    file.unlink()
    with UlogWriter(file, 0, formats, list(formats)) as log:
        for k in range(int(END * 50)):
            stamp, seconds = k * 20_000, k / 50.0
            position, velocity = true_motion(np.array([seconds]))
            place = position[0] - OFFSET + np.array([0.0, 0.0, 0.1 * np.sin(np.pi * seconds)])
            log.write("vehicle_local_position", stamp, *place, *velocity[0], 47.4, 8.5, 488.0, 1)
            log.write("vehicle_attitude", stamp, 1.0, 0.0, 0.0, 0.0)
            log.write("vehicle_land_detected", stamp, not TAKE_OFF <= seconds < LANDING)
    found = values(run)
    assert found["pose_error_absolute"] == pytest.approx(0.1 / np.sqrt(2.0), rel=0.05)
    assert found["pose_error_relative"] == pytest.approx(0.2 / np.sqrt(2.0), rel=0.05)
    assert found["pose_error_rotation"] == pytest.approx(0.0, abs=0.01)


def test_pictures_of_cameras_are_in_the_report(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    run = make_run(tmp_path / "run")
    described = json.loads((run / "run.json").read_text())
    described["vehicles"][0]["airframe"]["sensors"] = [{"kind": "camera", "name": "front"}, {"kind": "imu"}]
    (run / "run.json").write_text(json.dumps(described))
    folder = run / "sensors" / "front" / "mav0" / "cam0" / "data"
    folder.mkdir(parents=True)
    for k in range(20):
        image.fromarray(np.full((480, 640, 3), (200, 10 * k, 0), np.uint8)).save(folder / f"{k * 10**9}.png")
    (one,) = report([read_run(run)])
    assert [picture.camera for picture in one.pictures] == ["front, cam0"] * 6
    assert [picture.time for picture in one.pictures] == pytest.approx([0, 4, 8, 11, 15, 19])
    shown = image.open(io.BytesIO(base64.b64decode(one.pictures[-1].data)))
    assert shown.size == (320, 240)
    assert np.asarray(shown)[100, 100].tolist() == pytest.approx([200, 190, 0], abs=4)
    assert page([one]).count("<figure><img") == 6
    (folder / "0.png").write_bytes(b"no picture")
    (damaged,) = report([read_run(run)])
    assert any("0.png: is not shown" in note for note in damaged.run.notes)
    assert "Pictures</h2>" not in page(report([read_run(make_run(tmp_path / "other"))]))


def test_the_heading_names_the_stack_its_version_and_the_wind(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run")
    file = directory / "run.json"
    run = json.loads(file.read_text())
    run["speed"] = "inf"
    run["world"]["wind"] = {"steady": {"speed": 5.0, "direction": 270.0}, "turbulence": "light"}
    run["vehicles"][0]["autopilot"] = {"name": "PX4", "version": "v1.17.0-rc2"}
    file.write_text(json.dumps(run))
    text = page(report([read_run(directory)]))
    assert "flown by PX4 v1.17.0-rc2" in text
    assert "wind 5 m/s from 270 deg, light turbulence" in text
    assert "<td>as fast as possible</td>" in text


def test_after_the_last_disarming_no_mode_is_flown(tmp_path: Path) -> None:
    (one,) = report([read_run(make_run(tmp_path / "run"))])
    modes = [(e.text, round(e.begin, 1)) for e in one.events if e.lane == "flight mode"]
    assert modes == [("Hold", 0.0), ("Offboard", TAKE_OFF), ("disarmed", LANDING)]


def test_colours_of_a_terminal_are_not_in_messages(tmp_path: Path) -> None:
    log = tmp_path / "flight.ulg"
    with UlogWriter(log, 0, FORMATS, list(FORMATS)) as written:
        written.say(0, 6, "[commander] \x1b[32mReady for takeoff!\x1b[0m")
    assert FlightLog.read(log, TOPICS).messages == [(0, 6, "[commander] Ready for takeoff!")]


def test_a_failsafe_of_the_built_in_stack_has_its_warning_as_the_cause() -> None:
    time = np.arange(0, 20_000_000, 100_000)
    flags = {"timestamp": time, "failsafe": time > 10_000_000, "nav_state": np.full(len(time), 3)}
    columns = {
        ("vehicle_status", 0): flags,
        ("vehicle_land_detected", 0): {"timestamp": time, "landed": time < 1_000_000},
        ("vehicle_local_position", 0): {
            "timestamp": time,
            **{name: np.zeros(len(time)) for name in ("x", "y", "z", "vx", "vy", "vz")},
        },
    }
    warned = [(10_100_000, 4, "Battery low, returning")]
    for messages, cause in (
        (warned, "Battery low, returning"),
        ([], "the flight log names no cause"),
    ):
        found = results_of(Path("x.ulg"), FlightLog(columns, messages))
        assert found.failsafe_causes == [cause]


def test_a_turn_beyond_180_degrees_is_continuous(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run"))
    vehicle = run.vehicles[0]
    assert vehicle.rows is not None
    rows = np.array(vehicle.rows)
    half = 0.5 * np.radians(10.0 * rows["time"] * 1e-6)
    rows["attitude_w"], rows["attitude_z"] = np.cos(half), np.sin(half)
    vehicle.rows = rows
    (yaw,) = (plot for plot in vehicle_plots(vehicle, 2000) if plot.key == "yaw")
    assert np.abs(np.diff(yaw.lines[0].values)).max() < 1.0
    assert yaw.lines[0].values.max() > 350.0


def test_the_truth_is_searched_once_for_take_off_and_landing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vehicle = read_run(make_run(tmp_path / "run")).vehicles[0]
    vehicle.record = None
    up = (vehicle.true("in_contact") == 0) & (vehicle.true("armed") > 0)
    flight = vehicle.flight()
    assert flight == (vehicle.time[up][0], vehicle.time[up][-1])
    monkeypatch.setattr("sitl_bridge.analysis.evaluation.run_record.read_columns", None)
    assert vehicle.flight() == flight


def test_a_measure_of_the_users_own_is_judged_and_reported(tmp_path: Path) -> None:
    write_files(DOCS / "how-to" / "fault.md", tmp_path)
    limits = tmp_path / "limits.yaml"
    limits.write_text("reach.py:Reach: 1.5\ntouchdown: 0.4\n")
    run = read_run(make_run(tmp_path / "run"))
    vehicle = run.vehicles[0]
    flight = vehicle.flight()
    assert flight is not None
    place = vehicle.true("position", "north", "east")[vehicle.time >= flight[0]]
    reach = max(np.hypot(*(place - place[0]).T))
    found = evaluate(run, limits_of_file(limits))
    (own,) = [one for one in found.measures if one.kind.name.endswith("reach.py:Reach")]
    assert own.value == pytest.approx(reach)
    assert (own.limit, own.kind.unit) == (1.5, "m")
    assert own.kind.title == "Greatest horizontal distance from the take-off"
    assert own.passed == (reach <= 1.5)
    assert Measure.from_data(json.loads(json.dumps(own.as_data()))).words() == own.words()
    damaged = Measure.from_data({**own.as_data(), "vehicle": 1.5, "title": None, "unit": 3})
    assert damaged.words().startswith("1.5: ")
    (one,) = report([run], limits_of_file(limits))
    assert "Greatest horizontal distance from the take-off" in page([one])
    for name, message in (("reach.py:None", "has no class None"), ("none.py:Reach", "no such Python file")):
        with pytest.raises(ConfigurationError, match=message):
            validate_limits({name: 1.0}, "limits", directory=tmp_path)
    (tmp_path / "reach.py").write_text((tmp_path / "reach.py").read_text().replace("flight()", "landing()"))
    failed = evaluate(run, limits_of_file(limits))
    assert "touchdown" in [one.kind.name for one in failed.measures]
    verdict = judge(run, failed)
    assert not verdict.succeeded
    assert sum("reach.py:Reach failed: AttributeError" in reason for reason in verdict.reasons) == 1
    assert not any("has no value" in reason for reason in verdict.reasons)
