"""The same seed and the same commands give the same bytes: with the commands of a real PX4's flight.

``data/px4_square_controls.npz`` holds what PX4 main of February 2025 commanded in each step of a flight of
missions/square.plan with the iris: ``control`` (steps, 4) and ``armed`` (steps,), as logged in truth.npy.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from support.paths import DATA

from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.numba_extensions import arrays_of
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.simulation.fleet_step import FleetArrays, advance_fleet
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.wind import parse_wind
from sitl_bridge.core.world.world import World, WorldSpecification
from sitl_bridge.link.hil.frame_writer import sensor_slots, write_step
from sitl_bridge.link.hil.link_state import LINK
from sitl_bridge.link.hil.message_layout import MAX_STEP_BYTES, PAYLOADS

RECORDED = np.load(DATA / "px4_square_controls.npz")


@compiled
def _replay(
    handles: Any, links: Any, slots: Any, payloads: Any, raw: Any, out: Any,
    stream: Any, arming: Any, time: int, step: int, which: int,
) -> int:  # fmt: skip
    """Feed the recorded commands to every vehicle; returns the length of the frames of vehicle ``which``."""
    fleet = arrays_of(handles, FleetArrays)
    states, environment, memories = fleet.states, fleet.environment, fleet.sensor_states
    length = 0
    for k in range(stream.shape[0]):
        for i in range(states.shape[0]):
            fleet.armed[i] = arming[k]
            for m in range(4):
                fleet.controls[i, m] = stream[k, m]
        advance_fleet(fleet, time, step, 1)
        time += step
        length += write_step(
            out[length:], payloads[0], raw, states[which], environment[0], fleet.sensors[which],
            memories[which], links[0], slots, time,
        )  # fmt: skip
    return length


def frames(*names: str, which: int = 0, seed: int = 0) -> tuple[str, np.void]:
    """Digest of all frames one vehicle is sent in the recorded flight, and its final state."""
    setups = []
    for i, name in enumerate(names):
        airframe = load_airframe(name)
        # The vehicle that is looked at keeps its name, which names its random streams.
        label = "0" if i == which else f"other{i}"
        setups.append(VehicleSetup(airframe.vehicle(), airframe.sensor_records(), name=label))
    world = World(WorldSpecification(wind=parse_wind("4@270,turbulence=light")))
    s = Simulation(world, setups, seed=seed)
    payloads = np.zeros((1, 1), PAYLOADS)
    links = np.zeros(1, LINK)
    links["truth_interval"] = 5000
    out = np.zeros(len(RECORDED["control"]) * 300 + MAX_STEP_BYTES, np.uint8)
    length = _replay(
        s.handles, links, sensor_slots(s.sensors[which]), payloads,
        payloads.view(np.uint8).reshape(-1), out, RECORDED["control"], RECORDED["armed"], s.time, s.step,
        which,
    )  # fmt: skip
    return hashlib.sha256(out[:length].tobytes()).hexdigest(), s.states[which]


@pytest.fixture(scope="module")
def reference() -> tuple[str, np.void]:
    return frames("iris")


def test_the_recorded_commands_fly(reference: tuple[str, np.void]) -> None:
    assert RECORDED["armed"].sum() * 0.004 > 50.0
    _, state = reference
    assert np.all(np.isfinite(state["position"]))


def test_every_run_gives_the_same_frames(reference: tuple[str, np.void]) -> None:
    assert frames("iris")[0] == reference[0]


def test_a_vehicle_among_others_gets_the_frames_it_gets_alone(reference: tuple[str, np.void]) -> None:
    assert frames("iris", "hector", "neo11")[0] == reference[0]
    assert frames("x500_full", "iris", which=1)[0] == reference[0]


def test_another_seed_gives_other_frames(reference: tuple[str, np.void]) -> None:
    assert frames("iris", seed=1)[0] != reference[0]


def row_of_vehicles(count: int, spacing: float) -> list[VehicleSetup]:
    """Irises in a row to the east, 9 m above the ground."""
    airframe = load_airframe("iris")
    return [
        VehicleSetup(airframe.vehicle(), airframe.sensor_records(), (0.0, spacing * i, -9.0), name=str(i))
        for i in range(count)
    ]


def test_threads_change_no_byte_of_independent_vehicles() -> None:
    def states(threads: int) -> Any:
        simulation = Simulation(World(), row_of_vehicles(130, 5.0), seed=3, threads=threads)
        simulation.armed[:] = 1
        simulation.controls[:, :4] = np.linspace(0.3, 0.8, 130)[:, None]
        for _ in range(3):
            simulation.advance(20)
        return simulation.states[["position", "attitude", "rotor_speed"]], simulation.sensor_states["values"]

    (alone, seen), (shared, seen_by_three) = states(1), states(3)
    assert alone.tobytes() == shared.tobytes()
    assert seen.tobytes() == seen_by_three.tobytes()


def test_a_vehicle_flies_alone_as_it_does_where_all_take_a_step_together() -> None:
    """Independent vehicles take all their steps one after another; with contact on, each step is for all."""

    def states(proximity: Proximity | None) -> Any:
        simulation = Simulation(World(), row_of_vehicles(3, 50.0), seed=3, proximity=proximity)
        simulation.armed[:] = 1
        simulation.controls[:, :4] = 0.6
        simulation.advance(50)
        return simulation.states[["position", "attitude", "rotor_speed"]].tobytes()

    assert states(None) == states(Proximity(downwash=False))
