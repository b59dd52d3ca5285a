"""The run as a ROS 2 graph, read by other people's definitions of the messages (rosbags)."""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import cache
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from cyclonedds.builtin import (
    BuiltinDataReader,
    BuiltinTopicDcpsPublication,
    BuiltinTopicDcpsSubscription,
)
from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import make_idl_struct, types
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from PIL import Image
from rosbags.interfaces import Nodetype
from rosbags.typesys import Stores, get_typestore
from scipy.spatial.transform import Rotation
from support.paths import ROOT
from support.recorded_climb import Climb

from sitl_bridge.analysis.export.cdr_layout import DEFINITIONS, schema_name
from sitl_bridge.analysis.export.drawn_messages import map_message
from sitl_bridge.base.errors import ConfigurationError, UserError
from sitl_bridge.core.sensors.gps import GpsSpecification
from sitl_bridge.core.sensors.imu import ImuSpecification
from sitl_bridge.core.sensors.perception.camera import CameraSpecification
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.live.outlets import Ros2Settings
from sitl_bridge.live.ros2.choices import RosChoices
from sitl_bridge.live.ros2.graph import RosGraph, WaitedNodes
from sitl_bridge.live.ros2.participant import KEPT
from sitl_bridge.live.ros2.types import type_hash
from sitl_bridge.live.run.outlet import RunContext
from sitl_bridge.perception.mapping.occupancy_map import OccupancyMap
from sitl_bridge.perception.sensor_runner import SeenSample, SensorRunner
from sitl_bridge.plan.plan_file import load_plan
from sitl_bridge.session.scenario_settings import scenario_settings
from sitl_bridge.session.settings import FlightOptions

MESSAGES = int(os.environ.get("ROS2_MESSAGES", "300"))
"""That a slow node takes."""
pytestmark = pytest.mark.timeout(300 + 0.02 * MESSAGES)
STORE = get_typestore(Stores.ROS2_JAZZY)
HUMBLE = get_typestore(Stores.ROS2_HUMBLE)
TIMEOUT = 20.0
DOMAIN = 100 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])


@cache
def foreign_type(name: str) -> Any:
    """The DDS type of ``package/msg/Type`` by rosbags' definition; messages are read as their bytes."""

    def one(described: Any) -> Any:
        kind, what = described
        if kind == Nodetype.NAME:
            return foreign_type(what)
        return {"bool": bool, "string": str, "char": types.uint8}.get(what[0]) or getattr(types, what[0])

    fields: dict[str, Any] = {}
    for field, (kind, what) in STORE.fielddefs[name][1]:
        if kind == Nodetype.ARRAY:
            fields[field] = types.array[one(what[0]), what[1]]
        elif kind == Nodetype.SEQUENCE:
            fields[field] = types.sequence[one(what[0])]
        else:
            fields[field] = one((kind, what))
    package, _, kind_name = name.split("/")
    made: Any = make_idl_struct(kind_name, f"{package}.msg.dds_.{kind_name}_", fields)
    made.deserialize = classmethod(lambda _class, data, *_a, **_k: SimpleNamespace(data=bytes(data)))
    made.serialize = lambda self, *_a, **_k: self.encoded
    return made


def parameter_types(part: str) -> Any:
    """Request or response of rcl_interfaces/GetParameterTypes, as bytes."""
    fields: dict[str, Any] = {
        "Request": {"names": types.sequence[str]},
        "Response": {"types": types.sequence[types.uint8]},
    }[part]
    name = f"GetParameterTypes_{part}"
    made: Any = make_idl_struct(name, f"rcl_interfaces.srv.dds_.{name}_", fields)
    made.deserialize = classmethod(lambda _class, data, *_a, **_k: SimpleNamespace(data=bytes(data)))
    made.serialize = lambda self, *_a, **_k: self.encoded
    return made


def raw_message(kind: Any, data: bytes) -> Any:
    """A message that is encoded already."""
    made = kind.__new__(kind)
    made.encoded = data
    return made


class Node:
    """A subscriber that knows nothing of this package."""

    def __init__(self) -> None:
        self.participant = DomainParticipant(DOMAIN)
        self._found = BuiltinDataReader(self.participant, BuiltinTopicDcpsPublication)
        self.offered: dict[str, Any] = {}
        self._readers: dict[str, tuple[str, DataReader[Any]]] = {}
        self.kept: list[Any] = []

    def until(self, done: Callable[[], Any]) -> Any:
        end = time.monotonic() + TIMEOUT
        while not (found := done()):
            assert time.monotonic() < end
            for endpoint in self._found.take(N=100):
                if getattr(endpoint, "topic_name", None):  # None of those that go
                    self.offered[endpoint.topic_name.removeprefix("rt")] = endpoint
            time.sleep(0.01)
        return found

    def subscribe(self, topic: str, name: str, depth: int | None = None) -> None:
        made = Topic(self.participant, f"rt{topic}" if topic[0] == "/" else topic, foreign_type(name))
        keeps = topic.endswith((*KEPT, "ros_discovery_info"))
        kept = Policy.Durability.TransientLocal if keeps else Policy.Durability.Volatile
        history = Policy.History.KeepAll if depth is None else Policy.History.KeepLast(depth)
        qos = Qos(Policy.Reliability.Reliable(0), kept, history)
        self._readers[topic] = name, DataReader(self.participant, made, qos=qos)

    def advertise(self, topic: str, name: str) -> Callable[[Any], None]:
        """What publishes rosbags' messages."""
        kind = foreign_type(name)
        qos = Qos(Policy.Reliability.Reliable(0), Policy.DataRepresentation(use_cdrv0_representation=True))
        writer: Any = DataWriter(self.participant, Topic(self.participant, f"rt{topic}", kind), qos=qos)
        self.until(writer.get_matched_subscriptions)

        def publish(message: Any) -> None:
            writer.write(raw_message(kind, bytes(STORE.serialize_cdr(message, name))))

        self.kept.append(writer)
        return publish

    def take(self, topic: str, most: int = 100_000) -> list[Any]:
        name, reader = self._readers[topic]
        return [STORE.deserialize_cdr(message.data, name) for message in reader.take(N=most)]


class Source:
    """A simulation whose recording grows at a request, and flight stacks that note their commands."""

    speed = 1.0
    time = 0.0
    paused = False
    until: int | None = None

    def __init__(self, climb: Climb) -> None:
        self.flown: list[tuple[str, dict[str, Any], int | None]] = []
        self.recorded: list[tuple[str, int | None]] = []
        self.simulation, self._climb = climb.simulation, climb
        self.running = threading.Event()
        self.runner: Any = None
        nan, half = math.nan, math.sqrt(0.5)
        pose, twist = [nan] * 21, [nan] * 21
        pose[0], pose[6], pose[11], pose[15], pose[18], pose[20] = 1.0, 4.0, 9.0, 0.1, 0.2, 0.3
        twist[0], twist[6], twist[11] = 0.01, 0.02, 0.03
        self.rate = 0.0
        self.estimated = [
            mavlink.MAVLink_odometry_message(
                2_500_000, 1, 1, 3.0, 4.0, -2.0, [half, 0.0, 0.0, half], 5.0, 0.0, 0.0, 0.0, 0.0, 0.5,
                pose, twist, 0, 8,
            )
        ]  # fmt: skip

    def status(self) -> Any:
        battery = np.array([[15.5, 12.0, 0.75], [16.0, 1.0, 1.0]])
        return SimpleNamespace(
            time=round(self.time * 1e6), seconds=self.time, battery=battery, paused=self.paused
        )

    def fly(self, kind: str, data: Mapping[str, Any], vehicle: int | None) -> Future[None]:
        done: Future[None] = Future()
        self.flown.append(
            (kind, {k: v for k, v in data.items() if k not in ("version", "request_id")}, vehicle)
        )
        if kind == "land":
            done.set_exception(UserError("vehicle 1 refuses to land: it stands"))
        else:
            done.set_result(None)
        return done

    def estimates(self, vehicle: int, rate: float) -> list[Any]:
        """ODOMETRY of the first vehicle as PX4 sends it, again and again: nose east, flying north, 2 m up."""
        self.rate = rate
        return self.estimated if vehicle == 0 else []

    def call(self, action: Callable[[], None]) -> None:
        action()

    def flush_log(self) -> None:
        if self.until is not None:
            self._climb.advance(max(self.until - self.simulation.time, 0) // self.simulation.step)
        elif self.running.is_set():
            self._climb.advance(5)

    def limit_time(self) -> Any:
        """The source as a limit of its time, up to which it runs at once."""
        return self

    def run_until(self, time_us: int) -> None:
        self.until = time_us

    def release(self) -> None:
        self.until = None


@pytest.fixture
def published(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Source, Node, list[str]]]:
    said: list[str] = []
    with Climb(tmp_path) as climb:
        source: Any = Source(climb)
        climb.advance(1)
        camera = CameraSpecification(
            kind="camera",
            rate=50.0,
            width=32,
            height=16,
            position=(0.1, 0.2, 0.3),
            rotation=(0.0, -90.0, 0.0),
        )
        source.runner = SensorRunner(camera, climb.simulation)
        run = RunContext(
            source,
            climb.path,
            lambda _time, kind, vehicle, _data, _refused: source.recorded.append((kind, vehicle)),
            notify=said.append,
            hosts=(source.runner,),
            on_flight=source.fly,
            estimates=source.estimates,
        )
        graph = RosGraph(run, DOMAIN, choices=getattr(request, "param", None))
        graph.start()
        try:
            yield source, Node(), said
        finally:
            graph.close()
            source.runner.close()


def stamp_of(time_: Any) -> float:
    return float(time_.sec + time_.nanosec * 1e-9)


def test_hashes_of_types_are_those_of_ros() -> None:
    known = [name for name in DEFINITIONS if schema_name(name) in STORE.fielddefs]
    others = {"actuator_msgs/Actuators"}
    others |= {f"rcl_interfaces/srv/GetParameterTypes_{part}" for part in ("Request", "Response")}
    assert {*DEFINITIONS} - {*known} == others
    assert {name: type_hash(name) for name in known} == {
        name: STORE.hash_rihs01(schema_name(name)) for name in known
    }


def test_topics_have_the_names_types_and_hashes_that_rmw_expects(
    published: tuple[Source, Node, list[str]],
) -> None:
    _, node, _ = published
    expected = {
        "/clock": "rosgraph_msgs/msg/Clock",
        "/tf": "tf2_msgs/msg/TFMessage",
        "/vehicle_0/imu": "sensor_msgs/msg/Imu",
        "/vehicle_0/odometry": "nav_msgs/msg/Odometry",
        "/vehicle_1/fix": "sensor_msgs/msg/NavSatFix",
        "/vehicle_1/magnetic_field": "sensor_msgs/msg/MagneticField",
        "/vehicle_1/pressure": "sensor_msgs/msg/FluidPressure",
    }
    node.until(lambda: expected.keys() <= node.offered.keys())
    for topic, name in expected.items():
        package, _, kind = name.split("/")
        endpoint = node.offered[topic]
        assert endpoint.type_name == f"{package}::msg::dds_::{kind}_"
        assert endpoint.qos[Policy.Userdata].data == f"typehash={STORE.hash_rihs01(name)};".encode()
        assert endpoint.qos[Policy.Reliability] == Policy.Reliability.Reliable(1_000_000)
        assert endpoint.qos[Policy.Durability] == Policy.Durability.Volatile


def test_clock_imu_and_odometry_of_every_step_arrive(published: tuple[Source, Node, list[str]]) -> None:
    source, node, said = published
    node.until(lambda: "/clock" in node.offered)
    for topic, name in (
        ("/clock", "rosgraph_msgs/msg/Clock"),
        ("/vehicle_0/imu", "sensor_msgs/msg/Imu"),
        ("/vehicle_0/odometry", "nav_msgs/msg/Odometry"),
    ):
        node.subscribe(topic, name)
    time.sleep(0.5)  # the publisher finds the subscribers
    source.running.set()
    clocks: list[Any] = []
    imus: list[Any] = []
    poses: list[Any] = []

    def flown() -> bool:
        clocks.extend(node.take("/clock"))
        imus.extend(node.take("/vehicle_0/imu"))
        poses.extend(node.take("/vehicle_0/odometry"))
        return len(imus) > 400

    node.until(flown)
    times = np.array([stamp_of(imu.header.stamp) for imu in imus])
    assert np.allclose(np.diff(times), 0.004)
    assert np.allclose(np.diff([stamp_of(clock.clock) for clock in clocks]), 0.004)
    assert imus[0].header.frame_id == "vehicle_0/base_link/imu"
    assert imus[50].linear_acceleration.z == pytest.approx(9.8, abs=0.3)  # REP 103: up at rest
    assert (poses[0].header.frame_id, poses[0].child_frame_id) == ("map", "vehicle_0/base_link")
    assert poses[-1].pose.pose.position.z > poses[0].pose.pose.position.z  # it climbs, and z is up
    yaw = 2.0 * np.arctan2(poses[0].pose.pose.orientation.z, poses[0].pose.pose.orientation.w)
    assert yaw == pytest.approx(np.pi / 2.0 - 0.5, abs=0.01)  # 0.5 rad from north, from east in ENU
    (line,) = said
    assert line.startswith(f"ROS 2 topics in domain {DOMAIN}")
    assert line.endswith("export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST")


def test_batteries_pictures_and_their_mountings_arrive(published: tuple[Source, Node, list[str]]) -> None:
    source, node, _ = published
    picture, base = "/vehicle_0/camera_0/cam0", "vehicle_0/base_link/camera_0"
    image = np.arange(16 * 32 * 3, dtype=np.uint8).reshape(16, 32, 3)

    def deliver() -> None:
        for listener in source.runner.listeners:
            listener(SeenSample(1_500_000, {"image": image}))

    deliver()  # its topics appear
    node.until(lambda: {picture, f"{picture}/camera_info", "/tf_static"} <= node.offered.keys())
    for topic, name in (
        ("/vehicle_0/battery", "sensor_msgs/msg/BatteryState"),
        ("/tf_static", "tf2_msgs/msg/TFMessage"),
        (picture, "sensor_msgs/msg/Image"),
        (f"{picture}/camera_info", "sensor_msgs/msg/CameraInfo"),
        (f"{picture}/compressed", "sensor_msgs/msg/CompressedImage"),
    ):
        node.subscribe(topic, name)
    (mounted,) = node.until(lambda: node.take("/tf_static"))  # kept for those that come later
    first, second = mounted.transforms[-2:]
    assert (first.header.frame_id, first.child_frame_id) == ("vehicle_0/base_link", base)
    place, turn = first.transform.translation, first.transform.rotation
    assert (place.x, place.y, place.z) == pytest.approx((0.1, -0.2, -0.3))
    optical = second.transform.rotation
    assert (second.header.frame_id, second.child_frame_id) == (base, f"{base}_optical")
    # The camera looks down: the optical axis z is base_link's -z.
    both = Rotation.from_quat([turn.x, turn.y, turn.z, turn.w]) * Rotation.from_quat(
        [optical.x, optical.y, optical.z, optical.w]
    )
    assert both.apply([0.0, 0.0, 1.0]) == pytest.approx([0.0, 0.0, -1.0], abs=1e-9)
    time.sleep(0.5)  # the publisher finds the subscribers
    deliver()
    (shown,) = node.until(lambda: node.take(picture))
    (info,) = node.until(lambda: node.take(f"{picture}/camera_info"))
    assert (shown.encoding, shown.width, shown.height) == ("rgb8", 32, 16)
    assert shown.header.frame_id == info.header.frame_id == f"{base}_optical"
    assert stamp_of(shown.header.stamp) == 1.5
    assert shown.data.tobytes() == image.tobytes()
    (packed,) = node.until(lambda: node.take(f"{picture}/compressed"))
    assert (packed.format, packed.header) == ("rgb8; jpeg compressed bgr8", shown.header)
    unpacked = np.asarray(Image.open(BytesIO(packed.data.tobytes()))).astype(int)
    assert np.abs(unpacked - image).mean() < 8.0  # JPEG halves the resolution of colours
    source.running.set()
    battery = node.until(lambda: node.take("/vehicle_0/battery"))[0]
    assert (battery.voltage, battery.current, battery.percentage) == (15.5, -12.0, 0.75)


def test_a_pause_is_told_also_to_those_that_come_later(published: tuple[Source, Node, list[str]]) -> None:
    source, node, _ = published
    topic = "/simulation/paused"
    node.until(lambda: topic in node.offered)
    node.subscribe(topic, "std_msgs/msg/Bool")
    for paused in (False, True, False):
        source.paused = paused
        assert [one.data for one in node.until(lambda: node.take(topic))] == [paused]


def test_the_plan_is_a_marker_for_those_that_come_later(published: tuple[Source, Node, list[str]]) -> None:
    _, node, _ = published
    node.until(lambda: "/markers" in node.offered)
    node.subscribe("/markers", "visualization_msgs/msg/MarkerArray")
    (array,) = node.until(lambda: node.take("/markers"))
    plan = next(marker for marker in array.markers if marker.ns == "vehicle_0 plan")
    assert (plan.type, plan.action, plan.header.frame_id) == (plan.LINE_STRIP, plan.ADD, "map")
    assert plan.pose.orientation.w == plan.color.a == 1.0
    legs = load_plan(ROOT / "missions" / "square.plan").legs
    assert len(plan.points) == len(legs)
    assert plan.points[0].z == pytest.approx(legs[0].params[6], abs=0.01)


def test_a_map_from_above_has_rows_along_north_and_leaves_out_the_ground() -> None:
    seen = OccupancyMap(0.5)
    seen.time = 2.5
    seen.insert([0.0, 0.0, -3.0], [[4.2, 1.2, -3.0]])  # to a wall
    seen.insert([0.0, 0.0, -3.0], [[-2.0, 0.0, 0.2]])  # to the ground
    made = map_message("0", seen)
    grid = STORE.deserialize_cdr(made.data[0].tobytes(), "nav_msgs/msg/OccupancyGrid")
    assert (made.topic, stamp_of(grid.header.stamp)) == ("/vehicle_0/map", 2.5)
    assert grid.info.resolution == 0.5

    def at(north: float, east: float) -> int:
        row = int((north - grid.info.origin.position.y) // 0.5)
        return int(grid.data[row * grid.info.width + int((east - grid.info.origin.position.x) // 0.5)])

    assert at(4.2, 1.2) == 100
    assert at(2.1, 0.6) == 0
    assert at(-1.9, 0.0) != 100
    assert at(4.2, -3.0) == -1


def test_commands_as_topics_are_executed_and_answered(published: tuple[Source, Node, list[str]]) -> None:
    source, node, said = published
    kinds = STORE.types
    node.subscribe("/answers", "std_msgs/msg/String")
    node.until(lambda: "/answers" in node.offered)
    answers: list[dict[str, Any]] = []

    def command(topic: str, kind: str, *value: Any) -> dict[str, Any]:
        publish = node.advertise(topic, f"std_msgs/msg/{kind}")
        count = len(answers)
        publish(kinds[f"std_msgs/msg/{kind}"](*value))

        def answered() -> bool:
            answers.extend(json.loads(message.data) for message in node.take("/answers"))
            return len(answers) > count

        node.until(answered)
        return answers[-1]

    accepted = {"request_id": "", "accepted": True, "reason": ""}
    assert command("/vehicle_0/take_off", "Float64", 4.0) == {"topic": "/vehicle_0/take_off", **accepted}
    assert command("/vehicle_1/arm", "Bool", False) == {"topic": "/vehicle_1/arm", **accepted}
    landed = command("/vehicle_1/land", "Empty")
    assert landed["reason"] == "vehicle 1 refuses to land: it stands"
    assert source.flown == [("takeoff", {"height": 4.0}, 0), ("arm", {"armed": False}, 1), ("land", {}, 1)]
    assert source.recorded == [("takeoff", 0), ("arm", 1), ("land", 1)]
    loss = json.dumps({"kind": "motor_loss", "motor": 2, "request_id": "a"})
    assert command("/vehicle_0/command", "String", loss)["request_id"] == "a"
    assert source.simulation.states["rotor_health"][0, 1] == 0.0
    assert command("/simulation/command", "String", '{"kind": "pace", "speed": 0}')["accepted"] is False
    assert command("/simulation/command", "String", '{"kind": "halt"}')["reason"].startswith(
        "no command 'halt'"
    )
    assert command("/simulation/command", "String", "now")["reason"].startswith("write a command as JSON")
    assert not command("/vehicle_0/take_off", "Float64", math.nan)["accepted"]
    assert "vehicle 1 refuses to land" in "".join(said)


def test_a_subscription_matches_while_a_publisher_is_known(published: tuple[Source, Node, list[str]]) -> None:
    """Cyclone DDS loses what publishers of other vendors send before they are found."""
    source, node, _ = published
    subscriptions = BuiltinDataReader(node.participant, BuiltinTopicDcpsSubscription)
    found: dict[Any, tuple[str, ...]] = {}

    def partitions() -> list[tuple[str, ...]]:
        for endpoint in subscriptions.take(N=100):
            if endpoint.topic_name == "rt/vehicle_0/land":
                partition = endpoint.qos[Policy.Partition]
                found[endpoint.key] = partition.partitions if partition else ()
            elif endpoint.topic_name is None:
                found.pop(endpoint.key, None)
        return list(found.values())

    node.until(lambda: partitions() == [("waiting",)])
    publish = node.advertise("/vehicle_0/land", "std_msgs/msg/Empty")
    node.until(lambda: partitions() == [()])
    publish(STORE.types["std_msgs/msg/Empty"]())
    node.kept.clear()
    del publish
    node.until(lambda: partitions() == [("waiting",)])
    assert source.flown == [("land", {}, 0)]


def test_twists_poses_and_wind_become_commands_in_the_axes_of_ros(
    published: tuple[Source, Node, list[str]],
) -> None:
    source, node, said = published
    kinds = STORE.types
    vector, quaternion = kinds["geometry_msgs/msg/Vector3"], kinds["geometry_msgs/msg/Quaternion"]
    twist = kinds["geometry_msgs/msg/Twist"]
    move = node.advertise("/vehicle_1/cmd_vel", "geometry_msgs/msg/Twist")
    still = twist(vector(0.0, 0.0, 0.0), vector(0.0, 0.0, 0.0))
    ahead = twist(vector(1.0, 2.0, 3.0), vector(0.0, 0.0, 0.25))  # forward, left, up, to the left
    move(still)  # takes over nothing
    time.sleep(0.3)
    assert source.flown == []
    expected = ("velocity", {"velocity": (1.0, -2.0, -3.0), "yaw_rate": -0.25}, 1)
    for count, message in enumerate((ahead, ahead, still), 1):
        move(message)
        node.until(lambda: len(source.flown) == count)  # noqa: B023  (called at once)
        time.sleep(0.1)
        move(twist(vector(1e300, 0.0, 0.0), vector(0.0, 0.0, 0.0)))  # more than a float of MAVLink holds
        time.sleep(0.1)
    move(still)  # again: who lands it by other means is not overruled
    time.sleep(0.3)
    assert len(source.flown) == 3
    assert [(k, {**d, "velocity": tuple(d["velocity"])}, n) for k, d, n in source.flown[:2]] == [expected] * 2
    assert source.flown[2][1]["velocity"] == (0.0, 0.0, 0.0)
    assert source.recorded == [("velocity", 1)]  # a stream is one command
    assert "at most" in said[-1]

    header = kinds["std_msgs/msg/Header"](kinds["builtin_interfaces/msg/Time"](0, 0), "map")
    pose = kinds["geometry_msgs/msg/Pose"](
        kinds["geometry_msgs/msg/Point"](4.0, 5.0, 6.0), quaternion(0.0, 0.0, 1.0, 1.0)
    )
    go = node.advertise("/vehicle_0/cmd_pose", "geometry_msgs/msg/PoseStamped")
    latin = bytes(
        STORE.serialize_cdr(
            kinds["geometry_msgs/msg/PoseStamped"](header, pose), "geometry_msgs/msg/PoseStamped"
        )
    ).replace(b"map", b"m\xe4p")
    node.kept[-1].write(raw_message(foreign_type("geometry_msgs/msg/PoseStamped"), latin))
    node.until(lambda: "not UTF-8" in said[-1])  # and the graph goes on
    go(kinds["geometry_msgs/msg/PoseStamped"](header, pose))
    node.until(lambda: len(source.flown) == 4)
    kind, data, number = source.flown[3]
    assert (kind, number, tuple(data["position"])) == ("goto", 0, (5.0, 4.0, -6.0))
    assert data["yaw"] == pytest.approx(0.0)  # 90 deg from east is north, also where w and z are 1
    header.frame_id = "odom"
    go(kinds["geometry_msgs/msg/PoseStamped"](header, pose))
    node.until(lambda: any("frame 'map', not 'odom'" in line for line in said))

    blow = node.advertise("/set_wind", "geometry_msgs/msg/Vector3Stamped")
    blow(kinds["geometry_msgs/msg/Vector3Stamped"](header, vector(3.0, -4.0, 0.5)))
    node.until(lambda: ("wind", None) in source.recorded)
    wind = source.simulation.world.specification.wind
    record = source.simulation.world.specification.wind.pack(0)[0] if wind.steady else None
    assert record is None or np.allclose(record["steady"], (-4.0, 3.0, -0.5))


def test_the_node_and_its_topics_are_announced_to_the_tools_of_ros(
    published: tuple[Source, Node, list[str]],
) -> None:
    _, node, _ = published
    node.subscribe("ros_discovery_info", "rmw_dds_common/msg/ParticipantEntitiesInfo")
    node.until(lambda: {"/clock", "/vehicle_0/imu"} <= node.offered.keys())

    def announced() -> Any:
        found = node.take("ros_discovery_info")
        return found and found[-1].node_entities_info_seq

    (info,) = node.until(announced)
    assert (info.node_namespace, info.node_name) == ("/", "sitl_bridge")
    writers = {bytes(gid.data) for gid in info.writer_gid_seq}
    assert node.offered["/clock"].key.bytes in writers
    assert node.offered["/vehicle_0/imu"].key.bytes in writers


def slow_node(took: list[float], stop: threading.Event, header: int) -> None:
    """A node of one thread as rclcpp has it: a message of each subscription, then a request, a round.

    Args:
        header: bytes before the fields of services: 16 of rmw_cyclonedds, which marks its services, else 0.
    """
    node = Node()
    for topic in ("/clock", "/vehicle_0/imu"):
        node.subscribe(
            topic, {"/clock": "rosgraph_msgs/msg/Clock"}.get(topic, "sensor_msgs/msg/Imu"), depth=5
        )
    mark = (Policy.Userdata(b"serviceid=1.2;"),) if header else ()
    qos = Qos(
        Policy.Reliability.Reliable(0),
        Policy.History.KeepLast(10),
        Policy.DataRepresentation(use_cdrv0_representation=True),
        *mark,
    )
    asked, answer = parameter_types("Request"), parameter_types("Response")
    service = "/slow/get_parameter_types"
    requests: Any = DataReader(node.participant, Topic(node.participant, f"rq{service}Request", asked), qos)
    replies: Any = DataWriter(node.participant, Topic(node.participant, f"rr{service}Reply", answer), qos)
    while not stop.is_set():
        clock = node.take("/clock", 1)
        took.extend(stamp_of(message.clock) for message in clock)
        node.take("/vehicle_0/imu", 1)
        time.sleep(0.003 if clock else 0.001)  # slower than the simulation
        for request in requests.take(N=1):
            (count,) = struct.unpack_from("<I", request.data, 4 + header)
            names = [request.data[8 + header + 20 * k :][4:16] for k in range(count)]
            assert names == [b"use_sim_time"] * count
            replies.write(raw_message(answer, request.data[: 8 + header] + bytes(count)))


@pytest.mark.parametrize("header", [16, 0], ids=["rmw_cyclonedds", "rmw_fastrtps"])
def test_simulated_time_waits_for_a_slow_node_which_loses_nothing(tmp_path: Path, header: int) -> None:
    took: list[float] = []
    said: list[str] = []
    stop = threading.Event()
    with Climb(tmp_path) as climb:
        source: Any = Source(climb)
        climb.advance(1)
        run = RunContext(source, climb.path, notify=said.append, limit_time=source.limit_time)
        graph = RosGraph(run, DOMAIN, ("slow",))
        graph.start()
        slow = threading.Thread(target=slow_node, args=(took, stop, header))
        try:
            time.sleep(1.0)
            begun = climb.simulation.time
            slow.start()
            end = time.monotonic() + 40.0 + 0.02 * MESSAGES
            while len(took) < MESSAGES:
                assert time.monotonic() < end, said
                time.sleep(0.05)
                ahead = (climb.simulation.time * 1e-6 - took[-1]) / 0.004 if took else 0.0
                assert ahead < 15
            assert climb.simulation.time > begun  # it stood before the node was there
        finally:
            stop.set()
            slow.join()
            graph.close()
    assert said[1] == "simulated time waits for the ROS 2 nodes slow"
    assert np.allclose(np.diff(took), 0.004)
    assert took[0] <= begun * 1e-6 + 0.008


def test_a_node_that_is_there_and_answers_nothing_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sitl_bridge.live.ros2.graph.SILENT", 0.0)
    said: list[str] = []
    looks = itertools.count()
    takers: list[Callable[[bytes], None]] = []
    asked: list[bytes] = []

    def look(_wait: float) -> None:
        """All answer at last, as after a callback that took long."""
        if next(looks) % 4 == 3:
            for request in asked:
                takers[0](request)  # both begin with the request's number

    participant: Any = SimpleNamespace(
        be_client=lambda _service, _name, take: takers.append(take),
        has_server=lambda _service: True,
        request=lambda _service, fields: asked.append(fields),
        take_arrived=look,
    )
    waited = WaitedNodes(("slow",), participant, said.append, lambda: False)
    waited.wait(5)
    waited.wait(5)
    assert said == ["simulated time stands: the ROS 2 node slow has not answered for 0 s"]


def test_the_vehicle_is_described_as_a_robot_for_those_that_come_later(
    published: tuple[Source, Node, list[str]],
) -> None:
    source, node, _ = published
    topic = "/vehicle_0/robot_description"
    node.until(lambda: topic in node.offered)
    node.subscribe(topic, "std_msgs/msg/String")
    (message,) = node.until(lambda: node.take(topic))
    robot = ElementTree.fromstring(message.data)
    links = [link.get("name") for link in robot.iter("link")]
    ends = ("", "/camera_0", "/imu", "/magnetometer", "/barometer", "/gps")
    assert sorted(map(str, links)) == sorted(f"vehicle_0/base_link{end}" for end in ends)
    joint = robot.find("joint")
    assert joint is not None
    assert {end.tag: end.get("link") for end in joint} == dict(zip(("parent", "child"), links, strict=False))
    rotors = source.simulation.vehicles[0]["rotor_position"][:4] * (1.0, -1.0, -1.0)  # FRD to FLU
    arms: list[Any] = []
    discs: list[Any] = []
    for visual in robot.iter("visual"):
        origin, cylinder = visual.find("origin"), visual.find("geometry/cylinder")
        assert origin is not None
        assert cylinder is not None
        place, turn = (np.array(str(origin.get(name)).split(), float) for name in ("xyz", "rpy"))
        axis = Rotation.from_euler("xyz", turn).apply([0.0, 0.0, float(str(cylinder.get("length"))) / 2.0])
        (arms if turn.any() else discs).append(place + axis if turn.any() else place)
    assert np.allclose(discs, rotors, atol=1e-3)
    assert np.allclose(arms, rotors, atol=1e-3)  # an arm ends at its rotor


def test_samples_say_the_variance_of_their_noise_and_gps_its_velocity(
    published: tuple[Source, Node, list[str]],
) -> None:
    source, node, _ = published
    node.until(lambda: "/vehicle_0/fix_velocity" in node.offered)
    kinds = {"imu": "sensor_msgs/msg/Imu", "fix_velocity": "geometry_msgs/msg/TwistWithCovarianceStamped"}
    for end, kind in kinds.items():
        node.subscribe(f"/vehicle_0/{end}", kind)
    time.sleep(0.5)  # the publisher finds the subscribers
    source.running.set()
    imu = node.until(lambda: node.take("/vehicle_0/imu"))[-1]
    noise = next(s for s in source.simulation.sensors[0] if s["kind"] == ImuSpecification.code)["noise"]
    assert noise[0] > 0.0
    assert np.diag(imu.linear_acceleration_covariance.reshape(3, 3)) == pytest.approx(noise[:3] ** 2)
    assert np.diag(imu.angular_velocity_covariance.reshape(3, 3)) == pytest.approx(noise[3:6] ** 2)
    speeds: list[Any] = []

    def climbs() -> bool:
        speeds.extend(node.take("/vehicle_0/fix_velocity"))
        return bool(speeds) and speeds[-1].twist.twist.linear.z > 0.2

    node.until(climbs)  # up is positive
    assert speeds[-1].header.frame_id == "map"
    noise = next(s for s in source.simulation.sensors[0] if s["kind"] == GpsSpecification.code)["noise"]
    known = np.diag(speeds[-1].twist.covariance.reshape(6, 6))[:3]
    assert known == pytest.approx(noise[[1, 0, 2]] ** 2)
    assert known.all()


CHOSEN = RosChoices(
    topics={"/vehicle_0/": "/uav/", "/vehicle_0/wind": None, "/vehicle_1/": None},
    frames={"vehicle_0/": "uav/", "map": "world"},
    rates={"imu": 50.0, "estimate/odometry": 20.0},
    tf="estimate",
)


@pytest.mark.parametrize("published", [CHOSEN], indirect=True)
def test_names_rates_and_the_motion_in_tf_are_as_chosen(published: tuple[Source, Node, list[str]]) -> None:
    source, node, _ = published
    kinds = {
        "/tf": "tf2_msgs/msg/TFMessage",
        "/tf_static": "tf2_msgs/msg/TFMessage",
        "/answers": "std_msgs/msg/String",
        "/uav/imu": "sensor_msgs/msg/Imu",
        "/uav/estimate/odometry": "nav_msgs/msg/Odometry",
        "/uav/robot_description": "std_msgs/msg/String",
    }
    node.until(lambda: kinds.keys() <= node.offered.keys())
    time.sleep(0.3)
    node.until(lambda: True)
    assert not [topic for topic in node.offered if topic.startswith("/vehicle") or topic.endswith("/wind")]
    for topic in kinds:
        node.subscribe(topic, kinds[topic])
    (static,) = node.until(lambda: node.take("/tf_static"))
    ends = {(one.header.frame_id, one.child_frame_id) for one in static.transforms}
    assert {("world", "uav/odom"), ("uav/base_link", "uav/base_link/imu")} <= ends
    (described,) = node.until(lambda: node.take("/uav/robot_description"))
    assert '<link name="uav/base_link">' in described.data
    estimate = node.until(lambda: node.take("/uav/estimate/odometry"))[0]
    assert source.rate == 20.0
    assert (estimate.header.frame_id, estimate.child_frame_id) == ("uav/odom", "uav/base_link")
    assert stamp_of(estimate.header.stamp) == 2.5
    place, moved = estimate.pose.pose.position, estimate.twist.twist
    assert (place.x, place.y, place.z) == pytest.approx((4.0, 3.0, 2.0))  # east, north, up
    assert (moved.linear.x, moved.linear.y) == pytest.approx((0.0, 5.0))  # north is to its left
    assert moved.angular.z == pytest.approx(-0.5)
    pose, twist = (one.covariance.reshape(6, 6) for one in (estimate.pose, estimate.twist))
    assert np.diag(pose) == pytest.approx([4.0, 1.0, 9.0, 0.1, 0.2, 0.3])  # nose east: x and roll about it
    assert np.diag(twist) == pytest.approx([0.02, 0.01, 0.03, 0.0, 0.0, 0.0])
    moving = node.until(lambda: node.take("/tf"))[0]
    assert moving.transforms[0].child_frame_id == "uav/base_link"
    assert moving.transforms[0].transform.translation.z == pytest.approx(2.0)
    take_off = node.advertise("/uav/take_off", "std_msgs/msg/Float64")
    take_off(STORE.types["std_msgs/msg/Float64"](4.0))
    (answer,) = node.until(lambda: node.take("/answers"))
    assert json.loads(answer.data)["topic"] == "/uav/take_off"
    source.running.set()
    imus: list[Any] = []

    def flown() -> bool:
        imus.extend(node.take("/uav/imu"))
        return len(imus) > 100

    node.until(flown)
    stamps = [stamp_of(imu.header.stamp) for imu in imus[1:]]  # after the first, part of a period
    assert np.allclose(np.diff(stamps), 0.02)
    assert imus[0].header.frame_id == "uav/base_link/imu"


TWO_HOSTS = """
set -e
ip link set lo up
unshare -n sleep 60 & other=$!
until [ $(readlink /proc/$other/ns/net) != $(readlink /proc/self/ns/net) ]; do sleep 0.1; done
ip link add veth0 type veth peer name veth1 netns $other
ip address add 10.9.0.1/24 dev veth0; ip link set veth0 up
on="nsenter -t $other -n"
$on ip link set lo up; $on ip address add 10.9.0.2/24 dev veth1; $on ip link set veth1 up
"$1" -c "
import socket, sys
from sitl_bridge.live.ros2.participant import Participant
open_ = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)  # as another program's
open_.bind(('0.0.0.0', 7500))
one = Participant(0, print)
one.advertise('/clock', 'rosgraph_msgs/Clock')
print('ready', flush=True)
sys.stdin.read()
" < <(sleep 50) > ready & run=$!
until grep -q ready ready; do sleep 0.1; done
$on "$1" "$2" 10.9.0.1
kill $run $other
"""
"""A run's participant in one network namespace and a stranger in another one, joined by a cable."""


def test_no_other_machine_reaches_the_sockets(tmp_path: Path) -> None:
    command = ["unshare", "-n", "bash", "-c", TWO_HOSTS, "two", sys.executable]
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and ip")
    done = subprocess.run(
        [*command, str(ROOT / "tests" / "support" / "ros_stranger.py")],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=250.0,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == {"7410": "refused", "7411": "refused", "7500": "taken", "topics": []}


def test_a_scenario_chooses_names_and_a_wrong_one_is_refused_with_its_line(tmp_path: Path) -> None:
    file, plan = tmp_path / "flight.yaml", ROOT / "missions" / "square.plan"
    text = f"vehicles: [{{{{airframe: iris, mission: {plan}}}}}]\nros2:\n  topics:\n    {{}}: /uav/\n"
    file.write_text(text.format("/vehicle_0/"))
    options = FlightOptions(outlets=(Ros2Settings(),))
    (outlet,) = scenario_settings(file, options).outlets
    assert isinstance(outlet, Ros2Settings)
    assert outlet.choices is not None
    assert outlet.choices.topics == {"/vehicle_0/": "/uav/"}
    for wrong, reason in (
        ("/vehicle_1/", "line 4.*/vehicle_1/.*begins with none of .*vehicle_0"),
        ("/vehicle_0/imu", "must both end with a slash, or neither"),
        ("imu", "line 4.*imu"),
    ):
        file.write_text(text.format(wrong))
        with pytest.raises(ConfigurationError, match=reason):
            scenario_settings(file, options)
