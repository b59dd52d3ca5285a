"""Reads a vehicle's flight from an MCAP file: what an identification needs, from the topics of an export."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.analysis.export.cdr_layout import CdrLayout
from sitl_bridge.analysis.export.flight_stack_topics import (
    AIRBORNE,
    ATTITUDE,
    BATTERY,
    CONTROLLERS,
    ODOMETRY,
    ORIGIN,
)
from sitl_bridge.analysis.export.ros_definitions import schema_name
from sitl_bridge.analysis.export.ros_topics import ros_name, to_enu, to_flu
from sitl_bridge.analysis.replay.vehicle_log import Series, VehicleLog
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.extras import EXPORT, missing

Array = NDArray[np.float64]
COMMANDS, INERTIAL = "motor_commands", "imu"
TYPES = {
    COMMANDS: "actuator_msgs/Actuators",
    INERTIAL: "sensor_msgs/Imu",
    ODOMETRY: "nav_msgs/Odometry",
    ATTITUDE: "geometry_msgs/QuaternionStamped",
    ORIGIN: "sensor_msgs/NavSatFix",
    AIRBORNE: "std_msgs/Bool",
    BATTERY: "sensor_msgs/BatteryState",
    CONTROLLERS: "sensor_msgs/JointState",
}
"""Type by the end of a topic."""
OPTIONAL = (BATTERY, CONTROLLERS)


class ExportedFlight:
    """An MCAP file with one vehicle's flight.

    Args:
        path: of the file.
        vehicle: its name; None for the only one.

    Raises:
        UserError: if it cannot be read, is damaged, or has several vehicles and none is named.
    """

    def __init__(self, path: Path, vehicle: str | None = None) -> None:
        self.path = path
        self._topics, self._metadata = self._read()
        self._name = self._chosen(vehicle)
        self._check_log()

    def _read(self) -> tuple[dict[str, list[Any]], dict[str, Mapping[str, str]]]:
        """Messages by topic, of the topics that matter, and the metadata by name."""
        try:
            from mcap.reader import make_reader
        except ImportError as error:
            raise missing("mcap", "MCAP files", EXPORT) from error
        try:
            file = self.path.open("rb")
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read: {error.strerror}") from error
        topics: dict[str, list[Any]] = {}
        try:
            with file:
                reader = make_reader(file)
                summary = reader.get_summary()
                channels = summary.channels.values() if summary is not None else ()
                chosen = [channel.topic for channel in channels if _end(channel.topic) in TYPES]
                for schema, channel, message in reader.iter_messages(topics=chosen) if chosen else ():
                    if schema is not None and schema.name == schema_name(TYPES[_end(channel.topic)]):
                        topics.setdefault(channel.topic, []).append(message)
                metadata = {one.name: one.metadata for one in reader.iter_metadata()}
        except Exception as error:  # mcap raises whatever its parsers meet
            raise UserError(f"{self.path}: cannot be read as an MCAP file: {error}") from error
        return topics, metadata

    def _chosen(self, vehicle: str | None) -> str:
        names = sorted(topic[1 : -len(COMMANDS) - 1] for topic in self._topics if _end(topic) == COMMANDS)
        if not names:
            raise UserError(
                f"{self.path}: has no motor commands (topic /NAME/{COMMANDS}), which the fit needs; export"
                " the run with this version, or give its directory or its ULog (.ulg)"
            )
        if vehicle is None and len(names) > 1:
            raise UserError(
                f"{self.path}: has {len(names)} vehicles; choose one by --vehicle: {', '.join(names)}"
            )
        name = names[0] if vehicle is None else ros_name(vehicle)
        if name not in names:
            raise UserError(f"{self.path}: has no vehicle {vehicle}; there are {', '.join(names)}")
        return name

    def _check_log(self) -> None:
        facts = self._metadata.get(f"flight stack {self._name}", {})
        if facts.get("damaged") == "yes":
            raise UserError(f"{self.path}: the flight's ULog was damaged; identify from another flight")

    @property
    def airframe(self) -> str:
        """Name of the vehicle's airframe.

        Raises:
            UserError: if it is not recorded.
        """
        try:
            run = json.loads(self._metadata["run"]["run.json"])
            names = {ros_name(v["name"]): v["airframe"]["name"] for v in run["vehicles"]}
            return str(names[self._name])
        except (KeyError, ValueError, TypeError) as error:
            raise UserError(
                f"{self.path}: the airframe is not recorded here; give it with --airframe"
            ) from error

    def log(self, motors: int) -> VehicleLog:
        """The flight.

        Args:
            motors: of the airframe.

        Raises:
            UserError: if it lacks something.
        """
        time, table = self._table(COMMANDS)
        signals = np.asarray(table["normalized"], np.float64).reshape(len(table), -1)
        if signals.shape[1] != motors:
            raise UserError(
                f"{self.path}: has motor commands of {signals.shape[1]} motors, the airframe {motors};"
                " check --airframe"
            )
        imu_time, imu = self._table(INERTIAL)
        odometry_time, odometry = self._table(ODOMETRY)
        attitude_time, attitude = self._table(ATTITUDE)
        origin = self._table(ORIGIN)[1][0]
        orientation = _axes(odometry, "pose.pose.orientation", "xyzw")
        voltage, current = self._battery()
        speeds = self._optional(CONTROLLERS)
        return VehicleLog(
            source=f"topic {COMMANDS}",
            commands=Series(time, signals),
            attitude=Series(attitude_time, _to_ned_frd(_axes(attitude, "quaternion", "xyzw"))),
            rates=Series(imu_time, to_flu(_axes(imu, "angular_velocity"))),
            acceleration=Series(imu_time, to_flu(_axes(imu, "linear_acceleration"))),
            position=Series(odometry_time, to_enu(_axes(odometry, "pose.pose.position"))),
            velocity=Series(
                odometry_time, to_enu(_turned(orientation, _axes(odometry, "twist.twist.linear")))
            ),
            wind=None,
            voltage=voltage,
            current=current,
            speeds=None if speeds is None else Series(speeds[0], speeds[1]["velocity"].reshape(-1, motors)),
            airborne=self._airborne(),
            origin=(
                float(origin["latitude"]),
                float(origin["longitude"]),
                float(origin["altitude"]),
            ),
            damaged=False,
        )

    def _battery(self) -> tuple[Series | None, Series | None]:
        found = self._optional(BATTERY)
        if found is None:
            return None, None
        time, table = found
        current = -np.asarray(table["current"], np.float64)[:, None]
        known = bool(np.isfinite(current).all())
        return Series(time, table["voltage"][:, None] * 1.0), Series(time, current) if known else None

    def _airborne(self) -> tuple[tuple[float, float], ...]:
        messages = self._messages(AIRBORNE)
        changes = [(1e-9 * message.log_time, bool(message.data[-1])) for message in messages]
        return tuple(
            (begin, end)
            for (begin, flies), (end, goes_on) in itertools.pairwise(changes)
            if flies and not goes_on
        )

    def _optional(self, end: str) -> tuple[Array, NDArray[np.void]] | None:
        return self._table(end) if f"/{self._name}/{end}" in self._topics else None

    def _messages(self, end: str) -> list[Any]:
        topic = f"/{self._name}/{end}"
        found = self._topics.get(topic)
        if not found:
            raise UserError(
                f"{self.path}: topic {topic} is missing, which the fit needs; the run had no such log"
            )
        return found

    def _table(self, end: str) -> tuple[Array, NDArray[np.void]]:
        """Times in s by the messages' stamps, ascending, and the messages."""
        messages = self._messages(end)
        topic = f"/{self._name}/{end}"
        try:
            layout = CdrLayout.of(TYPES[end], messages[0].data)
        except ValueError as error:
            raise UserError(f"{self.path}: topic {topic} cannot be read: {error}") from error
        if {len(message.data) for message in messages} != {layout.dtype.itemsize}:
            raise UserError(f"{self.path}: topic {topic} has messages of different sizes, which is not read")
        table = np.frombuffer(b"".join(message.data for message in messages), layout.dtype)
        time = table["header.stamp.sec"] + 1e-9 * table["header.stamp.nanosec"]
        good = np.diff(time, prepend=-np.inf) > 0.0
        return time[good], table[good]


def _end(topic: str) -> str:
    """A topic without the vehicle's name."""
    return topic.removeprefix("/").partition("/")[2]


def _axes(table: NDArray[np.void], path: str, names: str = "xyz") -> Array:
    return np.stack([table[f"{path}.{name}"] for name in names], axis=-1)


def _to_ned_frd(attitude: Array) -> Array:
    """(k, 4) x, y, z, w of FLU to ENU, to w, x, y, z of FRD to NED."""
    x, y, z, w = attitude.T
    half = np.sqrt(0.5)
    return np.stack([half * (z + w), half * (x + y), half * (x - y), half * (w - z)], axis=1)


def _turned(attitude: Array, body: Array) -> Array:
    """(k, 3) of the body turned into the world, by x, y, z, w."""
    u, w = attitude[:, :3], attitude[:, 3:]
    across = np.cross(u, body)
    return np.asarray(body + 2.0 * (w * across + np.cross(u, across)))
