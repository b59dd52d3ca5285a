"""The flight stack's log: a ULog with PX4's topics and field names, as far as the stack has what they hold.

So everything that reads PX4's logs reads these.  The log says who flew: ``sys_name`` is not PX4.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.autopilot.layout import (
    ABOVE_GROUND,
    BARO_HEIGHT,
    GLOBAL,
    GPS_POSITION,
    GPS_VELOCITY,
    HEIGHT,
    LEVEL_ATTITUDE,
    MAGNETIC_HEADING,
    POSITION,
    TRAJECTORY,
    VELOCITY,
)
from sitl_bridge.autopilot.stack_process import LOG_ENDED
from sitl_bridge.autopilot.target import IDLE
from sitl_bridge.record.ulog_writer import UlogWriter
from sitl_bridge.world.earth import ecef, ned_to_ecef_rotation

if TYPE_CHECKING:
    from sitl_bridge.autopilot.commander import Commander

NAME = "sitl-bridge built-in flight stack"

_POSITION = ["double ref_lat", "double ref_lon", "float ref_alt", "uint64_t ref_timestamp"]
_MOTION = ["float x", "float y", "float z", "float vx", "float vy", "float vz"]
FORMATS = {
    "position_setpoint": ["double lat", "double lon", "float alt", "bool valid"],
    "actuator_outputs": ["uint64_t timestamp", "float[16] output"],
    "battery_status": ["uint64_t timestamp", "float voltage_v", "float current_a", "float remaining"],
    "estimator_states": ["uint64_t timestamp", "float[25] states"],
    "estimator_status": [
        "uint64_t timestamp",
        "float hdg_test_ratio",
        "float vel_test_ratio",
        "float pos_test_ratio",
        "float hgt_test_ratio",
        "float pos_horiz_accuracy",
        "float pos_vert_accuracy",
        "uint32_t filter_fault_flags",
        "float[3] output_tracking_error",
    ],
    "estimator_status_flags": [
        "uint64_t timestamp",
        "bool reject_hor_vel",
        "bool reject_hor_pos",
        "bool reject_ver_pos",
        "bool reject_yaw",
    ],
    "position_setpoint_triplet": [
        "uint64_t timestamp",
        "position_setpoint previous",
        "position_setpoint current",
    ],
    "trajectory_setpoint": [
        "uint64_t timestamp",
        "float[3] position",
        "float[3] velocity",
        "float[3] acceleration",
        "float yaw",
        "float yawspeed",
    ],
    "vehicle_angular_velocity": ["uint64_t timestamp", "float[3] xyz"],
    "vehicle_attitude": ["uint64_t timestamp", "float[4] q"],
    "vehicle_attitude_setpoint": ["uint64_t timestamp", "float[4] q_d", "float[3] thrust_body"],
    "vehicle_land_detected": ["uint64_t timestamp", "bool landed"],
    "vehicle_local_position": [
        "uint64_t timestamp",
        *_POSITION,
        *_MOTION,
        "float heading",
        "float dist_bottom",
        "bool xy_valid",
        "bool z_valid",
        "bool v_xy_valid",
        "bool dist_bottom_valid",
    ],
    "vehicle_local_position_groundtruth": ["uint64_t timestamp", *_POSITION, *_MOTION],
    "vehicle_status": [
        "uint64_t timestamp",
        "uint8_t arming_state",
        "uint8_t nav_state",
        "bool failsafe",
    ],
}
TOPICS = [name for name, fields in FORMATS.items() if fields[0] == "uint64_t timestamp"]

_NOWHERE = (math.nan, math.nan, math.nan, False)
_ARMED, _DISARMED = 2, 1
"""VehicleStatus.msg, arming_state."""


class TangentPlane:
    """The plane that touches the Earth at a point: deg, deg, m."""

    def __init__(self, latitude: float, longitude: float, altitude: float) -> None:
        self.latitude, self.longitude, self.altitude = latitude, longitude, altitude
        self._rotation = ned_to_ecef_rotation(math.radians(latitude), math.radians(longitude))
        self._origin = ecef(math.radians(latitude), math.radians(longitude), altitude)

    def position(self, latitude: float, longitude: float, altitude: float) -> list[float]:
        """(3,) m NED of a place."""
        place = ecef(math.radians(latitude), math.radians(longitude), altitude)
        return [float(x) for x in self._rotation.T @ (place - self._origin)]


def _report(line: str) -> None:
    """To whoever started the stack's process."""
    print(f"{LOG_ENDED}{line}", flush=True)


class StackLog:
    """Logs one vehicle, a row a topic at every call.

    Args:
        path: of the file, in a directory that exists.
        start: us.
        airframe: name of the vehicle.
        parameters: the stack's, by name.
    """

    def __init__(self, path: Path, start: int, airframe: str, parameters: dict[str, int | float]) -> None:
        info = {"sys_name": NAME, "ver_hw": "simulation", "sys_autostart": airframe}
        self._file = UlogWriter(path, start, FORMATS, TOPICS, info, parameters, _report)
        self._now = start
        self._rejected: list[int] = []
        self._target: tuple[object, ...] = ()
        self._truth_time = 0
        self._truth_frame: TangentPlane | None = None

    def say(self, severity: int, text: str) -> None:
        """Log a status text at the time of the last samples."""
        self._file.say(self._now, severity, text)

    def write(
        self,
        now: int,
        commander: Commander,
        estimate: NDArray[np.void],
        setpoint: NDArray[np.void],
        reader: NDArray[np.void],
        controls: NDArray[np.float64],
    ) -> None:
        """One sample of everything.

        Args:
            now: us.
            commander: of the vehicle.
            estimate: () ESTIMATE.
            setpoint: () SETPOINT.
            reader: () READER.
            controls: (16,) motor commands.
        """
        self._now = now
        put = self._file.write
        valid = int(estimate["valid"])
        self._write_motion(now, estimate, valid)
        put("vehicle_status", now, *self._status(commander))
        put("vehicle_land_detected", now, commander.landed_state == 1)
        put("actuator_outputs", now, *controls.tolist())
        battery = commander.battery_state
        put("battery_status", now, battery.voltage, battery.current, battery.remaining)
        if int(setpoint["level"]) == TRAJECTORY:
            vectors = (setpoint[name].tolist() for name in ("position", "velocity", "acceleration"))
            values: list[float] = [x for vector in vectors for x in vector]
            put("trajectory_setpoint", now, *values, float(setpoint["yaw"]), float(setpoint["yaw_rate"]))
        elif int(setpoint["level"]) == LEVEL_ATTITUDE:
            thrust = -float(setpoint["thrust"])
            put("vehicle_attitude_setpoint", now, *setpoint["attitude"].tolist(), 0.0, 0.0, thrust)
        self._write_target(now, commander)
        self._write_estimator(now, estimate)
        self._write_truth(now, reader)
        self._file.flush()

    @staticmethod
    def _status(commander: Commander) -> tuple[int, int, bool]:
        armed = _ARMED if commander.armed else _DISARMED
        return armed, commander.mode.nav_state, commander.failsafe is not None

    def _write_target(self, now: int, commander: Commander) -> None:
        """Where the leg begins and ends, whenever that changes."""
        target, projection = commander.navigator.target, commander.state.projection
        there = (target.kind, target.before, target.x, target.y, target.z)
        if there == self._target:
            return
        self._target = there
        if projection is None or target.kind == IDLE:
            return
        ends = (target.before, (target.x, target.y, target.z))
        places = [
            _NOWHERE
            if end is None
            else (*projection.point(end[0], end[1]), projection.altitude(end[2]), True)
            for end in ends
        ]
        self._file.write("position_setpoint_triplet", now, *places[0], *places[1])

    def _write_motion(self, now: int, estimate: Any, valid: int) -> None:
        latitude, longitude, altitude = estimate["origin"].tolist()
        known = bool(valid & GLOBAL)
        w, x, y, z = estimate["attitude"].tolist()
        above = float(estimate["height_above_ground"])
        self._file.write(
            "vehicle_local_position",
            now,
            math.degrees(latitude) if known else math.nan,
            math.degrees(longitude) if known else math.nan,
            altitude if known else math.nan,
            now if known else 0,
            *estimate["position"].tolist(),
            *estimate["velocity"].tolist(),
            math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z)),
            above,
            bool(valid & POSITION),
            bool(valid & HEIGHT),
            bool(valid & VELOCITY),
            bool(valid & ABOVE_GROUND),
        )
        self._file.write("vehicle_attitude", now, w, x, y, z)
        self._file.write("vehicle_angular_velocity", now, *estimate["angular_velocity"].tolist())

    def _write_estimator(self, now: int, estimate: Any) -> None:
        ratio = [math.sqrt(max(x, 0.0)) for x in estimate["test_ratio"].tolist()]
        north, east, down = estimate["position_deviation"].tolist()
        self._file.write(
            "estimator_status",
            now,
            ratio[MAGNETIC_HEADING],
            ratio[GPS_VELOCITY],
            ratio[GPS_POSITION],
            ratio[BARO_HEIGHT],
            math.hypot(north, east),
            down,
            0,
            0.0,
            0.0,
            0.0,
        )
        rejected = estimate["rejected"].tolist()
        before = self._rejected or rejected
        fresh = [now_count > count for now_count, count in zip(rejected, before, strict=True)]
        self._rejected = rejected
        self._file.write(
            "estimator_status_flags",
            now,
            fresh[GPS_VELOCITY],
            fresh[GPS_POSITION],
            fresh[BARO_HEIGHT],
            fresh[MAGNETIC_HEADING],
        )
        states = estimate["attitude"].tolist() + estimate["velocity"].tolist() + estimate["position"].tolist()
        states += estimate["gyroscope_bias"].tolist() + estimate["accelerometer_bias"].tolist()
        self._file.write("estimator_states", now, *states, *[0.0] * (25 - len(states)))

    def _write_truth(self, now: int, reader: Any) -> None:
        time = int(reader["truth_time"])
        if time == self._truth_time:
            return
        self._truth_time = time
        place = reader["truth_place"].tolist()
        if self._truth_frame is None:
            self._truth_frame = TangentPlane(*place)
        frame = self._truth_frame
        reference = frame.latitude, frame.longitude, frame.altitude
        position = frame.position(*place)
        velocity = reader["truth_velocity"].tolist()
        self._file.write("vehicle_local_position_groundtruth", now, *reference, 1, *position, *velocity)

    def close(self) -> None:
        """Finish the file."""
        self._file.close()
