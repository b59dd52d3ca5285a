"""Records of a vehicle's sensors: settings, state and output samples.

Arrays (n, MAX_SENSORS) of these records are passed to the compiled step.  A slot of kind ``NONE`` is empty.
"""

from __future__ import annotations

import numpy as np

MAX_SENSORS = 16
MAX_AXES = 8
MAX_VALUES = 16
DELAY_SLOTS = 16

NONE = 0
IMU = 1
MAGNETOMETER = 2
BAROMETER = 3
GPS = 4
AIRSPEED = 5
RANGE_FINDER = 6
OPTICAL_FLOW = 7
BATTERY = 8

KIND_NAMES = {
    IMU: "imu",
    MAGNETOMETER: "magnetometer",
    BAROMETER: "barometer",
    GPS: "gps",
    AIRSPEED: "airspeed",
    RANGE_FINDER: "range_finder",
    OPTICAL_FLOW: "optical_flow",
    BATTERY: "battery",
}
"""Names of the kinds in airframe files."""

# Content of ``values`` by kind (SI units, radians, degrees Celsius for temperatures):
#   IMU            0-2 specific force m/s^2, 3-5 angular rate rad/s (body FRD), 6 temperature
#   MAGNETOMETER   0-2 field in tesla (body FRD)
#   BAROMETER      0 absolute pressure Pa, 1 temperature, 2 pressure altitude m
#   GPS            0 latitude rad, 1 longitude rad, 2 height AMSL m, 3-5 velocity NED m/s, 6 eph m, 7 epv m,
#                  8 fix type (MAVLink GPS_FIX_TYPE), 9 satellites
#   AIRSPEED       0 differential pressure Pa, 1 temperature
#   RANGE_FINDER   0 distance m (nan: no return), 1 minimum m, 2 maximum m, 3 variance m^2
#   OPTICAL_FLOW   0-1 integrated flow rad (x, y), 2-4 integrated gyro rad, 5 integration time s,
#                  6 distance m (nan: none), 7 quality 0..255
#   BATTERY        0 voltage V, 1 current A, 2 remaining 0..1, 3 consumed A s

FAULT_NONE = 0
FAULT_OFF = 1  # no samples
FAULT_STUCK = 2  # repeats the last sample

SENSOR = np.dtype(
    [
        ("kind", "i8"),
        ("instance", "i8"),  # sensor id on the simulator link
        ("period", "i8"),  # us between samples
        ("phase", "i8"),  # us from the start to the first sample
        ("latency", "i8"),  # us from sample to delivery
        ("position", "f8", 3),  # m, body, from the centre of gravity
        ("rotation", "f8", (3, 3)),  # body to sensor axes, row-wise
        ("axis_count", "i8"),  # error axes in use
        ("noise", "f8", MAX_AXES),  # standard deviation of the white noise of one sample, unit of the axis
        ("bias_start", "f8", MAX_AXES),  # standard deviation of the initial bias (stationary; 0: random walk)
        ("bias_decay", "f8", MAX_AXES),  # remaining share of the bias after one period, exp(-period/tau)
        ("bias_step", "f8", MAX_AXES),  # standard deviation of the bias change per period
        ("turn_on_sigma", "f8", MAX_AXES),  # standard deviation of the constant turn-on bias
        ("scale", "f8", MAX_AXES),  # scale factor error, 0 = none
        ("resolution", "f8", MAX_AXES),  # quantisation step of the reading, unit of the axis, 0 = none
        ("limit", "f8", MAX_AXES),  # largest magnitude of the reading, inf = none
        ("parameter", "f8", 16),  # specific to the kind, see its module
    ],
    align=True,
)

SENSOR_STATE = np.dtype(
    [
        # Fields used in every step are kept together.
        ("next_sample", "i8"),  # us
        ("fault", "i8"),  # one of FAULT_*, set between steps
        ("delay_head", "i8"),
        ("delay_count", "i8"),
        ("drawn", "i8"),  # 1: ``error`` has been drawn for the next sample
        # --- output
        ("fresh", "i8"),  # 1 in the step in which a sample is delivered
        ("time", "i8"),  # us, time of the delivered sample
        ("values", "f8", MAX_VALUES),
        # ---
        ("sample", "f8", MAX_VALUES),  # scratch
        ("error", "f8", MAX_AXES),  # error of one sample: turn-on bias, drifting bias and white noise
        ("turn_on", "f8", MAX_AXES),
        ("memory", "f8", 16),  # specific to the kind
        ("bias", "f8", MAX_AXES),
        ("random", "u8", 4),  # state of the sensor's random stream
        ("delay_due", "i8", DELAY_SLOTS),
        ("delay_time", "i8", DELAY_SLOTS),
        ("delay_values", "f8", (DELAY_SLOTS, MAX_VALUES)),
    ],
    align=True,
)
