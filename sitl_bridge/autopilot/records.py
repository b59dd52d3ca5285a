"""The memory of the built-in flight stack: what it measures, believes, wants and commands.

Arrays of these records, one record a vehicle, go to the compiled stack as they are.  Frames as everywhere:
NED in metres from the local origin, body FRD, quaternion (w, x, y, z) body to NED, SI units, radians, time in
us of simulated time.
"""

from __future__ import annotations

from typing import Annotated

from sitl_bridge.base.arrays import Floats, Ints
from sitl_bridge.base.kernels.record import Record
from sitl_bridge.core.dynamics.records import MAX_ROTORS

# --- sources of the estimator's corrections, index of ``test_ratio`` and its like
GPS_POSITION = 0
GPS_VELOCITY = 1
BARO_HEIGHT = 2
MAGNETIC_HEADING = 3
RANGE_HEIGHT = 4
FLOW_VELOCITY = 5
ODOMETRY_POSITION = 6
ODOMETRY_VELOCITY = 7
SOURCES = 8

# --- bits of ESTIMATE.valid
ATTITUDE = 1
HEADING = 2
HEIGHT = 4
VELOCITY = 8
"""Horizontal velocity."""
POSITION = 16
"""Horizontal position relative to the local origin."""
GLOBAL = 32
"""The local origin is known on Earth."""
ABOVE_GROUND = 64

# --- SETPOINT.level: what the controller follows
OFF = 0
"""Rotors stand still."""
IDLE = 1
"""Armed on the ground: rotors turn at idle, integrators rest."""
TRAJECTORY = 2
"""position, velocity, acceleration, yaw and yaw_rate; nan is not controlled."""
LEVEL_ATTITUDE = 3
"""attitude and thrust; yaw_rate is fed forward where it is a number."""
LEVEL_RATES = 4
"""angular_velocity and thrust."""


class Measurement(Record):
    """Samples of the sensors, with a flag for each that is new."""

    time: int  # us
    imu_fresh: int
    accelerometer: Annotated[Floats, 3]  # m/s^2 specific force, body
    gyroscope: Annotated[Floats, 3]  # rad/s body
    magnetometer_fresh: int
    magnetometer: Annotated[Floats, 3]  # T body
    barometer_fresh: int
    pressure: float  # Pa
    gps_fresh: int  # taken at gps_time
    gps_time: int  # us
    latitude: float  # rad
    longitude: float  # rad
    altitude: float  # m above mean sea level
    gps_velocity: Annotated[Floats, 3]  # m/s NED
    eph: float  # m
    epv: float  # m
    fix: int  # GPS_FIX_TYPE, 3 = 3D
    satellites: int
    range_fresh: int
    range: float  # m along body down; nan: no return
    flow_fresh: int
    flow: Annotated[Floats, 2]  # rad integrated over flow_interval, axes as HIL_OPTICAL_FLOW
    flow_gyroscope: Annotated[Floats, 3]  # rad integrated
    flow_interval: float  # s
    flow_quality: float  # 0..255
    odometry_fresh: int
    odometry_time: int  # us
    odometry_position: Annotated[Floats, 3]  # m in a level frame of its own
    odometry_attitude: Annotated[Floats, 4]  # body to that frame
    odometry_velocity: Annotated[Floats, 3]  # m/s body; nan: not known
    odometry_position_variance: Annotated[Floats, 3]  # m^2; nan: not known
    odometry_velocity_variance: Annotated[Floats, 3]  # (m/s)^2; nan: not known
    odometry_resets: int


MEASUREMENT = Measurement.dtype


class Estimate(Record):
    """Estimate by the estimator."""

    time: int  # us
    valid: int  # bits above
    attitude: Annotated[Floats, 4]
    angular_velocity: Annotated[Floats, 3]  # rad/s body, bias removed
    velocity: Annotated[Floats, 3]  # m/s NED
    position: Annotated[Floats, 3]  # m NED from the local origin
    acceleration: Annotated[Floats, 3]  # m/s^2 NED, of motion
    gyroscope_bias: Annotated[Floats, 3]  # rad/s
    accelerometer_bias: Annotated[Floats, 3]  # m/s^2
    height_above_ground: float  # m, nan where no range finder tells
    origin: Annotated[Floats, 3]  # of position: latitude rad, longitude rad, altitude m AMSL
    # --- how sure it is: standard deviations
    attitude_deviation: Annotated[Floats, 3]  # rad, body axes
    velocity_deviation: Annotated[Floats, 3]  # m/s NED
    position_deviation: Annotated[Floats, 3]  # m NED
    # --- how the corrections went, by source
    innovation: Annotated[Floats, SOURCES, 3]  # of the last one
    innovation_variance: Annotated[Floats, SOURCES, 3]
    test_ratio: Annotated[Floats, SOURCES]  # squared innovation over the gate; above 1 it was rejected
    fused: Annotated[Ints, SOURCES]  # count
    rejected: Annotated[Ints, SOURCES]  # count
    resets: int  # times the state jumped to a measurement


ESTIMATE = Estimate.dtype


class Setpoint(Record):
    """Set-point of the controller."""

    level: int
    position: Annotated[Floats, 3]  # m NED
    velocity: Annotated[Floats, 3]  # m/s NED; beside a position it is fed forward
    acceleration: Annotated[Floats, 3]  # m/s^2 NED, fed forward
    yaw: float  # rad
    yaw_rate: float  # rad/s
    attitude: Annotated[Floats, 4]
    angular_velocity: Annotated[Floats, 3]  # rad/s body
    thrust: float  # 0..1 of full thrust, for LEVEL_ATTITUDE and LEVEL_RATES
    on_ground: float  # 0..1, how much of the weight the ground seems to carry; moments fade with it
    # --- limits within which a trajectory is followed
    max_horizontal_speed: float  # m/s
    max_up_speed: float  # m/s
    max_down_speed: float  # m/s
    max_tilt: float  # rad


SETPOINT = Setpoint.dtype


class WrenchRecord(Record):
    """Command of a controller to the rotors, and the part of it that they could not give."""

    thrust: float  # N along body up
    moment: Annotated[Floats, 3]  # N m body
    unmet_thrust: float  # N, asked less given; by the allocation, for the integrators of the next step
    unmet_moment: Annotated[Floats, 3]  # N m


WRENCH = WrenchRecord.dtype


class Allocation(Record):
    """Allocation of a wrench to motor commands."""

    rotor_count: int
    effectiveness: Annotated[Floats, 4, MAX_ROTORS]  # thrust and moments of 1 N of each rotor
    inverse: Annotated[Floats, MAX_ROTORS, 4]
    thrust_min: Annotated[Floats, MAX_ROTORS]  # N at the least command
    thrust_max: Annotated[Floats, MAX_ROTORS]  # N at command 1
    curve: Annotated[Floats, MAX_ROTORS, 33]  # command (0..1) over evenly spaced sqrt((T - min)/(max - min))
    idle: Annotated[Floats, MAX_ROTORS]  # command at IDLE
    failed: Annotated[Ints, MAX_ROTORS]  # 1: the motor gets no command (an injected failure)
    work: Annotated[Floats, 2, MAX_ROTORS]  # scratch: thrusts of the roll and pitch asked for, thrusts given


ALLOCATION = Allocation.dtype
