"""Evaluation of a run: the measures of each vehicle and of the fleet, with the intermediate results."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from sitl_bridge.analysis.evaluation.flight_record import OFFBOARD, modes_at
from sitl_bridge.analysis.evaluation.measures import (
    Limits,
    Measure,
    find_unmeasured,
    make_measures,
    own_values,
)
from sitl_bridge.analysis.evaluation.pose_error import Comparison, PoseTrajectory, compare
from sitl_bridge.analysis.evaluation.rotors_evaluation import (
    RMS_TIME,
    START_DELAY,
    ConstantSetpoint,
    DisturbanceResult,
    HoverResult,
    WaypointResult,
    constant_setpoints,
    disturbance_results,
    hovering,
    waypoint_results,
)
from sitl_bridge.analysis.evaluation.run_changes import run_changes, stalls
from sitl_bridge.analysis.evaluation.run_record import RecordedVehicle, RunRecord
from sitl_bridge.analysis.evaluation.signal_analysis import Spectrum, StepResponse, spectrum, step_responses
from sitl_bridge.analysis.evaluation.vehicle_distances import ClosestPair, closest_pair
from sitl_bridge.base.arrays import Floats, Mask, interpolate
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.rotations import matrix_from_quaternion

AT_LIMIT = 0.999
"""Motor command at which a motor is saturated, of 1; at 1 - AT_LIMIT it is at its lower limit."""
RATE = 100.0
"""Rate at which a fleet's truth is searched for the closest pair, Hz."""
GROUND_MARGIN = 2.0
"""Time at both ends of the flight without step responses and spectra, s."""


@dataclass
class VehicleEvaluation:
    """Results of one vehicle."""

    name: str  # of the vehicle
    measures: list[Measure] = field(default_factory=list)  # in the order of ``KINDS``
    hover: HoverResult | None = None  # the longest hover under a constant setpoint; None without
    # waypoints, disturbances, steps: results by RotorS and hector
    waypoints: list[WaypointResult] = field(default_factory=list)
    disturbances: list[DisturbanceResult] = field(default_factory=list)
    steps: list[StepResponse] = field(default_factory=list)
    # spectrum and RMS of the true angular velocity in flight, rad/s; of the measured one without a truth
    rates: Spectrum | None = None
    rates_rms: float = math.nan


@dataclass
class Evaluation:
    """Results of a run."""

    vehicles: list[VehicleEvaluation]  # one each
    measures: list[Measure]  # all measures, those of the run last
    unmeasured: list[str]  # names of limits that the user set and that the run has no value for
    failures: dict[str, str]  # texts of the user's own measures that failed, by their names
    # the closest pair in the air, by the truth; None if no two were in the air together
    closest: ClosestPair | None = None

    @property
    def exceeded(self) -> list[Measure]:
        """Measures beyond their limits."""
        return [one for one in self.measures if one.passed is False]


def evaluate(run: RunRecord, limits: Limits | None = None) -> Evaluation:
    """Evaluate a run.

    Args:
        run: as read from its directory.
        limits: in place of the defaults.
    """
    limits = limits or {}
    failures: dict[str, str] = {}
    vehicles = [_evaluate_vehicle(run, vehicle, limits, failures) for vehicle in run.vehicles]
    measures = [one for vehicle in vehicles for one in vehicle.measures]
    fleet = fleet_positions(run, RATE)
    closest = None if fleet is None else closest_pair(*fleet)
    measures += _run_measures(run, closest, limits)
    return Evaluation(vehicles, measures, find_unmeasured(limits, measures, failures), failures, closest)


def _evaluate_vehicle(
    run: RunRecord, vehicle: RecordedVehicle, limits: Limits, failures: dict[str, str]
) -> VehicleEvaluation:
    label = vehicle.name if len(run.vehicles) > 1 else ""
    found = VehicleEvaluation(vehicle.name)
    time, position, rates = motion(vehicle)
    waypoints = position_setpoints(vehicle)
    _rotors(run, found, time, position, rates, waypoints)
    del time, position, rates  # these are large for a long flight
    _spectra_and_steps(vehicle, found)
    values: dict[str, float] = {}
    _log_values(vehicle, values)
    _rotors_values(found, values)
    _dynamics_values(found, values)
    _truth_values(run, vehicle, values)
    values |= own_values(vehicle, limits, failures)
    found.measures = make_measures(values, limits, label)
    return found


def motion(vehicle: RecordedVehicle) -> tuple[Floats, Floats, Floats]:
    """Time s, position m NED in the world and angular velocity rad/s of a vehicle: truth, else estimate."""
    if vehicle.rows is not None and len(vehicle.rows):
        return (
            vehicle.time,
            vehicle.true("position", "north", "east", "down"),
            vehicle.true("angular_velocity", "x", "y", "z"),
        )
    log, record = vehicle.log, vehicle.record
    if log is None or record is None or not len(record.time):
        return np.zeros(0), np.zeros((0, 3)), np.zeros((0, 3))
    moments, samples = angular_velocity(vehicle)
    rates = np.full((len(record.time), 3), np.nan)
    if len(moments):
        rates = interpolate(record.time, moments, samples)
    return record.time, record.estimate + vehicle.to_world, rates


def angular_velocity(vehicle: RecordedVehicle) -> tuple[Floats, Floats]:
    """Time s and angular velocity rad/s body: truth, else as it was logged."""
    if vehicle.rows is not None and len(vehicle.rows):
        return vehicle.time, vehicle.true("angular_velocity", "x", "y", "z")
    measured = vehicle.logged_fields("vehicle_angular_velocity", "xyz[0]", "xyz[1]", "xyz[2]")
    return measured or (np.zeros(0), np.zeros((0, 3)))


def position_setpoints(vehicle: RecordedVehicle) -> list[ConstantSetpoint]:
    """Constant position setpoints in the world frame that a script set in offboard mode."""
    log, record = vehicle.log, vehicle.record
    flight = vehicle.flight()
    if log is None or record is None or flight is None:
        return []
    setpoint = vehicle.logged_fields("trajectory_setpoint", "position[0]", "position[1]", "position[2]")
    status = log.topic("vehicle_status")
    if setpoint is None or status is None:
        return []
    time, wanted = setpoint[0], setpoint[1] + vehicle.to_world
    flown = (modes_at(status, time) == OFFBOARD) & (time >= flight[0]) & (time <= flight[1])
    return constant_setpoints(time, np.where(flown[:, None], wanted, np.nan))


def _rotors(
    run: RunRecord,
    found: VehicleEvaluation,
    time: Floats,
    position: Floats,
    rates: Floats,
    waypoints: list[ConstantSetpoint],
) -> None:
    if not waypoints or not len(time):
        return
    found.waypoints = waypoint_results(time, position, rates, waypoints)
    longest = max(waypoints, key=lambda w: w.end - w.begin)
    settled = next(r.settling for r in found.waypoints if r.waypoint is longest)
    begin = longest.begin + max(START_DELAY, settled or 0.0)
    if longest.end - begin >= RMS_TIME:
        found.hover = hovering(time, position, rates, longest.position, begin, begin + RMS_TIME)
    found.disturbances = disturbance_results(time, position, rates, waypoints, event_times(run, found.name))


def event_times(run: RunRecord, vehicle: str) -> list[float]:
    """Times in s at which faults and changes of a vehicle or of the world begin."""
    return sorted(one.begin for one in run_changes(run) if one.concerns(vehicle))


def _spectra_and_steps(vehicle: RecordedVehicle, found: VehicleEvaluation) -> None:
    flight = vehicle.flight()
    if flight is None:
        return
    time, rates = angular_velocity(vehicle)
    first, last = np.searchsorted(time, [flight[0] + GROUND_MARGIN, flight[1] - GROUND_MARGIN])
    chosen = slice(int(first), int(last))
    found.rates = spectrum(time[chosen], rates[chosen])
    if found.rates is not None:
        found.rates_rms = math.sqrt(float(np.nanmean(np.sum(rates[chosen] ** 2, axis=1))))
    wanted = velocity_setpoints(vehicle)
    if wanted is None:
        return
    moments, setpoint = wanted
    flown = (moments >= flight[0]) & (moments <= flight[1])
    velocity_time, velocity = true_velocity(vehicle)
    found.steps = step_responses(velocity_time, velocity, moments[flown], setpoint[flown])


def true_velocity(vehicle: RecordedVehicle) -> tuple[Floats, Floats]:
    """Time s and velocity m/s NED: truth, else estimate."""
    if vehicle.rows is not None and len(vehicle.rows):
        return vehicle.time, vehicle.true("velocity", "north", "east", "down")
    estimate = vehicle.logged_fields("vehicle_local_position", "vx", "vy", "vz")
    return estimate or (np.zeros(0), np.zeros((0, 3)))


def velocity_setpoints(vehicle: RecordedVehicle) -> tuple[Floats, Floats] | None:
    """Times s and velocity setpoints m/s NED, nan where there is none or where a position leads."""
    names = [f"{what}[{axis}]" for what in ("velocity", "position") for axis in range(3)]
    found = vehicle.logged_fields("trajectory_setpoint", *names)
    if found is None:
        return None
    time, setpoints = found
    return time, np.where(np.isfinite(setpoints[:, 3:]), np.nan, setpoints[:, :3])


# -------------------------------------------------------------------------- values


def _log_values(vehicle: RecordedVehicle, values: dict[str, float]) -> None:
    record = vehicle.record
    if record is None or not math.isfinite(record.take_off):
        return
    for name in ("mission legs", "offboard position", "hold"):
        # The truth is what counts; the estimate stands in where there is none.
        deviation = record.true_deviations.get(name) or record.deviations.get(name)
        if deviation is not None:
            key = name.replace(" ", "_")
            values[f"{key}_rms"], values[f"{key}_max"] = deviation.rms, deviation.max
    if "offboard velocity" in record.deviations:
        values["velocity_rms"] = record.deviations["offboard velocity"].rms
    if record.estimate_error is not None:
        values["estimate_error_rms"] = record.estimate_error.rms
        values["estimate_error_max"] = record.estimate_error.max
    poses = estimate_pose_errors(vehicle)
    if poses is not None:
        absolute, relative = poses.absolute.statistics(), poses.relative.statistics()
        values["pose_error_absolute"] = absolute["translation"].rmse
        values["pose_error_relative"] = relative["translation"].rmse
        values["pose_error_rotation"] = relative["angle"].rmse
    for kind in ("mag", "velocity", "position", "height"):
        ratios = [e.ratios[kind] for e in record.estimators if kind in e.ratios]
        if ratios:
            values[f"test_ratio_{kind}"] = max(ratios)
    if record.estimators:
        values["estimator_failures"] = sum(len(e.failures) for e in record.estimators)
        values["estimator_warnings"] = sum(len(e.warnings) for e in record.estimators)
    values["vibration"] = record.vibration
    values["failsafes"] = len(record.failsafe_causes)


def _rotors_values(found: VehicleEvaluation, values: dict[str, float]) -> None:
    if found.hover is not None:
        values["hover_position_rms"] = found.hover.position
        values["hover_rates_rms"] = found.hover.rates
    flown = found.waypoints[1:]
    if flown:
        settled = [w for w in flown if w.settling is not None]
        values["waypoints_settled"] = 100.0 * len(settled) / len(flown)
        values["waypoint_settling"] = max((w.settling or 0.0 for w in settled), default=math.nan)
        values["waypoint_position_rms"] = max(
            (w.hover.position for w in settled if w.hover), default=math.nan
        )
    if found.disturbances:
        values["disturbance_deviation"] = max(d.deviation for d in found.disturbances)
        times = [math.inf if d.settling is None else d.settling for d in found.disturbances]
        values["disturbance_settling"] = max(times)


def _dynamics_values(found: VehicleEvaluation, values: dict[str, float]) -> None:
    if found.steps:
        rises = [s.rise for s in found.steps if math.isfinite(s.rise)]
        settlings = [s.settling for s in found.steps if math.isfinite(s.settling)]
        values["step_rise_time"] = float(np.mean(rises)) if rises else math.nan
        values["step_overshoot"] = max(s.overshoot for s in found.steps)
        values["step_settling"] = max(settlings, default=math.nan)
    if found.rates is not None:
        values["rates_peak_frequency"] = found.rates.peak()
        values["rates_rms"] = found.rates_rms


def _truth_values(run: RunRecord, vehicle: RecordedVehicle, values: dict[str, float]) -> None:
    summary = run.of_vehicle(vehicle.name)
    used = summary.get("battery_used")
    if isinstance(used, int | float):
        values["battery_used"] = 100.0 * used
    ring = summary.get("vortex_ring_seconds")
    if isinstance(ring, int | float):
        values["vortex_ring_time"] = float(ring)
    if run.events is not None:
        unanswered = [s for s in stalls(run) if s.vehicle == vehicle.name and not s.cause]
        values["unanswered_time"] = sum(s.end - s.begin for s in unanswered)
    if isinstance(summary.get("contacts"), list):
        values["object_contacts"] = len(summary["contacts"])
    flight = vehicle.flight()
    if vehicle.rows is None or flight is None:
        return
    values["landed"] = float(vehicle.height_at_end is None)
    time = vehicle.time
    flown = (time >= flight[0]) & (time <= flight[1])
    if not flown.any():
        return
    values["saturation"] = 100.0 * float(np.mean(is_saturated(vehicle)[flown]))
    voltage = vehicle.true("battery_voltage")[flown]
    if voltage.max() > 0.0:
        values["battery_voltage"] = float(voltage.min())
    values["touchdown"] = float(vehicle.true("impact_speed").max())  # a restart begins it anew


def is_saturated(vehicle: RecordedVehicle) -> Mask:
    """Whether a motor is at a limit of its command, (k,)."""
    commands = vehicle.true("control", *(str(i) for i in range(vehicle.rotors)))
    armed = vehicle.true("armed") > 0
    # The lower limit is a negative command where a motor turns both ways.
    low = -AT_LIMIT if (commands < -0.01).any() else 1.0 - AT_LIMIT
    return np.asarray(armed & ((commands >= AT_LIMIT) | (commands <= low)).any(axis=1))


def _run_measures(run: RunRecord, closest: ClosestPair | None, limits: Limits) -> list[Measure]:
    values: dict[str, float] = {}
    formation: JsonObject = run.formation
    for name, keys in (
        ("slot_error_steady", ("true_worst_slot_error_steady_m", "worst_slot_error_steady_m")),
        ("slot_error_settled", ("true_worst_slot_error_settled_m", "worst_slot_error_settled_m")),
        ("separation", ("true_least_separation_m", "least_separation_m")),
    ):
        known = [formation[key] for key in keys if isinstance(formation.get(key), int | float)]
        if known:
            values[name] = float(known[0])
    if closest is not None:
        values["separation"] = closest.distance
    count = run.summary.get("collision_count")
    if isinstance(count, int):
        values["collisions"] = count
    for source in (run.summary, *(run.of_vehicle(v.name) for v in run.vehicles[:1])):
        simulated, wall = source.get("simulated_seconds"), source.get("wall_seconds")
        if isinstance(simulated, int | float) and isinstance(wall, int | float) and wall > 0:
            values["real_time_factor"] = simulated / wall
    return make_measures(values, limits)


def fleet_positions(run: RunRecord, rate: float) -> tuple[Floats, Floats] | None:
    """Time (k,) s and true positions (k, n, 3) m NED of a fleet; None for fewer than two vehicles."""
    known = [v for v in run.vehicles if v.rows is not None]
    tracks = run.tracks or {}
    if not known and {"time", "position"} <= tracks.keys() and tracks["position"].shape[1] > 1:
        return np.asarray(tracks["time"]), np.asarray(tracks["position"], np.float64)
    if len(known) < 2 or known[0].rows is None or len(known[0].rows) < 2:
        return None
    time = known[0].time
    every = max(1, round(1.0 / rate / max(float(np.median(np.diff(time))), 1e-6)))
    position = np.stack(
        [v.true("position", "north", "east", "down")[::every] for v in known],
        axis=1,
    )
    return time[::every], position


DELTA = 1.0
"""s of flight between the two poses of a relative error."""
MOST_POSES = 100_000
"""Poses that are compared, evenly chosen of those of a long flight: an hour has 90,000 at 25 Hz."""


def estimate_pose_errors(vehicle: RecordedVehicle) -> Comparison | None:
    """Errors in flight, the estimate aligned with the truth (SE(3)); None without an estimate or a truth."""
    flight = vehicle.flight()
    position = vehicle.logged_fields("vehicle_local_position", "x", "y", "z")
    attitude = vehicle.logged_fields("vehicle_attitude", *(f"q[{k}]" for k in range(4)))
    if flight is None or position is None or attitude is None or len(vehicle.time) < 2:
        return None
    (time, place), (turning, turned) = position, attitude
    if len(turning) < 2:
        return None
    begin = max(flight[0], float(vehicle.time[0]), float(turning[0]))
    end = min(flight[1], float(vehicle.time[-1]), float(turning[-1]))
    inside = np.flatnonzero((time >= begin) & (time <= end))
    inside = inside[:: max(1, len(inside) // MOST_POSES)]
    time, place = time[inside], place[inside]
    if len(time) < 3:
        return None
    if not np.any(turned, axis=1).all():
        return None  # of a damaged log
    estimate = PoseTrajectory(time, place + vehicle.to_world, _nearest(time, turning, turned))
    known = PoseTrajectory(
        time,
        interpolate(time, vehicle.time, vehicle.true("position", "north", "east", "down")),
        _nearest(time, vehicle.time, vehicle.true("attitude", "w", "x", "y", "z")),
    )
    try:
        return compare(estimate, known, how="se3", delta=DELTA, unit="s", all_pairs=True)
    except UserError:
        return None  # a vehicle that hardly moves cannot be aligned


def _nearest(time: Floats, known: Floats, quaternions: Floats) -> Floats:
    """(k, 3, 3) of the w, x, y, z that are nearest to some times."""
    after = np.clip(np.searchsorted(known, time), 1, len(known) - 1)
    index = np.where(time - known[after - 1] < known[after] - time, after - 1, after)
    found = quaternions[index]
    return matrix_from_quaternion(found / np.linalg.norm(found, axis=-1, keepdims=True))
