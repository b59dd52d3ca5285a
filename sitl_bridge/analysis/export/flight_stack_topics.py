"""Converts the flight stacks' logs to ROS 2's messages: estimates, battery, speeds of the controllers.

The estimated position is in ``NAME/odom``: east-north-up from the origin that the flight stack has chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from sitl_bridge.analysis.export.ros_topics import (
    RosMessages,
    base_link,
    begin_messages,
    ros_name,
    rotor_speeds,
    set_axes,
    to_body,
    to_enu,
    to_enu_flu,
    to_flu,
    transforms,
)
from sitl_bridge.analysis.replay.vehicle_log import Series, VehicleLog, read_vehicle_log
from sitl_bridge.base.arrays import Floats, Ints, Records
from sitl_bridge.base.rotations import matrix_from_quaternion
from sitl_bridge.link.mavlink.message import MavlinkMessage
from sitl_bridge.record.run_reader import RecordedRun, vehicle_log

TRIANGLE = [0, 6, 11, 15, 18, 20]
"""Places of the diagonal in MAVLink's upper triangle of a covariance of six axes (ODOMETRY)."""


@dataclass(frozen=True)
class FlightStackTopics:
    """All messages of one vehicle's log."""

    topics: tuple[RosMessages, ...]  # each in the order of its times
    # for the file's metadata: where the log was, whether it is damaged, the motor commands in it
    facts: dict[str, str]

    def between(self, begin: int, end: int) -> Iterator[RosMessages]:
        """The messages after ``begin`` and up to ``end`` in ns."""
        for one in self.topics:
            first, last = np.searchsorted(one.time, (begin, end), side="right")
            yield RosMessages(one.topic, one.name, one.time[first:last], one.data[first:last])


def flight_stack_topics(
    run: RecordedRun, index: int, notify: Callable[[str], None]
) -> FlightStackTopics | None:
    """Return the log of a vehicle's flight stack; None for a run without a log.

    Args:
        notify: takes which of several logs it is.

    Raises:
        UserError: for a log that cannot be read, or lacks what a flight is described by.
    """
    name = run.names[index]
    file, note = vehicle_log(run.path, name, alone=run.count == 1)
    if file is None:
        return None
    if note is not None:
        notify(note)
    log = read_vehicle_log(file, run.rotors[index])
    facts = {
        "log": str(file.relative_to(run.path)),
        "commands": log.source,
        "damaged": "yes" if log.damaged else "no",
    }
    return FlightStackTopics(tuple(_topics(log, name)), facts)


def _topics(log: VehicleLog, name: str) -> Iterator[RosMessages]:
    begin = f"/{ros_name(name)}"
    yield _odometry(estimate_topic(name), name, log)
    yield _attitude(f"{begin}/estimate/attitude", name, log.attitude)
    yield _airborne(f"{begin}/estimate/airborne", log.airborne)
    yield _origin(f"{begin}/estimate/origin", name, log)
    if log.voltage is not None:
        yield _battery(battery_topic(name), name, log.voltage, log.current)
    if log.speeds is not None:
        yield rotor_speeds(f"{begin}/esc", nanoseconds(log.speeds.time), log.speeds.values)


def nanoseconds(time: Floats) -> Ints:
    """Times in s as ns."""
    return np.round(time * 1e9).astype(np.int64)


def odom(name: str) -> str:
    """Frame of a vehicle's estimated position."""
    return f"{ros_name(name)}/odom"


def estimate_topic(name: str) -> str:
    """Topic of a vehicle's pose and velocity as its flight stack estimates them."""
    return f"/{ros_name(name)}/estimate/odometry"


def _odometry(topic: str, name: str, log: VehicleLog) -> RosMessages:
    time = log.position.time
    return _estimates(
        topic, name, nanoseconds(time), log.position.values, log.attitude.at(time), log.velocity.at(time),
        log.rates.at(time),
    )[0]  # fmt: skip


def _estimates(
    topic: str, name: str, time: Ints, position: Floats, attitude: Floats, velocity: Floats, rates: Floats
) -> tuple[RosMessages, Records]:
    """(k,) ns; m NED of the stack's origin, w x y z, m/s NED, rad/s in the body."""
    attitude = attitude / np.linalg.norm(attitude, axis=1, keepdims=True)
    strings = {"header.frame_id": odom(name), "child_frame_id": base_link(name)}
    made, table = begin_messages(topic, "nav_msgs/Odometry", time, strings)
    set_axes(table, "pose.pose.position", to_enu(position))
    set_axes(table, "pose.pose.orientation", to_enu_flu(attitude))
    set_axes(table, "twist.twist.linear", to_flu(to_body(attitude, velocity)))
    set_axes(table, "twist.twist.angular", to_flu(rates))
    return made, table


def estimate_messages(name: str, received: MavlinkMessage) -> tuple[RosMessages, RosMessages]:
    """A flight stack's ODOMETRY, and its pose as a transform.

    Variances are those that PX4 sends: of place and velocity along north, east, down, of the attitude about
    the body's axes (VehicleOdometry.msg, EKF2.cpp); those that it does not know, NaN, are 0 as in ROS.
    """
    position, attitude = np.array([[received.x, received.y, received.z]]), np.array([received.q], np.float64)
    velocity = np.array([[received.vx, received.vy, received.vz]])
    rates = np.array([[received.rollspeed, received.pitchspeed, received.yawspeed]])
    time = np.array([received.time_usec * 1000])
    topic = estimate_topic(name)
    made, table = _estimates(topic, name, time, position, attitude, velocity, rates)
    x, y, z, w = to_enu_flu(attitude / np.linalg.norm(attitude))[0]
    turn = matrix_from_quaternion([w, x, y, z])  # of the body to odom
    known = np.nan_to_num(np.array([received.pose_covariance, received.velocity_covariance], np.float64))
    place, turned, moved = known[0, TRIANGLE[:3]], known[0, TRIANGLE[3:]], known[1, TRIANGLE[:3]]
    pose, twist = np.zeros((6, 6)), np.zeros((6, 6))
    pose[:3, :3] = np.diag(place[[1, 0, 2]])
    pose[3:, 3:] = turn @ np.diag(turned) @ turn.T
    twist[:3, :3] = turn.T @ np.diag(moved[[1, 0, 2]]) @ turn
    table["pose.covariance"], table["twist.covariance"] = pose.ravel(), twist.ravel()
    moving = transforms("/tf", odom(name), base_link(name), time, to_enu(position), to_enu_flu(attitude))
    return made, moving


def _attitude(topic: str, name: str, attitude: Series) -> RosMessages:
    time, strings = nanoseconds(attitude.time), {"header.frame_id": odom(name)}
    made, table = begin_messages(topic, "geometry_msgs/QuaternionStamped", time, strings)
    set_axes(table, "quaternion", to_enu_flu(attitude.values))
    return made


def _airborne(topic: str, flights: tuple[tuple[float, float], ...]) -> RosMessages:
    time = nanoseconds(np.array(flights, np.float64).reshape(-1))
    made, table = begin_messages(topic, "std_msgs/Bool", time, {})
    table["data"][::2] = 1
    return made


def _origin(topic: str, name: str, log: VehicleLog) -> RosMessages:
    time, strings = nanoseconds(log.position.time[:1]), {"header.frame_id": odom(name)}
    made, table = begin_messages(topic, "sensor_msgs/NavSatFix", time, strings)
    table["latitude"], table["longitude"], table["altitude"] = log.origin
    return made


def _battery(topic: str, name: str, voltage: Series, current: Series | None) -> RosMessages:
    made, table = _begin_battery(topic, name, nanoseconds(voltage.time))
    table["voltage"] = voltage.values[:, 0]
    table["current"] = np.nan if current is None else -current.values[:, 0]
    return made


def _begin_battery(topic: str, name: str, time: Ints) -> tuple[RosMessages, Records]:
    """States of a battery of which nothing is known yet: currents are negative when it discharges."""
    strings = {"header.frame_id": base_link(name), "location": "", "serial_number": ""}
    lengths = {"cell_voltage": 0, "cell_temperature": 0}
    made, table = begin_messages(topic, "sensor_msgs/BatteryState", time, strings, lengths)
    table["present"] = 1
    for unknown in ("current", "temperature", "charge", "capacity", "design_capacity", "percentage"):
        table[unknown] = np.nan
    return made, table


def battery_topic(name: str) -> str:
    """Topic of a vehicle's battery."""
    return f"/{ros_name(name)}/battery"


def battery_message(name: str, time: int, voltage: float, current: float, left: float) -> RosMessages:
    """The true state of a battery at ``time`` in ns: V, A, and the share of its charge that is left."""
    made, table = _begin_battery(battery_topic(name), name, np.array([time]))
    table["voltage"], table["current"], table["percentage"] = voltage, -current, left
    return made
