"""Commands of page and bus to the flight stack of a session whose time passes by itself."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import pytest
from support.waiting import wait_until

from sitl_bridge.base.errors import UserError
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.session.ready_session import ReadySession
from sitl_bridge.session.running_session import FlightCommands
from sitl_bridge.session.settings import FlightSettings, VehicleSettings

INSTANCE = 107


def test_a_vehicle_takes_off_by_a_command_and_refuses_to_disarm_in_the_air(
    iris: Airframe, tmp_path: Path
) -> None:
    parameters: dict[str, float] = {"COM_DL_LOSS_T": 5.0}
    vehicle = VehicleSettings(iris, instance=INSTANCE, autopilot="builtin", parameters=parameters)
    session = ReadySession(FlightSettings((vehicle,), "commands", speed=math.inf, runs=tmp_path))
    with session:
        session.settle()
        commands = FlightCommands(session.vehicles, session.server)
        with pytest.raises(UserError, match="time stands still"):
            commands.ask("arm", {}, 0)
        with pytest.raises(UserError, match="for one vehicle"):
            commands.ask("arm", {}, None)
        session.run_freely()
        commands.ask("land", {}, 0).result(60.0)  # a flight stack cannot arm in Land
        commands.ask("takeoff", {"height": 4.0}, 0).result(60.0)
        end = time.monotonic() + 60.0
        while session.server.status().position[0, 2] > -3.0 and time.monotonic() < end:
            time.sleep(0.05)
        with pytest.raises(UserError, match=r"vehicle 0 \(iris\) refuses to disarm: .*not landed"):
            commands.ask("arm", {"armed": False}, 0).result(60.0)
        assert session.server.status().position[0, 2] < -3.0
        now = session.server.status().seconds
        wait_until(lambda: session.server.status().seconds > now + 15.0)
        said = [message.text for message in session.vehicles[0].messages]
        assert not [text for text in said if "ground control station lost" in text]
        commands.close()


def test_velocities_places_and_a_landing_are_flown_by_commands(iris: Airframe, tmp_path: Path) -> None:
    vehicle = VehicleSettings(iris, instance=INSTANCE + 1, autopilot="builtin", yaw=math.pi / 2.0)
    session = ReadySession(FlightSettings((vehicle,), "set-points", speed=10.0, runs=tmp_path))
    with session:
        session.settle()
        commands, server = FlightCommands(session.vehicles, session.server), session.server
        session.run_freely()
        with pytest.raises(UserError, match=r"velocity: vehicle 0 \(iris\) is not armed"):
            commands.ask("velocity", {"velocity": (1.0, 0.0, 0.0)}, 0).result(60.0)
        commands.ask("takeoff", {"height": 5.0}, 0).result(60.0)
        wait_until(lambda: server.status().position[0, 2] < -4.5)

        def forward() -> bool:
            """Forward is east."""
            commands.ask("velocity", {"velocity": (2.0, 0.0, 0.0), "yaw_rate": 0.0}, 0).result(60.0)
            return bool(np.allclose(server.status().velocity[0], (0.0, 2.0, 0.0), atol=0.4))

        wait_until(forward)
        wait_until(lambda: float(np.linalg.norm(server.status().velocity[0])) < 0.3)  # nobody repeats it

        def turn() -> bool:
            commands.ask("velocity", {"velocity": (0.0, 0.0, 0.0), "yaw_rate": 0.5}, 0).result(60.0)
            rate = float(session.simulation.states[0]["angular_velocity"][2])
            return abs(rate - 0.5) < 0.1

        wait_until(turn)
        commands.ask("goto", {"position": (3.0, 2.0, -8.0), "yaw": 0.0}, 0).result(60.0)
        wait_until(lambda: float(np.linalg.norm(server.status().position[0] - (3.0, 2.0, -8.0))) < 1.5)
        commands.ask("land", {}, 0).result(60.0)
        wait_until(lambda: not server.status().links[0].armed)
        commands.close()


def test_sticks_fly_until_they_are_let_go_and_a_place_takes_over(iris: Airframe, tmp_path: Path) -> None:
    vehicle = VehicleSettings(iris, instance=INSTANCE + 2, autopilot="builtin", yaw=math.pi / 2.0)
    session = ReadySession(FlightSettings((vehicle,), "sticks", speed=5.0, runs=tmp_path))
    with session:
        session.settle()
        commands, server = FlightCommands(session.vehicles, session.server), session.server
        session.run_freely()
        with pytest.raises(UserError, match=r"sticks: vehicle 0 \(iris\) is not armed"):
            commands.ask("sticks", {"forward": 0.5}, 0).result(60.0)
        commands.ask("takeoff", {"height": 5.0}, 0).result(60.0)
        wait_until(lambda: server.status().position[0, 2] < -4.5)

        def forward() -> bool:
            """Forward is east."""
            commands.ask("sticks", {"forward": 0.8}, 0).result(60.0)
            north, east, _ = server.status().velocity[0]
            return bool(east > 3.0 and abs(north) < 0.5)

        def mode() -> str:
            return session.vehicles[0].monitor.status().mode

        wait_until(forward)
        assert mode() == "Position"
        wait_until(lambda: float(np.linalg.norm(server.status().velocity[0])) < 0.3)  # nobody holds them
        commands.ask("goto", {"position": (3.0, 2.0, -8.0)}, 0).result(60.0)
        wait_until(lambda: float(np.linalg.norm(server.status().position[0] - (3.0, 2.0, -8.0))) < 1.5)
        assert mode() == "Offboard"

        def turn() -> bool:
            commands.ask("sticks", {"clockwise": 1.0}, 0).result(60.0)
            return float(session.simulation.states[0]["angular_velocity"][2]) > 0.5

        wait_until(turn)  # with the stick held, which must not override the landing
        commands.ask("land", {}, 0).result(60.0)
        wait_until(lambda: not server.status().links[0].armed)
        commands.close()
