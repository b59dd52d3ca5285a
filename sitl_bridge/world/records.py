"""The memory of the world: one environment record for all vehicles, the wind's settings and its states."""

from __future__ import annotations

import numpy as np

START = 0
"""us of simulated time at which a run begins, as in other simulators.  PX4 takes the time of its first
inertial sample for the interval before it (VehicleIMU.cpp); an estimator that is handed that sample averages
over it (imu_down_sampler.cpp), and with a large one puts out nothing for many seconds."""
MAX_GUSTS = 8

ENVIRONMENT = np.dtype(
    [
        ("latitude", "f8"),  # rad, WGS-84, of the NED origin
        ("longitude", "f8"),  # rad
        ("height", "f8"),  # m AMSL (taken as height above the ellipsoid: PX4 makes no difference here)
        ("gravity", "f8"),  # m/s^2 at the origin
        ("sea_level_temperature", "f8"),  # K, ISA 288.15
        ("sea_level_pressure", "f8"),  # Pa, ISA 101325
        ("magnetic_field", "f8", 3),  # T, NED at the origin
        ("origin_ecef", "f8", 3),  # m
        ("ned_to_ecef", "f8", (3, 3)),
    ],
    align=True,
)

WIND = np.dtype(
    [
        ("steady", "f8", 3),  # m/s NED, direction the air moves to
        ("log_speed_20ft", "f8"),  # m/s, W20 of the logarithmic profile, 0 = none
        ("log_direction", "f8", 2),  # unit vector N, E the air moves to
        ("log_roughness", "f8"),  # m, z0
        ("dryden_speed_20ft", "f8"),  # m/s, W20 that sets the turbulence intensity, 0 = none
        ("dryden_airspeed_floor", "f8"),  # m/s
        ("gust_count", "i8"),
        ("gust_start", "i8", MAX_GUSTS),  # us
        ("gust_velocity", "f8", (MAX_GUSTS, 3)),  # m/s NED, V_m along its direction
        ("gust_length", "f8", MAX_GUSTS),  # m, d_m
        ("gust_speed", "f8", MAX_GUSTS),  # m/s with which the gust's profile passes the vehicle
        ("gust_hold", "f8", MAX_GUSTS),  # s at full strength before it fades again; inf = stays
        ("series_start", "i8"),  # us of the series' time 0, and of a user's own wind's
        ("series_period", "i8"),  # us after which the series repeats, 0 = its last value holds
        ("custom", "i8"),  # address of a user's own wind in this process, 0 = none
    ],
    align=True,
)

WIND_STATE = np.dtype(
    [
        ("random", "u8", 4),  # the vehicle's own stream
        ("dryden", "f8", 8),  # filter states
        ("started", "i8"),
    ],
    align=True,
)
