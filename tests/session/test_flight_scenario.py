"""Scenario files: what they mean, and what is refused with its place and line."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from support.paths import MISSIONS

from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.core.sensors.gps import JAMMING
from sitl_bridge.core.sensors.records import FAULT_STUCK
from sitl_bridge.core.simulation import events
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe, Payload
from sitl_bridge.core.world.world import World
from sitl_bridge.session.scenario_settings import scenario_settings
from sitl_bridge.session.settings import FlightOptions
from sitl_bridge.swarm.formation.specification import FormationPlan


def write(directory: Path, text: str) -> Path:
    """A scenario file beside a script that would fly it."""
    (directory / "fly.py").write_text("print('flown')\n")
    file = directory / "scenario.yaml"
    file.write_text(text)
    return file


def test_several_vehicles_alike_get_names_places_and_instances(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """
vehicles:
  - {name: a, airframe: iris, count: 3, grid: {columns: 2, spacing: 4}, position: [1, 2, 0]}
  - {airframe: hector, yaw: 90, autopilot: builtin, parameters: {MPC_XY_VEL_MAX: 5}}
mission: fly.py
""",
    )
    made = scenario_settings(file, FlightOptions(instance=5, arguments=("--more",)))
    assert [v.name for v in made.vehicles] == ["a0", "a1", "a2", "3"]
    assert [v.position for v in made.vehicles[:3]] == [(1, 2, 0), (1, 6, 0), (-3, 2, 0)]
    assert [v.instance for v in made.vehicles] == [5, 6, 7, 8]
    assert made.vehicles[3].yaw == pytest.approx(math.pi / 2)
    assert made.vehicles[3].parameters == {"MPC_XY_VEL_MAX": 5}
    assert made.mission == (str(tmp_path / "fly.py"), "--more")
    assert made.proximity is not None
    assert made.proximity.collisions


def test_every_fault_is_told_with_its_line(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """vehicles:
  - {airframe: iris, cuont: 3}
events:
  - {at: -1, kind: motor_loss, motor: 0}
  - {at: 5, kind: moter}
mission: fly.py
""",
    )
    with pytest.raises(ConfigurationError) as caught:
        scenario_settings(file, FlightOptions())
    text = str(caught.value)
    for words in ("line 2", "did you mean `count`", "line 4", "events[0].at", "events[0].motor", "line 5"):
        assert words in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vehicles: [{airframe: iris}]", "has no mission"),
        ("vehicles: [{airframe: iris, mission: fly.py}]\nmission: fly.py", "flies the same vehicles"),
        ("mission: fly.py", "has no vehicles"),
        ("vehicles: [{airframe: irsi}]\nmission: fly.py", "vehicles[0].airframe"),
        ("vehicles: [{airframe: iris}]\nmission: none.py", "no such mission file"),
        ("vehicles: [{name: a}, {name: a}]\nmission: fly.py", "several vehicles are called a"),
    ],
)
def test_what_cannot_be_flown_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        scenario_settings(write(tmp_path, text), FlightOptions())
    assert words in str(caught.value)


def test_events_that_cannot_befall_a_vehicle_are_refused(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """
vehicles: [{airframe: iris, count: 2}]
events:
  - {at: 1, kind: motor_loss, motor: 5}
  - {at: 2, kind: payload_drop, vehicles: [1]}
  - {at: 3, kind: sensor_fault, sensor: optical_flow}
  - {at: 4, kind: gps_jamming, vehicles: [7]}
mission: fly.py
""",
    )
    with pytest.raises(ConfigurationError) as caught:
        scenario_settings(file, FlightOptions(autopilot="builtin")).check()
    text = str(caught.value)
    for words in ("motors 1 to 4", "carries no payload", "optical_flow", "there is no vehicle 7"):
        assert words in text


def test_the_shipped_formation_stands_where_its_start_has_it_and_is_flown_by_this_program() -> None:
    made = scenario_settings(MISSIONS / "formation_cube.yaml", FlightOptions(instance=20))
    places = np.array([vehicle.position for vehicle in made.vehicles])
    assert places.shape == (9, 3)
    assert np.all(places[:, 2] == 0.0)
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    assert apart[~np.eye(9, dtype=bool)].min() == pytest.approx(3.0)
    assert made.mission is None
    assert isinstance(made.formation, FormationPlan)
    assert made.formation.choreography.count == 9
    assert made.limits == {"separation": made.formation.limits.separation}


# ------------------------------------------------------------------ events, in the simulation


def simulation_of(*airframes: Airframe) -> Simulation:
    setups = [
        VehicleSetup.from_airframe(a, position=(0.0, 5.0 * i, 0.0), name=str(i))
        for i, a in enumerate(airframes)
    ]
    return Simulation(World(), setups)


def test_events_begin_and_pass(iris: Airframe) -> None:
    s = simulation_of(iris, iris)
    said: list[str] = []
    happening = (
        events.MotorLoss(kind="motor_loss", at=1.0, vehicles=("1",), motor=2, thrust=0.25, lasts=2.0),
        events.SensorFault(kind="sensor_fault", at=2.0, sensor="gps", fault="off", vehicles=(0,)),
    )
    found = events.actions(happening, s, said.append)
    assert [at for at, _ in found] == [1.0, 3.0, 2.0]
    found[0][1]()
    assert s.states["rotor_health"][1, 1] == 0.25
    assert np.all(s.states["rotor_health"][0, :4] == 1.0)
    found[1][1]()
    assert np.all(s.states["rotor_health"][:, :4] == 1.0)
    found[2][1]()
    assert s.sensor_states[0]["fault"][events.find_sensor(s.sensors[0], "gps")] != 0
    assert s.sensor_states[1]["fault"][events.find_sensor(s.sensors[1], "gps")] == 0
    assert said[0] == "at 1 s: motor loss (motor 2, thrust 0.25): vehicle 1"


def test_a_fault_goes_on_when_another_of_the_same_part_ends(iris: Airframe) -> None:
    s = simulation_of(iris)
    barometer, gps = events.find_sensor(s.sensors[0], "barometer"), events.find_sensor(s.sensors[0], "gps")
    dead = events.MotorLoss(motor=2, thrust=0.5)
    torn = events.PropellerDamage(motor=2, lost=0.2)
    weak, strong = events.GpsJamming(level=0.5), events.GpsJamming(level=1.0)
    stuck, off = (events.SensorFault(sensor="barometer", fault=f) for f in ("stuck", "off"))
    for event in (dead, torn, weak, strong, stuck, off):
        events.apply_event(event, True, s, [0])
    whole = 1.0 - (1.0 - 0.8**3) / 2
    assert s.states[0]["rotor_health"][1] == pytest.approx(0.5 * whole)
    for ended in (dead, strong, off):
        events.apply_event(ended, False, s, [0])
    assert s.states[0]["rotor_health"][1] == pytest.approx(whole)
    assert s.sensor_states[0]["memory"][gps, JAMMING] == 0.5
    assert s.sensor_states[0]["fault"][barometer] == FAULT_STUCK
    # An end alone, as the bus may command, ends all of its kind.
    events.apply_event(events.MotorLoss(motor=2, thrust=0.1), False, s, [0])
    events.apply_event(events.GpsJamming(level=0.2), False, s, [0])
    assert s.states[0]["rotor_health"][1] == pytest.approx(whole)
    assert s.sensor_states[0]["memory"][gps, JAMMING] == 0.0
    s.restart_vehicle(0)
    assert s.faults == [[]]


def test_a_vehicle_without_its_payload_is_the_empty_one_at_the_same_place(iris: Airframe) -> None:
    cargo = Payload(mass=0.5, position=(0.1, 0.0, 0.1))
    loaded = iris.model_copy(
        update={"payload": cargo, "sources": {**iris.sources, "payload": "derived: for a test"}}
    ).include_payload()
    s = simulation_of(loaded)
    state = s.states[0]
    state["angular_velocity"] = (0.0, 0.0, 2.0)
    state["velocity"] = (3.0, 0.0, 0.0)
    hub = state["position"] + np.array(loaded.rotors[0].position)
    event = events.PayloadDrop(kind="payload_drop", at=0.0)
    assert event.problem(loaded) == ""
    events.actions((event,), s, lambda _line: None)[0][1]()
    assert s.vehicles[0]["mass"] == pytest.approx(iris.mass)
    assert np.allclose(s.vehicles[0]["inertia"], iris.inertia.matrix())
    # It stands nearly level: the hub, as any point of the body, stays where it is.
    assert np.allclose(s.states[0]["position"] + np.array(iris.rotors[0].position), hub, atol=2e-3)
    shift = 0.1 * 0.5 / (iris.mass + 0.5)
    assert s.states[0]["velocity"][1] == pytest.approx(-2.0 * shift, rel=1e-3)


def test_gusts_become_part_of_the_wind() -> None:
    gust = events.GustEvent(kind="gust", at=12.0, speed=5.0, direction=90.0)
    wind = World(gusts=events.gusts_of((gust,))).specification.wind
    assert len(wind.gusts) == 1
    assert wind.gusts[0].start == 12.0
