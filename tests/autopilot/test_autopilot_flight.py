"""The whole built-in stack flies: every shipped mission through MAVSDK, and the same flight in both ways."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import psutil
import pytest
from support.commands import run_command
from support.paths import MISSIONS, ROOT

from sitl_bridge.api.in_process import InProcessStacks
from sitl_bridge.api.sitl import Sitl
from sitl_bridge.autopilot.main import LinkedStack, connect
from sitl_bridge.autopilot.pilot import Pilot
from sitl_bridge.autopilot.process import Configuration
from sitl_bridge.autopilot.records import GPS_POSITION, GPS_VELOCITY
from sitl_bridge.autopilot.stack import TICK, StackVehicle
from sitl_bridge.autopilot.stack_fleet import StackFleet
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World, WorldSpecification
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.session.session import Session
from sitl_bridge.session.settings import FlightOptions, FlightSettings

LONG = {
    "estimator_check.py",
    "fleet_hover.py",
    "identification.py",
    "offboard_attitude.py",
    "offboard_square.py",
    "offboard_velocity.py",
    "orbit.py",
    "sensor_run.py",
    "survey.plan",
    "without_gps.py",
}
"""More of what shorter ones of the default run do."""
OTHER_VEHICLES = {"follow_terrain.py", "stick_approach.py"}
"""Need a sensor that the iris lacks; their scenario names the vehicle."""
FIXED_PORT = {"plain_mavsdk.py"}
"""Listens at instance 0; test_start.py flies it."""
FLOWN = [
    pytest.param(path, marks=[pytest.mark.slow] if path.name in LONG else [], id=path.name)
    for path in sorted([*MISSIONS.glob("*.plan"), *MISSIONS.glob("*.py")])
    if path.name not in OTHER_VEHICLES | FIXED_PORT
]
INSTANCE = 7
SPEED = math.inf
ARM, TAKE_OFF, LAND = 400, 22, 21
NAN = math.nan


def flown(mission: Path, runs: Path, time_limit: float) -> Session:
    """The session of a mission that the built-in stack has flown with an iris."""
    options = FlightOptions(
        autopilot="builtin", speed=SPEED, instance=INSTANCE, runs=runs, time_limit=time_limit
    )
    with Session(FlightSettings.from_mission(mission, options)) as session:
        session.fly()
    return session


@pytest.mark.parametrize("mission", FLOWN)
def test_every_shipped_mission_flies_unchanged_on_the_built_in_stack(mission: Path, tmp_path: Path) -> None:
    session = flown(mission, tmp_path, 900.0)
    outcome, record = session.conclude().vehicles[0]
    assert outcome.succeeded, outcome.reason
    assert outcome.flight_stack == "the built-in flight stack"
    assert record is not None
    assert record.air_time > 15.0
    assert record.failsafes == []
    assert outcome.impact_speed < 1.5
    assert record.estimate_error is not None
    assert record.estimate_error.rms < 0.5
    here = str(tmp_path)
    assert [
        p.pid for p in psutil.process_iter(["cmdline"]) if here in " ".join(p.info["cmdline"] or [])
    ] == []


def command(pilot: Pilot, now: int, number: int, first: float = NAN) -> None:
    assert pilot.commander.command(number, [first, *[NAN] * 6], now) == 0


def follow_script(pilot: Pilot, start: int) -> None:
    """Make a pilot arm at 8 s, take off, land at 17 s of its own time, whoever calls it."""
    orders = {8: lambda now: command(pilot, now, ARM, 1.0), 9: lambda now: command(pilot, now, TAKE_OFF)}
    orders[17] = lambda now: command(pilot, now, LAND)
    update = pilot.update

    def updated(now: int) -> None:
        for second in [s for s in orders if now - start >= s * 1_000_000]:
            orders.pop(second)(now)
        update(now)

    pilot.update = updated  # type: ignore[method-assign]


def flown_in_process(names: list[str], ticks: int) -> StackFleet:
    members = [
        StackVehicle(load_airframe("iris"), name=name, position=(0.0, 10.0 * i, 0.0))
        for i, name in enumerate(names)
    ]
    fleet = StackFleet(World(WorldSpecification()), members, seed=5)
    for pilot in fleet.pilots:
        follow_script(pilot, fleet.time)
    fleet.advance(ticks)
    return fleet


def test_a_flight_is_the_same_byte_for_byte_over_the_link_and_in_one_process(tmp_path: Path) -> None:
    ticks = 370
    fleet = flown_in_process(["0"], ticks)
    assert fleet.simulation.states[0]["position"][2] < -1.0

    airframe = load_airframe("iris")
    setup = VehicleSetup(airframe.vehicle(), airframe.sensor_records())
    simulation = Simulation(World(WorldSpecification()), [setup], seed=5)
    end = simulation.start + ticks * TICK
    there = threading.Event()
    found: list[bytes] = []
    stack = LinkedStack(Configuration(airframe=airframe), tmp_path / "log.ulg")
    follow_script(stack.pilot, simulation.start)
    stack.prepare()
    server = LockstepServer(simulation, ports=[4560 + INSTANCE], speed=math.inf)

    def look() -> None:
        found.append(simulation.states.tobytes())
        there.set()

    server.prepare()
    server.at(end, look)
    with server:
        connection = connect("127.0.0.1", 4560 + INSTANCE)
        stack.attach(connection)
        flying = threading.Thread(target=stack.run)
        flying.start()
        assert there.wait(120.0)
    flying.join(10.0)
    connection.close()
    stack.close()
    assert found == [fleet.simulation.states.tobytes()]


def test_a_vehicle_flies_the_same_alone_and_among_others() -> None:
    alone = flown_in_process(["a"], 300)
    together = flown_in_process(["a", "b", "c"], 300)
    assert alone.simulation.states[:1].tobytes() == together.simulation.states[:1].tobytes()
    assert alone.stacks.estimates[0].tobytes() == together.stacks.estimates[0].tobytes()
    assert alone.stacks.estimates[0].tobytes() != together.stacks.estimates[1].tobytes()


def test_no_position_is_rejected_in_calm_flights_and_at_touch_down() -> None:
    """Touch-downs of 0.5 to 0.6 m/s; in seed 110 a velocity is off by 5.2 deviations of its noise."""
    with Sitl("iris", record=False) as sitl:
        for seed in (100, 110, 111, 127, 155):
            sitl.reset(seed)
            sitl.arm()
            sitl.take_off(10.0)
            sitl.run(12.0)
            for east in (0.0, 10.0):
                sitl.go_to([10.0, east, -10.0], wait=False)
                sitl.run(10.0)
            sitl.land()
            assert not sitl.armed
            assert isinstance(sitl.stacks, InProcessStacks)
            estimate = sitl.stacks.fleet.stacks.estimates[0]
            assert estimate["fused"][GPS_POSITION] > 200
            assert estimate["rejected"][GPS_POSITION] == 0, seed
            assert estimate["rejected"][GPS_VELOCITY] == (seed == 110)


def test_a_users_own_controller_flies_and_holds(tmp_path: Path) -> None:
    member = StackVehicle(
        load_airframe("iris"),
        controller=f"{ROOT / 'airframes/controllers/lqr.py'}:Lqr",
        log=tmp_path / "log.ulg",
    )
    with StackFleet(World(WorldSpecification()), [member], seed=1) as fleet:
        follow_script(fleet.pilots[0], fleet.time)
        fleet.advance(350)
        position = fleet.simulation.states[0]["position"]
    assert position[2] == pytest.approx(-2.5, abs=0.8)
    assert math.hypot(position[0], position[1]) < 1.0


def test_a_controller_for_the_built_in_stack_is_refused_where_px4_flies(tmp_path: Path) -> None:
    options = FlightOptions(autopilot="builtin", px4=tmp_path, runs=tmp_path)
    with pytest.raises(UserError, match="leave one of them out"):
        Session(FlightSettings.from_mission(MISSIONS / "hover.py", options))


def test_no_px4_found_means_the_built_in_stack_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PX4_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = FlightSettings.from_mission(MISSIONS / "hover.py", FlightOptions())
    ((flight_stack, _),) = settings.check()
    if flight_stack.px4 is None:  # there may be a PX4 in /opt
        assert "no PX4 build found" in flight_stack.description
        assert "not PX4" in flight_stack.description
    monkeypatch.setenv("PX4_DIR", str(tmp_path / "nothing"))
    with pytest.raises(UserError, match="does not exist"):
        settings.check()


@pytest.mark.parametrize("seed", [0, 2])
def test_a_vehicle_that_vibrates_keeps_its_estimate_in_this_process(seed: int) -> None:
    with Sitl("x500", seed=seed, record=False) as sitl:
        sitl.vehicle.arm()
        sitl.vehicle.take_off(5.0)  # raises where a failsafe takes the vehicle
        sitl.run(15.0)
        assert sitl.vehicle.mode == "Hold"


def test_a_vehicle_that_vibrates_flies_a_plan_over_the_link(tmp_path: Path) -> None:
    options = [
        "--airframe",
        "x500",
        "--autopilot",
        "builtin",
        "--speed",
        "max",
        "--instance",
        "67",
        "--headless",
    ]
    flown = run_command("fly", str(MISSIONS / "square.plan"), *options, "--runs-dir", str(tmp_path))
    assert flown.exit_code == 0, flown.output  # a failsafe fails a flight
