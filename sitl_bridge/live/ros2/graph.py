"""A run as a ROS 2 graph: it follows the recording and publishes its topics, on a thread of its own.

The topics are those of an exported recording, with ``/clock``, batteries and the samples of sensors that see
beside them.  A topic of the recording that nobody reads costs nothing.  commands.py takes what nodes ask.
"""

from __future__ import annotations

import heapq
import itertools
import math
import os
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from sitl_bridge.analysis.export.drawn_messages import GRID, MARKERS, map_message, map_topic, marker_messages
from sitl_bridge.analysis.export.flight_stack_topics import (
    battery_message,
    battery_topic,
    estimate_messages,
    estimate_topic,
    odom,
)
from sitl_bridge.analysis.export.live_samples import (
    COMPRESSED,
    MOUNTINGS,
    Transform,
    compressed_message,
    mountings,
    pictures,
    sample_messages,
    sensor_transforms,
)
from sitl_bridge.analysis.export.robot_description import description_message
from sitl_bridge.analysis.export.ros_topics import (
    FRAMES,
    WORLD,
    RosMessages,
    begin_messages,
    ros_messages,
    stamp,
    to_enu,
    topic_types,
)
from sitl_bridge.base.arrays import Ints
from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.base.errors import UserError
from sitl_bridge.live.ros2.choices import RosChoices
from sitl_bridge.live.ros2.commands import RosCommands
from sitl_bridge.live.ros2.participant import PAUSED, Participant
from sitl_bridge.live.run.outlet import RunContext
from sitl_bridge.perception.mapping.occupancy_map import OccupancyMap
from sitl_bridge.perception.sensor_runner import SeenSample, SensorRunner
from sitl_bridge.record.followed_steps import StepFollower, StepsPart
from sitl_bridge.record.run_reader import RecordedRun

INTERVAL = 0.01
"""s of wall time between two looks at the recording."""
MOST_ROWS = 20_000
"""Rows that are sent at a time; earlier ones are left out."""
WAITING = 16
"""Samples of a sensor that sees which wait to be sent; beyond them the oldest are left out."""
BATTERY_PERIOD = 100_000
"""us of simulated time between two states of a battery."""
MAP_PERIOD = 1_000_000
"""us of simulated time between two occupancy maps of a vehicle."""
ESTIMATE_RATE = 30.0
"""Hz of PX4's clock, at which it sends its estimate by itself (mavlink_main.cpp, ODOMETRY)."""
TRANSFORMS = "/tf"
"""Topic of the vehicles' motion."""
CLOCK = "/clock"
"""Topic of simulated time, published at every step."""
LEAD = 5
"""Steps that simulated time may be ahead of what the nodes have handled: the depth of ROS's sensor data."""
LOOK = 0.05
"""s of wall time between looks whether a node has gone."""
AGAIN = 2.0
"""s of wall time after which requests are repeated: the node may have answered before it found the reader of
its answers.  An executor that receives one twice answers it in two rounds."""
SETTLE = 0.5
"""s of wall time in which the subscriptions of a node that answers are found."""
SILENT = 10.0
"""s of wall time without an answer after which the user is told of a node that is there, once."""
EXPORT = "export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST"
"""Without it nodes of ROS 2 look for others by multicast, which reaches other machines."""
SERVICE = "rcl_interfaces/srv/GetParameterTypes"
PARAMETER = struct.pack("<I16s", 13, b"use_sim_time")
"""A parameter that every node has, as a string in CDR."""
NUMBERS = 16
"""Lengths of requests, of which half wait at a time."""


def clock_messages(times: Ints) -> RosMessages:
    """Simulated time at ``times`` in ns."""
    made, table = begin_messages(CLOCK, "rosgraph_msgs/Clock", times, {})
    stamp(table, times, "clock")
    return made


class WaitedNodes:
    """Nodes that simulated time waits for, so that a slow one loses nothing at any speed.

    Every node of rclcpp and rclpy offers ``get_parameter_types``.  Its executor takes one message of each
    subscription a round, then one request of each service (rclcpp, ``AllocatorMemoryStrategy``; rclpy,
    ``Executor._wait_for_ready_callbacks``).  After the messages of k steps k requests are sent; when all are
    answered, a node with one thread has handled these messages.

    A request asks n times for the type of the same parameter: its answer's length names it, over every
    middleware.  A node answers in order, so what answers a repeated request is never taken for a later one.

    Args:
        stopped: whether the run ends.
    """

    def __init__(
        self,
        names: Sequence[str],
        participant: Participant,
        notify: Callable[[str], None],
        stopped: Callable[[], bool],
    ) -> None:
        self._participant, self._notify, self._stopped = participant, notify, stopped
        self._numbers = itertools.cycle(range(1, 1 + NUMBERS))
        self._services = {f"/{name.strip('/')}/get_parameter_types": name for name in names}
        self._waiting: set[tuple[str, int]] = set()
        self._silent: set[str] = set()
        for service in self._services:
            participant.be_client(service, SERVICE, partial(self._take_answer, service))

    def __bool__(self) -> bool:
        """Whether there is a node to wait for."""
        return bool(self._services)

    def find(self) -> None:
        """Wait until all nodes are there."""
        absent = [name for service, name in self._services.items() if not self._is_there(service)]
        if absent:
            self._notify(f"simulated time waits for the ROS 2 nodes {', '.join(absent)}")
        while not self._stopped() and not all(map(self._is_there, self._services)):
            self._participant.take_arrived(LOOK)
        self.wait(1)  # a node that answers has made its subscriptions
        time.sleep(SETTLE)

    def wait(self, count: int) -> None:
        """Wait until every node has handled ``count`` messages of each of its subscriptions."""
        for first in range(0, count, NUMBERS // 2):
            numbers = [next(self._numbers) for _ in range(min(count - first, NUMBERS // 2))]
            self._wait([(service, number) for number in numbers for service in self._services])

    def _wait(self, asked: Sequence[tuple[str, int]]) -> None:
        self._waiting = set(asked)
        begun, sent = time.monotonic(), -math.inf
        while self._waiting and not self._stopped():
            if time.monotonic() - sent > AGAIN:
                sent = time.monotonic()
                for service, number in filter(self._waiting.__contains__, asked):
                    self._participant.request(service, struct.pack("<I", number) + PARAMETER * number)
            self._participant.take_arrived(LOOK)
            if time.monotonic() - begun > SILENT:
                self._tell_silent()
            for service in [one for one in self._services if not self._is_there(one)]:
                self._notify(
                    f"the ROS 2 node {self._services.pop(service)} has gone; time goes on without it"
                )
                self._waiting = {one for one in self._waiting if one[0] != service}

    def _tell_silent(self) -> None:
        for service in {service for service, _ in self._waiting} - self._silent:
            self._silent.add(service)
            name = self._services[service]
            self._notify(f"simulated time stands: the ROS 2 node {name} has not answered for {SILENT:g} s")

    def _take_answer(self, service: str, types: bytes) -> None:
        self._waiting.discard((service, struct.unpack_from("<I", types)[0]))

    def _is_there(self, service: str) -> bool:
        return self._participant.has_server(service)


class RosGraph:
    """Publishes a running simulation until it is closed.

    Args:
        run: that is published; its recording has begun.
        domain: ROS_DOMAIN_ID.
        wait: nodes that simulated time waits for.
        choices: of names, rates and transforms.
    """

    def __init__(
        self, run: RunContext, domain: int, wait: Sequence[str] = (), choices: RosChoices | None = None
    ) -> None:
        self._choices = choices = choices or RosChoices()
        self._run, self._source, self._domain = run, run.source, domain
        self._simulation = simulation = run.source.simulation
        self._errors = ErrorLog(run.notify) if run.errors is None else run.errors
        self._rotors = simulation.vehicles["rotor_count"].tolist()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="ROS 2", daemon=True)
        topics = dict(choices.topics) | ({"/tf": None} if choices.tf == "none" else {})
        self._participant = Participant(domain, run.notify, topics)
        types = self._recorded = topic_types(simulation.names, list(simulation.sensors))
        self._battery_time = simulation.start - BATTERY_PERIOD
        batteries = {battery_topic(name): "sensor_msgs/BatteryState" for name in simulation.names}
        estimates = {estimate_topic(name): "nav_msgs/Odometry" for name in simulation.names}
        self._paused: bool | None = None
        for topic, kind in {
            CLOCK: "rosgraph_msgs/Clock",
            PAUSED: "std_msgs/Bool",
            **types,
            **batteries,
            **estimates,
        }.items():
            self._participant.advertise(topic, kind)
        self._begun = simulation.states["position"].copy()
        # the period of the last message and its time, by topics with a rate; those of one time are one
        self._periods: dict[str, tuple[int, int]] = {}
        self._commands = RosCommands(run, self._participant)
        self._waited = WaitedNodes(wait, self._participant, run.notify, self._stop.is_set)
        self._limit = run.limit_time() if self._waited and run.limit_time is not None else None
        if self._limit is not None:
            self._limit.awaits_others = True
        self._runners = [host for host in run.hosts if isinstance(host, SensorRunner)]
        self._seen: deque[tuple[SensorRunner, SeenSample]] = deque(maxlen=WAITING * len(self._runners))

        self._maps = {
            simulation.names[runner.vehicle]: runner.mapper.file
            for runner in self._runners
            if runner.mapper is not None and runner.mapper.file is not None
        }
        self._map_time = simulation.start
        for name in self._maps:
            self._participant.advertise(map_topic(name), GRID)

    # --- from any thread

    def start(self) -> None:
        """Publish, from now on."""
        local = "" if os.environ.get("CYCLONEDDS_URI") else f" on this machine; for nodes: {EXPORT}"
        self._run.notify(f"ROS 2 topics in domain {self._domain}{local}")
        if self._limit is not None:
            limit = self._limit
            self._source.call(lambda: limit.run_until(self._simulation.time))
        for runner in self._runners:
            runner.listeners.append(partial(self._take, runner))
        self._thread.start()

    def _take(self, runner: SensorRunner, sample: SeenSample) -> None:
        """Keep a sample for the graph's thread; on the simulation's."""
        self._seen.append((runner, sample))

    def close(self) -> None:
        """Publish what has been recorded, and leave the domain; safe to call twice."""
        if self._limit is not None:
            self._limit.release()
        if not self._stop.is_set() and self._thread.ident is not None:
            self._stop.set()
            self._thread.join()
        self._stop.set()
        self._participant.close()

    # --- the graph's thread

    def _work(self) -> None:
        simulation = self._simulation
        FRAMES.set(self._choices.frames)
        try:
            self._publish_mountings()
            self._publish_markers()
            self._publish_descriptions()
            with StepFollower(
                self._run.directory, len(simulation), simulation.start, simulation.step, MOST_ROWS
            ) as steps:
                if self._limit is not None:
                    self._waited.find()
                    self._record()
                    steps.skip()  # what was before the nodes came
                    self._limit.run_until(simulation.time + LEAD * simulation.step)
                while not self._stop.wait(self._interval):
                    self._commands.work()
                    self._participant.announce()
                    self._publish_paused()
                    self._record()
                    part = steps.part()
                    self._publish(part)
                    self._publish_estimates()
                    self._publish_samples()
                    self._publish_maps()
                    if self._limit is not None and len(part.rows):
                        self._waited.wait(len(part.rows) // len(simulation))
                        self._limit.run_until(int(part.rows["time"][-1]) + LEAD * simulation.step)
                self._publish(steps.part())
                self._publish_samples()
        except Exception as error:  # noqa: BLE001  (reported and kept; the simulation goes on)
            self._errors.lose("ROS 2", error)
        finally:
            if self._limit is not None:
                self._limit.release()

    @property
    def _interval(self) -> float:
        """s of wall time between two looks; as long as the lead lasts where nodes are waited for."""
        lead = LEAD * self._simulation.step * 1e-6
        return min(INTERVAL, lead / self._source.speed) if self._limit is not None else INTERVAL

    def _record(self) -> None:
        """Let the simulation record the steps so far."""
        done = threading.Event()

        def record() -> None:
            self._source.flush_log()
            done.set()

        self._source.call(record)
        while not done.wait(INTERVAL) and not self._stop.is_set():
            pass

    def _publish(self, part: StepsPart) -> None:
        """Publish some steps in the order of their times; simulated time comes first."""
        topics = set(self._participant.subscribed_topics())
        series = [self._series(found) for found in self._messages(part, topics) if found.topic in topics]
        for _, topic, data in heapq.merge(*series, key=lambda message: message[0]):
            self._participant.publish(topic, data)

    def _send(self, made: RosMessages) -> None:
        for _, topic, data in self._series(made):
            self._participant.publish(topic, data)

    def _publish_mountings(self) -> None:
        names = self._simulation.names
        mounted = [(names[runner.vehicle], runner.specification) for runner in self._runners]
        others: list[Transform] = []
        for name, sensors, begun in zip(names, self._simulation.sensors, self._begun, strict=True):
            others += sensor_transforms(name, sensors)
            if self._choices.tf == "estimate":
                others.append((WORLD, odom(name), to_enu(begun[None]), (0.0, 0.0, 0.0, 1.0)))
        self._participant.advertise(MOUNTINGS, "tf2_msgs/TFMessage")
        self._send(mountings(mounted, self._simulation.time * 1000, others))

    def _publish_estimates(self) -> None:
        topics, moving = set(self._participant.subscribed_topics()), self._choices.tf == "estimate"
        for number, name in enumerate(self._simulation.names):
            topic = estimate_topic(name)
            if topic in topics or (moving and TRANSFORMS in topics):
                for received in self._run.estimates(number, self._choices.rate(topic) or ESTIMATE_RATE):
                    if math.isfinite(received.x + received.q[0]):
                        estimate, transform = estimate_messages(name, received)
                        self._send(estimate)
                        if moving:
                            self._send(transform)

    def _publish_descriptions(self) -> None:
        simulation = self._simulation
        for name, vehicle, sensors in zip(
            simulation.names, simulation.vehicles, simulation.sensors, strict=True
        ):
            seeing = [
                one.specification for one in self._runners if self._simulation.names[one.vehicle] == name
            ]
            others = [child.rpartition("/")[2] for _, child, _, _ in sensor_transforms(name, sensors)]
            made = description_message(name, vehicle, [sensor.name for sensor in seeing] + others)
            self._participant.advertise(made.topic, made.name)
            self._send(made)

    def _publish_markers(self) -> None:
        try:
            run = RecordedRun(self._run.directory)
            found = run.describe(lambda _description: list(marker_messages(run)))
        except UserError as error:
            self._run.notify(f"ROS 2 has no markers: {error}")
            return
        for made in found[:1]:
            self._participant.advertise(MARKERS, made.name)
            self._send(made)

    def _publish_paused(self) -> None:
        paused = self._source.status().paused
        if paused != self._paused:
            self._paused = paused
            made, table = begin_messages(PAUSED, "std_msgs/Bool", np.zeros(1, np.int64), {})
            table["data"] = paused
            self._send(made)

    def _publish_maps(self) -> None:
        now = self._simulation.time
        if now - self._map_time < MAP_PERIOD:
            return
        self._map_time = now
        for name, file in self._maps.items():
            if file.is_file():
                self._send(map_message(name, OccupancyMap.load(file)))

    def _publish_samples(self) -> None:
        """Publish the samples of sensors that see that have arrived; a topic appears with its first one."""
        while self._seen:
            runner, sample = self._seen.popleft()
            name = self._simulation.names[runner.vehicle]
            for made in sample_messages(runner.specification, name, sample.time, sample.arrays):
                self._participant.advertise(made.topic, made.name)
                self._send(made)
            for topic, place, picture in pictures(runner.specification, name, sample.arrays):
                self._participant.advertise(topic, COMPRESSED)
                if topic in set(self._participant.subscribed_topics()):
                    self._send(compressed_message(picture, sample.time, topic, place))

    def _messages(self, part: StepsPart, topics: set[str]) -> Iterator[RosMessages]:
        rows = part.rows
        if not len(rows):
            return
        simulation = self._simulation
        times = np.unique(rows["time"])
        yield clock_messages(times * 1000)
        if times[-1] - self._battery_time >= BATTERY_PERIOD:
            self._battery_time = int(times[-1])
            for name, (voltage, current, left) in zip(
                simulation.names, self._source.status().battery.tolist(), strict=True
            ):
                yield battery_message(name, int(times[-1]) * 1000, voltage, current, left)
        recorded = {topic for topic in topics if topic in self._recorded}
        if self._choices.tf == "estimate":
            recorded.discard(TRANSFORMS)
        sensors = list(simulation.sensors)
        yield from ros_messages(
            part, simulation.names, self._rotors, 0, len(rows), topics=recorded, sensors=sensors
        )

    def _series(self, found: RosMessages) -> Iterator[tuple[int, str, bytes]]:
        """The messages of a topic; of one with a rate the first of each of its periods."""
        rate = self._choices.rate(found.topic)
        for at, data in zip(found.time.tolist(), found.data, strict=True):
            if rate is not None:
                period = int(at * rate / 1e9)
                last, sent = self._periods.get(found.topic, (-1, -1))
                if last == period and at != sent:
                    continue
                self._periods[found.topic] = period, at
            yield at, found.topic, data.tobytes()
