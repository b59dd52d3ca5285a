"""The memory of the estimator: what it was told about the sensors, what it believes, how sure it is.

The error state is global (Solà, "Quaternion kinematics for the error-state Kalman filter", section 7): the
attitude error is a small rotation in NED on the left of the quaternion, the other errors are differences.
"""

from __future__ import annotations

import numpy as np

from sitl_bridge.autopilot.records import SOURCES

# --- where each error begins in the error state; three components each but for the last two
TILT = 0
"""Attitude error, rad NED: true attitude = exp(error) times the nominal one."""
VELOCITY = 3
"""m/s NED, of the inertial unit."""
POSITION = 6
"""m NED from the local origin, of the inertial unit."""
GYROSCOPE = 9
"""Bias, rad/s body."""
ACCELEROMETER = 12
"""Bias, m/s^2 body."""
GPS_DRIFT = 15
"""Drifting part of the receiver's position error, m NED."""
GPS_SPEED = 18
"""Constant part of the receiver's velocity error, m/s NED."""
MAGNETOMETER = 21
"""Bias, T body."""
BAROMETER = 24
"""What the barometer's height reads above the height over the local origin, m."""
GROUND = 25
"""Down of the ground below, m."""
STATES = 26

RING = 64
"""Past states kept for measurements that come late."""
INERTIAL = 2
"""Accelerometer and gyroscope, rows behind those of the sources in what is remembered of what sensors say."""
MAX_TERMS = 12
"""Errors one measurement can depend on."""

ESTIMATOR = np.dtype(
    [
        # --- settings
        ("gravity", "f8"),  # m/s^2
        ("magnetic_north", "f8", 2),  # unit vector NE of the field's horizontal part
        ("magnetic_strength", "f8"),  # T, horizontal
        ("magnetic_slope", "f8"),  # vertical over horizontal part
        ("temperature", "f8"),  # K, of the air where it starts
        ("rate_noise", "f8", 3),  # (rad/s)^2/Hz, gyroscope
        ("force_noise", "f8", 3),  # (m/s^2)^2/Hz, accelerometer
        ("force_limit", "f8", 3),  # m/s^2 beyond which the accelerometer says nothing
        ("rate_variance", "f8"),  # (rad/s)^2 of a gyroscope's sample, the worst axis
        ("rate_rest", "f8"),  # rad/s and
        ("force_rest", "f8"),  # m/s^2 that a resting vehicle's samples stay within
        ("prior", "f8", STATES),  # variance at the start
        ("walk", "f8", STATES),  # variance a second adds
        ("fading", "f8", STATES),  # 1/s, inverse of the time constant, 0: none
        ("magnetometer_variance", "f8"),  # T^2
        ("pressure_variance", "f8"),  # Pa^2
        ("pressure_slope", "f8"),  # m/Pa where it starts
        ("gps_velocity_variance", "f8", 3),  # (m/s)^2 white
        ("gps_position_variance", "f8", 3),  # m^2 white
        ("gps_drift_variance", "f8", 3),  # m^2, stationary
        ("gps_coupling", "f8", 3),  # m^2/s, covariance of the velocity's noise with the drift it drives
        ("gps_fading", "f8"),  # what is left of the drift after one period
        ("gps_period", "f8"),  # s
        ("gps_accuracy", "f8", 2),  # m, eph and epv stated under a clear sky
        ("range_variance", "f8"),  # m^2
        ("flow_variance", "f8", 2),  # rad^2 of one integrated sample
        ("imu_position", "f8", 3),  # m from the centre of gravity, body
        ("gps_position", "f8", 3),  # m from the inertial unit, body
        ("pressure_position", "f8", 3),
        ("range_position", "f8", 3),
        ("flow_position", "f8", 3),
        ("latency", "f8", SOURCES),  # s
        ("gate", "f8", SOURCES),  # standard deviations
        ("fitted", "i8", SOURCES),
        ("noisy", "i8", SOURCES + INERTIAL),  # 1: it hardly ever says the same twice
        ("start_time", "i8"),  # us
        ("stride", "i8"),  # steps between entries of the ring
        # --- belief
        ("aligned", "i8"),
        ("attitude", "f8", 4),  # quaternion w, x, y, z body to NED
        ("nominal", "f8", STATES),  # TILT's three are unused
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
        ("pressure_start", "f8"),  # Pa, at which the barometer's height is 0
        ("still_since", "f8"),  # s of ``clock`` from which on the inertial samples were those of rest
        # --- inertial integration
        ("rate_before", "f8", 3),  # rad/s, the last sample
        ("force_before", "f8", 3),  # m/s^2 NED, of the last sample
        ("pending_time", "f8"),  # s by which the covariance lags behind the nominal state
        ("pending_rotation", "f8", (3, 3)),  # s, integral of body to NED since
        ("pending_force", "f8", 3),  # m/s, integral of the specific force in NED since
        ("slow_time", "f8"),  # s since the biases faded last
        # --- past states: clock, attitude 4, sum of turns 3, velocity 3, position 3, rate 3
        ("ring", "f8", (RING, 17)),
        ("ring_head", "i8"),
        ("ring_count", "i8"),
        ("ring_skip", "i8"),
        ("turned", "f8", 3),  # rad NED, sum of all corrections of attitude
        ("pushed", "f8", 3),  # m/s, sum of all corrections of velocity
        ("shifted", "f8", 3),  # m, sum of (correction of position - clock x correction of velocity)
        # --- the state a late measurement belongs to, found by ``recall``
        ("past_age", "f8"),  # s
        ("past_attitude", "f8", 4),
        ("past_velocity", "f8", 3),
        ("past_position", "f8", 3),
        ("past_rate", "f8", 3),
        ("past_force", "f8", 3),  # m/s, integral of the specific force in NED since
        ("past_drop", "f8", 3),  # m, its second integral
        # --- one scalar measurement: the errors it depends on, and scratch of the correction
        ("term_count", "i8"),
        ("term_index", "i8", MAX_TERMS),
        ("term_value", "f8", MAX_TERMS),
        ("gain", "f8", STATES),
        ("correction", "f8", STATES),
        ("residual", "f8", 3),
        ("spread", "f8", 3),
        # --- local origin
        ("origin_known", "i8"),
        ("origin", "f8", 3),  # latitude rad, longitude rad, altitude m
        ("origin_ecef", "f8", 3),  # m
        ("ned_to_ecef", "f8", (3, 3)),
        # --- how the sources do; s of ``clock``, -inf: never
        ("fused_at", "f8", SOURCES),
        ("refused_since", "f8", SOURCES),  # inf: not refused
        ("assumed_at", "f8"),  # last time that rest or level flight was assumed
        ("gps_at", "f8"),  # of the last fix's drift
        ("range_at", "f8"),
        ("heard_at", "f8"),  # last fresh inertial sample
        ("shock_at", "f8"),  # last inertial sample at its limit
        ("said", "f8", (SOURCES + INERTIAL, 3)),  # what a source said last
        ("said_at", "f8", SOURCES + INERTIAL),  # since when it says the same
    ],
    align=True,
)
