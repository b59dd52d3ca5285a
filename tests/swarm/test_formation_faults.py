"""Formations of flight stacks: what goes wrong and that the rest keep their slots; many in one process."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sitl_bridge.record.truth_log import read_truth
from sitl_bridge.session.outcome import FlightOutcome
from sitl_bridge.session.scenario_settings import scenario_settings
from sitl_bridge.session.session import Session
from sitl_bridge.session.settings import FlightOptions

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

INSTANCE = 90

SCENARIO = """
seed: 5
vehicles: [{{airframe: iris_rtk, count: {count}, autopilot: {autopilot}}}]
formation:
  count: {count}
  start: {{pattern: grid, spacing: 4}}
  leader:
    speed: 1.5
    yaw: 0
    waypoints: [{{position: [0, 0, -8], hold: 3}}, {{position: [{north}, 0, -8], hold: 4}}]
  patterns: [{{at: 0, pattern: v, spacing: 4}}]
  {more}
time_limit: 300
"""


@dataclass(frozen=True)
class Flight:
    """What a flight left; ``true`` is (k, n, 3) m NED at ``clock`` (k,) s of the simulation."""

    outcome: FlightOutcome
    summary: dict[str, Any]
    tracks: dict[str, Any]
    clock: np.ndarray[Any, Any]
    true: np.ndarray[Any, Any]
    said: str

    @property
    def words(self) -> str:
        """What happened in the formation."""
        return "\n".join(self.summary["events"])

    def worst(self, vehicles: list[int], begin: float = 0.0) -> float:
        """Greatest slot error in m of some vehicles with a steady centre, from s since the start on."""
        rows = self.tracks["steady"] & (self.tracks["time"] >= begin)
        assert rows.any()
        errors = self.tracks["slot_error"][rows][:, vehicles]
        assert np.isfinite(errors).any(axis=0).all(), "each of them flew in formation"
        return float(np.nanmax(errors))

    def closest(self, vehicles: list[int]) -> float:
        """Least true distance in m between any two of some vehicles that are in the air."""
        places = self.true[:, vehicles]
        places = places[(places[:, :, 2] < -2.0).all(axis=1)]
        apart = np.linalg.norm(places[:, :, None] - places[:, None], axis=3)
        return float(apart[:, ~np.eye(len(vehicles), dtype=bool)].min())


Fault = tuple[float, Callable[[Session], None]]
"""s after the formation's start, and what happens then."""


def kill(vehicle: int) -> Callable[[Session], None]:
    """End a vehicle's flight stack."""
    return lambda session: os.kill(_process(session, vehicle), signal.SIGKILL)


def stop_for(vehicle: int, seconds: float) -> Callable[[Session], None]:
    """Stop a vehicle's flight stack for some seconds of wall time."""

    def stop(session: Session) -> None:
        pid = _process(session, vehicle)
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(seconds, os.kill, (pid, signal.SIGCONT)).start()

    return stop


def _process(session: Session, vehicle: int) -> int:
    stack = session.vehicles[vehicle].flight_stack
    assert stack is not None
    return stack.pid


def fly(
    directory: Path,
    more: str = "",
    *faults: Fault,
    count: int = 4,
    north: float = 24.0,
    autopilot: str = "builtin",
    speed: float = 5.0,
) -> Flight:
    """Fly the scenario; ``more`` is of the formation."""
    file = directory / "fault.yaml"
    file.write_text(SCENARIO.format(more=more, count=count, north=north, autopilot=autopilot))
    said: list[str] = []

    def hear(line: str) -> None:
        said.append(line)
        start = re.search(r"\bstart at ([0-9.]+) s", line)
        for seconds, fault in faults if start else ():
            session.server.at(round((float(start[1]) + seconds) * 1e6), lambda fault=fault: fault(session))  # type: ignore[index,misc]

    settings = scenario_settings(file, FlightOptions(instance=INSTANCE, speed=speed, runs=directory / "runs"))
    with Session(settings, hear) as session:
        session.fly()
    outcome = session.conclude()
    told = "\n".join(said)
    print(told)
    place = session.directory.path / "formation"
    assert (place / "summary.json").is_file(), told
    with np.load(place / "tracks.npz") as tracks:
        columns = {name: tracks[name] for name in tracks.files}
    table = read_truth(session.directory.truth)[: len(read_truth(session.directory.truth)) // count * count]
    names = ("position_north", "position_east", "position_down")
    true = np.stack([table[name].reshape(-1, count) for name in names], axis=2)
    clock = table["time"].reshape(-1, count)[:, 0] * 1e-6
    summary = json.loads((place / "summary.json").read_text())
    return Flight(outcome, summary, columns, clock[::10], true[::10], told)


KILLED: Fault = (8.0, kill(0))
"""The leader, on its way."""


def test_when_the_leader_dies_the_next_in_line_leads_on_to_the_end_of_the_path(tmp_path: Path) -> None:
    run = fly(tmp_path, "leader_loss: {policy: next}", KILLED)
    assert run.summary["succeeded"]
    assert "vehicle 1: leads now" in run.words
    assert run.worst([1, 2, 3], 12.0) < 0.5
    assert run.closest([1, 2, 3]) > 1.0
    # In the end they are at the end of the path, and down.
    assert np.all(run.true[-1, 1:, 2] > -0.3)
    assert run.true[-1, 1:, 0].max() > 15.0


def test_when_the_leader_dies_the_rest_stop_and_hold_their_slots(tmp_path: Path) -> None:
    run = fly(tmp_path, "leader_loss: {policy: hold}", KILLED)
    assert "leads now" not in run.words
    start = run.summary["started_at_s"]
    after = (run.clock > start + 12.5) & (run.clock < start + 14.5)
    moved = np.ptp(run.true[after][:, 1:], axis=0)
    assert moved.max() < 0.4, "they stand"
    before = run.true[np.searchsorted(run.clock, start + 7.9), 1:]
    shape = run.true[np.searchsorted(run.clock, start + 14.0), 1:]
    drift = (shape - shape[0]) - (before - before[0])
    assert np.linalg.norm(drift, axis=1).max() < 0.5, "and keep their shape"
    assert np.all(run.true[-1, 1:, 2] > -0.3), "and land"


def test_when_the_leader_dies_the_rest_return_to_where_they_started(tmp_path: Path) -> None:
    run = fly(tmp_path, "leader_loss: {policy: return}\n  duration: 40", KILLED)
    assert "the leader is lost: all return" in run.words
    assert run.closest([1, 2, 3]) > 1.0
    places = run.true[0, :, :2]
    for vehicle in (1, 2, 3):
        away = np.linalg.norm(places - run.true[-1, vehicle, :2], axis=1)
        assert away.min() < 1.0, "above a place of the start, which are theirs in any order"
    assert np.all(run.true[-1, 1:, 2] > -0.3)


def test_with_a_third_of_the_leaders_words_lost_and_the_rest_late_slots_are_kept(tmp_path: Path) -> None:
    run = fly(tmp_path, "\nradio: {graph: star, delay: 0.2, loss: 0.3}")
    assert run.outcome.succeeded, run.outcome.reason
    assert "leads now" not in run.words
    assert run.worst([0, 1, 2, 3]) < 0.5
    assert run.summary["true_worst_slot_error_steady_m"] < 0.6
    assert run.closest([0, 1, 2, 3]) > 1.0


def test_one_that_is_told_to_lands_and_the_rest_keep_their_slots(tmp_path: Path) -> None:
    leaves = "\nevents: [{at: 8, kind: leave_formation, vehicles: [3], action: land}]"
    run = fly(tmp_path, leaves)
    assert run.outcome.succeeded, run.outcome.reason
    assert "vehicle 3: aborts: land" in run.words
    assert run.worst([0, 1, 2], 10.0) < 0.5
    assert np.all(run.true[-1, :, 2] > -0.3)
    assert run.true[-1, 3, 0] < run.true[-1, 0, 0] - 5.0, "it stayed behind"


def seven_of_nine_keep_their_slots(directory: Path, autopilot: str, speed: float) -> None:
    faults = (10.0, kill(4)), (12.0, stop_for(7, 5.0))
    run = fly(directory, "", *faults, count=9, north=36.0, autopilot=autopilot, speed=speed)
    rest = [0, 1, 2, 3, 5, 6, 8]
    assert "vehicle 4 sends no telemetry any more" in run.said
    assert "vehicle 7 sends no telemetry any more" in run.said
    assert "the others fly on without it" in run.said
    assert run.worst(rest, 10.0) < 0.5
    assert run.closest(rest) > 1.0
    assert run.outcome.collision_count == 0
    assert np.all(run.true[-1][rest, 2] > -0.3), "they have landed"


def test_of_nine_one_dies_and_one_stands_still_and_the_rest_keep_their_slots(tmp_path: Path) -> None:
    seven_of_nine_keep_their_slots(tmp_path, "builtin", 2.0)


@pytest.mark.px4
def test_of_nine_px4s_one_dies_and_one_stands_still_and_the_rest_keep_their_slots(tmp_path: Path) -> None:
    seven_of_nine_keep_their_slots(tmp_path, "px4", 1.5)


def test_twenty_fly_in_formation_from_one_process_each_on_a_port_of_its_own(tmp_path: Path) -> None:
    run = fly(tmp_path, count=20, north=16.0, speed=2.0)
    assert run.outcome.succeeded, run.outcome.reason
    everybody = list(range(20))
    assert run.worst(everybody) < 0.5
    assert run.closest(everybody) > 1.0
    assert run.outcome.collision_count == 0
    assert np.all(run.true[-1, :, 2] > -0.3)


def test_one_that_is_silent_for_a_time_comes_back_and_one_for_good_does_not(tmp_path: Path) -> None:
    silent = (
        "\nevents:\n  - {at: 6, kind: vehicle_stalled, vehicles: [2], lasts: 3}"
        "\n  - {at: 10, kind: vehicle_lost, vehicles: [3]}"
    )
    run = fly(tmp_path, silent)
    assert run.outcome.succeeded, run.outcome.reason
    assert "vehicle 2: is back" in run.words
    assert run.words.count("is gone") == 2
    assert run.worst([0, 1, 2], 12.0) < 0.5
    # Their flight stacks have missed the set-points, as they were to.
    notes = [note for note in run.outcome.verdict.notes if "Offboard control signal lost" in note]
    assert [note.split(":")[0] for note in notes] == ["2", "3"]
