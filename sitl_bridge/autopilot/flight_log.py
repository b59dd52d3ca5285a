"""The flight log of the built-in stack: a ULog with PX4's topics, which all tools for PX4's logs can read.

The log names the stack that flew: ``sys_name`` is not PX4.
"""

from __future__ import annotations

import math
from pathlib import Path

from sitl_bridge.autopilot.control.records import USER
from sitl_bridge.autopilot.estimate_log import INERTIAL, EstimateLog
from sitl_bridge.autopilot.modes.position_target import IDLE
from sitl_bridge.autopilot.records import (
    LEVEL_ATTITUDE,
    LEVEL_RATES,
    TRAJECTORY,
)
from sitl_bridge.autopilot.topic_log import LogSources, TopicLog, named
from sitl_bridge.record.topic_memory import TopicMemory

NAME = "sitl-bridge built-in flight stack"

SLOW = 5
"""Updates between samples of what changes slowly: battery, home, biases."""

_ARMED, _DISARMED = 2, 1
"""VehicleStatus.msg, arming_state."""

_ROTARY_WING = 1
"""VehicleStatus.msg, vehicle_type."""

_STICKS = 2
"""ManualControlSetpoint.msg, SOURCE_MAVLINK_0."""


class StackLog:
    """Logs one vehicle, at every update of its commander.

    Args:
        path: of the file, in a directory that exists; or the memory that keeps some topics in its place.
        start: us.
        airframe: name of the vehicle.
        version: of this program.
        parameters: the stack's, by name.
        sources: what is logged.
    """

    def __init__(
        self,
        path: Path | TopicMemory,
        start: int,
        airframe: str,
        version: str,
        parameters: dict[str, int | float],
        sources: LogSources,
    ) -> None:
        info: dict[str, str | int] = {
            "sys_name": NAME,
            "ver_hw": "simulation",
            "ver_sw": version,
            "ver_sw_release": _release(version),
            "sys_autostart": airframe,
            "time_ref_utc": 0,
            "ver_data_format": 2,
        }
        topics = TopicLog(path, start, info, parameters)
        self._file, self._put = topics.file, topics.put
        self._commands = topics.keeps(
            "vehicle_attitude_setpoint",
            "vehicle_rates_setpoint",
            "vehicle_thrust_setpoint",
            "vehicle_torque_setpoint",
        )
        self._actuators = topics.keeps("actuator_outputs", "actuator_motors")
        self._slow = topics.keeps("battery_status", "home_position", "estimator_sensor_bias")
        self._estimate_log = EstimateLog(topics, sources)
        self._sources = sources
        self._parameters = dict(parameters)
        self._version = -1
        self._now = start
        self._count = 0
        self._discharged = 0.0  # mAh
        self._target: tuple[object, ...] = ()

    def say(self, severity: int, text: str) -> None:
        """Log a status text at the time of the last samples."""
        self._file.say(self._now, severity, text)

    def write(self, now: int) -> None:
        """One sample of everything at ``now`` (us)."""
        seconds, self._now = (now - self._now) * 1e-6, now
        slow = self._count % SLOW == 0
        self._count += 1
        self._estimate_log.write(now)
        self._write_setpoints(now)
        if self._actuators:
            self._write_actuators(now)
        self._write_target(now)
        self._write_manual_control(now)
        self._discharged += max(_finite(self._sources.commander.battery_state.current), 0.0) * seconds / 3.6
        self._write_status(now)
        if slow and self._slow:
            self._write_slow(now)
        if slow:
            self._write_parameters()
        self._file.flush()

    def close(self) -> None:
        """Finish the file."""
        self._file.close()

    # ------------------------------------------------------------------ setpoints and outputs

    def _write_setpoints(self, now: int) -> None:
        s = self._sources
        setpoint, controller = s.setpoint, s.controller
        level = int(setpoint["level"])
        if level == TRAJECTORY:
            vectors = {name: setpoint[name].tolist() for name in ("position", "velocity", "acceleration")}
            turn = {"yaw": float(setpoint["yaw"]), "yawspeed": float(setpoint["yaw_rate"])}
            self._put("trajectory_setpoint", now, **vectors, **turn)
            self._put(
                "vehicle_local_position_setpoint",
                now,
                **named(("x", "y", "z"), vectors["position"]),
                **named(("vx", "vy", "vz"), vectors["velocity"]),
                acceleration=vectors["acceleration"],
                **turn,
            )
        if not self._commands:
            return
        thrust = float(s.wrench["thrust"]) / s.full_thrust
        own = int(controller["kind"]) == USER
        if level == LEVEL_ATTITUDE or (level == TRAJECTORY and not own):
            given = level == LEVEL_ATTITUDE
            q = (setpoint["attitude"] if given else controller["q_d"]).tolist()
            rate = float(setpoint["yaw_rate"] if given else controller["yaw_rate_d"])
            lift = float(setpoint["thrust"]) if given else thrust
            body = (0.0, 0.0, -lift)
            self._put("vehicle_attitude_setpoint", now, q_d=q, yaw_sp_move_rate=rate, thrust_body=body)
        if level >= TRAJECTORY and not (own and level != LEVEL_RATES):
            rates = (setpoint["angular_velocity"] if level == LEVEL_RATES else controller["Omega_d"]).tolist()
            names = ("roll", "pitch", "yaw")
            body = (0.0, 0.0, -thrust)
            self._put("vehicle_rates_setpoint", now, **named(names, rates), thrust_body=body)
        moment = s.wrench["moment"].tolist()
        shares = [m / full if full > 0.0 else 0.0 for m, full in zip(moment, s.full_moment, strict=True)]
        self._put("vehicle_thrust_setpoint", now, xyz=(0.0, 0.0, -thrust))
        self._put("vehicle_torque_setpoint", now, xyz=shares)

    def _write_actuators(self, now: int) -> None:
        controls = self._sources.controls.tolist()
        count = self._sources.commander.facts.motors
        self._put("actuator_outputs", now, noutputs=count, output=controls)
        self._put("actuator_motors", now, control=controls[:count])

    def _write_target(self, now: int) -> None:
        """Where the leg begins and ends, whenever that changes."""
        commander = self._sources.commander
        target, projection = commander.navigator.target, commander.state.projection
        there = (target.kind, target.before, target.x, target.y, target.z)
        if there == self._target:
            return
        self._target = there
        if projection is None or target.kind == IDLE:
            return
        ends = {"previous": target.before, "current": (target.x, target.y, target.z)}
        values: dict[str, float] = {}
        for name, end in ends.items():
            if end is not None:
                latitude, longitude = projection.point(end[0], end[1])
                values[f"{name}__lat"], values[f"{name}__lon"] = latitude, longitude
                values[f"{name}__alt"] = projection.altitude(end[2])
                values[f"{name}__valid"] = True
        self._put("position_setpoint_triplet", now, **values)

    def _write_manual_control(self, now: int) -> None:
        sticks = self._sources.commander.sticks
        if sticks.time < 0:
            return
        self._put(
            "manual_control_setpoint",
            now,
            valid=True,
            data_source=_STICKS,
            roll=sticks.roll,
            pitch=sticks.pitch,
            yaw=sticks.yaw,
            throttle=2.0 * sticks.throttle - 1.0,
        )

    # ------------------------------------------------------------------ status

    def _write_status(self, now: int) -> None:
        commander = self._sources.commander
        landed = commander.landed_state == 1
        self._put(
            "vehicle_status",
            now,
            arming_state=_ARMED if commander.armed else _DISARMED,
            nav_state=commander.mode.nav_state,
            nav_state_user_intention=commander.intended.nav_state,
            vehicle_type=_ROTARY_WING,
            system_type=int(self._parameters.get("MAV_TYPE", 0)),
            system_id=1,
            component_id=1,
            failsafe=commander.failsafe is not None,
            pre_flight_checks_pass=not commander.arming_problems,
        )
        self._put(
            "vehicle_land_detected",
            now,
            landed=landed,
            maybe_landed=commander.land.maybe_landed,
            ground_contact=commander.land.ground_contact,
        )

    def _write_slow(self, now: int) -> None:
        commander, estimate = self._sources.commander, self._sources.estimate
        battery = commander.battery_state
        self._put(
            "battery_status",
            now,
            connected=battery.time >= 0,
            voltage_v=battery.voltage,
            current_a=battery.current,
            discharged_mah=self._discharged,
            remaining=battery.remaining,
            warning=battery.warning,
            id=1,
        )
        home, projection = commander.home, commander.state.projection
        if home is not None and projection is not None:
            x, y = projection.local(home[0], home[1])
            self._put(
                "home_position",
                now,
                **named(("lat", "lon", "alt"), home),
                **named(("x", "y", "z"), (x, y, projection.down(home[2]))),
                valid_alt=True,
                valid_hpos=True,
                valid_lpos=True,
            )
        self._put(
            "estimator_sensor_bias",
            now,
            gyro_device_id=INERTIAL,
            accel_device_id=INERTIAL,
            gyro_bias=estimate["gyroscope_bias"].tolist(),
            accel_bias=estimate["accelerometer_bias"].tolist(),
            gyro_bias_valid=True,
            accel_bias_valid=True,
        )

    def _write_parameters(self) -> None:
        """Parameters that have changed."""
        values = self._sources.commander.parameters
        if values.version == self._version:
            return
        self._version = values.version
        for name in values:
            value = values.get(name)
            if value != self._parameters[name]:
                self._parameters[name] = value
                self._file.parameter(name, value)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _release(version: str) -> int:
    """A version as PX4 packs it: major, minor, patch, and 255 for a release."""
    major, minor, patch = (int(part) for part in version.split("."))
    return major << 24 | minor << 16 | patch << 8 | 255
