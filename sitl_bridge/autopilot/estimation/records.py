"""Record of the estimator: sensor settings, state, covariance, past states and status of each source.

The error state is global (Solà, "Quaternion kinematics for the error-state Kalman filter", section 7): the
attitude error is a small rotation in NED on the left of the quaternion, the other errors are differences.
"""

from __future__ import annotations

from typing import Annotated

from sitl_bridge.autopilot.records import SOURCES
from sitl_bridge.base.arrays import Floats, Ints
from sitl_bridge.base.kernels.record import Record

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


class Estimator(Record):
    """Settings, state, covariance, past states and status of each source."""

    # --- settings
    gravity: float  # m/s^2
    magnetic_north: Annotated[Floats, 2]  # unit vector NE of the field's horizontal part
    magnetic_strength: float  # T, horizontal
    magnetic_slope: float  # ratio of the vertical to the horizontal component
    temperature: float  # K, air temperature at the start
    rate_noise: Annotated[Floats, 3]  # (rad/s)^2/Hz, gyroscope
    force_noise: Annotated[Floats, 3]  # (m/s^2)^2/Hz, accelerometer
    force_limit: Annotated[Floats, 3]  # m/s^2, saturation of the accelerometer
    rate_variance: float  # (rad/s)^2, variance of one gyroscope sample on the worst axis
    rate_rest: float  # rad/s, largest rate of a sample at rest
    force_rest: float  # m/s^2, largest difference from gravity of a sample at rest
    force_jump: float  # m/s^2, largest difference of successive samples by their noise
    prior: Annotated[Floats, STATES]  # variance at the start
    walk: Annotated[Floats, STATES]  # increase of variance per second
    decay_rate: Annotated[Floats, STATES]  # 1/s, inverse of the bias time constant; 0 for none
    magnetometer_variance: float  # T^2
    pressure_variance: float  # Pa^2
    pressure_slope: float  # m/Pa at the start
    gps_velocity_variance: Annotated[Floats, 3]  # (m/s)^2 white
    gps_position_variance: Annotated[Floats, 3]  # m^2 white
    gps_drift_variance: Annotated[Floats, 3]  # m^2, stationary
    # m^2/s, covariance of the velocity noise with the drift that it drives
    gps_coupling: Annotated[Floats, 3]
    gps_drift_decay: float  # remaining share of the drift after one period
    gps_period: float  # s
    gps_accuracy: Annotated[Floats, 2]  # m, eph and epv reported under a clear sky
    range_variance: float  # m^2
    flow_variance: Annotated[Floats, 2]  # rad^2, one integrated sample
    imu_position: Annotated[Floats, 3]  # m from the centre of gravity, body
    gps_position: Annotated[Floats, 3]  # m from the inertial unit, body
    pressure_position: Annotated[Floats, 3]
    range_position: Annotated[Floats, 3]
    flow_position: Annotated[Floats, 3]
    odometry_position: Annotated[Floats, 3]
    odometry_control: int  # bits of EKF2_EV_CTRL
    odometry_exposure: float  # s over which its velocity is measured
    odometry_drift: float  # m after 1 m of way, grows with its root
    latency: Annotated[Floats, SOURCES]  # s
    gate: Annotated[Floats, SOURCES]  # standard deviations
    fitted: Annotated[Ints, SOURCES]
    noisy: Annotated[Ints, SOURCES + INERTIAL]  # 1: readings hardly ever repeat
    stride: int  # steps between entries of the ring
    # --- state
    aligned: int
    attitude: Annotated[Floats, 4]  # quaternion w, x, y, z body to NED
    nominal: Annotated[Floats, STATES]  # the three of TILT are unused
    covariance: Annotated[Floats, STATES, STATES]
    clock: float  # s since the start
    # --- alignment at rest: sums over the window
    rest_count: int
    rest_force: Annotated[Floats, 3]
    rest_rate: Annotated[Floats, 3]
    field_count: int
    rest_field: Annotated[Floats, 3]
    pressure_count: int
    rest_pressure: float
    pressure_start: float  # Pa, pressure at barometric height 0
    still_since: float  # s of ``clock``, start of the present rest
    # --- inertial integration
    rate_before: Annotated[Floats, 3]  # rad/s, previous sample
    force_before: Annotated[Floats, 3]  # m/s^2 NED, previous sample
    force_vibration: Annotated[Floats, 3]  # m/s^2 NED, mean difference of successive samples
    pending_time: float  # s since the last covariance update
    pending_jump: Annotated[Floats, 3]  # (m/s)^2 NED, variance by jumps of the force since that update
    pending_rotation: Annotated[Floats, 3, 3]  # s, integral of body to NED since that update
    pending_force: Annotated[Floats, 3]  # m/s, integral of specific force, NED, since that update
    slow_time: float  # s since the biases last decayed
    # --- past states: clock, attitude 4, attitude correction sum 3, velocity 3, position 3, rate 3,
    # variance 3 by jumps of the force since the entry before
    ring: Annotated[Floats, RING, 20]
    ring_jump: Annotated[Floats, 3]  # (m/s)^2 NED, variance by jumps of the force since the newest entry
    ring_head: int
    ring_count: int
    ring_skip: int
    attitude_correction_sum: Annotated[Floats, 3]  # rad NED, sum of all attitude corrections
    velocity_correction_sum: Annotated[Floats, 3]  # m/s, sum of all velocity corrections
    # m, sum of (position correction - clock x velocity correction)
    position_correction_sum: Annotated[Floats, 3]
    # --- state at the time of a delayed measurement, loaded by ``recall_state``
    past_age: float  # s
    past_attitude: Annotated[Floats, 4]
    past_velocity: Annotated[Floats, 3]
    past_position: Annotated[Floats, 3]
    past_rate: Annotated[Floats, 3]
    past_force: Annotated[Floats, 3]  # m/s, integral of the specific force in NED since then
    past_displacement: Annotated[Floats, 3]  # m, second integral of the specific force in NED since then
    # by axis NED: variance of velocity, covariance with position and variance of position that jumps of
    # the force since then added
    past_jump: Annotated[Floats, 3, 3]
    # --- one scalar measurement: the errors it depends on, and scratch of the correction
    term_count: int
    term_index: Annotated[Ints, MAX_TERMS]
    term_value: Annotated[Floats, MAX_TERMS]
    gain: Annotated[Floats, STATES]
    blow: int  # 1: a blow since the measurement, see predict_variance
    factor: Annotated[Floats, STATES, STATES]  # scratch of least_variance
    correction: Annotated[Floats, STATES]
    residual: Annotated[Floats, 3]
    innovation_variance: Annotated[Floats, 3]
    # --- local origin
    origin_known: int
    origin: Annotated[Floats, 3]  # latitude rad, longitude rad, altitude m
    origin_ecef: Annotated[Floats, 3]  # m
    ned_to_ecef: Annotated[Floats, 3, 3]
    # --- status of the sources; s of ``clock``, -inf: never
    fused_at: Annotated[Floats, SOURCES]
    rejected_since: Annotated[Floats, SOURCES]  # inf: not rejected
    assumed_at: float  # last assumed rest or level flight
    gps_at: float  # last propagation of the GNSS drift
    range_at: float
    inertial_at: float  # last fresh inertial sample
    saturated_at: float  # last saturated inertial sample
    last_reading: Annotated[Floats, SOURCES + INERTIAL, 3]  # last reading of each source
    reading_since: Annotated[Floats, SOURCES + INERTIAL]  # time since which the reading has not changed
    # --- odometry
    odometry_known: int  # 1: the offset is a state
    odometry_at: int  # us, last sample
    odometry_resets: int  # its reset counter
    odometry_last: Annotated[Floats, 3]  # m, its position
    odometry_path: Annotated[Floats, 3]  # m NED, sum of the steps
    odometry_offset: Annotated[Floats, 3]  # m NED, place of the path's origin
    odometry_variance: Annotated[Floats, 3]  # m^2, scratch
    odometry_cross: Annotated[Floats, 3, STATES]  # covariance of the offset with the other errors
    odometry_covariance: Annotated[Floats, 3, 3]
    odometry_gain: Annotated[Floats, 3]
    odometry_correction: Annotated[Floats, 3]


ESTIMATOR = Estimator.dtype
