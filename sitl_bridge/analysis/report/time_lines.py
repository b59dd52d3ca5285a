"""Curves over simulated time, thinned for a page: what a person looks at after a flight."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sitl_bridge.analysis.evaluation.estimator_health import AMBER, RED, VIBRATION_ORANGE, VIBRATION_RED
from sitl_bridge.analysis.evaluation.run_evaluation import fleet_positions
from sitl_bridge.analysis.evaluation.run_record import RecordedVehicle, RunRecord
from sitl_bridge.analysis.evaluation.signal_analysis import Spectrum
from sitl_bridge.analysis.evaluation.vehicle_distances import closest_distance
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.rotations import euler_arrays
from sitl_bridge.record.ulog_reader import columns, seconds

MARGIN = 3.0
"""Time shown before take-off and after landing, s."""
GAP = 1.5
"""Time without a sample after which a setpoint is no longer drawn, s; PX4 logs them every 0.2 to 1 s."""
BLOCK = 100_000
"""Attitudes that are converted at a time."""
TIME = "simulated time, s"
SQUARED = "\N{SUPERSCRIPT TWO}"


@dataclass(frozen=True)
class Line:
    """One curve: name, values, and whether it is a reference, drawn dashed."""

    name: str
    values: Floats
    reference: bool = False


@dataclass(frozen=True)
class Plot:
    """Curves over a common axis."""

    key: str  # the same for the same quantity in each vehicle and run
    title: str  # what is shown
    unit: str  # of the curves
    x: Floats  # (k,) increasing
    lines: tuple[Line, ...]  # the curves, first the one that is compared between runs
    levels: tuple[tuple[float, str], ...] = ()  # values that are marked, with their names
    x_title: str = TIME  # of the axis
    logarithmic: bool = False  # both axes
    note: str = ""  # below the title


def thin(x: Floats, values: Sequence[Floats], points: int) -> tuple[Floats, list[Floats]]:
    """Curves of at most ``points`` points that keep the peaks: smallest and largest value of each part.

    Args:
        x: (k,) increasing.
        values: curves (k,) over x.
        points: per curve.
    """
    parts = points // 2
    width = math.ceil(len(x) / max(parts, 1))
    if width <= 2:
        return x, list(values)
    whole = len(x) // width * width
    place = np.arange(0, whole, width)
    kept = np.stack([x[place], x[place + width // 2]], axis=1).ravel()
    thinned: list[Floats] = []
    for curve in values:
        block = curve[:whole].reshape(-1, width)
        low = np.fmin.reduce(block, axis=1)
        high = np.fmax.reduce(block, axis=1)
        rising = np.nan_to_num(block[:, -1]) >= np.nan_to_num(block[:, 0])
        pairs = np.stack([np.where(rising, low, high), np.where(rising, high, low)], axis=1)
        thinned.append(np.asarray(pairs.ravel(), np.float64))
    return kept, thinned


def thin_out(plot: Plot, points: int) -> Plot:
    """A plot with at most ``points`` points per curve."""
    x, curves = thin(plot.x, [line.values for line in plot.lines], points)
    lines = tuple(
        Line(line.name, values, line.reference) for line, values in zip(plot.lines, curves, strict=True)
    )
    return replace(plot, x=x, lines=lines)


def hold_last(x: Floats, time: Floats, values: Floats) -> Floats:
    """Values of a setpoint at times ``x``: the last before each; nan where it is older than GAP."""
    if not len(time):
        return np.full(len(x), np.nan)
    index = np.searchsorted(time, x, side="right") - 1
    found = np.asarray(values, np.float64)[np.maximum(index, 0)]
    return np.where((index >= 0) & (x - time[np.maximum(index, 0)] <= GAP), found, np.nan)


def interpolate(x: Floats, time: Floats, values: Floats) -> Floats:
    """Values interpolated at times ``x``; nan outside of them."""
    if len(time) < 2:
        return np.full(len(x), np.nan)
    return np.asarray(np.interp(x, time, values, left=math.nan, right=math.nan), np.float64)


def vehicle_plots(vehicle: RecordedVehicle, points: int) -> list[Plot]:
    """All plots over time of one vehicle that its data allows, with at most ``points`` points per curve."""
    window = shown_window(vehicle)
    if window is None:
        return []
    # Thinned one by one: all curves of a long flight would not fit into memory.
    thin_each = functools.partial(thin_out, points=points)
    plots = [
        plot
        for part in (
            _position_plots,
            _velocity_plots,
            _attitude_plots,
            _rate_plots,
            _actuator_plots,
            _estimator_plots,
            _wind_plots,
        )
        for plot in map(thin_each, part(vehicle, window))
    ]
    return [plot for plot in plots if any(np.isfinite(line.values).any() for line in plot.lines)]


def shown_window(vehicle: RecordedVehicle) -> tuple[float, float] | None:
    """Begin and end in s of what is shown: the flight with a margin, else all there is; None for nothing."""
    flight = vehicle.flight()
    if flight is not None:
        return flight[0] - MARGIN, flight[1] + MARGIN
    if vehicle.rows is not None and len(vehicle.rows):
        return float(vehicle.time[0]), float(vehicle.time[-1])
    if vehicle.record is not None and len(vehicle.record.time):
        return float(vehicle.record.time[0]), float(vehicle.record.time[-1])
    return None


def _inside(time: Floats, window: tuple[float, float]) -> slice:
    first, last = np.searchsorted(time, window)
    return slice(int(first), int(last))


def _grid(vehicle: RecordedVehicle, window: tuple[float, float]) -> tuple[Floats, slice | None]:
    """Times of the shown truth and its slice; times of the estimate without a truth."""
    time = vehicle.time
    if len(time):
        part = _inside(time, window)
        return time[part], part
    record = vehicle.record
    assert record is not None
    return record.time[_inside(record.time, window)], None


def _position_plots(vehicle: RecordedVehicle, window: tuple[float, float]) -> Iterator[Plot]:
    x, part = _grid(vehicle, window)
    record = vehicle.record
    estimate = None if record is None or not len(record.time) else record.estimate + vehicle.to_world
    setpoint = vehicle.logged_fields(
        "vehicle_local_position_setpoint", "x", "y", "z"
    ) or vehicle.logged_fields("trajectory_setpoint", "position[0]", "position[1]", "position[2]")
    truth = None if part is None else vehicle.true("position", "north", "east", "down")[part]
    for key, title, axis, sign in (
        ("height", "Height above the origin", 2, -1.0),
        ("north", "Position north", 0, 1.0),
        ("east", "Position east", 1, 1.0),
    ):
        lines = []
        if truth is not None:
            lines.append(Line("true", sign * truth[:, axis]))
        if estimate is not None and record is not None:
            lines.append(Line("estimated", sign * interpolate(x, record.time, estimate[:, axis])))
        if setpoint is not None:
            wanted = setpoint[1][:, axis] + vehicle.to_world[axis]
            lines.append(Line("setpoint", sign * hold_last(x, setpoint[0], wanted), reference=True))
        yield Plot(key, title, "m", x, tuple(lines))
        if key == "height" and record is not None and len(record.error_time):
            error = record.error.copy()
            error[np.concatenate([[0.0], np.diff(record.error_time)]) > 1.0] = np.nan
            line = Line("deviation", error)
            note = "estimated distance from the leg, the held point or the offboard setpoint that was flown"
            yield Plot(
                "deviation", "Deviation from the reference", "m", record.error_time, (line,), note=note
            )
    if truth is not None and estimate is not None and record is not None:
        lines = [
            Line(name, interpolate(x, record.time, estimate[:, k]) - truth[:, k])
            for k, name in enumerate(("north", "east", "down"))
        ]
        yield Plot("estimate_error", "Error of the estimated position", "m", x, tuple(lines))


def _velocity_plots(vehicle: RecordedVehicle, window: tuple[float, float]) -> Iterator[Plot]:
    x, part = _grid(vehicle, window)
    estimate = vehicle.logged_fields("vehicle_local_position", "vx", "vy", "vz")
    setpoint = vehicle.logged_fields(
        "vehicle_local_position_setpoint", "vx", "vy", "vz"
    ) or vehicle.logged_fields("trajectory_setpoint", "velocity[0]", "velocity[1]", "velocity[2]")
    truth = None if part is None else vehicle.true("velocity", "north", "east", "down")[part]
    for axis, name, sign in ((0, "north", 1.0), (1, "east", 1.0), (2, "up", -1.0)):
        lines = []
        if truth is not None:
            lines.append(Line("true", sign * truth[:, axis]))
        elif estimate is not None:
            lines.append(Line("estimated", sign * interpolate(x, estimate[0], estimate[1][:, axis])))
        if setpoint is not None:
            lines.append(
                Line("setpoint", sign * hold_last(x, setpoint[0], setpoint[1][:, axis]), reference=True)
            )
        yield Plot(f"velocity_{name}", f"Velocity {name}", "m/s", x, tuple(lines))


def _attitude_plots(vehicle: RecordedVehicle, window: tuple[float, float]) -> Iterator[Plot]:
    x, part = _grid(vehicle, window)
    quaternion = [f"q[{i}]" for i in range(4)]
    estimate = vehicle.logged_fields("vehicle_attitude", *quaternion)
    wanted = vehicle.logged_fields("vehicle_attitude_setpoint", *(f"q_d[{i}]" for i in range(4)))
    angles = None
    if part is not None:
        angles = _angles(vehicle.true("attitude", "w", "x", "y", "z")[part])
    elif estimate is not None:
        found = _angles(estimate[1])
        angles = np.stack([hold_last(x, estimate[0], found[:, k]) for k in range(3)], axis=-1)
    note = ""
    if angles is not None:
        whole = np.isfinite(angles[:, 2])
        angles[whole, 2] = np.unwrap(angles[whole, 2], period=360.0)
        if whole.any() and np.abs(angles[whole, 2]).max() > 180.0:
            note = "continuous: 190 deg is the same as -170 deg"
    for axis, name in enumerate(("roll", "pitch", "yaw")):
        lines = [] if angles is None else [Line("true" if part is not None else "estimated", angles[:, axis])]
        if wanted is not None:
            setpoint = hold_last(x, wanted[0], _angles(wanted[1])[:, axis])
            if angles is not None:  # on the same turn as the attitude
                setpoint += 360.0 * np.round((angles[:, axis] - setpoint) / 360.0)
            lines.append(Line("setpoint", setpoint, reference=True))
        yield Plot(name, name.capitalize(), "deg", x, tuple(lines), note=note if name == "yaw" else "")


def _rate_plots(vehicle: RecordedVehicle, window: tuple[float, float]) -> Iterator[Plot]:
    x, part = _grid(vehicle, window)
    if part is not None:
        rates = vehicle.true("angular_velocity", "x", "y", "z")[part]
        np.degrees(rates, out=rates)
        lines = tuple(Line(name, rates[:, k]) for k, name in enumerate(("roll", "pitch", "yaw")))
        yield Plot("rates", "Angular velocity, true", "deg/s", x, lines)


def _angles(attitude: Floats) -> Floats:
    """Roll, pitch, yaw (k, 3) in deg of quaternions (k, 4), in blocks for the memory's sake."""
    found = np.empty((len(attitude), 3))
    for first in range(0, len(attitude), BLOCK):
        found[first : first + BLOCK] = np.degrees(euler_arrays(attitude[first : first + BLOCK]))
    return found


def _actuator_plots(vehicle: RecordedVehicle, window: tuple[float, float]) -> Iterator[Plot]:
    x, part = _grid(vehicle, window)
    if part is not None:
        commands = vehicle.true("control", *(str(i) for i in range(vehicle.rotors)))[part]
        lines = tuple(Line(f"motor {i + 1}", commands[:, i]) for i in range(vehicle.rotors))
        yield Plot("motors", "Motor commands", "of 1", x, lines, ((1.0, "upper limit"),))
        for key, unit in (("voltage", "V"), ("current", "A")):
            line = Line("true", vehicle.true(f"battery_{key}")[part])
            yield Plot(key, f"Battery {key}", unit, x, (line,))
        return
    motors = vehicle.logged_fields("actuator_motors", *(f"control[{i}]" for i in range(vehicle.rotors)))
    if motors is not None:
        chosen = _inside(motors[0], window)
        lines = tuple(Line(f"motor {i + 1}", motors[1][chosen, i]) for i in range(vehicle.rotors))
        yield Plot("motors", "Motor commands", "of 1", motors[0][chosen], lines, ((1.0, "upper limit"),))
    battery = vehicle.logged_fields("battery_status", "voltage_v", "current_a")
    if battery is not None:
        chosen = _inside(battery[0], window)
        for k, (key, unit) in enumerate((("voltage", "V"), ("current", "A"))):
            line = Line("measured", battery[1][chosen, k])
            yield Plot(key, f"Battery {key}", unit, battery[0][chosen], (line,))


RATIOS = {
    "hdg_test_ratio": "heading",
    "vel_test_ratio": "velocity",
    "pos_test_ratio": "position",
    "hgt_test_ratio": "height",
}


def _estimator_plots(vehicle: RecordedVehicle, window: tuple[float, float]) -> Iterator[Plot]:
    log = vehicle.log
    if log is None:
        return
    for instance in log.instances("estimator_status"):
        status = log.topic("estimator_status", instance)
        if status is None:
            continue
        time = seconds(status)
        part = _inside(time, window)
        lines = tuple(
            Line(name, np.asarray(status[key], np.float64)[part])
            for key, name in RATIOS.items()
            if key in status
        )
        levels = ((AMBER, "warning"), (RED, "rejected"))
        which = f" of estimator {instance}" if instance else ""
        title = f"Innovation test ratios{which}"
        yield Plot(f"test_ratios_{instance}", title, "of the gate", time[part], lines, levels)
    found: list[Line] = []
    x: Floats | None = None
    for instance in log.instances("vehicle_imu_status"):
        status = log.topic("vehicle_imu_status", instance)
        if status is None or "accel_vibration_metric" not in status:
            continue
        time = seconds(status)
        x = time[_inside(time, window)] if x is None else x
        shaking = interpolate(x, time, columns(status, "accel_vibration_metric")[:, 0])
        found.append(Line(f"accelerometer {instance}", shaking))
    if x is not None:
        levels = ((VIBRATION_ORANGE, "warning"), (VIBRATION_RED, "too high"))
        title = "Vibration of the accelerometers"
        yield Plot("vibration", title, f"m/s{SQUARED}", x, tuple(found), levels)


def _wind_plots(vehicle: RecordedVehicle, window: tuple[float, float]) -> Iterator[Plot]:
    x, part = _grid(vehicle, window)
    if part is None:
        return
    wind = vehicle.true("wind", "north", "east", "down")[part]
    if not np.any(wind):
        return
    signs = ((0, "to north", 1.0), (1, "to east", 1.0), (2, "up", -1.0))
    yield Plot("wind", "Wind at the vehicle", "m/s", x, tuple(Line(n, s * wind[:, k]) for k, n, s in signs))


def spectrum_plot(rates: Spectrum) -> Plot:
    """The figure of hector's validation: power spectral density of the angular rates."""
    names = ("roll rate", "pitch rate", "yaw rate")
    lines = tuple(Line(name, rates.density[:, k]) for k, name in enumerate(names))
    return Plot(
        "rates_spectrum", "Power spectral density of the angular rates", f"(rad/s){SQUARED}/Hz",
        rates.frequency, lines, x_title="frequency, Hz", logarithmic=True,
    )  # fmt: skip


RATE = 20.0
"""Rate at which the closest pair is drawn, Hz."""
MOST_LINES = 12
"""Vehicles whose own curve is drawn; of larger fleets the largest and the median."""


def fleet_plots(run: RunRecord) -> list[Plot]:
    """Plots of a fleet; empty for a single vehicle."""
    plots = []
    tracks = run.tracks
    if tracks is not None and {"time", "slot_error"} <= tracks.keys() and tracks["slot_error"].ndim == 2:
        error = np.asarray(tracks["slot_error"], np.float64)
        time = np.asarray(tracks["time"], np.float64) + run.formation_start
        note = "distance of each vehicle from its slot, by the vehicles' own estimates"
        plots.append(Plot("slot_error", "Slot error", "m", time, _lines(error, run), note=note))
    fleet = fleet_positions(run, RATE)
    if fleet is not None:
        time, position = fleet
        distance = closest_distance(position)
        if np.isfinite(distance).any():
            note = "between vehicles in the air"
            line = Line("smallest distance", distance)
            plots.append(Plot("closest_pair", "Distance of the closest pair", "m", time, (line,), note=note))
        height = -position[:, :, 2]
        plots.append(Plot("fleet_height", "Height above the origin", "m", time, _lines(height, run)))
    return plots


def _lines(values: Floats, run: RunRecord) -> tuple[Line, ...]:
    """Curves (k, n) of the vehicles, or of the largest and the median in a large fleet."""
    count = values.shape[1]
    if count > MOST_LINES:
        filled = np.where(np.isfinite(values), values, -np.inf)
        largest = np.where(np.isfinite(filled.max(axis=1)), filled.max(axis=1), np.nan)
        return (Line("largest", largest), Line("median", np.median(values, axis=1)))
    names = [vehicle.name for vehicle in run.vehicles]
    names = names if len(names) == count else [str(i) for i in range(count)]
    return tuple(Line(name, values[:, i]) for i, name in enumerate(names))
