"""Commands of page and bus to the flight stack of a session whose time passes by itself."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

from sitl_bridge.base.errors import UserError
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.session.ready_session import ReadySession
from sitl_bridge.session.running_session import FlightCommands
from sitl_bridge.session.settings import FlightSettings, VehicleSettings

INSTANCE = 107


def test_a_vehicle_takes_off_by_a_command_and_refuses_to_disarm_in_the_air(
    iris: Airframe, tmp_path: Path
) -> None:
    vehicle = VehicleSettings(iris, instance=INSTANCE, autopilot="builtin")
    session = ReadySession(FlightSettings((vehicle,), "commands", speed=math.inf, runs=tmp_path))
    with session:
        session.settle()
        commands = FlightCommands(session.vehicles, session.server)
        with pytest.raises(UserError, match="time stands still"):
            commands.ask("arm", {}, 0)
        with pytest.raises(UserError, match="for one vehicle"):
            commands.ask("arm", {}, None)
        session.run_freely()
        commands.ask("takeoff", {"height": 4.0}, 0).result(60.0)
        end = time.monotonic() + 60.0
        while session.server.status().position[0, 2] > -3.0 and time.monotonic() < end:
            time.sleep(0.05)
        with pytest.raises(UserError, match=r"vehicle 0 \(iris\) refuses to disarm: .*not landed"):
            commands.ask("arm", {"armed": False}, 0).result(60.0)
        assert session.server.status().position[0, 2] < -3.0
        commands.close()
