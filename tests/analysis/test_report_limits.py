"""Limits of measures in scenarios and on the command line: checked before a flight, judged after it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from support.run_directories import make_run

from sitl_bridge.analysis.evaluation.run_record import read_run
from sitl_bridge.analysis.evaluation.verdict import Verdict, conclude
from sitl_bridge.analysis.report.reported_run import report
from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.cli.report import write_report_of
from sitl_bridge.session.scenario_settings import scenario_settings
from sitl_bridge.session.settings import FlightOptions

SCENARIO = """
vehicles: [{airframe: iris}]
mission: hover.py
limits: {%s}
"""


def scenario(tmp_path: Path, limits: str) -> Path:
    (tmp_path / "hover.py").write_text("")
    file = tmp_path / "flight.yaml"
    file.write_text(SCENARIO % limits)
    return file


def test_limits_of_a_scenario_reach_the_flight_and_those_of_the_command_line_come_on_top(
    tmp_path: Path,
) -> None:
    file = scenario(tmp_path, "hold_max: 0.5, touchdown: null")
    settings = scenario_settings(file, FlightOptions(limits={"hold_max": 0.3}))
    assert settings.limits == {"hold_max": 0.3, "touchdown": None}


def test_an_unknown_measure_in_a_scenario_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"line 4: hold_mx: no such measure; did you mean hold_max\?"
    ):
        scenario_settings(scenario(tmp_path, "hold_mx: 0.5"), FlightOptions())


def judged(path: Path, limits: dict[str, float | None] | None = None) -> Verdict:
    (one,) = report([read_run(path)], limits)
    return one.verdict


def test_a_run_is_judged_by_the_limits_that_its_user_set(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    assert judged(run).succeeded
    assert judged(run, {"touchdown": 0.6, "failsafes": None}).succeeded
    (fault,) = judged(run, {"touchdown": 0.4}).reasons
    assert "0.5 m/s (limit: 0.4 m/s)" in fault
    (fault,) = judged(run, {"slot_error_steady": 0.4}).reasons
    assert fault == "slot_error_steady has a limit, but the run has no value for it"


def test_a_vehicle_that_is_put_back_to_its_start_has_still_hit_the_ground(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", summary=False)
    description = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(description | {"kind": "serve"}))
    rows = np.load(run / "truth.npy")
    rows["impact_speed"][-1] = 0.0
    np.save(run / "truth.npy", rows)
    (fault,) = judged(run, {"touchdown": 0.4}).reasons
    assert "0.5 m/s (limit: 0.4 m/s)" in fault
    assert read_run(run).partial.startswith("the run has no summary.json: serve writes none")


def test_a_report_with_limits_of_its_own_says_that_it_judges_anew(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    found = read_run(run)
    conclude(found, found.summary)
    (run / "summary.json").write_text(json.dumps(found.summary))
    assert judged(run).origin == ""
    anew = judged(run, {"touchdown": 0.4, "vibration": None})
    assert anew.word == "failed"
    assert anew.origin == "judged anew with touchdown=0.4, vibration=none"
    assert judged(run).succeeded, "a look with other limits changes nothing"
    assert judged(make_run(tmp_path / "old")).origin.startswith("judged by this report")


def test_fly_writes_the_report(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    console = Console(record=True, width=200)
    write_report_of(run, console)
    assert f"report: {run / 'report.html'}" in console.export_text()
    assert (run / "report.html").is_file()


def test_a_report_keeps_the_limits_with_which_the_run_was_flown(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    description = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(description | {"limits": {"touchdown": 0.4}}))
    assert judged(run).word == "failed"
    assert judged(run, {"touchdown": 0.6}).succeeded
    (run / "run.json").write_text(json.dumps(description | {"limits": {"of_old": 0.4}}))
    (one,) = report([read_run(run)])
    assert any("of_old: no such measure" in note for note in one.run.notes)
