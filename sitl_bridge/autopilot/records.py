"""The memory of the built-in flight stack: what it measures, believes, wants and commands.

Arrays of these records, one record a vehicle, go to the compiled stack as they are.  Frames as everywhere:
NED in metres from the local origin, body FRD, quaternion (w, x, y, z) body to NED, SI units, radians, time in
us of simulated time.
"""

from __future__ import annotations

import numpy as np

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

MEASUREMENT = np.dtype(
    [
        ("time", "i8"),  # us
        ("imu_fresh", "i8"),
        ("accelerometer", "f8", 3),  # m/s^2 specific force, body
        ("gyroscope", "f8", 3),  # rad/s body
        ("magnetometer_fresh", "i8"),
        ("magnetometer", "f8", 3),  # T body
        ("barometer_fresh", "i8"),
        ("pressure", "f8"),  # Pa
        ("gps_fresh", "i8"),  # taken at gps_time
        ("gps_time", "i8"),  # us
        ("latitude", "f8"),  # rad
        ("longitude", "f8"),  # rad
        ("altitude", "f8"),  # m above mean sea level
        ("gps_velocity", "f8", 3),  # m/s NED
        ("eph", "f8"),  # m
        ("epv", "f8"),  # m
        ("fix", "i8"),  # GPS_FIX_TYPE, 3 = 3D
        ("satellites", "i8"),
        ("range_fresh", "i8"),
        ("range", "f8"),  # m along body down; nan: no return
        ("flow_fresh", "i8"),
        ("flow", "f8", 2),  # rad integrated over flow_interval, axes as HIL_OPTICAL_FLOW
        ("flow_gyroscope", "f8", 3),  # rad integrated
        ("flow_interval", "f8"),  # s
        ("flow_quality", "f8"),  # 0..255
        ("odometry_fresh", "i8"),
        ("odometry_time", "i8"),  # us
        ("odometry_position", "f8", 3),  # m in a level frame of its own
        ("odometry_attitude", "f8", 4),  # body to that frame
        ("odometry_velocity", "f8", 3),  # m/s body; nan: not known
        ("odometry_position_variance", "f8", 3),  # m^2; nan: not known
        ("odometry_velocity_variance", "f8", 3),  # (m/s)^2; nan: not known
        ("odometry_resets", "i8"),
    ],
    align=True,
)

ESTIMATE = np.dtype(
    [
        ("time", "i8"),  # us
        ("valid", "i8"),  # bits above
        ("attitude", "f8", 4),
        ("angular_velocity", "f8", 3),  # rad/s body, bias removed
        ("velocity", "f8", 3),  # m/s NED
        ("position", "f8", 3),  # m NED from the local origin
        ("acceleration", "f8", 3),  # m/s^2 NED, of motion
        ("gyroscope_bias", "f8", 3),  # rad/s
        ("accelerometer_bias", "f8", 3),  # m/s^2
        ("height_above_ground", "f8"),  # m, nan where no range finder tells
        ("origin", "f8", 3),  # of position: latitude rad, longitude rad, altitude m AMSL
        # --- how sure it is: standard deviations
        ("attitude_deviation", "f8", 3),  # rad, body axes
        ("velocity_deviation", "f8", 3),  # m/s NED
        ("position_deviation", "f8", 3),  # m NED
        # --- how the corrections went, by source
        ("innovation", "f8", (SOURCES, 3)),  # of the last one
        ("innovation_variance", "f8", (SOURCES, 3)),
        ("test_ratio", "f8", SOURCES),  # squared innovation over the gate; above 1 it was rejected
        ("fused", "i8", SOURCES),  # count
        ("rejected", "i8", SOURCES),  # count
        ("resets", "i8"),  # times the state jumped to a measurement
    ],
    align=True,
)

SETPOINT = np.dtype(
    [
        ("level", "i8"),
        ("position", "f8", 3),  # m NED
        ("velocity", "f8", 3),  # m/s NED; beside a position it is fed forward
        ("acceleration", "f8", 3),  # m/s^2 NED, fed forward
        ("yaw", "f8"),  # rad
        ("yaw_rate", "f8"),  # rad/s
        ("attitude", "f8", 4),
        ("angular_velocity", "f8", 3),  # rad/s body
        ("thrust", "f8"),  # 0..1 of full thrust, for LEVEL_ATTITUDE and LEVEL_RATES
        ("on_ground", "f8"),  # 0..1, how much of the weight the ground seems to carry; moments fade with it
        # --- limits within which a trajectory is followed
        ("max_horizontal_speed", "f8"),  # m/s
        ("max_up_speed", "f8"),  # m/s
        ("max_down_speed", "f8"),  # m/s
        ("max_tilt", "f8"),  # rad
    ],
    align=True,
)

WRENCH = np.dtype(
    [
        ("thrust", "f8"),  # N along body up
        ("moment", "f8", 3),  # N m body
        (
            "unmet_thrust",
            "f8",
        ),  # N, asked less given; by the allocation, for the integrators of the next step
        ("unmet_moment", "f8", 3),  # N m
    ],
    align=True,
)
"""What a controller asks of the rotors, and what of it they could not give."""

ALLOCATION = np.dtype(
    [
        ("rotor_count", "i8"),
        ("effectiveness", "f8", (4, MAX_ROTORS)),  # thrust and moments of 1 N of each rotor
        ("inverse", "f8", (MAX_ROTORS, 4)),
        ("thrust_min", "f8", MAX_ROTORS),  # N at the least command
        ("thrust_max", "f8", MAX_ROTORS),  # N at command 1
        ("curve", "f8", (MAX_ROTORS, 33)),  # command (0..1) over evenly spaced sqrt((T - min)/(max - min))
        ("idle", "f8", MAX_ROTORS),  # command at IDLE
        ("saturated", "i8"),  # of the last call: bit 0 thrust, 1 roll and pitch, 2 yaw not met
        ("failed", "i8", MAX_ROTORS),  # 1: the motor gets no command (an injected failure)
        ("work", "f8", (2, MAX_ROTORS)),  # scratch: thrusts of the roll and pitch asked for, thrusts given
    ],
    align=True,
)
