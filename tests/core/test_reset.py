"""Reset in place: what follows is byte for byte what a fresh start does."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import sitl_bridge as sb
from sitl_bridge.autopilot.stack import StackVehicle
from sitl_bridge.autopilot.stack_fleet import StackFleet
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
    moving = sb.scene.Sphere(0.4, path=sb.scene.Path3D([(3, 0, -2), (6, 0, -2)], speed=1.0))
    return sb.World(wind="5@270,turbulence=light", scene=[moving])


def fleet_of_two(seed: int) -> sb.Sitl:
    iris = sb.Airframe.load("iris").with_sensor(Height, rate=20.0)
    return sb.Sitl([iris, "hector"], spacing=4.0, world=windy(), seed=seed)


def bytes_flown(fleet: sb.Sitl) -> bytes:
    """Of everything that a flight is made of, to its end in the air."""
    fleet.arm()
    fleet.take_off(3.0)
    fleet.go_to([[4, 0, -4], [4, 4, -4]], yaw=0.5, wait=False)
    fleet.run(4.0)
    return (
        bytes(fleet.truth.rows.tobytes())
        + fleet.estimated_position.tobytes()
        + fleet.sensor("imu")["specific_force"].tobytes()
        + fleet.sensor("Height")["height"].tobytes()
        + repr(fleet.messages).encode()
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
    loaded = carrier.model_copy(update={"payload": cargo, "sources": sources}).include_payload()
    airframes = [loaded, load_airframe("iris")]
    events = [
        MotorLoss(at=1.0, kind="motor_loss", motor=2, vehicles=(1,)),
        PayloadDrop(at=1.0, kind="payload_drop", vehicles=(0,)),
        GpsJamming(at=1.0, kind="gps_jamming"),
        WindEvent(at=1.0, kind="wind_change", wind=parse_wind("9@0")),
    ]

    members = [StackVehicle(a, str(i), (0.0, 0.3 * i, 0.0)) for i, a in enumerate(airframes)]

    def made() -> StackFleet:
        return StackFleet(windy().build(), members, seed=1, proximity=Proximity())

    def state(fleet: StackFleet) -> bytes:
        fleet.advance(30)
        s = fleet.simulation
        parts = [
            s.states,
            s.surfaces,
            s.proximity,
            s.collisions,
            s.contacts,
            s.wind_states,
            s.world.wind,
            fleet.stacks.estimates,
        ]
        return b"".join(part.tobytes() for part in parts)

    with made() as fresh, made() as fleet:
        expected = state(fresh)
        due = actions(events, fleet.simulation, lambda _line: None)
        fleet.timeline = Timeline(fleet.time, due)
        fleet.advance(40)
        assert int(fleet.simulation.proximity[0]["count"]) > 0
        assert fleet.simulation.states[1]["rotor_health"][1] == 0.0
        fleet.restart(members)
        assert int(fleet.simulation.proximity[0]["count"]) == 0
        assert state(fleet) == expected


def test_a_reset_begins_a_new_run_directory_and_whoever_holds_a_vehicle_flies_on(tmp_path: Path) -> None:
    with sb.Sitl("iris", seed=1, runs=tmp_path) as sitl:
        drone = sitl.vehicle
        drone.run(1.0)
        first = sitl.directory
        sitl.reset()
        drone.run(0.5)
        assert len(sitl.truth) == 125
        assert sitl.directory != first
    sizes = [path.stat().st_size for path in tmp_path.glob("*-sitl*/autopilot/flight.ulg")]
    assert len(sizes) == 2
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
