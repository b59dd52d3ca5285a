"""A flight of a vehicle from its ULog: motor commands and measured motion, from PX4 v1.8 to today."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sitl_bridge.base.arrays import Columns, Floats, interpolate
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.world.world import Origin
from sitl_bridge.record.ulog_reader import FlightLog, columns, seconds

Tables = Mapping[tuple[str, int], Columns]

TOPICS = [
    "actuator_motors",
    "actuator_outputs",
    "battery_status",
    "esc_status",
    "sensor_combined",
    "vehicle_acceleration",
    "vehicle_angular_velocity",
    "vehicle_attitude",
    "vehicle_imu_status",
    "vehicle_land_detected",
    "vehicle_local_position",
    "wind",
    "wind_estimate",
]
PWM = (1000.0, 2000.0)
"""us; ends of PX4's simulated outputs, and of real ones without other parameters."""
DSHOT = (48.0, 2047.0)
UAVCAN = (0.0, 8191.0)
"""uavcan.equipment.esc.RawCommand: 14 bits with a sign; PX4 logs what it sends."""
STATUS, ARMED = {"vehicle_status": ("arming_state",)}, 2
"""VehicleStatus.msg"""
CUTOFFS = {"vehicle_angular_velocity": "IMU_GYRO_CUTOFF", "vehicle_acceleration": "IMU_ACCEL_CUTOFF"}
"""Parameters with the Hz of PX4's low-pass filters, by the topic that they filter."""
TOO_SELDOM = (
    "motor commands or angular rates were logged too seldom; PX4 logs them fast enough with bit 4 (high rate)"
    " of SDLOG_PROFILE"
)
"""Why rotation is not simulated."""
SIMULATED = "PX4_SITL"
"""Hardware by which PX4 in simulation names itself."""
FIRST_MOTOR = 101
"""Output function Motor 1 (mixer_module/output_functions.yaml)."""


@dataclass(frozen=True)
class Series:
    """Values at times in s on the log's clock, ascending."""

    time: Floats
    values: Floats

    def at(self, time: Floats) -> Floats:
        """(k, c) linear between samples, the first and last value beyond."""
        return interpolate(time, self.time, self.values)

    @property
    def rate(self) -> float:
        """Hz, by the median interval."""
        return 1.0 / float(np.median(np.diff(self.time))) if len(self.time) > 1 else 0.0


@dataclass(frozen=True)
class VehicleLog:
    """Flight of a multirotor as a ULog has it."""

    source: str  # of the motor commands: topic and how they were scaled
    commands: Series  # (k, m) signals 0..1 of the motors in PX4's order
    attitude: Series  # (k, 4) w, x, y, z
    rates: Series  # (k, 3) rad/s body
    acceleration: Series  # (k, 3) m/s^2 body, specific force
    # position, velocity: (k, 3) m, m/s NED
    position: Series
    velocity: Series
    wind: Series | None  # (k, 2) m/s north, east as PX4 estimated it; None without
    voltage: Series | None  # (k, 1) V of the battery; None without
    current: Series | None  # (k, 1) A from the battery, at the times of its voltage; None without
    speeds: Series | None  # (k, m) rad/s of the rotors as the speed controllers reported them; None without
    airborne: tuple[tuple[float, float], ...]  # (begin, end) in s of the flights
    # deg, deg and m AMSL of the local frame; that of PX4's simulators without
    origin: tuple[float, float, float]
    damaged: bool  # whether the file was damaged, and only read as far as it goes


def read_vehicle_log(path: Path, motors: int, *, whole: bool = False) -> VehicleLog:
    """Read what a replay needs.

    Args:
        path: of the ULog; one that ends early or is damaged is read as far as it goes.
        motors: of the airframe.
        whole: refuse a damaged file.

    Raises:
        UserError: if the file is no ULog, is damaged, or lacks a topic.
    """
    log = FlightLog.read(path, {**dict.fromkeys(TOPICS, ()), **STATUS}, whole=whole)
    try:
        tables = {key: table for key, table in log.columns.items() if len(table["timestamp"]) > 1}
        return _read(path, log, tables, motors)
    except KeyError as error:
        raise UserError(f"{path}: has no field {error}, which the replay needs") from error


def _read(path: Path, log: FlightLog, tables: Tables, motors: int) -> VehicleLog:
    needed = "which the replay needs" + "; the file is damaged" * log.damaged

    def fastest(*choices: tuple[str, str]) -> Series:
        """Columns by a pattern of the topic with the highest rate; of like rates, the first."""
        found = []
        for topic, pattern in choices:
            table = tables.get((topic, 0))
            if table is not None and (names := _match(table, pattern)):
                found.append(_series(table, names, _sample_time(log, tables, topic, names[0])))
        if not found:
            topics = " or ".join(dict.fromkeys(topic for topic, _ in choices))
            raise UserError(f"{path}: topic {topics} is missing, {needed}")
        return max(found, key=lambda series: round(series.rate, -1))

    voltage, current = _battery(tables)
    source, commands = _commands(path, log, tables, motors)
    if ("vehicle_land_detected", 0) not in tables:
        raise UserError(f"{path}: topic vehicle_land_detected is missing, {needed}")
    wind = next((tables[name, 0] for name in ("wind", "wind_estimate") if (name, 0) in tables), None)
    return VehicleLog(
        source=source,
        commands=commands,
        attitude=fastest(("vehicle_attitude", r"q\[\d\]")),
        rates=fastest(
            ("sensor_combined", r"gyro_rad\[\d\]"),
            ("vehicle_angular_velocity", r"xyz\[\d\]"),
            ("vehicle_attitude", r"(roll|pitch|yaw)speed"),
        ),
        acceleration=fastest(
            ("sensor_combined", r"accelerometer_m_s2\[\d\]"), ("vehicle_acceleration", r"xyz\[\d\]")
        ),
        position=fastest(("vehicle_local_position", r"[xyz]")),
        velocity=fastest(("vehicle_local_position", r"v[xyz]")),
        wind=None if wind is None else _series(wind, ["windspeed_north", "windspeed_east"]),
        voltage=voltage,
        current=current,
        speeds=_speeds(log, tables, motors),
        airborne=tuple(log.air_times()),
        origin=_origin(tables["vehicle_local_position", 0]),
        damaged=log.damaged,
    )


def _match(table: Columns, pattern: str) -> list[str]:
    names = [name for name in table if re.fullmatch(pattern, name)]
    order = {"rollspeed": 0, "pitchspeed": 1, "yawspeed": 2}
    return sorted(names, key=lambda name: (order.get(name, 0), name))


def _sample_time(log: FlightLog, tables: Tables, topic: str, column: str) -> Floats:
    """Times in s that the values of a topic are about.

    Samples of sensor_combined are means of the interval that ends at the timestamp, by the trapezoidal rule,
    of samples that are such means themselves (vehicle_imu, PX4Gyroscope::updateFIFO).  The other inertial
    topics are low-pass filtered; a Butterworth filter of second order delays by sqrt(2)/(2 pi f).
    """
    table = tables[topic, 0]
    time = seconds(table)
    if "timestamp_sample" in table:
        sampled = np.asarray(table["timestamp_sample"], np.float64) * 1e-6
        time = np.where((sampled > 0.0) & (sampled <= time), sampled, time)
    kind = {"gyro": "gyro", "accelerometer": "accel"}.get(column.split("_")[0])
    if kind is not None:
        length = np.asarray(table.get(f"{column.split('_')[0]}_integral_dt", 0.0), np.float64)
        length = np.where(length > 1.0, length * 1e-6, length)  # us, or s before v1.7
        rates = np.asarray(tables.get(("vehicle_imu_status", 0), {}).get(f"{kind}_rate_hz", ()), np.float64)
        rates = rates[np.isfinite(rates) & (rates > 1.0)]
        return np.asarray(time - 0.5 * length - (0.5 / np.median(rates) if len(rates) else 0.0))
    cutoff = log.parameters.get(CUTOFFS.get(topic, ""), 0.0)
    return time - (math.sqrt(0.5) / (math.pi * cutoff) if cutoff > 0.0 else 0.0)


def _battery(tables: Tables) -> tuple[Series | None, Series | None]:
    """Voltage and current; PX4 writes -1 A where nothing measures it (msg/BatteryStatus.msg)."""
    table = tables.get(("battery_status", 0))
    if table is None or "voltage_v" not in table:
        return None, None
    voltage = _series(table, ["voltage_v"])
    good = voltage.values[:, 0] > 1.0
    if not good.any():
        return None, None
    voltage = Series(voltage.time[good], voltage.values[good])
    if "current_a" not in table:
        return voltage, None
    current = _series(table, ["current_a"]).values[good]
    return voltage, Series(voltage.time, current) if current.min() >= 0.0 else None


def _speeds(log: FlightLog, tables: Tables, motors: int) -> Series | None:
    """Rotor speeds in the order of the motors (esc[i].actuator_function, else esc[i]).

    PX4 in simulation invents them: rpm = 6000 times the command (SimulatorMavlink::send_esc_telemetry), or
    rad/s in their place (GZMixingInterfaceESC).
    """
    table = tables.get(("esc_status", 0))
    if table is None or log.info.get("ver_hw") == SIMULATED:
        return None
    places = {}
    for k in range(8):
        function = np.asarray(table.get(f"esc[{k}].actuator_function", np.zeros(1)))
        if 0 <= (motor := int(function[-1]) - FIRST_MOTOR) < 12:
            places[motor] = k
    names = [f"esc[{places.get(i, i) if places else i}].esc_rpm" for i in range(motors)]
    if any(name not in table for name in names):
        return None
    series = _series(table, names)
    turning = np.abs(series.values) * (math.pi / 30.0)
    return Series(series.time, turning) if len(series.time) > 1 and turning.max(axis=0).min() > 0.0 else None


def _series(table: Columns, names: list[str], time: Floats | None = None) -> Series:
    """Columns of a topic without the rows that are not finite or not later than the row before."""
    time = seconds(table) if time is None else time
    values = columns(table, *names)
    good = np.isfinite(values).all(axis=1) & (np.diff(time, prepend=-math.inf) > 0.0)
    return Series(time[good], values[good])


def _origin(table: Columns) -> tuple[float, float, float]:
    """Origin of the local frame, the last of those that are known and on Earth."""
    home = Origin()
    if "ref_lat" not in table:
        return home.latitude, home.longitude, home.altitude
    place = columns(table, "ref_lat", "ref_lon", "ref_alt").T
    on_earth = (np.abs(place) <= [[90.0], [180.0], [9000.0]]).all(axis=0)
    known = np.flatnonzero(on_earth & (np.abs(place[:2]) > 0.0).any(axis=0))
    if not len(known):
        return home.latitude, home.longitude, home.altitude
    latitude, longitude, altitude = place[:, known[-1]].tolist()
    return latitude, longitude, altitude


def _commands(path: Path, log: FlightLog, tables: Tables, motors: int) -> tuple[str, Series]:
    """The motors' signals from the topic with the higher rate."""
    found: list[tuple[float, str, Series]] = []
    table = tables.get(("actuator_motors", 0))
    if table is not None and np.isfinite(table.get(f"control[{motors - 1}]", np.full(1, math.nan))).any():
        series = _series_of_motors(table, [f"control[{i}]" for i in range(motors)])
        factor = float(log.parameters.get("THR_MDL_FAC", 0.0))
        signals = Series(series.time, motor_signal(np.clip(series.values, 0.0, 1.0), factor))
        found.append((signals.rate, f"actuator_motors, THR_MDL_FAC {factor:g}", signals))
    for (name, instance), outputs in tables.items():
        if name == "actuator_outputs":
            made = signals_of(log.parameters, outputs, instance, motors)
            if made is not None:
                found.append((made[1].rate, *made))
    if not found and any(name == "actuator_outputs" for name, _ in tables):
        status = log.topic("vehicle_status")
        if status is not None and "arming_state" in status and not (status["arming_state"] == ARMED).any():
            raise UserError(f"{path}: the vehicle was never armed, so there is no flight in it")
        raise UserError(
            f"{path}: its motors never turned, or it has no outputs of {motors} motors: check --airframe"
        )
    if not found:
        raise UserError(
            f"{path}: no motor commands of {motors} motors: neither actuator_motors nor actuator_outputs has"
            " them; check --airframe"
        )
    _, source, signals = max(found, key=lambda entry: entry[0])
    return source, signals


def _series_of_motors(table: Columns, names: list[str]) -> Series:
    """Commands; nan is PX4's word for a stopped motor."""
    return _series({**table, **{n: np.nan_to_num(np.asarray(table[n], np.float64)) for n in names}}, names)


def motor_signal(thrust: Floats, factor: float) -> Floats:
    """The signal of a thrust, both 0..1: thrust = f s^2 + (1 - f) s (PX4, mixer_module, THR_MDL_FAC)."""
    if factor <= 0.0:
        return thrust
    rest = 1.0 - factor
    return np.asarray((-rest + np.sqrt(rest * rest + 4.0 * factor * thrust)) / (2.0 * factor))


def signals_of(
    parameters: Mapping[str, float], table: Columns, instance: int, motors: int
) -> tuple[str, Series] | None:
    """Signals from one instance of actuator_outputs; None if its motors do not turn.

    Outputs are assigned to motors by PWM_MAIN_FUNCn and PWM_AUX_FUNCn (from v1.13), before in their order.
    """
    count = sum(1 for name in table if re.fullmatch(r"output\[\d+\]", name))
    prefix = "PWM_AUX" if instance > 0 and _places(parameters, "PWM_AUX", count) else "PWM_MAIN"
    places = _places(parameters, prefix, count) or {k: k for k in range(min(motors, count))}
    if set(range(motors)) - places.keys():
        return None
    names = [f"output[{places[k]}]" for k in range(motors)]
    series = _series_of_motors(table, names)
    if not len(series.time) or float(np.ptp(series.values, axis=0).min()) < 1e-6:
        return None  # a motor in flight is never driven evenly; a gimbal's or a lamp's outputs are
    scale, read = _scale(float(series.values.max()), parameters, prefix)
    ends = np.array([read(places[k]) for k in range(motors)])
    signals = np.clip((series.values - ends[:, 0]) / (ends[:, 1] - ends[:, 0]), 0.0, 1.0)
    return f"actuator_outputs {instance}, {scale}", Series(series.time, signals)


def _places(parameters: Mapping[str, float], prefix: str, count: int) -> dict[int, int]:
    """Output by motor."""
    found = {}
    for k in range(count):
        function = int(parameters.get(f"{prefix}_FUNC{k + 1}", 0)) - FIRST_MOTOR
        if 0 <= function < 12:
            found[function] = k
    return found


def _scale(
    largest: float, parameters: Mapping[str, float], prefix: str
) -> tuple[str, Callable[[int], tuple[float, float]]]:
    """Scale of outputs, and the ends of one of them, by the largest value of all."""
    if largest <= 1.0:
        return "0 to 1", lambda _: (0.0, 1.0)
    if largest <= 900.0:
        return "0 to 1000", lambda _: (0.0, 1000.0)

    def ends(k: int) -> tuple[float, float]:
        low = parameters.get(f"{prefix}_MIN{k + 1}", parameters.get("PWM_MIN", PWM[0]))
        high = parameters.get(f"{prefix}_MAX{k + 1}", parameters.get("PWM_MAX", PWM[1]))
        return (float(low), float(high)) if high > low else PWM

    if largest <= 2.2e3 and (f"{prefix}_MIN1" in parameters or "DSHOT_CONFIG" not in parameters):
        return "PWM", ends
    return ("UAVCAN", lambda _: UAVCAN) if largest > DSHOT[1] else ("DShot", lambda _: DSHOT)
