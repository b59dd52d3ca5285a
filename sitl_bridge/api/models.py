"""Specifications of vehicles and sensors, and the physics that can be asked without a simulation.

For research programs and for ``lab``: these names change only with a line in the changelog.
"""

from sitl_bridge.core.dynamics.motor import FirstOrderMotor as FirstOrderMotor
from sitl_bridge.core.dynamics.performance import hover as hover
from sitl_bridge.core.dynamics.performance import performance as performance
from sitl_bridge.core.dynamics.records import MAX_ROTORS as MAX_ROTORS
from sitl_bridge.core.dynamics.rotor_laws import thrust_and_torque as thrust_and_torque
from sitl_bridge.core.sensors.imu import ImuSpecification as ImuSpecification
from sitl_bridge.core.sensors.perception.camera import CameraSpecification as CameraSpecification
from sitl_bridge.core.sensors.perception.scanner import ScannerSpecification as ScannerSpecification
from sitl_bridge.core.sensors.perception.stereo_camera import (
    StereoCameraSpecification as StereoCameraSpecification,
)
from sitl_bridge.core.vehicle.airframe import Airframe as Airframe
from sitl_bridge.core.vehicle.airframe import point_mass as point_mass
from sitl_bridge.core.vehicle.airframe_file import find_airframe as find_airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe as load_airframe
from sitl_bridge.core.vehicle.propellers import INCH as INCH
from sitl_bridge.core.vehicle.propellers import OTHER_LAWS as OTHER_LAWS
from sitl_bridge.core.vehicle.propellers import propellers_of_size as propellers_of_size
from sitl_bridge.core.vehicle.propellers import static_tests as static_tests
from sitl_bridge.core.vehicle.vehicle_specification import VehicleSpecification as VehicleSpecification
from sitl_bridge.core.world.atmosphere import air as air
from sitl_bridge.core.world.custom_wind import Place as Place
from sitl_bridge.core.world.custom_wind import WindField as WindField
