"""Results of one flight from its ULog."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.arrays import Columns, Floats, Ints, Mask, interpolate
from sitl_bridge.record.ulog_reader import Fields, seconds

MODES = {
    0: "Manual",
    1: "Altitude",
    2: "Position",
    3: "Mission",
    4: "Hold",
    5: "Return",
    6: "Position slow",
    8: "Altitude cruise",
    10: "Acro",
    12: "Descend",
    13: "Termination",
    14: "Offboard",
    15: "Stabilized",
    17: "Takeoff",
    18: "Land",
    19: "Follow",
    20: "Precision land",
    21: "Orbit",
}
"""VehicleStatus.msg, nav_state."""


def _entries(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}[{i}]" for i in range(count))


_PLACES = tuple(
    f"{which}.{name}" for which in ("previous", "current") for name in ("lat", "lon", "alt", "valid")
)
AID_SOURCES = {
    "estimator_aid_src_gnss_vel": "GNSS velocity",
    "estimator_aid_src_gnss_pos": "GNSS position",
    "estimator_aid_src_gnss_hgt": "GNSS height",
    "estimator_aid_src_gnss_yaw": "GNSS yaw",
    "estimator_aid_src_baro_hgt": "barometric height",
    "estimator_aid_src_mag": "magnetometer",
    "estimator_aid_src_ev_vel": "external velocity",
    "estimator_aid_src_ev_pos": "external position",
    "estimator_aid_src_ev_hgt": "external height",
    "estimator_aid_src_ev_yaw": "external yaw",
    "estimator_aid_src_optical_flow": "optical flow",
    "estimator_aid_src_airspeed": "airspeed",
}
"""Subject of each topic of an innovation test.  EKF2 no longer sets the flags of GNSS and barometer in
estimator_status_flags (v1.16.0), and v1.18 has none.  The range finder's is left out: without a target in its
range PX4 ignores it, but reports a rejection."""
TOPICS: Fields = {
    **dict.fromkeys(AID_SOURCES, ("estimator_instance", "innovation_rejected", "fused")),
    "distance_sensor": ("orientation", "current_distance", "max_distance", "min_distance"),
    "estimator_status": (
        *(f"{kind}_test_ratio" for kind in ("hdg", "vel", "pos", "hgt", "tas", "hagl")),
        *("filter_fault_flags", "accel_device_id"),
        *_entries("output_tracking_error", 3),
    ),
    "estimator_status_flags": (),
    "estimator_states": tuple(f"states[{i}]" for i in range(10, 16)),
    "failsafe_flags": (),
    "position_setpoint_triplet": _PLACES,
    "trajectory_setpoint": (*_entries("position", 3), *_entries("velocity", 3)),
    "vehicle_attitude": _entries("q", 4),
    "vehicle_imu_status": (
        *("accel_device_id", "accel_vibration_metric", "gyro_vibration_metric"),
        "delta_angle_coning_metric",
    ),
    "vehicle_land_detected": ("landed",),
    "vehicle_local_position": (
        *("x", "y", "z", "vx", "vy", "vz"),
        *("ref_lat", "ref_lon", "ref_alt", "ref_timestamp"),
    ),
    "vehicle_local_position_groundtruth": ("x", "y", "z", "ref_lat", "ref_lon", "ref_alt"),
    "vehicle_status": ("nav_state", "arming_state", "failsafe"),
}
"""Topics of which the results are made, and their fields besides the time; none stands for all."""

HOLD, OFFBOARD = 4, 14

LEG_MODES = (3, 5)

PREDICTION_PERIOD = 0.01
"""EKF2_PREDICT_US, s.  The bias levels are per prediction, in rad and m/s (check_table.csv: "delta angle bias
vector length (rad)"), from a time when EKF2 estimated them so.  EKF2 now estimates rad/s and m/s^2
(EKF/covariance.cpp), but Tools/ecl_ekf still compares the same numbers, and so warns of a gyroscope drift of
0.03 deg/s."""

BIASES = {
    "gyro bias, rad/s": (10, 4.4e-4 / PREDICTION_PERIOD),
    "accelerometer bias, m/s^2": (13, 4.8e-3 / PREDICTION_PERIOD),
}
"""First of three entries of estimator_states.states, and the warning level (check_level_dict.csv)."""


@dataclass(frozen=True)
class Deviation:
    """Distance of the vehicle from its reference: m (or m/s for velocities) and s."""

    mean: float
    rms: float
    max: float
    seconds: float


@dataclass(frozen=True)
class Estimator:
    """Results of the estimator checks of one instance."""

    instance: int  # of the estimator
    # percentage of the flight with rejections, by kind of measurement; only those with rejections
    rejected: dict[str, float]
    ratios: dict[str, float]  # largest test ratio by kind
    # failures, warnings: texts of the checks that failed or warned
    failures: tuple[str, ...]
    warnings: tuple[str, ...]
    begin: float  # s at which a failure was first seen; infinite for those that hold for the whole flight


@dataclass(frozen=True)
class FlightFigures:
    """How long, how far, how fast and how high a vehicle flew."""

    # take_off, landing: s, first and last time in the air; nan without a flight
    take_off: float = math.nan
    landing: float = math.nan
    air_time: float = 0.0  # s in the air
    distance: float = 0.0  # m, length of the path in the air
    max_speed: float = 0.0  # m/s
    max_height: float = 0.0  # m above the take-off point

    def in_words(self, name: str, estimated: FlightFigures | None = None) -> str:
        """A figure with its unit, and the flight stack's own estimate of it where that is another."""
        unit, digits, resolution = FIGURES[name]
        value = getattr(self, name)
        words = f"{value:.{digits}f} {unit}"
        if estimated is None:
            return words
        other = getattr(estimated, name)
        differs = abs(other - value) > max(resolution, DIFFERENT * value)
        return f"{words} (estimate {other:.{digits}f} {unit})" if differs else words


FIGURES = {
    "air_time": ("s", 1, 3.0),
    "distance": ("m", 0, 5.0),
    "max_speed": ("m/s", 1, 1.0),
    "max_height": ("m", 1, 0.5),
}
"""Unit, digits, and the difference of the estimate that is of no interest: land detectors are late by 1 to
3 s, and the noise of the estimate adds to its path."""
DIFFERENT = 0.2
"""Share of the true figure by which an estimate is off that is named beside it."""
RATE = 10.0
"""Hz at which paths are summed: sample by sample the noise of an estimate would add to them."""


@dataclass
class FlightRecord:
    """Results of a flight by its log; times in s on PX4's clock, positions in m of PX4's local frame."""

    path: Path  # of the ULog
    # take_off, landing: first and last time in the air; nan without a flight
    take_off: float = math.nan
    landing: float = math.nan
    air_time: float = 0.0  # s in the air
    distance: float = 0.0  # length of the flown path, m
    # max_speed, max_height: m/s, m above the take-off point
    max_speed: float = 0.0
    max_height: float = 0.0
    modes: list[tuple[str, float]] = field(default_factory=list)  # (mode, s) in flight order
    # from the reference, by PX4's own estimate: ``offboard position``, ``offboard velocity``, ``mission
    # legs``, ``hold``
    deviations: dict[str, Deviation] = field(default_factory=dict)
    true_deviations: dict[str, Deviation] = field(default_factory=dict)  # the same by ground truth
    estimate_error: Deviation | None = None  # PX4's position against ground truth in flight
    estimators: list[Estimator] = field(default_factory=list)  # check results of all instances
    # (s, cause) of each beginning and escalation of a failsafe in flight
    failsafes: list[tuple[float, str]] = field(default_factory=list)
    vibration: float = math.nan  # largest accel_vibration_metric in m/s^2
    damaged: bool = False  # whether parts of the ULog cannot be read; the figures are of the others
    # (s, level, text) logged by PX4, level 0 emergency ... 7 debug.
    messages: list[tuple[float, int, str]] = field(default_factory=list)
    # time, estimate: (k,), (k, 3) estimated positions
    time: Floats = field(default_factory=lambda: np.zeros(0))
    estimate: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    # true_time, truth: (j,), (j, 3) true positions in the same frame; empty without ground truth
    true_time: Floats = field(default_factory=lambda: np.zeros(0))
    truth: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    # (m, 3) reference points, nan rows between separate parts
    reference: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    # error_time, error: deviation over time, by estimate
    error_time: Floats = field(default_factory=lambda: np.zeros(0))
    error: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def figures(self) -> FlightFigures:
        """How far it flew by the flight stack's estimate."""
        return FlightFigures(
            self.take_off, self.landing, self.air_time, self.distance, self.max_speed, self.max_height
        )

    @property
    def failsafe_causes(self) -> list[str]:
        """Causes of failsafes in flight, each once, in the order in which they came."""
        return list(dict.fromkeys(cause for _, cause in self.failsafes))


def last_before(times: Floats, moments: Floats) -> NDArray[np.intp]:
    """Return the index of the last of ``times`` at or before each moment, -1 if there is none."""
    return np.searchsorted(times, moments, side="right") - 1


def modes_at(status: Columns, moments: Floats) -> Ints:
    """Return the flight mode (``nav_state``) of vehicle_status at each moment, -1 before the first."""
    index = last_before(seconds(status), moments)
    return np.where(index >= 0, np.asarray(status["nav_state"], np.int64)[np.maximum(index, 0)], -1)


def deviation(time: Floats, error: Floats) -> Deviation | None:
    """Return statistics of an error over time; None for fewer than two finite samples."""
    good = np.isfinite(error)
    if np.count_nonzero(good) < 2:
        return None
    step = float(np.median(np.diff(time)))
    kept = error[good]
    return Deviation(
        mean=float(kept.mean()),
        rms=float(np.sqrt(np.mean(kept**2))),
        max=float(kept.max()),
        seconds=len(kept) * step,
    )


def in_air(record: FlightRecord, time: Floats, margin: float = 0.0) -> Mask:
    """Return which times lie between take-off and landing, with a margin in s."""
    return (time >= record.take_off + margin) & (time < record.landing - margin)


def true_at(record: FlightRecord, time: Floats) -> Floats | None:
    """Return (k, 3) m true positions at times; None if the log has no ground truth."""
    if not len(record.true_time):
        return None
    return interpolate(time, record.true_time, record.truth)
