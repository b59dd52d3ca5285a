"""Statistics of the sensors in PX4's log, to set simulated flights beside real ones.

Each statistic is one number of a flight, from 3 s after the take-off to 3 s before the landing.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.linalg import solve_toeplitz
from scipy.signal import butter, sosfiltfilt, welch
from scipy.sparse import diags_array
from scipy.sparse.linalg import spsolve

from sitl_bridge.api.logs import FlightLog, columns, motor_signal, seconds
from sitl_bridge.base.arrays import Floats, Mask
from sitl_bridge.base.errors import UserError

MARGIN = 3.0
"""s after a take-off and before a landing."""
FIELDS: dict[str, tuple[str, ...]] = {
    "vehicle_land_detected": ("landed",),
    "vehicle_imu_status": (
        "accel_vibration_metric",
        "gyro_vibration_metric",
        "delta_angle_coning_metric",
        "temperature_accel",
    ),
    "sensor_combined": (
        *(f"accelerometer_m_s2[{axis}]" for axis in range(3)),
        *(f"gyro_rad[{axis}]" for axis in range(3)),
    ),
    "vehicle_torque_setpoint": ("xyz[2]",),
    "vehicle_attitude": tuple(f"q[{i}]" for i in range(4)),
    "vehicle_acceleration": ("xyz[0]", "xyz[1]", "xyz[2]"),
    "vehicle_angular_velocity": ("xyz[0]", "xyz[1]", "xyz[2]"),
    "vehicle_magnetometer": ("magnetometer_ga[0]", "magnetometer_ga[1]", "magnetometer_ga[2]"),
    "vehicle_air_data": ("baro_alt_meter",),
    "sensor_gps": ("eph", "epv", "satellites_used"),
    "vehicle_gps_position": ("eph", "epv", "satellites_used"),
    "battery_status": ("voltage_v", "current_a"),
    "actuator_motors": ("control[0]", "control[1]", "control[2]", "control[3]"),
    "estimator_innovations": (),
    "estimator_innovation_variances": (),
    "ekf2_innovations": (),
}
OLD = {"gps_hvel[0]": "vel_pos_innov[0]", "gps_hpos[0]": "vel_pos_innov[3]", "heading": "heading_innov"}
"""Innovations as PX4 up to v1.10 logs them, with their variances beside them in one topic."""


SLOW = 0.5
"""Hz below which commands and air that moves show in the yaw torque, and not the vehicle."""
BANDS = (10, 20, 40, 60, 80, 100)
"""Hz, edges of the bands in which spectra are compared; PX4 integrates inertial samples over 4 to 5 ms."""
ORDER = 40
"""Of the autoregression by which missing samples are filled in."""
TAKEN = frozenset(
    {
        "inertial unit: temperature, °C",
        "magnetic field: deviation of it, G",
        "barometer: change between samples, m",
        "receiver: eph, m",
        "receiver: motion of eph, m",
        "receiver: epv over eph",
        "receiver: satellites",
        "receiver: motion of satellites",
        "motors: unevenness of their signals",
    }
)
"""Statistics from which figures of a shipped airframe were taken; they score nothing."""


class Flight:
    """The part of a log in the air.

    Args:
        log: of PX4, or of the built-in stack.

    Raises:
        UserError: for a log without 10 s in the air.
    """

    def __init__(self, log: FlightLog) -> None:
        self._log, self.parameters = log, log.parameters
        self.spectrum = functools.cache(self._spectrum)
        detected = log.topic("vehicle_land_detected")
        flying = np.zeros(0, np.bool_) if detected is None else np.asarray(detected["landed"]) == 0
        if detected is None or not flying.any():
            raise UserError("is no flight: its land detector does not leave the ground")
        time = seconds(detected)
        first, last = int(np.argmax(flying)), len(flying) - 1 - int(np.argmax(flying[::-1]))
        end = time[last + 1] if last + 1 < len(time) else np.inf
        self.start, self.end = float(time[first]) + MARGIN, float(end) - MARGIN
        self._off = float(time[first]) - MARGIN
        motors = log.topic("actuator_motors")
        if motors is not None and "control[0]" in motors:
            turning = seconds(motors)[np.nan_to_num(np.asarray(motors["control[0]"])) > 0.01]
            self._off = float(turning[0]) if len(turning) else self._off
        if self.end - self.start < 4.0:
            raise UserError("is too short: 10 s in the air are needed")

    def series(self, topic: str, *names: str) -> Floats | None:
        """(k, c) fields of a topic's first instance in the air; None where they were not logged."""
        found = self.select_times(topic, *names)
        return None if found is None else found[1]

    def select_times(self, topic: str, *names: str, on_ground: bool = False) -> tuple[Floats, Floats] | None:
        """(k,) s in the air, or before the motors turn, and the fields at these times."""
        found = self._log.topic(topic)
        if found is None or any(name not in found for name in names):
            return None
        time = seconds(found)
        inside = time < self._off if on_ground else (time > self.start) & (time < self.end)
        rows: Floats = columns(found, *names)[inside]
        return (time[inside], rows) if len(rows) > 4 else None

    def receiver(self, *names: str) -> Floats | None:
        """Fields of the satellite receiver, where it has a fix."""
        for topic in (_RECEIVER, "vehicle_gps_position"):
            rows = self.series(topic, "eph", *names)
            if rows is not None:
                fixed = rows[rows[:, 0] < 50.0, 1:]
                return fixed if len(fixed) > 4 else None
        return None

    def _spectrum(self, field: str) -> tuple[Floats, Floats] | None:
        """(f,) Hz, and (f, 3) power density of ``accelerometer_m_s2`` or ``gyro_rad`` of ``sensor_combined``.

        What stands there before the motors turn, where the log has two seconds of it, is not theirs and is
        taken off.  A logger that lags leaves samples out, up to an eighth of a simulated flight's;
        interpolated, they would spread a rotor's line over all bands.
        """
        names = [f"{field}[{axis}]" for axis in range(3)]
        found = self.select_times("sensor_combined", *names)
        before = self.select_times("sensor_combined", *names, on_ground=True)
        if found is None or (spectrum := _density(*found)) is None:
            return None
        still = None if before is None else _density(*before)
        frequency, power = spectrum
        if still is None or len(still[0]) != len(frequency):
            return frequency, power
        return frequency, np.maximum(power - still[1], 0.0)

    def innovation(self, field: str) -> float | None:
        """RMS of an innovation of the estimator over its deviation, which is logged a moment apart."""
        old = OLD.get(field, field)
        found = self.select_times("estimator_innovations", field) or self.select_times(
            "ekf2_innovations", old
        )
        variances = self.select_times("estimator_innovation_variances", field) or self.select_times(
            "ekf2_innovations", old.replace("innov", "innov_var")
        )
        if found is None or variances is None:
            return None
        (times, rows), (known, variance) = found, variances
        variance = variance[np.searchsorted(0.5 * (known[1:] + known[:-1]), times)]  # the nearest in time
        used = variance > 1e-9
        return float(np.sqrt(np.mean(rows[used] ** 2 / variance[used]))) if used.any() else None


def _density(times: Floats, rows: Floats) -> tuple[Floats, Floats] | None:
    """(f,) Hz and (f, c) power density of rows at times in s; None of too few, or too slow ones."""
    period = float(np.median(np.diff(times))) if len(times) >= 10 * ORDER else np.inf
    if period > 0.006:
        return None
    places = np.rint((times - times[0]) / period).astype(np.int64)
    full, known = np.zeros((places[-1] + 1, rows.shape[1])), np.zeros(places[-1] + 1, np.bool_)
    full[places], known[places] = rows, True
    filled = np.stack([_fill_in(column - rows[:, axis].mean(), known) for axis, column in enumerate(full.T)])
    frequency, power = welch(filled, 1.0 / period, nperseg=256)
    return np.asarray(frequency), np.asarray(power.T)


def _fill_in(values: Floats, known: Mask) -> Floats:
    """The values, those that are missing such that an autoregression of all foresees each best.

    Janssen, Veldhuis and Vries, IEEE Transactions on Acoustics, Speech, and Signal Processing 34, 1986.
    """
    missing, count = np.flatnonzero(~known), len(values)
    if not len(missing) or len(missing) > 0.3 * count or not values.any():
        return values
    made = np.where(known, values, np.interp(np.arange(count), np.flatnonzero(known), values[known]))
    for _ in range(3):
        covariance = np.array([made[: count - lag] @ made[lag:] for lag in range(ORDER + 1)])
        covariance[0] *= 1.0 + 1e-6
        weights = np.append(1.0, -solve_toeplitz(covariance[:-1], covariance[1:]))
        shape = (count - ORDER, count)
        predicts = diags_array(list(weights[::-1]), offsets=range(ORDER + 1), shape=shape).tocsc()
        made[missing] = 0.0
        gaps = predicts[:, missing]
        made[missing] = spsolve((gaps.T @ gaps).tocsc(), -(gaps.T @ (predicts @ made)))
    return np.asarray(made)


def _band(field: str, low: float) -> Callable[[Flight], float | None]:
    """RMS of an axis, the mean square of the three, from ``low`` Hz to the next edge or half the rate."""

    def value(flight: Flight) -> float | None:
        found = flight.spectrum(field)
        if found is None:
            return None
        frequency, power = found
        high = next((edge for edge in BANDS if edge > low), np.inf)
        inside = (frequency >= low) & (frequency < high)
        return float(np.sqrt(power[inside].sum() / 3.0 * frequency[1])) if inside.any() else None

    return value


def _of(topic: str, *names: str, by: Callable[[Floats], float]) -> Callable[[Flight], float | None]:
    def value(flight: Flight) -> float | None:
        rows = flight.receiver(*names) if topic == _RECEIVER else flight.series(topic, *names)
        return None if rows is None else by(rows)

    return value


def _innovation(field: str) -> Callable[[Flight], float | None]:
    return lambda flight: flight.innovation(field)


def _mean(rows: Floats) -> float:
    return float(np.nanmean(rows))


def _median(rows: Floats) -> float:
    return float(np.nanmedian(rows))


def _spread(rows: Floats) -> float:
    return float(np.nanstd(rows[:, 0]))


def _between(rows: Floats) -> float:
    """RMS of the change from sample to sample."""
    return float(np.sqrt(np.nanmean(np.diff(rows, axis=0) ** 2)))


def _quick(flight: Flight) -> float | None:
    """Deviation of the yaw torque set-point above SLOW."""
    found = flight.select_times("vehicle_torque_setpoint", "xyz[2]")
    if found is None:
        return None
    rate = (len(found[0]) - 1) / float(found[0][-1] - found[0][0])
    if rate < 10.0:
        return None
    passed = sosfiltfilt(butter(4, SLOW, "highpass", fs=rate, output="sos"), found[1][:, 0])
    return float(np.std(passed))


def _tilt(rows: Floats) -> float:
    """Deviation in deg, of roll and pitch together, of quaternions w, x, y, z."""
    w, x, y, z = rows.T
    lean = np.stack([w * x + y * z, w * y - x * z])
    return float(np.degrees(2.0 * np.sqrt(np.mean(np.var(lean, axis=1)))))


def _norm(rows: Floats) -> Floats:
    found: Floats = np.linalg.norm(rows, axis=1, keepdims=True)
    return found


def _sag(rows: Floats) -> float:
    """Ohm by which the voltage (first column) falls with the current, beside a linear discharge."""
    ramp = np.linspace(0.0, 1.0, len(rows))
    matrix = np.stack([np.ones(len(rows)), ramp, rows[:, 1]], axis=1)
    return float(-np.linalg.lstsq(matrix, rows[:, 0], rcond=None)[0][2])


def _unevenness(flight: Flight) -> float | None:
    """Deviation of the motors' mean signals over their mean.

    PX4 logs shares of the thrust, which THR_MDL_FAC, different in each log, turns into signals.
    """
    rows = flight.series("actuator_motors", *FIELDS["actuator_motors"])
    if rows is None:
        return None
    thrusts = np.clip(np.nan_to_num(rows), 0.0, 1.0)
    means = np.mean(motor_signal(thrusts, flight.parameters.get("THR_MDL_FAC", 0.0)), axis=0)
    return float(np.std(means) / np.mean(means))


_IMU, _RECEIVER, _XYZ = "vehicle_imu_status", "sensor_gps", ("xyz[0]", "xyz[1]", "xyz[2]")
_FIELD = FIELDS["vehicle_magnetometer"]
_EDGES = [f"{low} to {high} Hz" for low, high in itertools.pairwise(BANDS)] + [f"over {BANDS[-1]} Hz"]
STATISTICS: dict[str, Callable[[Flight], float | None]] = {
    **{
        f"acceleration, {t}, m/s²": _band("accelerometer_m_s2", f) for f, t in zip(BANDS, _EDGES, strict=True)
    },
    **{f"angular velocity, {t}, rad/s": _band("gyro_rad", f) for f, t in zip(BANDS, _EDGES, strict=True)},
    "yaw torque set-point: deviation": _of("vehicle_torque_setpoint", "xyz[2]", by=_spread),
    f"yaw torque set-point: deviation above {SLOW} Hz": _quick,
    "roll and pitch: deviation, deg": _of("vehicle_attitude", *FIELDS["vehicle_attitude"], by=_tilt),
    "roll and pitch rates: deviation, rad/s": _of(
        "vehicle_angular_velocity",
        "xyz[0]",
        "xyz[1]",
        by=lambda x: float(np.sqrt(np.mean(np.var(x, axis=0)))),
    ),
    "yaw rate: deviation, rad/s": _of("vehicle_angular_velocity", "xyz[2]", by=_spread),
    "accelerometer: vibration metric, m/s²": _of(_IMU, "accel_vibration_metric", by=_median),
    "gyroscope: vibration metric, rad/s": _of(_IMU, "gyro_vibration_metric", by=_median),
    "gyroscope: coning metric, rad²": _of(_IMU, "delta_angle_coning_metric", by=_median),
    "inertial unit: temperature, °C": _of(_IMU, "temperature_accel", by=_median),
    "acceleration: change between samples, m/s²": _of("vehicle_acceleration", *_XYZ, by=_between),
    "angular velocity: change between samples, rad/s": _of("vehicle_angular_velocity", *_XYZ, by=_between),
    "magnetic field: magnitude, G": _of("vehicle_magnetometer", *_FIELD, by=lambda x: _mean(_norm(x))),
    "magnetic field: deviation of it, G": _of(
        "vehicle_magnetometer", *_FIELD, by=lambda x: _spread(_norm(x))
    ),
    "barometer: change between samples, m": _of("vehicle_air_data", "baro_alt_meter", by=_between),
    "receiver: eph, m": _of(_RECEIVER, "eph", by=_mean),
    "receiver: motion of eph, m": _of(_RECEIVER, "eph", by=_spread),
    "receiver: epv over eph": _of(_RECEIVER, "epv", "eph", by=lambda x: float(np.mean(x[:, 0] / x[:, 1]))),
    "receiver: satellites": _of(_RECEIVER, "satellites_used", by=_mean),
    "receiver: motion of satellites": _of(_RECEIVER, "satellites_used", by=_spread),
    "innovation of GPS position, deviations": _innovation("gps_hpos[0]"),
    "innovation of GPS height, deviations": _innovation("gps_vpos"),
    "innovation of GPS velocity, deviations": _innovation("gps_hvel[0]"),
    "innovation of the barometer, deviations": _innovation("baro_vpos"),
    "innovation of the magnetic field, deviations": _innovation("mag_field[0]"),
    "innovation of the heading, deviations": _innovation("heading"),
    "battery: sag, ohm": _of("battery_status", "voltage_v", "current_a", by=_sag),
    "motors: unevenness of their signals": _unevenness,
}
"""By name and unit; None where a log does not have it."""


def statistics(path: Path) -> dict[str, float | None]:
    """The statistics of one ULog by name.

    Raises:
        UserError: for a file that is no ULog, or no flight.
    """
    try:
        flight = Flight(FlightLog.read(path, FIELDS))
    except UserError as error:
        text = str(error)
        raise UserError(text if str(path) in text else f"{path}: {text}") from error
    return {name: value(flight) for name, value in STATISTICS.items()}


def table(
    real: Sequence[Mapping[str, float | None]], others: Mapping[str, Mapping[str, float | None]]
) -> Iterator[str]:
    """Lines of a Markdown table: the range of real flights, and others beside it, bold where within it.

    Args:
        real: statistics of real flights.
        others: statistics of simulated ones by their name; those from which figures were taken do not count.
    """
    yield "| | real | " + " | ".join(others) + " |"
    yield "|---|---|" + "---|" * len(others)
    within = dict.fromkeys(others, 0)
    known = 0
    for statistic in STATISTICS:
        found = [value for flight in real if (value := flight[statistic]) is not None]
        if len(found) < 2:
            continue
        counts = statistic not in TAKEN
        known += counts
        low, high = min(found), max(found)
        cells = []
        for name, flight in others.items():
            value = flight[statistic]
            inside = value is not None and low <= value <= high
            within[name] += inside and counts
            cells.append("" if value is None else f"**{value:.3g}**" if inside else f"{value:.3g}")
        yield (
            f"| {statistic}{'' if counts else ' (taken)'} | {low:.3g} to {high:.3g} ({len(found)}) | "
            + " | ".join(cells)
            + " |"
        )
    yield (
        f"| within the range, without those taken | {known} | "
        + " | ".join(str(count) for count in within.values())
        + " |"
    )
