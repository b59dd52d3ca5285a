"""A run as a ROS 2 graph: it follows the recording and publishes its topics, on a thread of its own.

The topics are those of an exported recording, with ``/clock`` beside them.  A topic that nobody reads costs
nothing.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterator

import numpy as np

from sitl_bridge.analysis.export.ros_topics import (
    RosMessages,
    begin_messages,
    ros_messages,
    stamp,
    topic_types,
)
from sitl_bridge.base.arrays import Index
from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.live.bus.outlet import RunContext
from sitl_bridge.live.ros2.participant import Participant
from sitl_bridge.live.ros2.settings import Ros2Settings
from sitl_bridge.record.followed_steps import StepFollower, StepsPart

INTERVAL = 0.01
"""s of wall time between two looks at the recording."""
MOST_ROWS = 20_000
"""Rows that are sent at a time; earlier ones are left out."""
CLOCK = "/clock"
"""Topic of simulated time, published at every step."""


def clock_messages(times: Index) -> RosMessages:
    """Simulated time at ``times`` in ns."""
    made, table = begin_messages(CLOCK, "rosgraph_msgs/Clock", times, {})
    stamp(table, times, "clock")
    return made


class RosGraph:
    """Publishes a running simulation until it is closed.

    Args:
        run: that is published; its recording has begun.
        settings: how.
    """

    def __init__(self, run: RunContext, settings: Ros2Settings) -> None:
        self._run, self._source, self._settings = run, run.source, settings
        self._simulation = simulation = run.source.simulation
        self._errors = ErrorLog(run.notify) if run.errors is None else run.errors
        self._rotors = simulation.vehicles["rotor_count"].tolist()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="ROS 2", daemon=True)
        self._participant = Participant(settings.domain)
        types = topic_types(simulation.names, list(simulation.sensors))
        for topic, kind in {CLOCK: "rosgraph_msgs/Clock", **types}.items():
            self._participant.advertise(topic, kind)

    # --- from any thread

    def start(self) -> None:
        """Publish, from now on."""
        self._run.notify(f"ROS 2 topics in domain {self._settings.domain}")
        self._thread.start()

    def close(self) -> None:
        """Publish what has been recorded, and leave the domain; safe to call twice."""
        if not self._stop.is_set() and self._thread.ident is not None:
            self._stop.set()
            self._thread.join()
        self._stop.set()
        self._participant.close()

    # --- the graph's thread

    def _work(self) -> None:
        simulation = self._simulation
        try:
            with StepFollower(
                self._run.directory, len(simulation), simulation.start, simulation.step, MOST_ROWS
            ) as steps:
                while not self._stop.wait(INTERVAL):
                    self._record()
                    self._publish(steps.part())
                self._publish(steps.part())
        except Exception as error:  # noqa: BLE001  (reported and kept; the simulation goes on)
            self._errors.add("ROS 2, without which the simulation goes on,", error)

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
        topics = set(self._participant.subscribed())
        series = [self._series(found) for found in self._messages(part, topics) if found.topic in topics]
        for _, topic, data in heapq.merge(*series, key=lambda message: message[0]):
            self._participant.publish(topic, data)

    def _messages(self, part: StepsPart, topics: set[str]) -> Iterator[RosMessages]:
        rows = part.rows
        if not len(rows):
            return
        simulation = self._simulation
        times = np.unique(rows["time"])
        yield clock_messages(times * 1000)
        yield from ros_messages(part, simulation.names, self._rotors, 0, len(rows), topics=topics - {CLOCK})

    @staticmethod
    def _series(found: RosMessages) -> Iterator[tuple[int, str, bytes]]:
        for time, data in zip(found.time.tolist(), found.data, strict=True):
            yield time, found.topic, data.tobytes()
