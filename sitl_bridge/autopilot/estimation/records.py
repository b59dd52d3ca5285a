"""Record of the estimator: sensor settings, state, covariance, past states and status of each source.

The error state is global (Solà, "Quaternion kinematics for the error-state Kalman filter", section 7): the
attitude error is a small rotation in NED on the left of the quaternion, the other errors are differences.
"""

from __future__ import annotations

import numpy as np

from sitl_bridge.autopilot.records import SOURCES

# --- first index of each error in the error state; three components each except the last two
TILT = 0
"""Attitude error, rad NED: true attitude = exp(error) times the nominal one."""
VELOCITY = 3
"""Velocity error of the inertial unit, m/s NED."""
POSITION = 6
"""Position error of the inertial unit, m NED from the local origin."""
GYROSCOPE = 9
"""Gyroscope bias, rad/s body."""
ACCELEROMETER = 12
"""Accelerometer bias, m/s^2 body."""
GPS_DRIFT = 15
"""Drifting part of the GNSS position error, m NED."""
GPS_SPEED = 18
"""Constant part of the GNSS velocity error, m/s NED."""
MAGNETOMETER = 21
"""Magnetometer bias, T body."""
BAROMETER = 24
"""Offset of the barometric height from the height above the local origin, m."""
GROUND = 25
"""Down coordinate of the ground below, m."""
STATES = 26
OFFSET = STATES
"""Place of the odometry's origin, m NED: three errors beside the others, which vehicles without odometry do
not have.  Their covariance is in ``odometry_cross`` and ``odometry_covariance``."""

RING = 64
"""Number of past states stored for delayed measurements."""
INERTIAL = 2
"""Accelerometer and gyroscope: extra rows after those of the sources in ``last_reading``."""
MAX_TERMS = 12
"""Largest number of errors that one measurement depends on."""

ESTIMATOR = np.dtype(
    [
        # --- settings
        ("gravity", "f8"),  # m/s^2
        ("magnetic_north", "f8", 2),  # unit vector NE of the field's horizontal part
        ("magnetic_strength", "f8"),  # T, horizontal
        ("magnetic_slope", "f8"),  # ratio of the vertical to the horizontal component
        ("temperature", "f8"),  # K, air temperature at the start
        ("rate_noise", "f8", 3),  # (rad/s)^2/Hz, gyroscope
        ("force_noise", "f8", 3),  # (m/s^2)^2/Hz, accelerometer
        ("force_limit", "f8", 3),  # m/s^2, saturation of the accelerometer
        ("rate_variance", "f8"),  # (rad/s)^2, variance of one gyroscope sample on the worst axis
        ("rate_rest", "f8"),  # rad/s, largest rate of a sample at rest
        ("force_rest", "f8"),  # m/s^2, largest difference from gravity of a sample at rest
        ("force_jump", "f8"),  # m/s^2, largest difference of successive samples by their noise
        ("prior", "f8", STATES),  # variance at the start
        ("walk", "f8", STATES),  # increase of variance per second
        ("decay_rate", "f8", STATES),  # 1/s, inverse of the bias time constant; 0 for none
        ("magnetometer_variance", "f8"),  # T^2
        ("pressure_variance", "f8"),  # Pa^2
        ("pressure_slope", "f8"),  # m/Pa at the start
        ("gps_velocity_variance", "f8", 3),  # (m/s)^2 white
        ("gps_position_variance", "f8", 3),  # m^2 white
        ("gps_drift_variance", "f8", 3),  # m^2, stationary
        ("gps_coupling", "f8", 3),  # m^2/s, covariance of the velocity noise with the drift that it drives
        ("gps_drift_decay", "f8"),  # remaining share of the drift after one period
        ("gps_period", "f8"),  # s
        ("gps_accuracy", "f8", 2),  # m, eph and epv reported under a clear sky
        ("range_variance", "f8"),  # m^2
        ("flow_variance", "f8", 2),  # rad^2, one integrated sample
        ("imu_position", "f8", 3),  # m from the centre of gravity, body
        ("gps_position", "f8", 3),  # m from the inertial unit, body
        ("pressure_position", "f8", 3),
        ("range_position", "f8", 3),
        ("flow_position", "f8", 3),
        ("odometry_position", "f8", 3),
        ("odometry_control", "i8"),  # bits of EKF2_EV_CTRL
        ("odometry_exposure", "f8"),  # s over which its velocity is measured
        ("odometry_drift", "f8"),  # m after 1 m of way, grows with its root
        ("latency", "f8", SOURCES),  # s
        ("gate", "f8", SOURCES),  # standard deviations
        ("fitted", "i8", SOURCES),
        ("noisy", "i8", SOURCES + INERTIAL),  # 1: readings hardly ever repeat
        ("start_time", "i8"),  # us
        ("stride", "i8"),  # steps between entries of the ring
        # --- state
        ("aligned", "i8"),
        ("attitude", "f8", 4),  # quaternion w, x, y, z body to NED
        ("nominal", "f8", STATES),  # the three of TILT are unused
        ("covariance", "f8", (STATES, STATES)),
        ("clock", "f8"),  # s since the start
        # --- alignment at rest: sums over the window
        ("rest_count", "i8"),
        ("rest_force", "f8", 3),
        ("rest_rate", "f8", 3),
        ("field_count", "i8"),
        ("rest_field", "f8", 3),
        ("pressure_count", "i8"),
        ("rest_pressure", "f8"),
        ("pressure_start", "f8"),  # Pa, pressure at barometric height 0
        ("still_since", "f8"),  # s of ``clock``, start of the present rest
        # --- inertial integration
        ("rate_before", "f8", 3),  # rad/s, previous sample
        ("force_before", "f8", 3),  # m/s^2 NED, previous sample
        ("pending_time", "f8"),  # s since the last covariance update
        ("pending_jump", "f8", 3),  # (m/s)^2 NED, variance by jumps of the force since that update
        ("pending_rotation", "f8", (3, 3)),  # s, integral of body to NED since that update
        ("pending_force", "f8", 3),  # m/s, integral of specific force, NED, since that update
        ("slow_time", "f8"),  # s since the biases last decayed
        # --- past states: clock, attitude 4, attitude correction sum 3, velocity 3, position 3, rate 3,
        # variance 3 by jumps of the force since the entry before
        ("ring", "f8", (RING, 20)),
        ("ring_jump", "f8", 3),  # (m/s)^2 NED, variance by jumps of the force since the newest entry
        ("ring_head", "i8"),
        ("ring_count", "i8"),
        ("ring_skip", "i8"),
        ("attitude_correction_sum", "f8", 3),  # rad NED, sum of all attitude corrections
        ("velocity_correction_sum", "f8", 3),  # m/s, sum of all velocity corrections
        ("position_correction_sum", "f8", 3),  # m, sum of (position correction - clock x velocity correction)
        # --- state at the time of a delayed measurement, loaded by ``recall_state``
        ("past_age", "f8"),  # s
        ("past_attitude", "f8", 4),
        ("past_velocity", "f8", 3),
        ("past_position", "f8", 3),
        ("past_rate", "f8", 3),
        ("past_force", "f8", 3),  # m/s, integral of the specific force in NED since then
        ("past_displacement", "f8", 3),  # m, second integral of the specific force in NED since then
        # by axis NED: variance of velocity, covariance with position and variance of position that jumps of
        # the force since then added
        ("past_jump", "f8", (3, 3)),
        # --- one scalar measurement: the errors it depends on, and scratch of the correction
        ("term_count", "i8"),
        ("term_index", "i8", MAX_TERMS),
        ("term_value", "f8", MAX_TERMS),
        ("gain", "f8", STATES),
        ("correction", "f8", STATES),
        ("residual", "f8", 3),
        ("innovation_variance", "f8", 3),
        # --- local origin
        ("origin_known", "i8"),
        ("origin", "f8", 3),  # latitude rad, longitude rad, altitude m
        ("origin_ecef", "f8", 3),  # m
        ("ned_to_ecef", "f8", (3, 3)),
        # --- status of the sources; s of ``clock``, -inf: never
        ("fused_at", "f8", SOURCES),
        ("rejected_since", "f8", SOURCES),  # inf: not rejected
        ("assumed_at", "f8"),  # last assumed rest or level flight
        ("gps_at", "f8"),  # last propagation of the GNSS drift
        ("range_at", "f8"),
        ("inertial_at", "f8"),  # last fresh inertial sample
        ("saturated_at", "f8"),  # last saturated inertial sample
        ("last_reading", "f8", (SOURCES + INERTIAL, 3)),  # last reading of each source
        ("reading_since", "f8", SOURCES + INERTIAL),  # time since which the reading has not changed
        # --- odometry
        ("odometry_known", "i8"),  # 1: the offset is a state
        ("odometry_at", "i8"),  # us, last sample
        ("odometry_resets", "i8"),  # its reset counter
        ("odometry_last", "f8", 3),  # m, its position
        ("odometry_path", "f8", 3),  # m NED, sum of the steps
        ("odometry_offset", "f8", 3),  # m NED, place of the path's origin
        ("odometry_variance", "f8", 3),  # m^2, scratch
        ("odometry_cross", "f8", (3, STATES)),  # covariance of the offset with the other errors
        ("odometry_covariance", "f8", (3, 3)),
        ("odometry_gain", "f8", 3),
        ("odometry_correction", "f8", 3),
    ],
    align=True,
)
