"""Flights of mixed outcome: the flight and every look at it afterwards have one verdict."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import typer
from support.paths import MISSIONS

from sitl_bridge.analysis.evaluation.verdict import FAILED, SUCCEEDED
from sitl_bridge.analysis.report.report_page import PAGE
from sitl_bridge.analysis.report.report_text import VERDICTS
from sitl_bridge.api.in_process import FleetPool
from sitl_bridge.cli.report import report as command
from sitl_bridge.lab.campaign.flight_job import fly_here
from sitl_bridge.session.scenario_settings import scenario_settings
from sitl_bridge.session.settings import FlightOptions

HOP = MISSIONS / "campaigns" / "hop.plan"
FEW, MANY = 4, 100
CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("calm air", {}),
    ("a limit that no flight keeps", {"limits": {"mission_legs_max": 0.001}}),
    ("a limit in the middle", {"limits": {"mission_legs_max": 0.4}, "wind": 6.0}),
    ("a motor fails", {"events": [{"at": 14.0, "kind": "motor_loss", "motor": 2}]}),
    ("a motor is weak", {"events": [{"at": 14.0, "kind": "motor_loss", "motor": 2, "thrust": 0.7}]}),
    ("no GPS for some seconds", {
        "events": [{"at": 14.0, "kind": "sensor_fault", "sensor": "gps", "fault": "off", "lasts": 4.0}]
    }),
    ("the time limit", {"time_limit": 15.0}),
    ("a limit without a value", {"limits": {"slot_error_steady": 1.0}}),
    ("strong wind", {"wind": 13.0}),
    ("two in one place", {"apart": 0.3}),
)  # fmt: skip


FLEETS = FleetPool()


def fly(number: int, directory: Path) -> tuple[Path, str]:
    """Fly one case; returns the run directory and the word of the flight's verdict."""
    _, case = CASES[number % len(CASES)]
    vehicle = {"airframe": "iris", "mission": str(HOP), "autopilot": "builtin"}
    vehicles = [vehicle] if "apart" not in case else [vehicle, {**vehicle, "position": [case["apart"], 0, 0]}]
    scenario = {
        "seed": number,
        "world": {"wind": {"steady": {"speed": case.get("wind", 0.0), "direction": 270}}},
        "vehicles": vehicles,
        "events": case.get("events", []),
        "time_limit": case.get("time_limit", 90.0),
        "limits": case.get("limits", {}),
    }
    file = directory / f"flight{number}.yaml"
    file.write_text(json.dumps(scenario), encoding="utf-8")
    settings = scenario_settings(file, FlightOptions(speed=math.inf, runs=directory / "runs"))
    plans = [plan for _, plan in settings.check() if plan is not None]
    run, verdict = fly_here(settings, plans, FLEETS)
    return run.path, verdict.word


def seen(run: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str, str]:
    """What ``report`` says: exit code, word in the text, in the JSON and on the page."""
    with pytest.raises(typer.Exit) as ended:
        command([run], as_json=True)
    told = capsys.readouterr()
    (data,) = json.loads(told.out)
    text = next(line for line in told.err.splitlines() if line.startswith(f"{run.name}: "))
    page = (run / PAGE).read_text(encoding="utf-8")
    return ended.value.exit_code, text.removeprefix(f"{run.name}: "), data["verdict"], page


def check(count: int, directory: Path, capsys: pytest.CaptureFixture[str]) -> Counter[str]:
    words: Counter[str] = Counter()
    for number in range(count):
        run, word = fly(number, directory)
        kept = json.loads((run / "summary.json").read_text(encoding="utf-8"))
        code, text, data, page = seen(run, capsys)
        case = f"{CASES[number % len(CASES)][0]}, seed {number}"
        assert (text, data, kept["verdict"]["word"]) == (word, word, word), case
        assert code == (0 if word == SUCCEEDED else 1), case
        assert f'class="verdict {VERDICTS[word][0]}"' in page, case
        assert bool(kept["verdict"]["reasons"]) is (word != SUCCEEDED), case
        words[word] += 1
    return words


def test_flight_and_report_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = check(FEW, tmp_path, capsys)
    assert words[SUCCEEDED] > 0
    assert words[FAILED] > 0


@pytest.mark.slow
def test_flight_and_report_agree_in_a_hundred_flights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = check(MANY, tmp_path, capsys)
    with capsys.disabled():
        print(f"\n{MANY} flights: {dict(words)}")
    assert words.total() == MANY
