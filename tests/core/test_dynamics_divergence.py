"""States that diverge end the run with a sentence, and vehicles that cannot be integrated are refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.peer import Peer

from sitl_bridge.autopilot.stack import StackVehicle
from sitl_bridge.autopilot.stack_fleet import StackFleet
from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.base.errors import UserError
from sitl_bridge.cli.facts import airframe_facts, derive_facts
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.record.run_recorder import RunRecorder

HIGH = (0.0, 0.0, -100.0)


def changed(name: str, section: str, **figures: object) -> Airframe:
    """An airframe with other figures in one section."""
    airframe = load_airframe(name)
    part = getattr(airframe, section).model_copy(update=figures)
    made = airframe.model_copy(update={section: part})
    made.__dict__.pop("record", None)
    return made


def simulate(*airframes: Airframe) -> Simulation:
    setups = [
        VehicleSetup(
            frame.vehicle(), frame.sensor_records(), (0.0, 10.0 * i, -100.0), name=f"{frame.name}{i}"
        )
        for i, frame in enumerate(airframes)
    ]
    return Simulation(World(), setups)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e300])
def test_a_simulation_ends_with_vehicle_and_time(value: float) -> None:
    simulation = simulate(load_airframe("iris"), load_airframe("iris"))
    simulation.advance(5)
    simulation.states[1]["external_force"] = (value, 0.0, 0.0)
    with pytest.raises(UserError, match=r"vehicle iris1: its motion diverged at 0\.020 s of simulated time"):
        simulation.advance(5)
    assert simulation.time == simulation.start + 5 * simulation.step


def test_an_in_process_fleet_ends_with_vehicle_and_time() -> None:
    with StackFleet(World(), [StackVehicle(load_airframe("iris"), name="lone")]) as fleet:
        fleet.advance(2)
        fleet.simulation.states[0]["velocity"][1] = math.nan
        with pytest.raises(UserError, match=r"vehicle lone: its motion diverged at 0\.096 s"):
            fleet.advance(2)


def test_a_server_ends_without_serving_the_state_and_its_log_opens(
    tmp_path: Path,
    make_simulation: Callable[..., Simulation],
    free_port: Callable[[], int],
    wait_for: Callable[..., None],
) -> None:
    simulation = make_simulation("iris")
    path = tmp_path / "truth.npy"

    def upset() -> None:
        simulation.states[0]["external_force"] = (math.nan, 0.0, 0.0)

    with RunRecorder(tmp_path, ErrorLog(), 4) as log:
        server = LockstepServer(simulation, ports=[free_port()], speed=math.inf, recorder=log)
        server.prepare()
        server.at(400_000, upset)
        with server, Peer(server.ports[0]) as peer:
            wait_for(lambda: not server.running, "the end")
            assert len(peer.times) == 100
        assert isinstance(server.failure, UserError)
        assert "vehicle 0: its motion diverged at 0.400 s" in str(server.failure)
    rows = np.load(path)
    assert len(rows) == 100
    assert np.isfinite(rows["position_north"]).all()


def test_a_spin_decays_as_its_drag_says() -> None:
    airframe = load_airframe("hector")
    simulation = simulate(airframe)
    record = airframe.record
    simulation.states[0]["angular_velocity"] = (0.0, 150.0, 0.0)
    simulation.advance(25)
    # dw/dt = -C w^2/J: 1/w grows by C t/J.
    slope = float(record["drag_moment"][1] / record["inertia"][1, 1])
    spin = 1.0 / (1.0 / 150.0 + slope * 0.1)
    assert simulation.states[0]["angular_velocity"][1] == pytest.approx(spin, rel=0.1)


def test_a_light_dc_motor_runs_up_instead_of_standing_still() -> None:
    heavy, light = load_airframe("hector"), changed("hector", "motor", inertia=2.5730480633e-7)
    simulation = simulate(heavy, light)
    simulation.armed[:] = 1
    simulation.controls[:] = 0.6
    simulation.advance(250)
    first, second = simulation.states["rotor_speed"][:, 0]
    assert second == pytest.approx(first, rel=0.02)
    assert second > 300.0


@pytest.mark.parametrize(
    ("section", "figures", "told"),
    [
        ("drag", {"moment": (1e6, 1e6, 1e6)}, "drag.moment at 35 rad/s: decay rate "),
        ("drag", {"force": (1e6, 1e6, 1e6)}, "drag.force at 30 m/s: decay rate "),
        ("motor", {"inertia": 1e-11}, "motor.inertia: decay rate "),
        ("rotor_model", {"drag": 1e3}, "rotor_model (drag"),
        ("contact", {"stiffness": 1e9}, "contact (stiffness, damping): decay rate "),
    ],
)
def test_what_the_integrator_cannot_follow_is_refused_before_it_flies(
    section: str, figures: dict[str, object], told: str
) -> None:
    airframe = changed("hector", section, **figures)
    with pytest.raises(UserError) as caught:
        simulate(airframe)
    assert str(caught.value).startswith(f"vehicle hector0: {told}")
    with pytest.raises(UserError) as caught:
        airframe_facts(airframe)
    assert str(caught.value).startswith(told)


def test_a_drag_that_leaves_no_speed_is_noted() -> None:
    slow = airframe_facts(changed("iris", "drag", force=(50.0, 50.0, 50.0)))
    assert any("is the drag in another unit?" in note for note in slow["warnings"])
    assert not any("drag" in note for note in derive_facts("iris")["warnings"])
