"""Writes a recorded run as an MCAP file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from sitl_bridge.analysis.export.flight_stack_topics import FlightStackTopics, flight_stack_topics
from sitl_bridge.analysis.export.ros_definitions import schema_name, schema_text
from sitl_bridge.analysis.export.ros_topics import ODOMETRY_RATE, RosMessages, ros_messages, ros_name
from sitl_bridge.analysis.export.scene_messages import SCENE_SCHEMA, SCENE_TOPIC, scene_messages
from sitl_bridge.analysis.export.seen_samples import seen_messages
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.extras import EXPORT, missing
from sitl_bridge.base.output_file import whole_file
from sitl_bridge.record.run_reader import RecordedRun

if TYPE_CHECKING:
    from mcap.writer import Writer

    from sitl_bridge.analysis.export.mcap_writer import McapWriter

PART = 10.0
"""s of simulated time that are converted at once."""
LAST = 2**63 - 1
"""ns, after all messages."""


class McapChannels:
    """Registers schemas and channels as topics first appear.

    Args:
        writer: of the file, started.
    """

    def __init__(self, writer: Writer | McapWriter) -> None:
        self._writer = writer
        self._schemas: dict[str, int] = {}
        self.known: dict[str, int] = {}
        """ID of each topic's channel."""

    def channel(self, topic: str, name: str, encoding: str, schema: bytes, message_encoding: str) -> int:
        """ID of a topic's channel."""
        if name not in self._schemas:
            self._schemas[name] = self._writer.register_schema(name=name, encoding=encoding, data=schema)
        if topic not in self.known:
            self.known[topic] = self._writer.register_channel(
                topic=topic, message_encoding=message_encoding, schema_id=self._schemas[name]
            )
        return self.known[topic]

    def channel_of(self, topic: RosMessages) -> int:
        """ID of the channel of ROS messages."""
        name, text = schema_name(topic.name), schema_text(topic.name)
        return self.channel(topic.topic, name, "ros2msg", text.encode(), "cdr")


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
        from sitl_bridge.analysis.export.mcap_writer import Block, McapWriter
    except ImportError as error:
        raise missing("mcap", "MCAP files", EXPORT) from error

    n = run.count
    logged = _logged(run, notify)
    with whole_file(target) as place, place.open("wb") as file:
        writer = McapWriter(file, profile="ros2", library="sitl-bridge")
        channels = McapChannels(writer)

        drawings, channel = scene_messages(run), _scene_channel(channels)
        seen = seen_messages(run)

        def write(recorded: Iterable[RosMessages], since: int, until: int) -> None:
            """Write what was recorded after ``since`` up to ``until``, ns."""
            logs = (part for one in logged.values() for part in one.between(since, until))
            topics = [topic for topic in (*recorded, *logs, *seen.until(until)) if len(topic.time)]
            blocks = [Block(channels.channel_of(topic), topic.time, topic.data) for topic in topics]
            drawn = ((time, drawing) for time, drawing in drawings if since < time <= until)
            blocks += [Block.of(channel, time, json.dumps(drawing).encode()) for time, drawing in drawn]
            writer.write(blocks)

        rows = max(round(PART * 1e6 / run.description["step"]), 1) * n
        since = -1
        for first in range(0, len(run.rows), rows):
            last = min(first + rows, len(run.rows))
            until = int(run.rows["time"][last - 1]) * 1000
            write(ros_messages(run, run.names, run.rotors, first, last, rate), since, until)
            since = until
        write((), since, LAST)
        for name, one in logged.items():
            writer.add_metadata(f"flight stack {ros_name(name)}", one.facts)
        writer.add_metadata("run", {"run.json": json.dumps(run.description)})
        writer.finish()
    return writer.count


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


def _scene_channel(channels: McapChannels) -> int:
    schema = json.dumps(SCENE_SCHEMA).encode()
    return channels.channel(SCENE_TOPIC, "foxglove.SceneUpdate", "jsonschema", schema, "json")
