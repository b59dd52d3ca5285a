"""Analysis of a ULog: path, tracking errors and estimator health.

Reads a ULog with pyulog and computes the figures; ``summary.py`` prints them.  The estimator checks are those
of PX4's Tools/ecl_ekf (check_level_dict.csv).
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.analysis.evaluation.estimator_health import check_estimator, vibration
from sitl_bridge.analysis.evaluation.flight_record import (
    HOLD,
    LEG_MODES,
    MODES,
    OFFBOARD,
    RATE,
    Deviation,
    FlightRecord,
    deviation,
    in_air,
    last_before,
    modes_at,
    true_at,
)
from sitl_bridge.autopilot.flight_log import NAME
from sitl_bridge.base.arrays import AnyArray, Columns, Floats, Mask
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.world.geography import Projection
from sitl_bridge.link.px4.event_catalogue import WARNING
from sitl_bridge.plan.plan import EARTH_RADIUS
from sitl_bridge.record.ulog_reader import FlightLog, columns, seconds

ARMED = 2
"""VehicleStatus.msg, arming_state."""
PASSING_MODE = 0.5
"""s in a mode that is only passed through: PX4 of 2026 holds for an instant between Mission and Return."""
SETTLING = 5.0
"""Time after a change of mode or setpoint before deviations count, s, as in RotorS's evaluation, which starts
5 s after a waypoint."""

SETPOINT_TIMEOUT = 2.0
"""Age at which a logged setpoint expires, s; PX4 logs trajectory_setpoint every 0.2 s."""

ARRIVAL_DISTANCE = 1.0
"""Distance at which a vehicle has reached its hold position, m.  Derived: half the acceptance radius of
PX4 up to v1.17 (NAV_ACC_RAD, 2 m)."""


def results_of(path: Path, log: FlightLog) -> FlightRecord:
    """Return the results of the flight in an open log.

    Raises:
        UserError: if the log lacks a field of one of its topics.
    """
    try:
        return _read_record(path, log)
    except KeyError as error:
        raise UserError(f"{path}: has no field {error}") from error


def _read_record(path: Path, log: FlightLog) -> FlightRecord:
    record = FlightRecord(path=path, damaged=log.damaged)
    record.messages = [(time * 1e-6, level, text.strip()) for time, level, text in log.messages]
    windows = log.air_times()
    position = log.topic("vehicle_local_position")
    if position is None:
        return record
    record.time = seconds(position)
    record.estimate = columns(position, "x", "y", "z")
    _read_truth(log, record, position)
    if not windows:
        return record
    record.take_off, record.landing = windows[0][0], windows[-1][1]
    record.air_time = sum(end - start for start, end in windows)
    status = log.topic("vehicle_status")
    _measure_path(record, position, status)
    if status is not None:
        record.modes = _modes(status, record)
        _measure_tracking(log, record, status, position)
    record.failsafes = _failsafes(log, record)
    record.estimators = [check_estimator(log, k, record) for k in log.instances("estimator_status")]
    record.vibration = vibration(log, record)
    return record


def _metres_a_degree(log: FlightLog, latitude: float, altitude: float) -> tuple[float, float]:
    """Return metres per degree of latitude and of longitude on the Earth model of the log's writer."""
    if log.writer == NAME:
        projection, small = Projection.from_degrees(latitude, 0.0, altitude), 1e-6
        north, east = projection.local(latitude + small, small)
        return north / small, east / small
    degree = math.radians(EARTH_RADIUS)
    return degree, degree * math.cos(math.radians(latitude))


def _read_truth(log: FlightLog, record: FlightRecord, position: Columns) -> None:
    """Read the ground truth into the frame of the estimate, whose origin the estimator set from its GNSS."""
    truth = log.topic("vehicle_local_position_groundtruth")
    if truth is None:
        return
    set_up = np.isfinite(position["ref_lat"]) & (np.asarray(position["ref_timestamp"]) > 0)
    if not set_up.any():
        return
    last = int(np.flatnonzero(set_up)[-1])
    ref_lat, ref_lon = float(position["ref_lat"][last]), float(position["ref_lon"][last])
    ref_alt = float(position["ref_alt"][last])
    a_degree_north, a_degree_east = _metres_a_degree(log, ref_lat, ref_alt)
    north = (float(truth["ref_lat"][-1]) - ref_lat) * a_degree_north
    east = (float(truth["ref_lon"][-1]) - ref_lon) * a_degree_east
    down = ref_alt - float(truth["ref_alt"][-1])
    offset = np.array([north, east, down])
    if not np.isfinite(offset).all():
        return
    record.true_time = seconds(truth)
    record.truth = columns(truth, "x", "y", "z") + offset


def time_of_arming(status: Columns | None, moment: float) -> float:
    """When a vehicle was armed that is at a moment, s; the moment itself where that is not known."""
    if status is None or "arming_state" not in status:
        return moment
    time, armed = seconds(status), np.asarray(status["arming_state"]) == ARMED
    begun = time[armed & ~np.concatenate([[False], armed[:-1]]) & (time <= moment)]
    return float(begun[-1]) if len(begun) else moment


def _measure_path(record: FlightRecord, position: Columns, status: Columns | None) -> None:
    air = in_air(record, record.time)
    way = record.estimate[air]
    if len(way) < 2:
        return
    every = max(1, round(1.0 / RATE / float(np.median(np.diff(record.time)))))
    record.distance = float(np.linalg.norm(np.diff(way[::every], axis=0), axis=1).sum())
    record.max_speed = float(np.linalg.norm(columns(position, "vx", "vy", "vz")[air], axis=1).max())
    # PX4 notes that it has left the ground when it has climbed for a while.
    start = int(np.searchsorted(record.time, time_of_arming(status, record.take_off)))
    ground = float(record.estimate[min(start, len(record.estimate) - 1), 2])
    record.max_height = float(ground - way[:, 2].min())
    if len(record.true_time):
        truth = true_at(record, record.time[air])
        assert truth is not None
        error = np.linalg.norm(way - truth, axis=1)
        record.estimate_error = deviation(record.time[air], error)


def _modes(status: Columns, record: FlightRecord) -> list[tuple[str, float]]:
    time = seconds(status)
    state = np.asarray(status["nav_state"])
    changes = np.concatenate([[0], np.flatnonzero(np.diff(state)) + 1, [len(state)]])
    spans: list[tuple[str, float]] = []
    for begin, end in itertools.pairwise(changes):
        until = time[end] if end < len(time) else record.landing
        duration = min(until, record.landing) - max(time[begin], record.take_off)
        if duration < PASSING_MODE:
            continue
        name = MODES.get(int(state[begin]), f"mode {state[begin]}")
        if spans and spans[-1][0] == name:
            duration += spans.pop()[1]
        spans.append((name, float(duration)))
    return spans


# -------------------------------------------------------------------------- tracking


def _measure_tracking(log: FlightLog, record: FlightRecord, status: Columns, position: Columns) -> None:
    """Compute the deviations from the reference for each kind of mode."""
    air = in_air(record, record.time)
    every = max(1, round(0.02 / float(np.median(np.diff(record.time)))))
    time = record.time[air][::every]
    here = record.estimate[air][::every]
    velocity = columns(position, "vx", "vy", "vz")[air][::every]
    truth = true_at(record, time)
    mode = modes_at(status, time)
    errors: list[tuple[Floats, Floats]] = []
    parts: list[Floats] = []

    setpoint = log.topic("trajectory_setpoint")
    if setpoint is not None and (mode == OFFBOARD).any():
        chosen = mode == OFFBOARD
        wanted, wanted_velocity = _setpoints_at(setpoint, time[chosen])
        error = np.linalg.norm(here[chosen] - wanted, axis=1)
        if _store(record.deviations, "offboard position", time[chosen], error):
            errors.append((time[chosen], error))
        index = np.maximum(last_before(seconds(setpoint), time[chosen]), 0)
        only_velocity = ~np.isfinite(np.asarray(setpoint["position[0]"])[index])
        speed_error = np.linalg.norm(velocity[chosen] - wanted_velocity, axis=1)
        speed_error = np.where(only_velocity, speed_error, np.nan)
        _store(record.deviations, "offboard velocity", time[chosen], speed_error)
        if truth is not None:
            true_error = np.linalg.norm(truth[chosen] - wanted, axis=1)
            _store(record.true_deviations, "offboard position", time[chosen], true_error)
        parts.append(wanted)

    triplet = log.topic("position_setpoint_triplet")
    if triplet is not None:
        legs = _Legs(log, triplet, position)
        for name, codes in (("mission legs", LEG_MODES), ("hold", (HOLD,))):
            chosen = np.isin(mode, codes)
            if name == "hold":
                chosen &= legs.has_arrived(time, here, _since_change(time, mode))
            if not chosen.any():
                continue
            error = legs.distance(time[chosen], here[chosen], hold=name == "hold")
            if _store(record.deviations, name, time[chosen], error):
                errors.append((time[chosen], error))
            if truth is not None:
                true_error = legs.distance(time[chosen], truth[chosen], hold=name == "hold")
                _store(record.true_deviations, name, time[chosen], true_error)
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


def _store(deviations: dict[str, Deviation], name: str, time: Floats, error: Floats) -> bool:
    """Put the statistics of an error among others; False without any."""
    found = deviation(time, error)
    if found is not None:
        deviations[name] = found
    return found is not None


def _since_change(time: Floats, mode: AnyArray) -> Floats:
    """Return the s since the last change of mode, at each time."""
    changed = np.concatenate([[True], np.diff(mode) != 0])
    starts = np.where(changed, time, -np.inf)
    return np.asarray(time - np.maximum.accumulate(starts), np.float64)


def _setpoints_at(setpoint: Columns, time: Floats) -> tuple[Floats, Floats]:
    """Return position and velocity setpoints at given times, (k, 3) each; nan if none counts.

    A position that moves with its velocity is interpolated.  After a step, or while constant, it counts only
    after ``SETTLING`` seconds, because no vehicle follows a step.  A setpoint older than ``SETPOINT_TIMEOUT``
    is not in use (attitude setpoints bypass the topic).
    """
    stamps = seconds(setpoint)
    position = columns(setpoint, "position[0]", "position[1]", "position[2]")
    velocity = columns(setpoint, "velocity[0]", "velocity[1]", "velocity[2]")
    index = last_before(stamps, time)
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
    old = (index < 0) | (time - stamps[before] > SETPOINT_TIMEOUT)
    wanted[old | unsettled] = np.nan
    wanted_velocity[old] = np.nan
    return wanted, wanted_velocity


class _Legs:
    """Legs flown by PX4's navigator, from its position setpoint triplets."""

    def __init__(self, log: FlightLog, triplet: Columns, position: Columns) -> None:
        self.time = seconds(triplet)
        last = int(np.flatnonzero(np.isfinite(position["ref_lat"]))[-1]) if len(position["ref_lat"]) else 0
        self.origin = tuple(float(position[name][last]) for name in ("ref_lat", "ref_lon", "ref_alt"))
        self.scale = _metres_a_degree(log, self.origin[0], self.origin[2])
        self.previous = self._local(triplet, "previous")
        self.current = self._local(triplet, "current")

    def _local(self, triplet: Columns, which: str) -> Floats:
        lat, lon, alt = (np.asarray(triplet[f"{which}.{name}"], np.float64) for name in ("lat", "lon", "alt"))
        lat0, lon0, alt0 = self.origin
        north, east = self.scale
        local = np.stack([(lat - lat0) * north, (lon - lon0) * east, alt0 - alt], axis=-1)
        valid = np.asarray(triplet[f"{which}.valid"]) != 0
        return np.where(valid[:, None], local, np.nan)

    def has_arrived(self, time: Floats, here: Floats, in_mode: Floats) -> Mask:
        """Return whether the present setpoint was reached at least ``SETTLING`` s ago, in the same mode.

        Args:
            time: (k,) s.
            here: (k, 3) m.
            in_mode: (k,) s since the mode changed.
        """
        index = np.maximum(last_before(self.time, time), 0)
        near = np.linalg.norm(here - self.current[index], axis=1) < ARRIVAL_DISTANCE
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
        settled: Mask = time - since >= SETTLING
        return settled

    def points(self, time: Floats) -> Floats:
        """Return the ends of the legs flown in the given times, each once, in order."""
        index = np.unique(last_before(self.time, time))
        index = index[index >= 0]
        ends = np.stack([self.previous[index], self.current[index]], axis=1)
        return np.asarray(ends.reshape(-1, 3), np.float64)

    def distance(self, time: Floats, here: Floats, hold: bool) -> Floats:
        """Return the distance from the present setpoint (hold) or from the legs in m; nan if there is none.

        The path consists of the leg to the present setpoint and the one before, because PX4 turns to the next
        leg before it reaches the end.  The distance is horizontal: navigator and position controller climb
        independently of the leg.
        """
        index = np.maximum(last_before(self.time, time), 0)
        if hold:
            return np.asarray(np.linalg.norm(here - self.current[index], axis=1), np.float64)
        ends = np.nan_to_num(self.current)
        changed = np.concatenate([[True], (np.abs(np.diff(ends, axis=0)) > 0.01).any(axis=1)])
        first = np.maximum.accumulate(np.where(changed, np.arange(len(self.time)), 0))[index]
        present = self._from_leg(index, here)
        before = self._from_leg(np.maximum(first - 1, 0), here)
        error = np.fmin(present, np.where(first > 0, before, np.nan))
        return np.where(np.isfinite(present), error, np.nan)

    def _from_leg(self, index: NDArray[np.intp], here: Floats) -> Floats:
        start, end = self.previous[index], self.current[index]
        along = (end - start)[:, :2]
        length = np.einsum("ij,ij->i", along, along)
        offset = (here - start)[:, :2]
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.clip(np.einsum("ij,ij->i", offset, along) / length, 0.0, 1.0)
        error = np.linalg.norm(offset - share[:, None] * along, axis=1)
        return np.where(length > 1.0, error, np.nan)


# -------------------------------------------------------------------------- failsafes


def _failsafes(log: FlightLog, record: FlightRecord) -> list[tuple[float, str]]:
    """Return (s, cause) of each failsafe in flight, and of each change of mode during one.

    Causes are flags that rose shortly before or after, else the warnings at its beginning.
    """
    status, flags = log.topic("vehicle_status"), log.topic("failsafe_flags")
    if status is None:
        return []
    time = seconds(status)
    active = (np.asarray(status["failsafe"]) != 0) & in_air(record, time)
    mode = np.where(active, np.asarray(status["nav_state"], int), -1)
    rises: list[tuple[str, Floats]] = []
    if flags is not None:
        moments = seconds(flags)
        for name, values in flags.items():
            if name != "timestamp" and not name.startswith("mode_req_"):
                # battery_warning has levels.
                risen = np.diff(np.asarray(values, float)) > 0
                rises.append((name.replace("_", " "), moments[1:][risen]))
    found: list[tuple[float, str]] = []
    for k in np.flatnonzero(active & (np.diff(mode, prepend=-1) != 0)):
        start = float(time[k])
        # failsafe_flags is logged at 2 Hz or on a change, hence one second on either side.
        causes = [name for name, at in rises if ((at > start - 2.0) & (at < start + 1.0)).any()]
        if not causes and not (k and active[k - 1]):
            # The built-in stack logs no flags.
            said = [m for m in record.messages if start - 2.0 < m[0] < start + 1.0 and m[1] <= WARNING]
            causes = [text for _, _, text in said] or ["the flight log names no cause"]
        found += [(start, cause) for cause in causes]
    return found
