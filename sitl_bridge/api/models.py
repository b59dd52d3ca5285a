"""Specifications of vehicles and sensors, and the physics that can be asked without a simulation.

For research programs and for ``lab``: these names change only with a line in the changelog.
"""

from sitl_bridge.core.dynamics.motor import FirstOrderMotor
from sitl_bridge.core.dynamics.performance import hover, performance
from sitl_bridge.core.dynamics.records import MAX_ROTORS
from sitl_bridge.core.dynamics.rotor_laws import thrust_and_torque
from sitl_bridge.core.sensors.imu import ImuSpecification
from sitl_bridge.core.sensors.perception.camera import CameraSpecification
from sitl_bridge.core.sensors.perception.scanner import ScannerSpecification
from sitl_bridge.core.sensors.perception.stereo_camera import StereoCameraSpecification
from sitl_bridge.core.vehicle.airframe import Airframe, point_mass
from sitl_bridge.core.vehicle.airframe_file import find_airframe, load_airframe
from sitl_bridge.core.vehicle.propellers import INCH, OTHER_LAWS, propellers_of_size, static_tests
from sitl_bridge.core.vehicle.vehicle_specification import VehicleSpecification
from sitl_bridge.core.world.atmosphere import air
from sitl_bridge.core.world.custom_wind import Place, WindField

__all__ = [
    "INCH",
    "MAX_ROTORS",
    "OTHER_LAWS",
    "Airframe",
    "CameraSpecification",
    "FirstOrderMotor",
    "ImuSpecification",
    "Place",
    "ScannerSpecification",
    "StereoCameraSpecification",
    "VehicleSpecification",
    "WindField",
    "air",
    "find_airframe",
    "hover",
    "load_airframe",
    "performance",
    "point_mass",
    "propellers_of_size",
    "static_tests",
    "thrust_and_torque",
]
