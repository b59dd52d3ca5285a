"""The run as a ROS 2 graph, read by other people's definitions of the messages (rosbags)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsPublication
from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import make_idl_struct, types
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from rosbags.interfaces import Nodetype
from rosbags.typesys import Stores, get_typestore
from scipy.spatial.transform import Rotation
from support.recorded_climb import Climb

from sitl_bridge.analysis.export.ros_definitions import DEFINITIONS, schema_name
from sitl_bridge.core.sensors.perception.camera import CameraSpecification
from sitl_bridge.live.bus.outlet import RunContext
from sitl_bridge.live.ros2.graph import RosGraph
from sitl_bridge.live.ros2.settings import Ros2Settings
from sitl_bridge.live.ros2.types import type_hash
from sitl_bridge.perception.sensor_runner import SeenSample, SensorRunner

pytestmark = pytest.mark.timeout(60)
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
        return {"bool": bool, "string": str}.get(what[0]) or getattr(types, what[0])

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
    return made


class Node:
    """A subscriber that knows nothing of this package."""

    def __init__(self) -> None:
        self.participant = DomainParticipant(DOMAIN)
        self._found = BuiltinDataReader(self.participant, BuiltinTopicDcpsPublication)
        self.offered: dict[str, Any] = {}
        self._readers: dict[str, tuple[str, DataReader[Any]]] = {}

    def until(self, done: Callable[[], Any]) -> Any:
        end = time.monotonic() + TIMEOUT
        while not (found := done()):
            assert time.monotonic() < end
            for endpoint in self._found.take(N=100):
                if hasattr(endpoint, "topic_name"):
                    self.offered[endpoint.topic_name.removeprefix("rt")] = endpoint
            time.sleep(0.01)
        return found

    def subscribe(self, topic: str, name: str) -> None:
        made = Topic(self.participant, f"rt{topic}", foreign_type(name))
        kept = Policy.Durability.TransientLocal if topic == "/tf_static" else Policy.Durability.Volatile
        qos = Qos(Policy.Reliability.Reliable(0), kept, Policy.History.KeepAll)
        self._readers[topic] = name, DataReader(self.participant, made, qos=qos)

    def take(self, topic: str) -> list[Any]:
        name, reader = self._readers[topic]
        return [STORE.deserialize_cdr(message.data, name) for message in reader.take(N=100_000)]


class Source:
    """A simulation whose recording grows at a request."""

    speed = 1.0

    def __init__(self, climb: Climb) -> None:
        self.simulation, self._climb = climb.simulation, climb
        self.running = threading.Event()
        self.runner: Any = None

    def status(self) -> Any:
        return SimpleNamespace(battery=np.array([[15.5, 12.0, 0.75], [16.0, 1.0, 1.0]]))

    def call(self, action: Callable[[], None]) -> None:
        action()

    def flush_log(self) -> None:
        if self.running.is_set():
            self._climb.advance(5)


@pytest.fixture
def published(tmp_path: Path) -> Iterator[tuple[Source, Node, list[str]]]:
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
        run = RunContext(source, climb.path, notify=said.append, hosts=(source.runner,))
        graph = RosGraph(run, Ros2Settings(DOMAIN))
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
    assert len(known) >= len(DEFINITIONS) - 1
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
    assert imus[0].header.frame_id == "vehicle_0/base_link"
    assert imus[50].linear_acceleration.z == pytest.approx(9.8, abs=0.3)  # REP 103: up at rest
    assert (poses[0].header.frame_id, poses[0].child_frame_id) == ("map", "vehicle_0/base_link")
    assert poses[-1].pose.pose.position.z > poses[0].pose.pose.position.z  # it climbs, and z is up
    yaw = 2.0 * np.arctan2(poses[0].pose.pose.orientation.z, poses[0].pose.pose.orientation.w)
    assert yaw == pytest.approx(np.pi / 2.0 - 0.5, abs=0.01)  # 0.5 rad from north, from east in ENU
    assert said == [f"ROS 2 topics in domain {DOMAIN}"]


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
    ):
        node.subscribe(topic, name)
    (mounted,) = node.until(lambda: node.take("/tf_static"))  # kept for those that come later
    first, second = mounted.transforms
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
    source.running.set()
    battery = node.until(lambda: node.take("/vehicle_0/battery"))[0]
    assert (battery.voltage, battery.current, battery.percentage) == (15.5, -12.0, 0.75)
