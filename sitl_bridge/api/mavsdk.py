"""Helps scripts that fly by MAVSDK: connect, wait, stream set-points, keep to simulated time.

A script that uses MAVSDK alone flies as well (``missions/plain_mavsdk.py``); these make it shorter,
independent of the speed of simulation, and talkative.  ``run`` starts the script's coroutine with a connected
``Vehicle``.
"""

from sitl_bridge.session.missions.fleet_script import (
    FleetVehicle,
    all_of,
    connected,
    fleet_command_line,
    run_fleet,
)
from sitl_bridge.session.missions.mavlink_request import goto, orbit
from sitl_bridge.session.missions.mavsdk_vehicle import MissionFailedError, Vehicle
from sitl_bridge.session.missions.mission_script import command_line, positive, run
from sitl_bridge.session.missions.setpoint_stream import OffboardControl
from sitl_bridge.session.missions.stick_input import HeldSticks, position_mode
from sitl_bridge.session.missions.time_gate import in_real_time

__all__ = [
    "FleetVehicle",
    "HeldSticks",
    "MissionFailedError",
    "OffboardControl",
    "Vehicle",
    "all_of",
    "command_line",
    "connected",
    "fleet_command_line",
    "goto",
    "in_real_time",
    "orbit",
    "position_mode",
    "positive",
    "run",
    "run_fleet",
]
