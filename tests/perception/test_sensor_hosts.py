"""What runs a vehicle's sensors between steps loads only what they need."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import sitl_bridge.api.physics, sitl_bridge.autopilot.stack_fleet, sitl_bridge.session.session
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World
from sitl_bridge.perception.sensor_hosts import sensor_hosts
airframe = load_airframe("iris")
assert sensor_hosts(airframe, Simulation(World(), [VehicleSetup.from_airframe(airframe)])) == []
parts = ("payload_runner", "camera_component", "gimbal_component", "photo_folder", "video_stream")
print([part for part in parts if f"sitl_bridge.perception.{part}" in sys.modules])
"""


def test_a_vehicle_without_a_camera_loads_none() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
