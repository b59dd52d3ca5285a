"""Reset in place: what follows is byte for byte what a fresh start does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sitl_bridge as sb
from sitl_bridge.autopilot.stack_fleet import StackFleet, StackVehicle
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.simulation.events import (
    GpsJamming,
    MotorLoss,
    PayloadDrop,
    Timeline,
    WindEvent,
    actions,
)
from sitl_bridge.core.vehicle.airframe import Payload
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.wind import parse_wind


class Height(sb.CustomSensor):
    """Of a user's own, with a random stream of its own."""

    def sample(self, truth: sb.Truth, random: np.random.Generator) -> dict[str, float]:
        return {"height": -truth.position[2] + random.standard_normal()}


def windy() -> sb.World:
    moving = sb.Sphere(0.4, path=sb.Path3D([(3, 0, -2), (6, 0, -2)], speed=1.0))
    return sb.World(wind="5@270,turbulence=light", scene=[moving])


def fleet_of_two(seed: int) -> sb.Fleet:
    iris = sb.Airframe.load("iris").with_sensor(Height, rate=20.0)
    return sb.Fleet([iris, "hector"], spacing=4.0, world=windy(), seed=seed, proximity=Proximity())


def bytes_flown(fleet: sb.Fleet) -> bytes:
    """Of everything that a flight is made of, to its end in the air."""
    with fleet.record() as log:
        fleet.arm()
        fleet.takeoff(3.0)
        fleet.goto([[4, 0, -4], [4, 4, -4]], yaw=0.5)
        fleet.run(4.0)
        said = repr(fleet.messages).encode()
        return (
            log.rows.tobytes()
            + fleet.estimated_position.tobytes()
            + fleet.sensor("imu")["specific_force"].tobytes()
            + fleet.sensor("Height")["height"].tobytes()
            + said
        )


def test_a_fleet_that_is_reset_flies_as_a_new_one_byte_for_byte() -> None:
    with fleet_of_two(3) as fresh, fleet_of_two(5) as fleet:
        expected = bytes_flown(fresh)
        other = bytes_flown(fleet)
        assert other != expected
        fleet.reset(3)
        assert fleet.time == 0.0
        assert not fleet.armed.any()
        assert not fleet.messages
        assert bytes_flown(fleet) == expected
        fleet.reset()
        assert bytes_flown(fleet) == expected
        fleet.reset(seed=5)
        assert bytes_flown(fleet) == other


def test_faults_payloads_wind_and_collisions_do_not_outlive_a_reset() -> None:
    carrier = load_airframe("ar200")
    cargo = Payload(mass=0.5, position=(0.0, 0.0, 0.1))
    sources = {**carrier.sources, "payload": "derived: for a test"}
    loaded = carrier.model_copy(update={"payload": cargo, "sources": sources}).loaded()
    airframes = [loaded, load_airframe("iris")]
    events = [
        MotorLoss(at=1.0, kind="motor_loss", motor=2, vehicles=(1,)),
        PayloadDrop(at=1.0, kind="payload_drop", vehicles=(0,)),
        GpsJamming(at=1.0, kind="gps_jamming"),
        WindEvent(at=1.0, kind="wind_change", wind=parse_wind("9@0")),
    ]

    def made() -> StackFleet:
        members = [StackVehicle(a, str(i), (0.0, 0.3 * i, 0.0)) for i, a in enumerate(airframes)]
        return StackFleet(windy().build(), members, seed=1, proximity=Proximity())

    def state(fleet: StackFleet) -> bytes:
        fleet.advance(30)
        s = fleet.simulation
        names = [name for name in s.states.dtype.names or () if name != "scratch"]
        parts = [np.ascontiguousarray(s.states[name]) for name in names]
        parts += [s.proximity, s.collisions, s.contacts, s.wind_states, s.world.wind, fleet.stacks.estimates]
        return b"".join(part.tobytes() for part in parts)

    with made() as fresh, made() as fleet:
        expected = state(fresh)
        due = actions(events, fleet.simulation, lambda _line: None)
        fleet.timeline = Timeline(fleet.time, due)
        fleet.advance(40)
        assert int(fleet.simulation.proximity[0]["count"]) > 0
        assert fleet.simulation.states[1]["rotor_health"][1] == 0.0
        fleet.reset()
        assert int(fleet.simulation.proximity[0]["count"]) == 0
        assert state(fleet) == expected


def test_a_reset_begins_new_logs_and_ends_a_recording(tmp_path: Path) -> None:
    with sb.Fleet("iris", seed=1, logs=tmp_path / "first") as fleet:
        log = fleet.record()
        fleet.run(1.0)
        fleet.reset(logs=tmp_path / "second")
        fleet.run(0.5)
        assert len(log) == 250
        with fleet.publish("embedded", logs=tmp_path), pytest.raises(sb.UserError, match="on the bus"):
            fleet.reset()
    sizes = [(tmp_path / name / "0.ulg").stat().st_size for name in ("first", "second")]
    assert min(sizes) > 0


def test_bare_physics_that_are_reset_with_a_seed_are_as_new() -> None:
    def flown(simulation: sb.Simulation) -> bytes:
        with simulation.record() as log:
            simulation.step(1.2 * simulation.hover_controls, 500)
        return log.rows.tobytes()

    with_moving = sb.Simulation("iris", world=windy(), seed=2, proximity=Proximity())
    first = flown(with_moving)
    with_moving.reset(seed=2)
    assert flown(with_moving) == first
