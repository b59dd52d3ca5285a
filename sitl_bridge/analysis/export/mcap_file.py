"""Writes a recorded run as an MCAP file, or as a bag of rosbag2."""

from __future__ import annotations

import heapq
import io
import json
import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from sitl_bridge.analysis.export.cdr_layout import schema_name, schema_text
from sitl_bridge.analysis.export.drawn_messages import marker_messages
from sitl_bridge.analysis.export.flight_stack_topics import FlightStackTopics, flight_stack_topics
from sitl_bridge.analysis.export.ros_topics import ODOMETRY_RATE, RosMessages, ros_messages, ros_name
from sitl_bridge.analysis.export.seen_samples import seen_files
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.extras import missing_package
from sitl_bridge.base.output_file import make_directory, whole_file, write_whole
from sitl_bridge.record.run_reader import RecordedRun

if TYPE_CHECKING:
    from foxglove import Channel, Context

PART = 10.0
"""s of simulated time that are converted at once."""
LAST = 2**63 - 1
"""ns, after all messages."""


def write_mcap(
    run: RecordedRun,
    target: Path,
    rate: float = ODOMETRY_RATE,
    notify: Callable[[str], None] = lambda _line: None,
    *,
    bag: bool = False,
) -> int:
    """Write a run as an MCAP file, whole or not at all, or as a bag of rosbag2 with MCAP storage.

    Args:
        target: file, overwritten, or directory of the bag, made if it does not exist.
        rate: Hz of ground truth, rotor speeds and transforms.
        notify: takes which of several logs of a flight stack is used, or why one was left out.
        bag: whether it is a bag.

    Returns:
        number of messages.

    Raises:
        UserError: if it cannot be written, or the package foxglove-sdk is missing.
    """
    if not bag:
        return _write(run, target, rate, notify).count
    make_directory(target)
    file = target / f"{target.resolve().name}_0.mcap"
    channels = _write(run, file, rate, notify)
    write_whole(target / "metadata.yaml", yaml.safe_dump(_bag_metadata(channels, file.name), sort_keys=False))
    return channels.count


def _bag_metadata(channels: RosChannels, file: str) -> dict[str, object]:
    """Return the content of metadata.yaml, in the version that ROS 2 Humble and all later ones read.

    Source: rosbag2_storage/include/rosbag2_storage/yaml.hpp of github.com/ros2/rosbag2, branch humble.
    """
    topics = [
        {
            "topic_metadata": {
                "name": topic,
                "type": schema_name(kind),
                "serialization_format": "cdr",
                "offered_qos_profiles": "",
            },
            "message_count": count,
        }
        for topic, (kind, count) in channels.topics.items()
    ]
    extent = {
        "duration": {"nanoseconds": channels.last - channels.first},
        "starting_time": {"nanoseconds_since_epoch": channels.first},
        "message_count": channels.count,
    }
    information = {
        "version": 5,
        "storage_identifier": "mcap",
        **extent,
        "topics_with_message_count": topics,
        "compression_format": "",
        "compression_mode": "",
        "relative_file_paths": [file],
        "files": [{"path": file, **extent}],
    }
    return {"rosbag2_bagfile_information": information}


def _write(run: RecordedRun, target: Path, rate: float, notify: Callable[[str], None]) -> RosChannels:
    try:
        import foxglove
        from foxglove.mcap import MCAPWriteOptions
    except ImportError as error:
        raise missing_package("foxglove-sdk", "MCAP files", "export") from error

    foxglove.set_log_level(logging.CRITICAL)  # a full disk is reported here, once
    logged = _read_logs(run, notify)
    markers, seen = run.describe(lambda _description: (list(marker_messages(run)), seen_files(run)))
    options = MCAPWriteOptions(profile="ros2", compression_threads=0)
    context = foxglove.Context()
    channels = RosChannels(context)
    with whole_file(target) as place, _File(place, "w") as file:
        try:
            writer = foxglove.open_mcap(file, context=context, writer_options=options)

            def write(recorded: Iterable[RosMessages], since: int, until: int) -> None:
                """Write what was recorded after ``since`` up to ``until``, ns."""
                logs = (part for one in logged.values() for part in one.between(since, until))
                shown = [marker for marker in markers if since < marker.time[0] <= until]
                sampled = [file.read() for file in seen if since < file.time <= until]
                channels.log([*recorded, *logs, *shown, *sampled])
                if file.error is not None:
                    raise file.error

            rows = max(round(PART * 1e6 / run.step), 1) * run.count
            since = -1
            for first in range(0, len(run.rows), rows):
                last = min(first + rows, len(run.rows))
                until = int(run.rows["time"][last - 1]) * 1000
                write(ros_messages(run, run.names, run.rotors, first, last, rate), since, until)
                since = until
            write((), since, LAST)
            for name, one in logged.items():
                writer.write_metadata(f"flight stack {ros_name(name)}", one.facts)
            writer.write_metadata("run", {"run.json": json.dumps(run.description)})
            writer.close()
        except RuntimeError as error:
            raise (file.error or error) from error
    return channels


class _File(io.FileIO):
    """A file that keeps the error that ended its writing; foxglove-sdk passes on its text alone."""

    error: OSError | None = None

    def write(self, data: bytes) -> int:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError as error:
            self.error = error
            raise


class RosChannels:
    """Logs messages to a file or to a server; the channel of a topic is made when it first appears.

    Args:
        context: of the file or the server.

    Attributes:
        count: messages logged.
        topics: name of the messages (``package/Type``) and their number, by topic.
        first: ns, time of the first message; 0 without any.
        last: ns, time of the last one.
    """

    def __init__(self, context: Context) -> None:
        self.count, self.first, self.last, self._context = 0, 0, 0, context
        self.topics: dict[str, tuple[str, int]] = {}
        self._channels: dict[str, Channel] = {}

    def channel(self, topic: str, kind: str) -> Channel:
        """The channel of a topic with messages ``package/Type``."""
        from foxglove import Channel, Schema

        if topic not in self._channels:
            schema = Schema(name=schema_name(kind), encoding="ros2msg", data=schema_text(kind).encode())
            self._channels[topic] = Channel(
                topic, schema=schema, message_encoding="cdr", context=self._context
            )
        return self._channels[topic]

    def log(self, topics: Iterable[RosMessages]) -> None:
        """Log messages in the order of their times.

        Raises:
            UserError: for a message before simulated time began, or too late to be written.
        """
        series = [self._series(topic) for topic in topics if len(topic.time)]
        for time, log, data in heapq.merge(*series, key=lambda message: message[0]):
            if not 0 <= time <= LAST:
                raise UserError(f"a message was recorded at {time * 1e-9:g} s: the recording is damaged")
            log(data, log_time=time)
            self.first = min(self.first, time) if self.count else time
            self.last = max(self.last, time)
            self.count += 1

    def _series(self, topic: RosMessages) -> Iterator[tuple[int, Callable[..., None], bytes]]:
        """ns of each message, the function that logs it, and its content."""
        log, size, data = self.channel(topic.topic, topic.name).log, topic.data.shape[1], topic.data.tobytes()
        _, before = self.topics.get(topic.topic, ("", 0))
        self.topics[topic.topic] = (topic.name, before + len(topic.time))
        for k, time in enumerate(topic.time.tolist()):
            yield time, log, data[k * size : (k + 1) * size]


def _read_logs(run: RecordedRun, notify: Callable[[str], None]) -> dict[str, FlightStackTopics]:
    """Return the log of each vehicle's flight stack, where that can be read."""
    found = {}
    for index, name in enumerate(run.names):
        try:
            topics = flight_stack_topics(run, index, notify)
        except UserError as error:
            notify(f"without the flight stack's log: {error}")
            continue
        if topics is not None:
            found[name] = topics
    return found
