"""Topics of a recorded run as ROS 2's messages, in ROS's axes (REP 103 and 105).

World: ``map``, east-north-up from the world's origin.  Body: ``NAME/base_link``, forward-left-up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.analysis.export.cdr_layout import bytes_of, layout_of
from sitl_bridge.base.arrays import Bytes, Floats, Ints, Records, Singles
from sitl_bridge.core.sensors.records import MAX_AXES
from sitl_bridge.core.sensors.registry import KIND_NAMES
from sitl_bridge.link.hil.recorded_samples import samples_of
from sitl_bridge.record.followed_steps import RecordedSteps

WORLD = "map"
NO_COVARIANCE = -1.0
"""First element of a covariance in sensor_msgs/Imu where there is no such estimate."""
DIAGONAL = [0, 4, 8]
"""Elements of a covariance of three axes."""
LINEAR = [0, 7, 14]
"""The first three likewise of a covariance of six axes."""
ODOMETRY_RATE = 50.0
"""Hz of ground truth and transforms."""
GPS_FIX = 3
"""GPS_FIX_TYPE_3D_FIX of MAVLink."""
FRAMES: ContextVar[Mapping[str, str]] = ContextVar("FRAMES", default={})  # noqa: B039  (never changed)
"""Beginnings of frames that a user has renamed, and their new names; of the thread that makes messages."""


@dataclass(frozen=True)
class RosMessages:
    """Messages of one topic."""

    topic: str  # its name
    name: str  # ``package/Type``
    time: Ints  # (k,) ns of simulated time
    data: Bytes  # (k, size) CDR


def ros_name(name: str) -> str:
    """A vehicle's name as part of topics and frames, which begin with no digit in ROS."""
    made = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
    return made if made[:1].isalpha() else f"vehicle_{made}"


def rename(name: str, names: Mapping[str, str | None]) -> str | None:
    """A name whose longest beginning among ``names`` is replaced; None where that is left out."""
    for begin in sorted(names, key=len, reverse=True):
        if name == begin or (name.startswith(begin) and begin.endswith("/")):
            new = names[begin]
            return None if new is None else new + name[len(begin) :]
    return name


def frame(name: str) -> str:
    """The name of a frame in messages, which a user may have changed."""
    return rename(name, FRAMES.get()) or name


def base_link(name: str) -> str:
    """Frame of a vehicle's body."""
    return f"{ros_name(name)}/base_link"


def sensor_frame(name: str, kind: str, instance: int) -> str:
    """Frame of a vehicle's sensor."""
    return f"{base_link(name)}/{kind}{instance or ''}"


def to_enu(ned: Floats) -> Floats:
    """(k, 3) NED to ENU."""
    return np.stack([ned[:, 1], ned[:, 0], -ned[:, 2]], axis=1)


def to_flu(frd: Floats) -> Floats:
    """(k, 3) body FRD to FLU."""
    return frd * (1.0, -1.0, -1.0)


def to_enu_flu(attitude: Floats) -> Floats:
    """(k, 4) w, x, y, z of FRD to NED, to x, y, z, w of FLU to ENU."""
    w, x, y, z = attitude.T
    half = np.sqrt(0.5)
    # (0, half, half, 0) q (0, 1, 0, 0)
    return np.stack([half * (x + y), half * (x - y), half * (w - z), half * (w + z)], axis=1)


def set_axes(table: Records, path: str, values: Floats) -> None:
    """Set the columns ``path.x`` ... to values."""
    for axis, name in enumerate("xyzw"[: values.shape[1]]):
        table[f"{path}.{name}"] = values[:, axis]


def stamp(table: Records, time: Ints, path: str = "header.stamp") -> None:
    """Set the stamps to times in ns."""
    table[f"{path}.sec"], table[f"{path}.nanosec"] = time // 1_000_000_000, time % 1_000_000_000


def begin_messages(
    topic: str,
    name: str,
    time: Ints,
    strings: Mapping[str, str],
    lengths: Mapping[str, int] | None = None,
) -> tuple[RosMessages, Records]:
    """Messages of one topic, and the table of their fields, which is the same memory.

    Args:
        topic: its name.
        name: ``package/Type``.
        time: (k,) ns; the stamps of headers are set to it.
        strings, lengths: as of ``CdrLayout``.
    """
    named = ((path, frame(text) if path.endswith("frame_id") else text) for path, text in strings.items())
    table = layout_of(name, tuple(named), tuple((lengths or {}).items())).messages(len(time))
    if "header.stamp.sec" in (table.dtype.names or ()):
        stamp(table, time)
    return RosMessages(topic, name, time, bytes_of(table)), table


def ros_messages(
    run: RecordedSteps,
    names: Sequence[str],
    rotors: Sequence[int],
    first: int,
    last: int,
    rate: float = ODOMETRY_RATE,
    topics: Set[str] | None = None,
    sensors: Sequence[Records] | None = None,
) -> Iterator[RosMessages]:
    """Topics of the rows ``first`` to ``last`` of a run.

    Args:
        names: of the vehicles.
        rotors: of each vehicle.
        first, last: rows; whole steps.
        rate: Hz of ground truth, rotor speeds and transforms.
        topics: that are made; None for all.
        sensors: records of each vehicle's sensors, for covariances and frames; None leaves covariances at 0,
            unknown, and samples in the body's frame.
    """
    rows = run.rows[first:last]
    every = max(round(1e6 / rate / run.step), 1)
    n = len(names)
    truth = set()
    for i, name in enumerate(names):
        mine = rows[i::n]
        commanded = motor_command_topic(name)
        truth.add(commanded)
        if topics is None or commanded in topics:
            yield _motor_commands(commanded, mine["time"] - run.step, mine["control"][:, : rotors[i]])
        kept = mine[((mine["time"] - run.start) // run.step) % every == 0]
        for topic, (_, motion) in motion_topics(name).items():
            truth.add(topic)
            if topics is None or topic in topics:
                yield motion(topic, name, kept)
        turning = rotor_topic(name)
        truth.add(turning)
        if topics is None or turning in topics:
            yield rotor_speeds(turning, kept["time"] * 1000, kept["rotor_speed"][:, : rotors[i]])
    samples = samples_of(run, first, last) if topics is None or topics - truth else {}
    for end, (kind, _, sensor) in SENSORS.items():
        table = samples.get(kind)
        if table is None:
            continue
        for i, name in enumerate(names):
            for instance in np.unique(table["instance"][table["vehicle"] == i]).tolist():
                topic = sensor_topic(name, end, instance)
                if topics is None or topic in topics:
                    mine = table[(table["vehicle"] == i) & (table["instance"] == instance)]
                    noise = _variances(None if sensors is None else sensors[i], kind, instance)
                    at = base_link(name) if sensors is None else sensor_frame(name, kind, instance)
                    yield sensor(topic, at, mine, noise)


def _variances(sensors: Records | None, kind: str, instance: int) -> Floats:
    """(MAX_AXES,) of the white noise of a sensor's samples; its drifting bias is no part of them."""
    if sensors is None:
        return np.zeros(MAX_AXES)
    named = [KIND_NAMES.get(int(code)) == kind for code in sensors["kind"]]
    found = np.flatnonzero(np.array(named, bool) & (sensors["instance"] == instance))
    variances: Floats = (
        sensors["noise"][found].sum(axis=0) ** 2
    )  # of one, or of a user's own of unknown noise
    return variances


def _odometry(topic: str, name: str, rows: Records) -> RosMessages:
    strings = {"header.frame_id": WORLD, "child_frame_id": base_link(name)}
    made, table = begin_messages(topic, "nav_msgs/Odometry", rows["time"] * 1000, strings)
    set_axes(table, "pose.pose.position", to_enu(rows["position"]))
    set_axes(table, "pose.pose.orientation", to_enu_flu(rows["attitude"]))
    set_axes(table, "twist.twist.linear", to_flu(to_body(rows["attitude"], rows["velocity"])))
    set_axes(table, "twist.twist.angular", to_flu(rows["angular_velocity"]))
    return made


def to_body(attitude: Floats, ned: Floats) -> Floats:
    """(k, 3) NED turned into the body."""
    w, u = attitude[:, :1], -attitude[:, 1:]
    across = np.cross(u, ned)
    turned: Floats = ned + 2.0 * (w * across + np.cross(u, across))
    return turned


def _transforms(topic: str, name: str, rows: Records) -> RosMessages:
    places, turns = to_enu(rows["position"]), to_enu_flu(rows["attitude"])
    return transforms(topic, WORLD, base_link(name), rows["time"] * 1000, places, turns)


def transforms(topic: str, parent: str, child: str, time: Ints, places: Floats, turns: Floats) -> RosMessages:
    """Translations (k, 3) in m and rotations (k, 4) x, y, z, w of a frame at times in ns."""
    strings = {"transforms.0.header.frame_id": parent, "transforms.0.child_frame_id": child}
    made, table = begin_messages(topic, "tf2_msgs/TFMessage", time, strings, {"transforms": 1})
    stamp(table, time, "transforms.0.header.stamp")
    set_axes(table, "transforms.0.transform.translation", places)
    set_axes(table, "transforms.0.transform.rotation", turns)
    return made


def _wind(topic: str, _name: str, rows: Records) -> RosMessages:
    strings = {"header.frame_id": WORLD}
    made, table = begin_messages(topic, "geometry_msgs/Vector3Stamped", rows["time"] * 1000, strings)
    set_axes(table, "vector", to_enu(rows["wind"].astype(np.float64)))
    return made


def _motor_commands(topic: str, time: Ints, signals: Singles) -> RosMessages:
    """Signals 0..1 in the flight stack's order of motors, which act from ``time`` in us on."""
    lengths = {"position": 0, "velocity": 0, "normalized": signals.shape[1]}
    strings = {"header.frame_id": ""}
    made, table = begin_messages(topic, "actuator_msgs/Actuators", time * 1000, strings, lengths)
    table["normalized"] = signals
    return made


def rotor_speeds(topic: str, time: Ints, speeds: NDArray[np.floating]) -> RosMessages:
    """Speeds (k, m) in rad/s at times in ns."""
    m = speeds.shape[1]
    strings = {"header.frame_id": ""} | {f"name.{i}": f"rotor_{i + 1}" for i in range(m)}
    lengths = {"name": m, "position": 0, "velocity": m, "effort": 0}
    made, table = begin_messages(topic, "sensor_msgs/JointState", time, strings, lengths)
    table["velocity"] = speeds
    return made


def _begin_samples(topic: str, kind: str, place: str, samples: Records) -> tuple[RosMessages, Records]:
    return begin_messages(topic, kind, samples["time"] * 1000, {"header.frame_id": place})


def _imu(topic: str, place: str, samples: Records, variances: Floats) -> RosMessages:
    made, table = _begin_samples(topic, "sensor_msgs/Imu", place, samples)
    table["orientation.w"] = 1.0
    table["orientation_covariance"][:, 0] = NO_COVARIANCE
    table["linear_acceleration_covariance"][:, DIAGONAL] = variances[:3]
    table["angular_velocity_covariance"][:, DIAGONAL] = variances[3:6]
    set_axes(table, "angular_velocity", to_flu(samples["angular_velocity"].astype(np.float64)))
    set_axes(table, "linear_acceleration", to_flu(samples["acceleration"].astype(np.float64)))
    return made


def _magnetic_field(topic: str, place: str, samples: Records, variances: Floats) -> RosMessages:
    made, table = _begin_samples(topic, "sensor_msgs/MagneticField", place, samples)
    table["magnetic_field_covariance"][:, DIAGONAL] = variances[:3]
    set_axes(table, "magnetic_field", to_flu(samples["field"]))
    return made


def _pressure(topic: str, place: str, samples: Records, variances: Floats) -> RosMessages:
    made, table = _begin_samples(topic, "sensor_msgs/FluidPressure", place, samples)
    table["variance"] = variances[0]
    table["fluid_pressure"] = samples["pressure"]
    return made


def _fix_velocity(topic: str, _place: str, samples: Records, variances: Floats) -> RosMessages:
    made, table = _begin_samples(topic, "geometry_msgs/TwistWithCovarianceStamped", WORLD, samples)
    stamp(table, samples["fix_time"] * 1000)
    set_axes(table, "twist.twist.linear", to_enu(samples["velocity"]))
    table["twist.covariance"][:, LINEAR] = variances[[1, 0, 2]]
    return made


def _fix(topic: str, place: str, samples: Records, _variances: Floats) -> RosMessages:
    made, table = _begin_samples(topic, "sensor_msgs/NavSatFix", place, samples)
    stamp(table, samples["fix_time"] * 1000)
    table["status.status"] = np.where(samples["fix_type"] >= GPS_FIX, 0, -1)
    table["status.service"] = 1
    for column in ("latitude", "longitude", "altitude"):
        table[column] = samples[column]
    for k, error in ((0, "eph"), (4, "eph"), (8, "epv")):
        table["position_covariance"][:, k] = samples[error] ** 2
    table["position_covariance_type"] = 1
    return made


def _range(topic: str, place: str, samples: Records, _variances: Floats) -> RosMessages:
    made, table = _begin_samples(topic, "sensor_msgs/Range", place, samples)
    table["radiation_type"] = 1
    table["min_range"], table["max_range"] = samples["minimum"], samples["maximum"]
    # Beyond the far limit is REP 117's +inf.
    beyond = samples["distance"] > samples["maximum"]
    table["range"] = np.where(beyond, np.inf, samples["distance"])
    return made


Maker: TypeAlias = Callable[[str, str, Records], RosMessages]
"""Makes the messages of a topic and a vehicle's name from rows or samples."""
SensorMaker: TypeAlias = Callable[[str, str, Records, Floats], RosMessages]
"""Makes messages of a topic in a sensor's frame from samples, with the variances of their axes."""
SENSORS: dict[str, tuple[str, str, SensorMaker]] = {
    "imu": ("imu", "sensor_msgs/Imu", _imu),
    "magnetic_field": ("magnetometer", "sensor_msgs/MagneticField", _magnetic_field),
    "pressure": ("barometer", "sensor_msgs/FluidPressure", _pressure),
    "fix": ("gps", "sensor_msgs/NavSatFix", _fix),
    "fix_velocity": ("gps", "geometry_msgs/TwistWithCovarianceStamped", _fix_velocity),
    "range": ("range_finder", "sensor_msgs/Range", _range),
}
"""By the end of the topic: the kind of sensor, the type of message, and what makes it."""


def motion_topics(name: str) -> dict[str, tuple[str, Maker]]:
    """Topics of a vehicle's true motion, with the type of message and what makes it."""
    return {
        f"/{ros_name(name)}/odometry": ("nav_msgs/Odometry", _odometry),
        "/tf": ("tf2_msgs/TFMessage", _transforms),
        f"/{ros_name(name)}/wind": ("geometry_msgs/Vector3Stamped", _wind),
    }


def topic_types(names: Sequence[str], sensors: Sequence[Records]) -> dict[str, str]:
    """``package/Type`` of all topics of ``ros_messages``.

    Args:
        names: of the vehicles.
        sensors: records of each vehicle's sensors.
    """
    types: dict[str, str] = {}
    for name, records in zip(names, sensors, strict=True):
        types |= {topic: kind for topic, (kind, _) in motion_topics(name).items()}
        types[motor_command_topic(name)] = "actuator_msgs/Actuators"
        types[rotor_topic(name)] = "sensor_msgs/JointState"
        for sensor in records:
            kind = KIND_NAMES.get(int(sensor["kind"]))
            for end in (end for end, (of, _, _) in SENSORS.items() if of == kind):
                types[sensor_topic(name, end, int(sensor["instance"]))] = SENSORS[end][1]
    return types


def motor_command_topic(name: str) -> str:
    """Topic of a vehicle's motor commands, at every step."""
    return f"/{ros_name(name)}/motor_commands"


def rotor_topic(name: str) -> str:
    """Topic of the true speeds of a vehicle's rotors."""
    return f"/{ros_name(name)}/rotors"


def sensor_topic(name: str, end: str, instance: int) -> str:
    """Topic of a vehicle's sensor."""
    return f"/{ros_name(name)}/{end}{instance or ''}"
