"""The flight log of the built-in stack: a ULog with PX4's topics, which all tools for PX4's logs can read.

The log names the stack that flew: ``sys_name`` is not PX4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from sitl_bridge import __version__
from sitl_bridge.autopilot import records
from sitl_bridge.autopilot.commander import Commander
from sitl_bridge.autopilot.control.records import USER
from sitl_bridge.autopilot.modes.position_target import IDLE
from sitl_bridge.autopilot.process import LOG_ENDED
from sitl_bridge.autopilot.topic_log import Row, formats, name_values, topics
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.record import Packed
from sitl_bridge.base.rotations import heading
from sitl_bridge.core.world.atmosphere import pressure_altitude
from sitl_bridge.core.world.geography import Projection
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.record.topic_memory import TopicMemory
from sitl_bridge.record.ulog_writer import UlogWriter

GAUSS = 1e4
"""One tesla."""

INERTIAL, _MAGNETOMETER, _BAROMETER, _RECEIVER, _RANGE_FINDER = 1310988, 197388, 6620172, 11468804, 1
"""Device ids, those of PX4's simulated sensors."""


NAME = "sitl-bridge built-in flight stack"

SLOW = 5
"""Updates between samples of what changes slowly: battery, home, biases."""

_ARMED, _DISARMED = 2, 1
"""VehicleStatus.msg, arming_state."""

_ROTARY_WING = 1
"""VehicleStatus.msg, vehicle_type."""

_STICKS = 2
"""ManualControlSetpoint.msg, SOURCE_MAVLINK_0."""


class LoggedStack(Protocol):
    """What the log reads of a vehicle's stack, and never writes."""

    commander: Commander
    estimate: Packed  # () ESTIMATE
    setpoint: Packed  # () SETPOINT
    reader: Packed  # () READER
    controller: Packed  # () CONTROLLER
    wrench: Packed  # () WRENCH
    controls: Floats  # (16,) motor commands
    full_thrust: float  # N, all rotors at full command
    full_moment: list[float]  # (3,) N m, the greatest about each body axis


class StackLog:
    """Logs one vehicle, at every update of its commander.

    Args:
        path: of the file, in a directory that exists; or the memory that keeps some topics in its place.
        start: us.
        airframe: its name.
        stack: the vehicle's, which pilot.py is.
    """

    def __init__(self, path: Path | TopicMemory, start: int, airframe: str, stack: LoggedStack) -> None:
        self._parameters = dict(stack.commander.parameters.values)
        info: dict[str, str | int] = {
            "sys_name": NAME,
            "ver_hw": "simulation",
            "ver_sw": __version__,
            "ver_sw_release": _release(__version__),
            "sys_autostart": airframe,
            "time_ref_utc": 0,
            "ver_data_format": 2,
        }
        self._file: UlogWriter | TopicMemory
        if isinstance(path, TopicMemory):
            self._file, kept = path, path.topics
        else:
            self._file = UlogWriter(path, start, formats(), topics(), info, self._parameters, _report_end)
            kept = topics()
        self._rows = {topic: Row(topic) for topic in kept}
        self._commands = self._keeps(
            "vehicle_attitude_setpoint",
            "vehicle_rates_setpoint",
            "vehicle_thrust_setpoint",
            "vehicle_torque_setpoint",
        )
        self._sensors = self._keeps(
            "sensor_combined",
            "vehicle_acceleration",
            "sensor_baro",
            "vehicle_air_data",
            "vehicle_magnetometer",
            "sensor_gps",
            "vehicle_gps_position",
        )
        self._global_position = self._keeps("vehicle_global_position")
        self._innovations = self._keeps("estimator_innovations", "estimator_innovation_variances")
        self._local_setpoint = self._keeps("vehicle_local_position_setpoint")
        self._actuators = self._keeps("actuator_outputs", "actuator_motors")
        self._slow = self._keeps("battery_status", "home_position", "estimator_sensor_bias")
        self._stack = stack
        self._version = -1
        self._now = start
        self._count = 0
        self._discharged = 0.0  # mAh
        self._target: tuple[object, ...] = ()
        self._rejected: list[int] = []
        self._gps_time = 0
        self._truth_time = 0
        self._truth_frame: Projection | None = None
        self._truth_origin: dict[str, float] = {}

    def _keeps(self, *names: str) -> bool:
        """Whether samples of any of these topics are kept."""
        return any(name in self._rows for name in names)

    def _put(self, topic: str, now: int, **values: float | Sequence[float]) -> None:
        """Write a sample of a topic that is kept; a dot in a field's name is given as two underscores."""
        row = self._rows.get(topic)
        if row is None:
            return
        flat = row.unknown.copy()
        for name, value in values.items():
            at = row.place[name]
            if isinstance(value, (int, float)):
                flat[at] = value
            else:
                flat[at : at + len(value)] = value
        if row.sampled is not None:
            flat[row.sampled] = now
        self._file.write(topic, now, *flat)

    def say(self, severity: int, text: str) -> None:
        """Log a status text at the time of the last samples."""
        self._file.say(self._now, severity, text)

    def write(self, now: int) -> None:
        """One sample of everything at ``now`` (us)."""
        seconds, self._now = (now - self._now) * 1e-6, now
        slow = self._count % SLOW == 0
        self._count += 1
        self._write_motion(now)
        if self._sensors:
            self._write_sensors(now)
        self._write_range(now)
        if self._sensors:
            self._write_gps(now)
        self._write_estimator(now)
        self._write_truth(now)
        self._write_setpoints(now)
        if self._actuators:
            self._write_actuators(now)
        self._write_target(now)
        self._write_manual_control(now)
        self._discharged += max(_finite(self._stack.commander.battery_state.current), 0.0) * seconds / 3.6
        self._write_status(now)
        if slow and self._slow:
            self._write_slow(now)
        if slow:
            self._write_parameters()
        self._file.flush()

    def close(self) -> None:
        """Finish the file."""
        self._file.close()

    # ------------------------------------------------------------------ motion and sensors

    def _write_motion(self, now: int) -> None:
        estimate = self._stack.estimate
        valid = int(estimate["valid"])
        latitude, longitude, altitude = estimate["origin"].tolist()
        known = bool(valid & records.GLOBAL)
        q = estimate["attitude"].tolist()
        position, velocity = estimate["position"].tolist(), estimate["velocity"].tolist()
        acceleration = estimate["acceleration"].tolist()
        north, east, down = estimate["position_deviation"].tolist()
        v_north, v_east, v_down = estimate["velocity_deviation"].tolist()
        ground = bool(valid & records.ABOVE_GROUND)
        horizontal, height = bool(valid & records.POSITION), bool(valid & records.HEIGHT)
        eph = math.hypot(north, east)
        self._put(
            "vehicle_local_position",
            now,
            **name_values(("x", "y", "z"), position),
            **name_values(("vx", "vy", "vz"), velocity),
            **name_values(("ax", "ay", "az"), acceleration),
            z_deriv=velocity[2],
            heading=heading(*q),
            heading_good_for_control=bool(valid & records.HEADING),
            ref_lat=math.degrees(latitude) if known else math.nan,
            ref_lon=math.degrees(longitude) if known else math.nan,
            ref_alt=altitude if known else math.nan,
            ref_timestamp=now if known else 0,
            dist_bottom=float(estimate["height_above_ground"]),
            dist_bottom_valid=ground,
            xy_valid=horizontal,
            z_valid=height,
            v_xy_valid=bool(valid & records.VELOCITY),
            v_z_valid=height,
            xy_global=known,
            z_global=known,
            eph=eph,
            epv=down,
            evh=math.hypot(v_north, v_east),
            evv=v_down,
        )
        self._put("vehicle_attitude", now, q=q)
        self._put("vehicle_angular_velocity", now, xyz=estimate["angular_velocity"].tolist())
        projection = self._stack.commander.state.projection
        if known and projection is not None and self._global_position:
            here = projection.point(position[0], position[1])
            self._put(
                "vehicle_global_position",
                now,
                lat=here[0],
                lon=here[1],
                alt=projection.altitude(position[2]),
                lat_lon_valid=horizontal,
                alt_valid=height,
                eph=eph,
                epv=down,
            )

    def _write_sensors(self, now: int) -> None:
        m = self._stack.reader["measurement"]
        bias = self._stack.estimate["accelerometer_bias"].tolist()
        force = m["accelerometer"].tolist()
        self._put(
            "sensor_combined",
            now,
            gyro_rad=m["gyroscope"].tolist(),
            accelerometer_m_s2=force,
        )
        self._put("vehicle_acceleration", now, xyz=[f - b for f, b in zip(force, bias, strict=True)])
        pressure = float(m["pressure"])
        if pressure > 0.0:
            self._put("sensor_baro", now, device_id=_BAROMETER, pressure=pressure)
            self._put(
                "vehicle_air_data",
                now,
                baro_device_id=_BAROMETER,
                baro_alt_meter=pressure_altitude(pressure),
                baro_pressure_pa=pressure,
            )
        field = [GAUSS * x for x in m["magnetometer"].tolist()]
        if any(field):
            self._put("vehicle_magnetometer", now, device_id=_MAGNETOMETER, magnetometer_ga=field)

    def _write_range(self, now: int) -> None:
        distance = float(self._stack.reader["measurement"]["range"])
        if math.isfinite(distance) and "range_finder" in self._stack.commander.facts.sensors:
            self._put(
                "distance_sensor",
                now,
                device_id=_RANGE_FINDER,
                current_distance=distance,
                orientation=25,
                signal_quality=-1,
            )

    def _write_gps(self, now: int) -> None:
        m = self._stack.reader["measurement"]
        if int(m["gps_time"]) == self._gps_time:
            return
        self._gps_time = int(m["gps_time"])
        north, east, down = m["gps_velocity"].tolist()
        eph, epv = float(m["eph"]), float(m["epv"])
        for topic in ("sensor_gps", "vehicle_gps_position"):
            self._put(
                topic,
                now,
                device_id=_RECEIVER,
                latitude_deg=math.degrees(float(m["latitude"])),
                longitude_deg=math.degrees(float(m["longitude"])),
                altitude_msl_m=float(m["altitude"]),
                altitude_ellipsoid_m=float(m["altitude"]),
                fix_type=int(m["fix"]),
                eph=eph,
                epv=epv,
                hdop=eph,
                vdop=epv,
                vel_m_s=math.hypot(north, east),
                vel_n_m_s=north,
                vel_e_m_s=east,
                vel_d_m_s=down,
                cog_rad=math.atan2(east, north),
                vel_ned_valid=True,
                satellites_used=int(m["satellites"]),
            )

    # ------------------------------------------------------------------ the estimator

    def _write_estimator(self, now: int) -> None:
        estimate = self._stack.estimate
        ratio = [math.sqrt(max(x, 0.0)) for x in estimate["test_ratio"].tolist()]
        north, east, down = estimate["position_deviation"].tolist()
        self._put(
            "estimator_status",
            now,
            hdg_test_ratio=ratio[records.MAGNETIC_HEADING],
            vel_test_ratio=ratio[records.GPS_VELOCITY],
            pos_test_ratio=ratio[records.GPS_POSITION],
            hgt_test_ratio=ratio[records.BARO_HEIGHT],
            tas_test_ratio=0.0,
            hagl_test_ratio=ratio[records.RANGE_HEIGHT],
            beta_test_ratio=0.0,
            pos_horiz_accuracy=math.hypot(north, east),
            pos_vert_accuracy=down,
            output_tracking_error=(0.0, 0.0, 0.0),
            accel_device_id=INERTIAL,
            gyro_device_id=INERTIAL,
            baro_device_id=_BAROMETER,
            mag_device_id=_MAGNETOMETER,
        )
        self._write_flags(now, estimate)
        if self._innovations:
            self._put("estimator_innovations", now, **_by_source(estimate["innovation"].tolist()))
            variances = _by_source(estimate["innovation_variance"].tolist())
            self._put("estimator_innovation_variances", now, **variances)
        states = estimate["attitude"].tolist() + estimate["velocity"].tolist() + estimate["position"].tolist()
        states += estimate["gyroscope_bias"].tolist() + estimate["accelerometer_bias"].tolist()
        states += [0.0] * (
            25 - len(states)
        )  # the Earth's field and the magnetometer's bias are not estimated
        self._put("estimator_states", now, states=states, n_states=16)

    def _write_flags(self, now: int, estimate: Packed) -> None:
        valid = int(estimate["valid"])
        fused = [count > 0 for count in estimate["fused"].tolist()]
        rejected = estimate["rejected"].tolist()
        before = self._rejected or rejected
        fresh = [count > last for count, last in zip(rejected, before, strict=True)]
        self._rejected = rejected
        placed = fused[records.GPS_POSITION] and bool(valid & records.POSITION)
        self._put(
            "estimator_status_flags",
            now,
            cs_tilt_align=bool(valid & records.ATTITUDE),
            cs_yaw_align=bool(valid & records.HEADING),
            cs_gnss_pos=placed,
            cs_gnss_vel=fused[records.GPS_VELOCITY] and bool(valid & records.VELOCITY),
            cs_gps_hgt=placed,
            cs_baro_hgt=fused[records.BARO_HEIGHT],
            cs_rng_hgt=fused[records.RANGE_HEIGHT],
            cs_opt_flow=fused[records.FLOW_VELOCITY],
            cs_mag_hdg=fused[records.MAGNETIC_HEADING],
            cs_mag=fused[records.MAGNETIC_HEADING],
            cs_in_air=self._stack.commander.landed_state != mavlink.MAV_LANDED_STATE_ON_GROUND,
            reject_hor_vel=fresh[records.GPS_VELOCITY],
            reject_ver_vel=fresh[records.GPS_VELOCITY],
            reject_hor_pos=fresh[records.GPS_POSITION],
            reject_ver_pos=fresh[records.BARO_HEIGHT],
            reject_yaw=fresh[records.MAGNETIC_HEADING],
            reject_hagl=fresh[records.RANGE_HEIGHT],
            reject_optflow_x=fresh[records.FLOW_VELOCITY],
            reject_optflow_y=fresh[records.FLOW_VELOCITY],
        )

    # ------------------------------------------------------------------ the truth

    def _write_truth(self, now: int) -> None:
        reader = self._stack.reader
        time = int(reader["truth_time"])
        if time == self._truth_time:
            return
        self._truth_time = time
        place = reader["truth_position"].tolist()
        if self._truth_frame is None:
            latitude, longitude, altitude = place
            self._truth_frame = Projection.from_degrees(latitude, longitude, altitude)
            self._truth_origin = name_values(("ref_lat", "ref_lon", "ref_alt"), place)
        self._put(
            "vehicle_local_position_groundtruth",
            now,
            ref_timestamp=1,
            **self._truth_origin,
            **name_values(("x", "y", "z"), self._truth_frame.position(place)),
            **name_values(("vx", "vy", "vz"), reader["truth_velocity"].tolist()),
        )
        self._put("vehicle_global_position_groundtruth", now, **name_values(("lat", "lon", "alt"), place))

    # ------------------------------------------------------------------ setpoints and outputs

    def _write_setpoints(self, now: int) -> None:
        s = self._stack
        setpoint, controller = s.setpoint, s.controller
        level = int(setpoint["level"])
        if level == records.TRAJECTORY:
            vectors = {name: setpoint[name].tolist() for name in ("position", "velocity", "acceleration")}
            turn = {"yaw": float(setpoint["yaw"]), "yawspeed": float(setpoint["yaw_rate"])}
            self._put("trajectory_setpoint", now, **vectors, **turn)
            if self._local_setpoint:
                self._put(
                    "vehicle_local_position_setpoint",
                    now,
                    **name_values(("x", "y", "z"), vectors["position"]),
                    **name_values(("vx", "vy", "vz"), vectors["velocity"]),
                    acceleration=vectors["acceleration"],
                    **turn,
                )
        if not self._commands:
            return
        thrust = float(s.wrench["thrust"]) / s.full_thrust
        own = int(controller["kind"]) == USER
        if level == records.LEVEL_ATTITUDE or (level == records.TRAJECTORY and not own):
            given = level == records.LEVEL_ATTITUDE
            q = (setpoint["attitude"] if given else controller["q_d"]).tolist()
            rate = float(setpoint["yaw_rate"] if given else controller["yaw_rate_d"])
            lift = float(setpoint["thrust"]) if given else thrust
            body = (0.0, 0.0, -lift)
            self._put("vehicle_attitude_setpoint", now, q_d=q, yaw_sp_move_rate=rate, thrust_body=body)
        if level >= records.TRAJECTORY and not (own and level != records.LEVEL_RATES):
            rates = (
                setpoint["angular_velocity"] if level == records.LEVEL_RATES else controller["Omega_d"]
            ).tolist()
            names = ("roll", "pitch", "yaw")
            body = (0.0, 0.0, -thrust)
            self._put("vehicle_rates_setpoint", now, **name_values(names, rates), thrust_body=body)
        moment = s.wrench["moment"].tolist()
        shares = [m / full if full > 0.0 else 0.0 for m, full in zip(moment, s.full_moment, strict=True)]
        self._put("vehicle_thrust_setpoint", now, xyz=(0.0, 0.0, -thrust))
        self._put("vehicle_torque_setpoint", now, xyz=shares)

    def _write_actuators(self, now: int) -> None:
        controls = self._stack.controls.tolist()
        count = self._stack.commander.facts.motors
        self._put("actuator_outputs", now, noutputs=count, output=controls)
        self._put("actuator_motors", now, control=controls[:count])

    def _write_target(self, now: int) -> None:
        """Log the begin and end of the leg, whenever they change."""
        commander = self._stack.commander
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
        sticks = self._stack.commander.sticks
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
        commander = self._stack.commander
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
            landed=commander.landed_state == mavlink.MAV_LANDED_STATE_ON_GROUND,
            maybe_landed=commander.land.maybe_landed,
            ground_contact=commander.land.ground_contact,
        )

    def _write_slow(self, now: int) -> None:
        commander, estimate = self._stack.commander, self._stack.estimate
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
                **name_values(("lat", "lon", "alt"), home),
                **name_values(("x", "y", "z"), (x, y, projection.down_of_altitude(home[2]))),
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
        parameters = self._stack.commander.parameters
        if parameters.version == self._version:
            return
        self._version = parameters.version
        for name, value in parameters.values.items():
            if value != self._parameters[name]:
                self._parameters[name] = value
                self._file.parameter(name, value)


def _by_source(table: list[list[float]]) -> dict[str, float | list[float]]:
    """Innovations or their variances, by PX4's fields."""
    position, velocity = table[records.GPS_POSITION], table[records.GPS_VELOCITY]
    return {
        "gps_hpos": position[:2],
        "gps_vpos": position[2],
        "gps_hvel": velocity[:2],
        "gps_vvel": velocity[2],
        "baro_vpos": table[records.BARO_HEIGHT][0],
        "rng_vpos": table[records.RANGE_HEIGHT][0],
        "hagl": table[records.RANGE_HEIGHT][0],
        "heading": table[records.MAGNETIC_HEADING][0],
        "flow": table[records.FLOW_VELOCITY][:2],
    }


def _report_end(line: str) -> None:
    """Print a line for the program that started the stack's process."""
    print(f"{LOG_ENDED}{line}", flush=True)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _release(version: str) -> int:
    """A version as PX4 packs it: major, minor, patch, and 255 for a release."""
    major, minor, patch = (int(part) for part in version.split("."))
    return major << 24 | minor << 16 | patch << 8 | 255
