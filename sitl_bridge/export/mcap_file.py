"""Writes a recorded run as an MCAP file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sitl_bridge.errors import UserError
from sitl_bridge.export.flight_stack_topics import FlightStackTopics, flight_stack_topics
from sitl_bridge.export.ros_definitions import schema_name, schema_text
from sitl_bridge.export.ros_topics import ODOMETRY_RATE, RosMessages, ros_messages, ros_name
from sitl_bridge.export.scene_messages import SCENE_SCHEMA, SCENE_TOPIC, scene_messages
from sitl_bridge.export.seen_samples import seen_messages
from sitl_bridge.files.extras import EXPORT, missing
from sitl_bridge.output_file import whole_file
from sitl_bridge.record.run_reader import RecordedRun

if TYPE_CHECKING:
    from mcap.writer import Writer

PART = 10.0
"""s of simulated time that are converted at once."""
LAST = 2**63 - 1
"""ns, after all messages."""


class McapFile:
    """Registers schemas and channels as topics first appear.

    Args:
        writer: of the file, started.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._schemas: dict[str, int] = {}
        self._channels: dict[str, int] = {}
        self._sequences: dict[int, int] = {}
        self.count = 0

    def channel(self, topic: str, name: str, encoding: str, schema: bytes, message_encoding: str) -> int:
        """ID of a topic's channel."""
        if name not in self._schemas:
            self._schemas[name] = self._writer.register_schema(name=name, encoding=encoding, data=schema)
        if topic not in self._channels:
            self._channels[topic] = self._writer.register_channel(
                topic=topic, message_encoding=message_encoding, schema_id=self._schemas[name]
            )
        return self._channels[topic]

    def add(self, channel: int, time: int, data: bytes) -> None:
        """Write a message; ``time`` is in ns."""
        sequence = self._sequences[channel] = self._sequences.get(channel, 0) + 1
        self._writer.add_message(channel, time, data, time, sequence)
        self.count += 1

    def skip(self, topics: Iterable[RosMessages]) -> None:
        """Leave out messages of topics that have a channel: their sequence numbers are missing."""
        for topic in topics:
            if (channel := self._channels.get(topic.topic)) is not None:
                self._sequences[channel] = self._sequences.get(channel, 0) + len(topic.time)

    def add_all(self, topics: Iterable[RosMessages]) -> None:
        """Write the messages of some topics in the order of their times."""
        found = [topic for topic in topics if len(topic.time)]
        if not found:
            return
        channels = [
            self.channel(t.topic, schema_name(t.name), "ros2msg", schema_text(t.name).encode(), "cdr")
            for t in found
        ]
        times = np.concatenate([topic.time for topic in found])
        which = np.repeat(np.arange(len(found)), [len(topic.time) for topic in found])
        index = np.concatenate([np.arange(len(topic.time)) for topic in found])
        order = np.argsort(times, kind="stable")
        blobs = [topic.data.tobytes() for topic in found]
        sizes = [topic.data.shape[1] for topic in found]
        for time, t, k in zip(
            times[order].tolist(), which[order].tolist(), index[order].tolist(), strict=True
        ):
            self.add(channels[t], time, blobs[t][k * sizes[t] : (k + 1) * sizes[t]])


def write_mcap(
    run: RecordedRun,
    target: Path,
    rate: float = ODOMETRY_RATE,
    notify: Callable[[str], None] = lambda _line: None,
) -> int:
    """Write a run as an MCAP file, whole or not at all.

    Args:
        run: the recording.
        target: file, overwritten.
        rate: Hz of ground truth, rotor speeds and transforms.
        notify: takes why a flight stack's log was left out.

    Returns:
        number of messages.

    Raises:
        UserError: if the file cannot be written, or the package mcap is missing.
    """
    try:
        from mcap.writer import CompressionType, Writer
    except ImportError as error:
        raise missing("mcap", "MCAP files", EXPORT) from error

    n = run.count
    logged = _logged(run, notify)
    with whole_file(target) as place, place.open("wb") as file:
        writer = Writer(file, compression=CompressionType.ZSTD)
        writer.start(profile="ros2", library="sitl-bridge")
        made = McapFile(writer)
        _add_scene(made, run)
        rows = max(round(PART * 1e6 / run.description["step"]), 1) * n
        seen = seen_messages(run)
        since = -1
        for first in range(0, len(run.rows), rows):
            last = min(first + rows, len(run.rows))
            until = int(run.rows["time"][last - 1]) * 1000
            logs = (part for one in logged.values() for part in one.between(since, until))
            recorded = ros_messages(run, run.names, run.rotors, first, last, rate)
            made.add_all([*recorded, *logs, *seen.until(until)])
            since = until
        made.add_all(part for one in logged.values() for part in one.between(since, LAST))
        for name, one in logged.items():
            writer.add_metadata(f"flight stack {ros_name(name)}", one.facts)
        writer.add_metadata("run", {"run.json": json.dumps(run.description)})
        writer.finish()
    return made.count


def _logged(run: RecordedRun, notify: Callable[[str], None]) -> dict[str, FlightStackTopics]:
    """What each vehicle's flight stack logged, where that can be read."""
    found = {}
    for index, name in enumerate(run.names):
        try:
            topics = flight_stack_topics(run, index)
        except UserError as error:
            notify(f"without the flight stack's log: {error}")
            continue
        if topics is not None:
            found[name] = topics
    return found


def _add_scene(made: McapFile, run: RecordedRun) -> None:
    messages: list[tuple[int, dict[str, Any]]] = scene_messages(run)
    schema = json.dumps(SCENE_SCHEMA).encode()
    channel = made.channel(SCENE_TOPIC, "foxglove.SceneUpdate", "jsonschema", schema, "json")
    for time, message in messages:
        made.add(channel, time, json.dumps(message).encode())
