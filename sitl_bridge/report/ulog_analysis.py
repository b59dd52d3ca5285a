"""What PX4's own log says about a flight: how far, how closely, and how its estimator fared.

Reads a ULog with pyulog and works out figures; ``summary.py`` puts them into words.  The estimator's checks
are those of PX4's Tools/ecl_ekf (check_level_dict.csv).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pyulog import ULog

from sitl_bridge.autopilot.flight_log import NAME
from sitl_bridge.errors import UserError
from sitl_bridge.world.geography import Projection

Array: TypeAlias = NDArray[np.float64]

EARTH_RADIUS = 6_371_000.0
"""m, of PX4's sphere (src/lib/geo)."""

MODES = {
    0: "Manual",
    1: "Altitude",
    2: "Position",
    3: "Mission",
    4: "Hold",
    5: "Return",
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

TOPICS = [
    "estimator_status",
    "estimator_status_flags",
    "estimator_states",
    "failsafe_flags",
    "position_setpoint_triplet",
    "trajectory_setpoint",
    "vehicle_attitude",
    "vehicle_imu_status",
    "vehicle_land_detected",
    "vehicle_local_position",
    "vehicle_local_position_groundtruth",
    "vehicle_status",
]

HOLD, OFFBOARD = 4, 14
LEG_MODES = (3, 5)

SETTLING = 5.0
"""s after a mode or a setpoint changed before a deviation from it counts, as in RotorS's evaluation, which
starts 5 s after a waypoint."""

STALE = 2.0
"""s after which a logged setpoint is no longer flown; PX4 logs trajectory_setpoint every 0.2 s."""

ARRIVAL = 1.0
"""m within which a vehicle has arrived where it is to hold.  Derived: half PX4's acceptance radius
(NAV_ACC_RAD, 2 m by default in simulation)."""

GROUND_EFFECT_MARGIN = 5.0
"""s cut from both ends of the flight for what the ground disturbs (Tools/ecl_ekf, in_air_margin_seconds)."""

RED, AMBER = 1.0, 0.5
"""Test ratios beyond which a measurement is rejected, and is getting near it (Tools/ecl_ekf)."""

AMBER_FAIL, AMBER_WARN = 50.0, 5.0
"""Per cent of amber samples that fail or warn (check_level_dict.csv)."""

REJECTIONS = {
    "reject_hor_vel": ("horizontal velocity", 0.0),
    "reject_ver_vel": ("vertical velocity", 0.0),
    "reject_hor_pos": ("horizontal position", 0.0),
    "reject_ver_pos": ("height", 0.0),
    "reject_yaw": ("yaw", 0.0),
    "fs_bad_mag_x": ("magnetometer x", 0.0),
    "fs_bad_mag_y": ("magnetometer y", 0.0),
    "fs_bad_mag_z": ("magnetometer z", 0.0),
    "reject_airspeed": ("airspeed", 0.0),
    "reject_hagl": ("height over the ground", 1.0),
    "reject_optflow_x": ("optical flow x", 1.0),
    "reject_optflow_y": ("optical flow y", 1.0),
}
"""What it is, and the per cent of the flight beyond which it fails (check_level_dict.csv)."""
NEAR_GROUND = frozenset(
    {
        *("reject_ver_pos", "reject_yaw", "fs_bad_mag_x", "fs_bad_mag_y", "fs_bad_mag_z"),
        *("reject_optflow_x", "reject_optflow_y"),
    }
)
"""Checked without the parts of the flight near the ground (Tools/ecl_ekf, metrics.py)."""

RATIOS = {
    "hdg": "mag",
    "vel": "velocity",
    "pos": "position",
    "hgt": "height",
    "tas": "airspeed",
    "hagl": "height over the ground",
}

TRACKING = {
    "output_tracking_error[0]": ("output angle error, rad", 8.0e-3),
    "output_tracking_error[1]": ("output velocity error, m/s", 0.05),
    "output_tracking_error[2]": ("output position error, m", 0.15),
}
PREDICTION_PERIOD = 0.01
"""s, EKF2_PREDICT_US.  The levels of the biases are of a prediction's angle and velocity, rad and m/s
(check_table.csv: "delta angle bias vector length (rad)"), as EKF2 estimated them when they were laid down; it
now estimates rad/s and m/s^2 (EKF/covariance.cpp), which Tools/ecl_ekf compares with them as they are, and
so warns of a gyroscope that drifts by 0.03 deg/s."""
BIASES = {
    "gyro bias, rad/s": (10, 4.4e-4 / PREDICTION_PERIOD),
    "accelerometer bias, m/s^2": (13, 4.8e-3 / PREDICTION_PERIOD),
}
"""First of three entries of estimator_states.states, and the level that warns (check_level_dict.csv)."""
SHAKING = {
    "delta_angle_coning_metric": ("coning, rad^2", 1.8e-5, 3.6e-6),
    "gyro_vibration_metric": ("gyro vibration, rad/s", 12.0, 2.4),
    "accel_vibration_metric": ("accelerometer vibration, m/s^2", 360.0, 72.0),
}
"""Of vehicle_imu_status: the greatest value and the mean that warn (check_level_dict.csv).  Tools/ecl_ekf
looks for the first under a name it no longer has, and then leaves out all three."""

VIBRATION_WARN, VIBRATION_FAIL = 4.905, 9.81
"""m/s^2 of accel_vibration_metric, as Flight Review colours it."""


@dataclass(frozen=True)
class Deviation:
    """How far the vehicle was from where it was to be: m (or m/s for velocities) and s."""

    mean: float
    rms: float
    max: float
    seconds: float


@dataclass(frozen=True)
class Estimator:
    """Verdict of the estimator's checks of one instance.

    Attributes:
        instance: of the estimator.
        rejected: per cent of the flight in which each kind of measurement was rejected; only those that were.
        ratios: greatest test ratio of each kind.
        failures, warnings: checks that failed or warned, in words.
    """

    instance: int
    rejected: dict[str, float]
    ratios: dict[str, float]
    failures: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass
class FlightRecord:
    """Figures of a flight; times in s on PX4's clock, positions in m of PX4's local frame.

    Attributes:
        path: of the ULog.
        take_off, landing: of the first and the last time in the air; nan when it never flew.
        air_time: s in the air.
        distance: m of the way flown.
        max_speed, max_height: m/s, m over the take-off point.
        modes: (mode, s) flown one after the other.
        deviations: from the reference, by PX4's own estimate: ``offboard position``, ``offboard velocity``,
            ``mission legs``, ``hold``.
        true_deviations: the same by ground truth.
        estimate_error: of PX4's position against ground truth in flight.
        estimators: verdicts of all instances.
        failsafes: what triggered failsafes in flight, in words.
        vibration: greatest accel_vibration_metric in m/s^2.
        messages: (s, level, text) that PX4 logged, level 0 emergency ... 7 debug.
        time, estimate: (k,), (k, 3) estimated positions.
        true_time, truth: (j,), (j, 3) true positions in the same frame; empty without ground truth.
        reference: (m, 3) points the vehicle was to fly through, nan rows between separate parts.
        error_time, error: deviation over time, by estimate.
    """

    path: Path
    take_off: float = math.nan
    landing: float = math.nan
    air_time: float = 0.0
    distance: float = 0.0
    max_speed: float = 0.0
    max_height: float = 0.0
    modes: list[tuple[str, float]] = field(default_factory=list)
    deviations: dict[str, Deviation] = field(default_factory=dict)
    true_deviations: dict[str, Deviation] = field(default_factory=dict)
    estimate_error: Deviation | None = None
    estimators: list[Estimator] = field(default_factory=list)
    failsafes: list[str] = field(default_factory=list)
    vibration: float = math.nan
    messages: list[tuple[float, int, str]] = field(default_factory=list)
    time: Array = field(default_factory=lambda: np.zeros(0))
    estimate: Array = field(default_factory=lambda: np.zeros((0, 3)))
    true_time: Array = field(default_factory=lambda: np.zeros(0))
    truth: Array = field(default_factory=lambda: np.zeros((0, 3)))
    reference: Array = field(default_factory=lambda: np.zeros((0, 3)))
    error_time: Array = field(default_factory=lambda: np.zeros(0))
    error: Array = field(default_factory=lambda: np.zeros(0))


class _Log:
    """A ULog's topics as float arrays."""

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                self.log = ULog(file, TOPICS)
        except Exception as error:  # pyulog raises whatever its parser meets
            raise UserError(f"{path}: cannot be read as a ULog: {error!r}") from error

    def topic(self, name: str, instance: int = 0) -> dict[str, NDArray[Any]] | None:
        for data in self.log.data_list:
            if data.name == name and data.multi_id == instance and len(data.data["timestamp"]):
                return dict(data.data)
        return None

    def metres_a_degree(self, latitude: float, altitude: float) -> tuple[float, float]:
        """Of latitude and of longitude (deg), on the Earth that the log's writer reckons with."""
        if self.log.msg_info_dict.get("sys_name") == NAME:
            projection, small = Projection(math.radians(latitude), 0.0, altitude), 1e-6
            north, east = projection.local(latitude + small, small)
            return north / small, east / small
        degree = math.radians(EARTH_RADIUS)
        return degree, degree * math.cos(math.radians(latitude))

    def instances(self, name: str) -> list[int]:
        return sorted(data.multi_id for data in self.log.data_list if data.name == name)


def _seconds(topic: dict[str, NDArray[Any]]) -> Array:
    return np.asarray(topic["timestamp"], np.float64) * 1e-6


def _columns(topic: dict[str, NDArray[Any]], *names: str) -> Array:
    return np.stack([np.asarray(topic[name], np.float64) for name in names], axis=-1)


def _last_before(times: Array, moments: Array) -> NDArray[np.intp]:
    """Index of the last of ``times`` at or before each moment, -1 where there is none."""
    return np.searchsorted(times, moments, side="right") - 1


def _deviation(time: Array, error: Array) -> Deviation | None:
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


def read_flight(path: Path) -> FlightRecord:
    """Figures of the flight that a ULog holds.

    Raises:
        UserError: when the file is not a ULog.
    """
    log = _Log(path)
    record = FlightRecord(path=path)
    record.messages = [
        (m.timestamp * 1e-6, int(m.log_level) - ord("0"), m.message.strip()) for m in log.log.logged_messages
    ]
    windows = _air_windows(log)
    position = log.topic("vehicle_local_position")
    if position is None:
        return record
    record.time = _seconds(position)
    record.estimate = _columns(position, "x", "y", "z")
    _take_truth(log, record, position)
    if not windows:
        return record
    record.take_off, record.landing = windows[0][0], windows[-1][1]
    record.air_time = sum(end - start for start, end in windows)
    _measure_way(record, position)
    status = log.topic("vehicle_status")
    if status is not None:
        record.modes = _modes(status, record)
        _measure_tracking(log, record, status, position)
    record.failsafes = _failsafes(log, record)
    record.estimators = [_judge(log, k, record) for k in log.instances("estimator_status")]
    record.vibration = _vibration(log, record)
    return record


def _air_windows(log: _Log) -> list[tuple[float, float]]:
    """Times in the air, from PX4's land detector; a log that ends in the air ends the last one."""
    detected = log.topic("vehicle_land_detected")
    if detected is None:
        return []
    time = _seconds(detected)
    flying = np.asarray(detected["landed"]) == 0
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flying.astype(int), [0]])))
    ends = [min(end, len(time) - 1) for end in edges[1::2]]
    return [(float(time[start]), float(time[end])) for start, end in zip(edges[::2], ends, strict=True)]


def _in_air(record: FlightRecord, time: Array, margin: float = 0.0) -> NDArray[np.bool_]:
    return (time >= record.take_off + margin) & (time < record.landing - margin)


def _take_truth(log: _Log, record: FlightRecord, position: dict[str, NDArray[Any]]) -> None:
    """Ground truth, moved into the frame of the estimate, whose origin the estimator set by its own GPS."""
    truth = log.topic("vehicle_local_position_groundtruth")
    if truth is None:
        return
    set_up = np.isfinite(position["ref_lat"]) & (np.asarray(position["ref_timestamp"]) > 0)
    if not set_up.any():
        return
    last = int(np.flatnonzero(set_up)[-1])
    ref_lat, ref_lon = float(position["ref_lat"][last]), float(position["ref_lon"][last])
    ref_alt = float(position["ref_alt"][last])
    a_degree_north, a_degree_east = log.metres_a_degree(ref_lat, ref_alt)
    north = (float(truth["ref_lat"][-1]) - ref_lat) * a_degree_north
    east = (float(truth["ref_lon"][-1]) - ref_lon) * a_degree_east
    down = ref_alt - float(truth["ref_alt"][-1])
    offset = np.array([north, east, down])
    if not np.isfinite(offset).all():
        return
    record.true_time = _seconds(truth)
    record.truth = _columns(truth, "x", "y", "z") + offset


def _true_at(record: FlightRecord, time: Array) -> Array | None:
    if not len(record.true_time):
        return None
    return np.stack([np.interp(time, record.true_time, record.truth[:, k]) for k in range(3)], axis=-1)


def _measure_way(record: FlightRecord, position: dict[str, NDArray[Any]]) -> None:
    air = _in_air(record, record.time)
    way = record.estimate[air]
    if len(way) < 2:
        return
    # At 10 Hz: the estimate's own noise, summed up sample by sample, would count as way.
    every = max(1, round(0.1 / float(np.median(np.diff(record.time)))))
    record.distance = float(np.linalg.norm(np.diff(way[::every], axis=0), axis=1).sum())
    record.max_speed = float(np.linalg.norm(_columns(position, "vx", "vy", "vz")[air], axis=1).max())
    start = int(np.searchsorted(record.time, record.take_off))
    ground = float(record.estimate[min(start, len(record.estimate) - 1), 2])
    record.max_height = float(ground - way[:, 2].min())
    if len(record.true_time):
        truth = _true_at(record, record.time[air])
        assert truth is not None
        error = np.linalg.norm(way - truth, axis=1)
        record.estimate_error = _deviation(record.time[air], error)


def _modes(status: dict[str, NDArray[Any]], record: FlightRecord) -> list[tuple[str, float]]:
    time = _seconds(status)
    state = np.asarray(status["nav_state"])
    changes = np.concatenate([[0], np.flatnonzero(np.diff(state)) + 1, [len(state)]])
    spans = []
    for begin, end in itertools.pairwise(changes):
        until = time[end] if end < len(time) else record.landing
        seconds = min(until, record.landing) - max(time[begin], record.take_off)
        if seconds > 0:
            spans.append((MODES.get(int(state[begin]), f"mode {state[begin]}"), float(seconds)))
    return spans


# -------------------------------------------------------------------------- tracking


def _measure_tracking(
    log: _Log, record: FlightRecord, status: dict[str, NDArray[Any]], position: dict[str, NDArray[Any]]
) -> None:
    """Deviations from what was to be flown, in each kind of mode."""
    air = _in_air(record, record.time)
    every = max(1, round(0.02 / float(np.median(np.diff(record.time)))))
    time = record.time[air][::every]
    here = record.estimate[air][::every]
    velocity = _columns(position, "vx", "vy", "vz")[air][::every]
    truth = _true_at(record, time)
    index = _last_before(_seconds(status), time)
    mode = np.where(index >= 0, np.asarray(status["nav_state"])[index], -1)
    errors: list[tuple[Array, Array]] = []
    parts: list[Array] = []

    setpoint = log.topic("trajectory_setpoint")
    if setpoint is not None and (mode == OFFBOARD).any():
        chosen = mode == OFFBOARD
        wanted, wanted_velocity = _setpoints_at(setpoint, time[chosen])
        error = np.linalg.norm(here[chosen] - wanted, axis=1)
        _store(record, "offboard position", time[chosen], error, errors)
        only_velocity = _only_velocity(setpoint, time[chosen])
        speed_error = np.linalg.norm(velocity[chosen] - wanted_velocity, axis=1)
        _store(record, "offboard velocity", time[chosen], np.where(only_velocity, speed_error, np.nan), None)
        if truth is not None:
            _store_true(
                record, "offboard position", time[chosen], np.linalg.norm(truth[chosen] - wanted, axis=1)
            )
        parts.append(wanted)

    triplet = log.topic("position_setpoint_triplet")
    if triplet is not None:
        legs = _Legs(log, triplet, position)
        for name, codes in (("mission legs", LEG_MODES), ("hold", (HOLD,))):
            chosen = np.isin(mode, codes)
            if name == "hold":
                chosen &= legs.arrived(time, here, _since_change(time, mode))
            if not chosen.any():
                continue
            error = legs.distance(time[chosen], here[chosen], hold=name == "hold")
            _store(record, name, time[chosen], error, errors)
            if truth is not None:
                true_error = legs.distance(time[chosen], truth[chosen], hold=name == "hold")
                _store_true(record, name, time[chosen], true_error)
        flown = np.isin(mode, LEG_MODES)
        if flown.any():
            parts.append(legs.points(time[flown]))

    if errors:
        times = np.concatenate([t for t, _ in errors])
        order = np.argsort(times)
        record.error_time = times[order]
        record.error = np.concatenate([e for _, e in errors])[order]
    if parts:
        gap = np.full((1, 3), np.nan)
        record.reference = np.concatenate([row for part in parts for row in (part, gap)])


def _store(
    record: FlightRecord, name: str, time: Array, error: Array, errors: list[tuple[Array, Array]] | None
) -> None:
    found = _deviation(time, error)
    if found is not None:
        record.deviations[name] = found
        if errors is not None:
            errors.append((time, error))


def _store_true(record: FlightRecord, name: str, time: Array, error: Array) -> None:
    found = _deviation(time, error)
    if found is not None:
        record.true_deviations[name] = found


def _since_change(time: Array, mode: NDArray[Any]) -> Array:
    """s since the mode changed last, at each time."""
    changed = np.concatenate([[True], np.diff(mode) != 0])
    starts = np.where(changed, time, -np.inf)
    return np.asarray(time - np.maximum.accumulate(starts), np.float64)


def _setpoints_at(setpoint: dict[str, NDArray[Any]], time: Array) -> tuple[Array, Array]:
    """Position and velocity setpoints at given times, (k, 3) each; nan where none counts.

    A position that moves as its velocity says is interpolated.  One that was a step, or stands still, counts
    once it has stood for ``SETTLING`` seconds: nobody can follow a step.  One that is older than ``STALE`` is
    not what is flown (attitude setpoints bypass the topic).
    """
    stamps = _seconds(setpoint)
    position = _columns(setpoint, "position[0]", "position[1]", "position[2]")
    velocity = _columns(setpoint, "velocity[0]", "velocity[1]", "velocity[2]")
    index = _last_before(stamps, time)
    before = np.maximum(index, 0)
    after = np.minimum(before + 1, len(stamps) - 1)
    moving = np.isfinite(velocity).all(axis=1) & (np.linalg.norm(velocity, axis=1) > 0)
    gap = np.maximum(stamps[after] - stamps[before], 1e-6)
    share = np.where(moving[before], np.clip((time - stamps[before]) / gap, 0.0, 1.0), 0.0)[:, None]
    wanted = position[before] + share * (position[after] - position[before])
    wanted_velocity = velocity[before] + share * (velocity[after] - velocity[before])
    changed = np.concatenate([[True], np.linalg.norm(np.diff(position, axis=0), axis=1) > 0.01])
    since = np.maximum.accumulate(np.where(changed, stamps, -np.inf))
    unsettled = ~moving[before] & (time - since[before] < SETTLING)
    old = (index < 0) | (time - stamps[before] > STALE)
    wanted[old | unsettled] = np.nan
    wanted_velocity[old] = np.nan
    return wanted, wanted_velocity


def _only_velocity(setpoint: dict[str, NDArray[Any]], time: Array) -> NDArray[np.bool_]:
    """Whether the setpoint at each time is a velocity without a position."""
    index = np.maximum(_last_before(_seconds(setpoint), time), 0)
    only: NDArray[np.bool_] = ~np.isfinite(np.asarray(setpoint["position[0]"])[index])
    return only


class _Legs:
    """The legs PX4's navigator flew, from its position setpoint triplets."""

    def __init__(
        self, log: _Log, triplet: dict[str, NDArray[Any]], position: dict[str, NDArray[Any]]
    ) -> None:
        self.time = _seconds(triplet)
        last = int(np.flatnonzero(np.isfinite(position["ref_lat"]))[-1]) if len(position["ref_lat"]) else 0
        self.origin = tuple(float(position[name][last]) for name in ("ref_lat", "ref_lon", "ref_alt"))
        self.scale = log.metres_a_degree(self.origin[0], self.origin[2])
        self.previous = self._local(triplet, "previous")
        self.current = self._local(triplet, "current")

    def _local(self, triplet: dict[str, NDArray[Any]], which: str) -> Array:
        lat, lon, alt = (np.asarray(triplet[f"{which}.{name}"], np.float64) for name in ("lat", "lon", "alt"))
        lat0, lon0, alt0 = self.origin
        north, east = self.scale
        local = np.stack([(lat - lat0) * north, (lon - lon0) * east, alt0 - alt], axis=-1)
        valid = np.asarray(triplet[f"{which}.valid"]) != 0
        return np.where(valid[:, None], local, np.nan)

    def arrived(self, time: Array, here: Array, in_mode: Array) -> NDArray[np.bool_]:
        """Whether the vehicle came near the present setpoint at least ``SETTLING`` s ago, in the same mode.

        Args:
            time: (k,) s.
            here: (k, 3) m.
            in_mode: (k,) s since the mode changed.
        """
        index = np.maximum(_last_before(self.time, time), 0)
        near = np.linalg.norm(here - self.current[index], axis=1) < ARRIVAL
        moved = np.concatenate([[True], (np.abs(np.diff(self.current[index], axis=0)) > 0.01).any(axis=1)])
        begun = np.maximum.accumulate(np.where(moved | (in_mode == 0.0), time, -np.inf))
        since = np.full(len(time), np.inf)
        first = np.inf
        for k in range(len(time)):
            if begun[k] == time[k]:
                first = np.inf
            if near[k] and not np.isfinite(first):
                first = time[k]
            since[k] = first
        settled: NDArray[np.bool_] = time - since >= SETTLING
        return settled

    def points(self, time: Array) -> Array:
        """Ends of the legs flown in the given times, each once, in order."""
        index = np.unique(_last_before(self.time, time))
        index = index[index >= 0]
        ends = np.stack([self.previous[index], self.current[index]], axis=1)
        return np.asarray(ends.reshape(-1, 3), np.float64)

    def distance(self, time: Array, here: Array, hold: bool) -> Array:
        """Distance from the present setpoint (hold) or from the path of legs, in m; nan where there is none.

        The path is the leg to the present setpoint and the one before, for PX4 turns to the next leg before
        it reaches the end of one.  It is taken in the horizontal plane: navigator and position controller
        climb along it in their own way.
        """
        index = np.maximum(_last_before(self.time, time), 0)
        if hold:
            return np.asarray(np.linalg.norm(here - self.current[index], axis=1), np.float64)
        ends = np.nan_to_num(self.current)
        changed = np.concatenate([[True], (np.abs(np.diff(ends, axis=0)) > 0.01).any(axis=1)])
        first = np.maximum.accumulate(np.where(changed, np.arange(len(self.time)), 0))[index]
        present = self._from_leg(index, here)
        before = self._from_leg(np.maximum(first - 1, 0), here)
        error = np.fmin(present, np.where(first > 0, before, np.nan))
        return np.where(np.isfinite(present), error, np.nan)

    def _from_leg(self, index: NDArray[np.intp], here: Array) -> Array:
        start, end = self.previous[index], self.current[index]
        along = (end - start)[:, :2]
        length = np.einsum("ij,ij->i", along, along)
        offset = (here - start)[:, :2]
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.clip(np.einsum("ij,ij->i", offset, along) / length, 0.0, 1.0)
        error = np.linalg.norm(offset - share[:, None] * along, axis=1)
        return np.where(length > 1.0, error, np.nan)


# -------------------------------------------------------------------------- what went wrong


def _failsafes(log: _Log, record: FlightRecord) -> list[str]:
    """Causes of failsafes: flags that rose while or shortly before PX4 flew in failsafe."""
    status, flags = log.topic("vehicle_status"), log.topic("failsafe_flags")
    if status is None:
        return []
    time = _seconds(status)
    active = (np.asarray(status["failsafe"]) != 0) & _in_air(record, time)
    if not active.any():
        return []
    causes: list[str] = []
    if flags is not None:
        moments = _seconds(flags)
        begun = time[active & np.concatenate([[True], ~active[:-1]])]
        for name, values in flags.items():
            if name == "timestamp" or name.startswith("mode_req_"):
                continue
            rises = moments[1:][np.diff((np.asarray(values) > 0).astype(int)) > 0]
            # failsafe_flags is logged at 2 Hz or when it changes, hence the second around.
            if any(((rises > start - 2.0) & (rises < start + 1.0)).any() for start in begun):
                causes.append(name.replace("_", " "))
    return causes or ["PX4 flew in failsafe; its log does not say why"]


def _judge(log: _Log, instance: int, record: FlightRecord) -> Estimator:
    """PX4's own checks of its estimator's log, for one instance."""
    failures: list[str] = []
    warnings: list[str] = []
    rejected = _rejections(log, instance, record)
    allowed = dict(REJECTIONS.values())
    for name, share in rejected.items():
        (failures if share > allowed[name] else warnings).append(
            f"{name} rejected in {share:.1f} % of the flight"
        )
    ratios = _test_ratios(log, instance, record, failures, warnings)
    _medians(log, instance, record, warnings)
    _shaking(log, instance, record, warnings)
    return Estimator(instance, rejected, ratios, tuple(failures), tuple(warnings))


def _rejections(log: _Log, instance: int, record: FlightRecord) -> dict[str, float]:
    flags = log.topic("estimator_status_flags", instance)
    rejected = {}
    for name, (words, _) in REJECTIONS.items():
        if flags is None or name not in flags:
            continue
        margin = GROUND_EFFECT_MARGIN if name in NEAR_GROUND else 0.0
        chosen = _in_air(record, _seconds(flags), margin)
        if chosen.any():
            share = 100.0 * float(np.mean(np.asarray(flags[name])[chosen] > 0))
            if share > 0:
                rejected[words] = share
    return rejected


def _test_ratios(
    log: _Log, instance: int, record: FlightRecord, failures: list[str], warnings: list[str]
) -> dict[str, float]:
    status = log.topic("estimator_status", instance)
    ratios: dict[str, float] = {}
    if status is None:
        return ratios
    time = _seconds(status)
    for key, words in RATIOS.items():
        margin = GROUND_EFFECT_MARGIN if key in ("hdg", "hgt") else 0.0
        if f"{key}_test_ratio" not in status:
            continue
        values = np.asarray(status[f"{key}_test_ratio"], np.float64)[_in_air(record, time, margin)]
        values = values[np.isfinite(values)]
        if not len(values) or (key in ("tas", "hagl") and values.max() == 0.0):
            continue
        ratios[words] = float(values.max())
        amber = 100.0 * float(np.mean((values > AMBER) & (values <= RED)))
        if amber > AMBER_FAIL:
            failures.append(f"{words} test ratio above {AMBER:g} in {amber:.0f} % of the flight")
        elif amber > AMBER_WARN:
            warnings.append(f"{words} test ratio above {AMBER:g} in {amber:.0f} % of the flight")
    chosen = _in_air(record, time)
    if chosen.any() and np.asarray(status["filter_fault_flags"])[chosen].max() > 0:
        failures.append("numerical faults of the filter")
    return ratios


def _medians(log: _Log, instance: int, record: FlightRecord, warnings: list[str]) -> None:
    status = log.topic("estimator_status", instance)
    if status is not None:
        chosen = _in_air(record, _seconds(status), GROUND_EFFECT_MARGIN)
        for column, (words, level) in TRACKING.items():
            if chosen.any():
                median = float(np.median(np.asarray(status[column])[chosen]))
                if median > level:
                    warnings.append(f"{words}: median {median:.2g}, above {level:g}")
    states = log.topic("estimator_states", instance)
    if states is None:
        return
    chosen = _in_air(record, _seconds(states), GROUND_EFFECT_MARGIN)
    for words, (first, level) in BIASES.items():
        if chosen.any():
            medians = [np.median(np.asarray(states[f"states[{first + k}]"])[chosen]) for k in range(3)]
            size = float(np.linalg.norm(medians))
            if size > level:
                warnings.append(f"{words}: {size:.2g}, above {level:g}")


def _shaking(log: _Log, instance: int, record: FlightRecord, warnings: list[str]) -> None:
    """Vibration of the inertial sensor that an estimator instance uses."""
    status = log.topic("estimator_status", instance)
    for number in log.instances("vehicle_imu_status"):
        imu = log.topic("vehicle_imu_status", number)
        if imu is None or status is None or imu["accel_device_id"][0] != status["accel_device_id"][0]:
            continue
        chosen = _in_air(record, _seconds(imu), GROUND_EFFECT_MARGIN)
        for name, (words, peak, mean) in SHAKING.items():
            values = np.asarray(imu[name])[chosen]
            if len(values) and (values.max() > peak or values.mean() > mean):
                warnings.append(f"{words}: up to {values.max():.2g}, mean {values.mean():.2g}")


def _vibration(log: _Log, record: FlightRecord) -> float:
    worst = math.nan
    for instance in log.instances("vehicle_imu_status"):
        status = log.topic("vehicle_imu_status", instance)
        if status is None:
            continue
        chosen = _in_air(record, _seconds(status), GROUND_EFFECT_MARGIN)
        if chosen.any():
            worst = float(np.fmax(worst, np.asarray(status["accel_vibration_metric"])[chosen].max()))
    return worst
