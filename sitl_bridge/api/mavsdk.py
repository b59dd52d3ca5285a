"""Helps scripts that fly by MAVSDK: connect, wait, stream set-points, keep to simulated time.

A script that uses MAVSDK alone flies as well (``missions/plain_mavsdk.py``); these make it shorter,
independent of the speed of simulation, and talkative.  ``run`` starts the script's coroutine with a connected
``Vehicle``.
"""

from sitl_bridge.session.missions.fleet_script import FleetVehicle as FleetVehicle
from sitl_bridge.session.missions.fleet_script import all_of as all_of
from sitl_bridge.session.missions.fleet_script import connected as connected
from sitl_bridge.session.missions.fleet_script import fleet_command_line as fleet_command_line
from sitl_bridge.session.missions.fleet_script import run_fleet as run_fleet
from sitl_bridge.session.missions.mavlink_request import goto as goto
from sitl_bridge.session.missions.mavlink_request import orbit as orbit
from sitl_bridge.session.missions.mavsdk_vehicle import MissionFailedError as MissionFailedError
from sitl_bridge.session.missions.mavsdk_vehicle import Vehicle as Vehicle
from sitl_bridge.session.missions.mission_script import command_line as command_line
from sitl_bridge.session.missions.mission_script import positive as positive
from sitl_bridge.session.missions.mission_script import run as run
from sitl_bridge.session.missions.setpoint_stream import OffboardControl as OffboardControl
from sitl_bridge.session.missions.stick_input import HeldSticks as HeldSticks
from sitl_bridge.session.missions.stick_input import position_mode as position_mode
from sitl_bridge.session.missions.time_gate import in_real_time as in_real_time
