"""The memory of a vehicle's sensors: their settings, their state, and the samples they put out.

Arrays (n, MAX_SENSORS) of these records go to the compiled step.  A slot of kind ``NONE`` is empty.
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
"""What airframe files call the kinds."""

# What ``values`` holds, by kind (SI units, radians, degrees Celsius for temperatures):
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
FAULT_STUCK = 2  # the last sample again and again

SENSOR = np.dtype(
    [
        ("kind", "i8"),
        ("instance", "i8"),  # the id the flight stack sees
        ("period", "i8"),  # us between samples
        ("phase", "i8"),  # us after the start at which the first sample is taken
        ("latency", "i8"),  # us from sample to delivery
        ("position", "f8", 3),  # m, body, from the centre of gravity
        ("rotation", "f8", (3, 3)),  # body to sensor axes, row-wise
        ("axis_count", "i8"),  # error axes in use
        ("noise", "f8", MAX_AXES),  # standard deviation of the white noise of one sample, unit of the axis
        ("bias_start", "f8", MAX_AXES),  # deviation of the bias at the start (stationary; 0: random walk)
        ("bias_decay", "f8", MAX_AXES),  # what is left of the bias after one period, exp(-period/tau)
        ("bias_step", "f8", MAX_AXES),  # deviation of what one period adds to it
        ("turn_on_sigma", "f8", MAX_AXES),  # deviation of the constant turn-on bias
        ("scale", "f8", MAX_AXES),  # scale factor error, 0 = none
        ("resolution", "f8", MAX_AXES),  # smallest step of the reading, unit of the axis, 0 = none
        ("limit", "f8", MAX_AXES),  # greatest magnitude of the reading, inf = none
        ("parameter", "f8", 16),  # of the kind's own, named in its module
    ],
    align=True,
)

SENSOR_STATE = np.dtype(
    [
        # What every step touches stands together.
        ("next_sample", "i8"),  # us
        ("fault", "i8"),  # one of FAULT_*, set from outside between steps
        ("delay_head", "i8"),
        ("delay_count", "i8"),
        ("drawn", "i8"),  # 1: ``error`` has been drawn for the next sample
        # --- output
        ("fresh", "i8"),  # 1 in the step in which a sample was delivered
        ("time", "i8"),  # us at which the delivered sample was taken
        ("values", "f8", MAX_VALUES),
        # ---
        ("sample", "f8", MAX_VALUES),  # scratch
        ("error", "f8", MAX_AXES),  # of one sample: turn-on bias, drifting bias and white noise
        ("turn_on", "f8", MAX_AXES),
        ("memory", "f8", 16),  # of the kind's own
        ("bias", "f8", MAX_AXES),
        ("random", "u8", 4),  # the sensor's own stream
        ("delay_due", "i8", DELAY_SLOTS),
        ("delay_time", "i8", DELAY_SLOTS),
        ("delay_values", "f8", (DELAY_SLOTS, MAX_VALUES)),
    ],
    align=True,
)
