"""Health of PX4's estimator by PX4's own limits: rejections, test ratios and vibration."""

from __future__ import annotations

import math

import numpy as np

from sitl_bridge.analysis.evaluation.flight_record import (
    AID_SOURCES,
    BIASES,
    Estimator,
    FlightRecord,
    in_air,
)
from sitl_bridge.base.arrays import Floats, Mask, true_spans
from sitl_bridge.base.json_data import ReadJson
from sitl_bridge.record.ulog_reader import FlightLog, seconds

GROUND_EFFECT_MARGIN = 5.0
"""Time at both ends of the flight without evaluation, because of the ground (Tools/ecl_ekf), s."""

RED, AMBER = 1.0, 0.5
"""Test ratios at which a measurement is rejected, and a warning level below (Tools/ecl_ekf)."""

AMBER_FAIL, AMBER_WARN = 50.0, 5.0
"""Percentages of samples above AMBER that fail or warn (check_level_dict.csv)."""

REJECTIONS = {
    "reject_hor_vel": "horizontal velocity",
    "reject_ver_vel": "vertical velocity",
    "reject_hor_pos": "horizontal position",
    "reject_ver_pos": "height",
    "reject_yaw": "yaw",
    "fs_bad_mag_x": "magnetometer x",
    "fs_bad_mag_y": "magnetometer y",
    "fs_bad_mag_z": "magnetometer z",
    "reject_airspeed": "airspeed",
    "reject_hagl": "height above ground",
    "reject_optflow_x": "optical flow x",
    "reject_optflow_y": "optical flow y",
}
"""Measurements by PX4's flags, for logs without the topics of innovation tests."""

LASTING_REJECTION = 5.0
"""s of rejection in a row that fail.  PX4's EKF2 reports its solution as invalid when nothing was fused for
so long (EKF2_NOAID_TOUT).  A shorter one is an outlier that the test is there for."""

SILENCE = 1.0
"""s after which a measurement that is not repeated no longer counts as rejected: PX4 logs innovation tests at
2 Hz or faster (logged_topics.cpp)."""

NEAR_GROUND = frozenset(
    {
        *("reject_ver_pos", "reject_yaw", "fs_bad_mag_x", "fs_bad_mag_y", "fs_bad_mag_z"),
        *("reject_optflow_x", "reject_optflow_y"),
        *(f"estimator_aid_src_{name}" for name in ("gnss_hgt", "gnss_yaw", "baro_hgt", "ev_hgt", "ev_yaw")),
        *(f"estimator_aid_src_{name}" for name in ("mag", "optical_flow")),
    }
)
"""Checked without the parts of the flight near the ground (Tools/ecl_ekf, metrics.py)."""

RATIOS = {
    "hdg": "mag",
    "vel": "velocity",
    "pos": "position",
    "hgt": "height",
    "tas": "airspeed",
    "hagl": "height above ground",
}

TRACKING = {
    "output_tracking_error[0]": ("output angle error, rad", 8.0e-3),
    "output_tracking_error[1]": ("output velocity error, m/s", 0.05),
    "output_tracking_error[2]": ("output position error, m", 0.15),
}

SHAKING = {
    "delta_angle_coning_metric": ("coning, rad^2", 1.8e-5, 3.6e-6),
    "gyro_vibration_metric": ("gyro vibration, rad/s", 12.0, 2.4),
    "accel_vibration_metric": ("accelerometer vibration, m/s^2", 360.0, 72.0),
}
"""Maximum and mean of vehicle_imu_status that warn (check_level_dict.csv).  Tools/ecl_ekf uses an outdated
name of the first and therefore skips all three."""

ROTATION_DOWNWARD_FACING = 25
"""MAV_SENSOR_ORIENTATION"""
RANGE_SETTLING = 3.0
"""s in which a filtered test ratio forgets: six of its time constants (EKF2, updateAidSourceStatus)."""
RANGE_INTERVAL = 1.0
"""s by which logged readings are apart (logger, distance_sensor)."""

VIBRATION_ORANGE, VIBRATION_RED = 4.905, 9.81
"""accel_vibration_metric above which Flight Review's background is orange or red, m/s^2.  Vehicles
fly with red: a calm real hover has 9.76 on average (docs/log-statistics.md)."""


def check_estimator(log: FlightLog, instance: int, record: FlightRecord) -> Estimator:
    """Return PX4's estimator checks for one instance of a log."""
    failures: list[str] = []
    warnings: list[str] = []
    rejected: dict[str, float] = {}
    begin = math.inf
    for name, (share, lasting) in _rejections(log, instance, record).items():
        rejected[name] = share
        (failures if lasting < math.inf else warnings).append(rejection_in_words(name, share))
        begin = min(begin, lasting)
    ratios = _test_ratios(log, instance, record, failures, warnings)
    _medians(log, instance, record, warnings)
    _check_vibration(log, instance, record, warnings)
    return Estimator(instance, rejected, ratios, tuple(failures), tuple(warnings), begin)


def rejection_in_words(name: str, share: float) -> str:
    """That a measurement was rejected, with the percentage of the flight."""
    weight = f"{share:.1f}" if share >= 0.05 else "less than 0.1"
    return f"{name} rejected in {weight} % of the flight"


def _rejections(log: FlightLog, instance: int, record: FlightRecord) -> dict[str, tuple[float, float]]:
    """Percentage of the flight and begin of the first lasting one in s, by measurement."""
    tests = [
        (name, words, tested)
        for name, words in AID_SOURCES.items()
        for number in log.instances(name)
        if (tested := log.topic(name, number)) and tested["estimator_instance"][0] == instance
    ]
    if not tests:
        return _flagged_rejections(log, instance, record)
    rejected: dict[str, tuple[float, float]] = {}
    for name, words, tested in tests:
        time = seconds(tested)
        chosen = _in_air(record, time, name)
        if np.asarray(tested["fused"])[chosen].any():
            lasts = np.minimum(np.diff(time, append=time[-1]), SILENCE)
            bad = chosen & (np.asarray(tested["innovation_rejected"]) > 0)
            _add_rejection(rejected, words, time, lasts, chosen, bad)
    return rejected


def _flagged_rejections(
    log: FlightLog, instance: int, record: FlightRecord
) -> dict[str, tuple[float, float]]:
    """The same by the estimator's flags, which PX4 logs when one changes."""
    flags = log.topic("estimator_status_flags", instance)
    rejected: dict[str, tuple[float, float]] = {}
    if flags is None:
        return rejected
    time = seconds(flags)
    lasts = np.diff(time, append=time[-1])
    for name, words in REJECTIONS.items():
        if name in flags:
            chosen = _in_air(record, time, name)
            bad = chosen & (np.asarray(flags[name]) > 0)
            _add_rejection(rejected, words, time, lasts, chosen, bad)
    return rejected


def _in_air(record: FlightRecord, time: Floats, name: str) -> Mask:
    return in_air(record, time, GROUND_EFFECT_MARGIN if name in NEAR_GROUND else 0.0)


def _add_rejection(
    rejected: dict[str, tuple[float, float]], words: str, time: Floats, lasts: Floats, chosen: Mask, bad: Mask
) -> None:
    if bad.any():
        lasting = [float(time[a]) for a, b in true_spans(bad) if lasts[a:b].sum() >= LASTING_REJECTION]
        flown = max(float(lasts[chosen].sum()), 1e-9)
        rejected[words] = 100.0 * float(lasts[bad].sum()) / flown, min(lasting, default=math.inf)


def _test_ratios(
    log: FlightLog, instance: int, record: FlightRecord, failures: list[str], warnings: list[str]
) -> dict[str, float]:
    status = log.topic("estimator_status", instance)
    ratios: dict[str, float] = {}
    if status is None:
        return ratios
    time = seconds(status)
    for key, words in RATIOS.items():
        margin = GROUND_EFFECT_MARGIN if key in ("hdg", "hgt") else 0.0
        if f"{key}_test_ratio" not in status:
            continue
        chosen = in_air(record, time, margin)
        if key == "hagl":
            chosen = chosen & _in_range(log, time)
        values = np.asarray(status[f"{key}_test_ratio"], np.float64)[chosen]
        values = values[np.isfinite(values)]
        if not len(values) or (key in ("tas", "hagl") and values.max() == 0.0):
            continue
        ratios[words] = float(values.max())
        amber = 100.0 * float(np.mean((values > AMBER) & (values <= RED)))
        if amber > AMBER_FAIL:
            failures.append(f"{words} test ratio above {AMBER:g} in {amber:.0f} % of the flight")
        elif amber > AMBER_WARN:
            warnings.append(f"{words} test ratio above {AMBER:g} in {amber:.0f} % of the flight")
    chosen = in_air(record, time)
    if chosen.any() and np.asarray(status["filter_fault_flags"])[chosen].max() > 0:
        failures.append("numerical faults of the filter")
    return ratios


def _in_range(log: FlightLog, time: Floats) -> Mask:
    """Return whether the range finder has measured since RANGE_SETTLING before each time, in s.

    Without a target in its range PX4 ignores it, but from 2026 on still reports the innovation's test ratio.
    """
    found = np.ones(len(time), np.bool_)
    for number in log.instances("distance_sensor"):
        beam = log.topic("distance_sensor", number)
        if beam is None or beam["orientation"][0] != ROTATION_DOWNWARD_FACING:
            continue
        distance = np.asarray(beam["current_distance"])
        out = seconds(beam)[(distance > beam["max_distance"]) | (distance < beam["min_distance"])]
        before, after = (
            np.searchsorted(out, t) for t in (time - RANGE_SETTLING - RANGE_INTERVAL, time + RANGE_INTERVAL)
        )
        found &= before == after
    return found


def _medians(log: FlightLog, instance: int, record: FlightRecord, warnings: list[str]) -> None:
    status = log.topic("estimator_status", instance)
    if status is not None:
        chosen = in_air(record, seconds(status), GROUND_EFFECT_MARGIN)
        for column, (words, level) in TRACKING.items():
            if chosen.any() and column in status:  # before v1.10 PX4 logged some elsewhere
                median = float(np.median(np.asarray(status[column])[chosen]))
                if median > level:
                    warnings.append(f"{words}: median {median:.2g}, above {level:g}")
    states = log.topic("estimator_states", instance)
    if states is None:
        return
    chosen = in_air(record, seconds(states), GROUND_EFFECT_MARGIN)
    for words, (first, level) in BIASES.items():
        if chosen.any():
            medians = [np.median(np.asarray(states[f"states[{first + k}]"])[chosen]) for k in range(3)]
            size = float(np.linalg.norm(medians))
            if size > level:
                warnings.append(f"{words}: {size:.2g}, above {level:g}")


def _check_vibration(log: FlightLog, instance: int, record: FlightRecord, warnings: list[str]) -> None:
    """Check the vibration of the inertial sensor that an estimator instance uses."""
    status = log.topic("estimator_status", instance)
    for number in log.instances("vehicle_imu_status"):
        imu = log.topic("vehicle_imu_status", number)
        if imu is None or status is None or not _is_its_imu(status, imu):
            continue
        chosen = in_air(record, seconds(imu), GROUND_EFFECT_MARGIN)
        for name, (words, peak, mean) in SHAKING.items():
            values = np.asarray(imu.get(name, np.zeros(len(chosen))))[chosen]  # older versions lack some
            if len(values) and (values.max() > peak or values.mean() > mean):
                warnings.append(f"{words}: up to {values.max():.2g}, mean {values.mean():.2g}")


def _is_its_imu(status: ReadJson, imu: ReadJson) -> bool:
    """Whether an estimator uses an inertial sensor; before v1.12 PX4 logged no device in its status."""
    if "accel_device_id" not in status or "accel_device_id" not in imu:
        return True
    return bool(imu["accel_device_id"][0] == status["accel_device_id"][0])


def vibration(log: FlightLog, record: FlightRecord) -> float:
    """Return the largest vibration metric of the accelerometers in flight, m/s^2."""
    worst = math.nan
    for instance in log.instances("vehicle_imu_status"):
        status = log.topic("vehicle_imu_status", instance)
        if status is None:
            continue
        chosen = in_air(record, seconds(status), GROUND_EFFECT_MARGIN)
        if chosen.any() and "accel_vibration_metric" in status:
            worst = float(np.fmax(worst, np.asarray(status["accel_vibration_metric"])[chosen].max()))
    return worst
