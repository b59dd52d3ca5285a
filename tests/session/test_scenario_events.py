"""Events of scenarios: which of them fly and simulate carry out, and what happens to the others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from pydantic import TypeAdapter
from support.commands import run_command
from support.docs_pages import write_files
from support.paths import DOCS

from sitl_bridge.api.formation_flight import fly_formation
from sitl_bridge.autopilot.stack import StackVehicle
from sitl_bridge.autopilot.stack_fleet import StackFleet
from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.base.field_paths import kinds
from sitl_bridge.core.simulation.events import (
    COMMANDED,
    AnyEvent,
    EventSpecification,
    GustEvent,
    MotorLoss,
    ScheduledEvent,
    Timeline,
    WindEvent,
    actions,
)
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.wind import SteadyWind, WindSpecification
from sitl_bridge.core.world.world import World
from sitl_bridge.session.event_support import SUPPORT, FlightKind, flight_kind, validate_events
from sitl_bridge.session.scenario import load_scenario
from sitl_bridge.swarm.avoidance.agent import ControlCommand
from sitl_bridge.swarm.avoidance.full_dynamics import DynamicsPlant
from sitl_bridge.swarm.avoidance.solver import PlanStatus
from sitl_bridge.swarm.formation.events import FORMATION_KINDS, AnyFormationEvent

COLUMNS: tuple[FlightKind, ...] = (
    "fly",
    "full formation",
    "quick formation",
    "full avoidance",
    "quick avoidance",
)
EVENTS = {
    "motor_loss": "motor: 1",
    "propeller_damage": "motor: 1",
    "sensor_fault": "sensor: gps",
    "gps_jamming": "level: 1",
    "gps_spoofing": "velocity: [1, 0, 0]",
    "payload_drop": "vehicles: []",
    "custom": "file: charge_loss.py, class: ChargeLoss",
    "stack_killed": "vehicles: [0]",
    "stack_stopped": "seconds: 1",
    "gust": "speed: 3",
    "wind_change": "wind: {steady: {speed: 3}}",
    "leave_formation": "vehicles: [1]",
    "vehicle_lost": "vehicles: [1]",
    "vehicle_stalled": "vehicles: [1]",
}
FORMATION = """formation:
  count: 2
  duration: 12
  leader: {waypoints: [{position: [0, 0, -10], hold: 8}, {position: [3, 0, -10]}]}
  patterns: [{at: 0, pattern: column}]
  leader_loss: {timeout: 1}
"""
AVOIDANCE = """avoidance:
  duration: 12
  routes:
    - {name: a, points: [[0, 0, -5], [8, 0, -5]]}
    - {name: b, points: [[8, 6, -5], [0, 6, -5]]}
"""


def scenario(directory: Path, section: str, *events: str) -> Path:
    write_files(DOCS / "how-to" / "fault.md", directory)
    file = directory / "scenario.yaml"
    listed = "".join(f"  - {{{event}}}\n" for event in events)
    file.write_text(f"seed: 1\nevents:\n{listed}{section}")
    return file


# --------------------------------------------------------------------------- who carries out what


def test_every_kind_of_event_has_its_row() -> None:
    known = [kind for event in (*get_args(AnyEvent), *get_args(AnyFormationEvent)) for kind in kinds(event)]
    assert sorted(known) == sorted(SUPPORT) == sorted(EVENTS)


def test_the_docs_have_the_table_of_who_carries_out_what() -> None:
    text = (DOCS / "scenario.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| (.*?) ?\|$", text.partition("### `events`")[2], re.MULTILINE)
    found = {kind: {"fly", *filter(None, kinds.split(", "))} for kind, kinds in rows}
    assert found == {kind: set(kinds) for kind, kinds in SUPPORT.items()}


@pytest.mark.parametrize("kind", EVENTS)
@pytest.mark.parametrize("who", COLUMNS)
def test_an_event_is_carried_out_or_refused_with_its_place_and_a_remedy(
    tmp_path: Path, who: FlightKind, kind: str
) -> None:
    section = AVOIDANCE if "avoidance" in who else FORMATION
    if section == AVOIDANCE and kind in FORMATION_KINDS:
        with pytest.raises(ConfigurationError, match=r"line 3: events\[0\]: .* leave it out"):
            load_scenario(scenario(tmp_path, section, f"at: 1, kind: {kind}, {EVENTS[kind]}"))
        return
    loaded = load_scenario(scenario(tmp_path, section, f"at: 1, kind: {kind}, {EVENTS[kind]}"))
    if who in SUPPORT[kind]:
        validate_events(loaded, who)
        return
    with pytest.raises(ConfigurationError) as caught:
        validate_events(loaded, who)
    (fault,) = caught.value.faults
    assert fault.startswith(f"line 3: events[0]: {kind} has no effect here: ")
    assert re.search(r"; (add --on full|use sitl-bridge fly|give kind \w+)", fault)


def test_simulate_refuses_before_it_makes_a_run_directory(tmp_path: Path) -> None:
    file = scenario(tmp_path, FORMATION, "at: 1, kind: stack_killed")
    result = run_command("simulate", str(file), "--runs-dir", str(tmp_path / "r"))
    assert isinstance(result.exception, ConfigurationError)
    assert "line 3: events[0]: stack_killed has no effect here: point masses" in str(result.exception)
    assert not (tmp_path / "r").exists()
    loaded = load_scenario(file)
    assert [flight_kind(loaded, on) for on in ("quick", "full")] == ["quick formation", "full formation"]


def test_an_airframe_in_place_of_the_scenarios_must_suit_its_events(tmp_path: Path) -> None:
    file = scenario(
        tmp_path, f"vehicles: [{{airframe: firefly}}]\n{FORMATION}", "at: 1, kind: motor_loss, motor: 5"
    )
    command = ["simulate", str(file), "--on", "full", "--airframe", "iris", "--runs-dir", str(tmp_path / "r")]
    result = run_command(*command)
    assert isinstance(result.exception, ConfigurationError)
    assert "line 3: events[0]: vehicle 0: iris has motors 1 to 4" in str(result.exception)


# --------------------------------------------------------------------------- what they do


def test_actions_of_a_timeline_run_at_their_steps(iris: Airframe) -> None:
    with StackFleet(World(), [StackVehicle(iris)]) as fleet:
        found: list[int] = []
        times = (0.0, 0.01, 0.05, 0.1)
        fleet.timeline = Timeline(
            fleet.time, [(t, lambda: found.append(fleet.time)) for t in reversed(times)]
        )
        start = fleet.time
        fleet.advance_steps(30)
        assert [time - start for time in found] == [0, 12_000, 52_000, 100_000]
        assert fleet.time - start == 120_000


def test_a_formation_on_full_dynamics_meets_the_events_of_its_scenario(tmp_path: Path) -> None:
    file = scenario(
        tmp_path,
        FORMATION,
        "at: 2, kind: wind_change, wind: {steady: {speed: 2}}",
        "at: 4, kind: sensor_fault, sensor: magnetometer, fault: stuck, vehicles: ['1'], lasts: 1",
        "at: 3, kind: vehicle_stalled, vehicles: [1], lasts: 3",
    )
    loaded = load_scenario(file)
    assert loaded.formation is not None
    said: list[str] = []
    flown = fly_formation(loaded, [load_airframe("iris_rtk")] * 2, say=said.append)
    assert [line.split(" (")[0] for line in said] == [
        "at 2 s: wind change",
        "at 4 s: sensor fault",
        "over: sensor fault",
    ]
    events = flown.result.summary()["events"]
    assert isinstance(events, list)
    noted = {text.split(": ", 1)[1]: float(text.split()[0]) for text in events}
    assert noted["vehicle 1: is gone"] == pytest.approx(3.0, abs=0.2)
    assert noted["vehicle 1: is back"] == pytest.approx(6.0, abs=0.2)
    assert flown.contacts == 0
    # It is back in the formation, not in the failsafe of its flight stack.
    assert np.isfinite(flown.result.error[-1]).all()
    assert flown.result.error[-1].max() < 1.0


ZERO = (0.0, 0.0, 0.0)
UPWARD = ControlCommand(0.0, 0.0, 0.0, 0.0, 9.81, PlanStatus.SOLVED)


def flown_plant(airframe: Airframe, *events: Any) -> DynamicsPlant:
    plant = DynamicsPlant(
        airframe, [(0.0, 0.0, -50.0)], [0.0], events=events, names=["a"], say=lambda _line: None
    )
    for _ in range(50):
        plant.advance([UPWARD], 0.02)
    return plant


def test_vehicles_that_avoid_each_other_meet_the_events_of_their_scenario(iris: Airframe) -> None:
    calm = flown_plant(iris).state()[0]
    failed = flown_plant(iris, MotorLoss(kind="motor_loss", at=0.5, vehicles=("a",))).state()[0]
    assert np.abs(calm[6:8]).max() < 0.02
    assert np.abs(failed[6:8]).max() > 0.5, "it tumbles"
    for event in (
        GustEvent(kind="gust", at=0.1, speed=8.0, direction=180.0, length=1.0, passing_speed=10.0),
        WindEvent(
            kind="wind_change", at=0.1, wind=WindSpecification(steady=SteadyWind(speed=8.0, direction=180.0))
        ),
    ):
        assert flown_plant(iris, event).state()[0, 3] > calm[3] + 0.1, "it drifts to the north"


def test_a_gust_is_noted_when_it_begins_and_changes_nothing_then(iris: Airframe) -> None:
    simulation = Simulation(World(), [VehicleSetup(iris.vehicle(), iris.sensor_records())])
    gust, noted = GustEvent(kind="gust", at=0.5, speed=8.0), []
    ((at, begin),) = actions(
        [gust],
        simulation,
        lambda _line: None,
        on_event=lambda event, begins, _: noted.append((event, begins)),
    )
    before = simulation.states.tobytes(), simulation.world.wind.tobytes()
    begin()
    assert (at, noted) == (0.5, [(gust, True)])
    assert (simulation.states.tobytes(), simulation.world.wind.tobytes()) == before


def test_a_recorded_wind_of_an_event_lies_beside_the_scenario(tmp_path: Path, iris: Airframe) -> None:
    event = "at: 1, kind: wind_change, wind: {series: {file: wind.csv}}"
    file = scenario(tmp_path, FORMATION, event)
    with pytest.raises(ConfigurationError, match=rf"line 3: events\[0\]: .*{tmp_path}/wind.csv"):
        load_scenario(file)
    (tmp_path / "wind.csv").write_text("t,north,east,down\n0,1,0,0\n9,1,0,0\n")
    (found,) = load_scenario(file).events
    assert isinstance(found, WindEvent)
    simulation = Simulation(World(), [VehicleSetup(iris.vehicle(), iris.sensor_records())])
    ((_, change),) = actions([found], simulation, lambda _line: None)
    change()
    assert simulation.world.wind_series.shape == (2, 4)


def test_a_fault_of_the_users_own_begins_and_ends(tmp_path: Path, iris: Airframe) -> None:
    fault = "at: 1, kind: custom, file: own.py, class: Own, options: {share: 0.25}, lasts: 2"
    (tmp_path / "own.py").write_text(
        "import sitl_bridge as sb\n"
        "class Own(sb.faults.CustomFault):\n"
        "    def __init__(self, share):\n"
        "        self.share = share\n"
        "    def begin(self, simulation, vehicle):\n"
        "        simulation.states[vehicle]['rotor_health'][2] = self.share\n"
        "    def end(self, simulation, vehicle):\n"
        "        simulation.states[vehicle]['rotor_health'][2] = 1.0\n"
    )
    (found,) = load_scenario(scenario(tmp_path, FORMATION, fault)).events
    simulation = Simulation(World(), [VehicleSetup(iris.vehicle(), iris.sensor_records())])
    noted: list[ScheduledEvent] = []
    happens = actions([found], simulation, lambda _line: None, on_event=lambda event, *_: noted.append(event))
    health = simulation.states[0]["rotor_health"]
    assert [at for at, _ in happens] == [1.0, 3.0]
    happens[0][1]()
    assert health[:4].tolist() == [1.0, 1.0, 0.25, 1.0]
    happens[1][1]()
    assert health[:4].tolist() == [1.0, 1.0, 1.0, 1.0]
    # A replay reads the event back as it was recorded, in the fields of a scenario.
    recorded = noted[0].model_dump(mode="json")
    assert recorded["class"] == "Own"
    assert TypeAdapter(EventSpecification).validate_python(recorded) == found
    assert "custom" not in COMMANDED


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("file: none.py, class: ChargeLoss", "no such Python file for a fault"),
        ("file: charge_loss.py, class: Nothing", "has no class Nothing derived from CustomFault"),
        ("file: charge_loss.py, class: ChargeLoss, options: {part: 1}", "does not take its options"),
        ("file: charge_loss.py, class: ChargeLoss, lasts: 2", "ChargeLoss defines no end"),
    ],
)
def test_a_fault_that_cannot_be_loaded_is_refused_before_the_flight(
    tmp_path: Path, named: str, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=rf"line 3: events\[0\]: .*{message}"):
        load_scenario(scenario(tmp_path, FORMATION, f"at: 1, kind: custom, {named}"))
