"""The checks of Foxglove's ``mcap doctor``, on records that the package mcap reads.

They follow rust/cli/src/commands/doctor.rs of https://github.com/foxglove/mcap.  Those of message indexes,
summary offsets, sequence numbers and the lengths of records follow https://mcap.dev/spec.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import (
    AttachmentIndex,
    Channel,
    Chunk,
    ChunkIndex,
    DataEnd,
    Footer,
    Header,
    Message,
    MessageIndex,
    Metadata,
    MetadataIndex,
    Schema,
    Statistics,
    SummaryOffset,
)
from mcap.stream_reader import get_chunk_data_stream
from zstandard import ZstdError

MAGIC = b"\x89MCAP0\r\n"
PREFIX = 9
PARSERS: dict[int, Any] = {
    Opcode.HEADER: Header,
    Opcode.FOOTER: Footer,
    Opcode.SCHEMA: Schema,
    Opcode.CHANNEL: Channel,
    Opcode.CHUNK: Chunk,
    Opcode.MESSAGE_INDEX: MessageIndex,
    Opcode.CHUNK_INDEX: ChunkIndex,
    Opcode.ATTACHMENT_INDEX: AttachmentIndex,
    Opcode.STATISTICS: Statistics,
    Opcode.METADATA: Metadata,
    Opcode.METADATA_INDEX: MetadataIndex,
    Opcode.SUMMARY_OFFSET: SummaryOffset,
    Opcode.DATA_END: DataEnd,
}


def find_faults(file: Path) -> list[str]:
    """Faults of a file by ``mcap doctor --strict-message-order`` and the specification."""
    return _Examination(file.read_bytes()).complaints


def _records(data: bytes, at: int) -> Iterator[tuple[int, int, Any]]:
    """Offset, length with the prefix, and content of records one behind the other.

    Raises:
        ValueError: if a record ends behind the data, or its content is not as long as its length.
    """
    while at < len(data):
        if at + PREFIX > len(data):
            raise ValueError(f"record header at {at} extends beyond the data")
        opcode, length = struct.unpack_from("<BQ", data, at)
        body = data[at + PREFIX : at + PREFIX + length]
        if len(body) < length:
            raise ValueError(f"record at {at} extends beyond the data")
        stream = ReadDataStream(BytesIO(body))
        if opcode == Opcode.MESSAGE:
            record = Message.read(stream, length)
        elif opcode in PARSERS:
            record = PARSERS[opcode].read(stream)
        else:
            raise ValueError(f"unknown opcode {opcode} at {at}")
        if stream.count != length:
            raise ValueError(f"{type(record).__name__} at {at}: {stream.count} of {length} bytes read")
        yield at, PREFIX + length, record
        at += PREFIX + length


class _Examination:
    def __init__(self, data: bytes) -> None:
        self.complaints: list[str] = []
        self._data = data
        self._schemas: dict[int, Schema] = {}
        self._channels: dict[int, Channel] = {}
        self._summarised: dict[str, set[int]] = {"schema": set(), "channel": set()}
        self._chunks: dict[int, tuple[int, Chunk, list[tuple[int, Message]]]] = {}
        self._places: dict[int, dict[int, int]] = {}
        self._entries: dict[int, dict[int, list[tuple[int, int]]]] = {}
        self._index_bytes: dict[int, int] = {}
        self._indexes: dict[int, ChunkIndex] = {}
        self._metadata: dict[int, tuple[int, str]] = {}
        self._metadata_indexes: list[MetadataIndex] = []
        self._statistics: list[Statistics] = []
        self._summary_groups: dict[int, tuple[int, int]] = {}
        self._offsets: list[tuple[int, SummaryOffset]] = []
        self._times: list[int] = []
        self._counts: dict[int, int] = {}
        self._sequence: dict[int, int] = {}
        self._end: int | None = None
        self._footer: tuple[int, Footer] | None = None
        self._chunk = -1
        try:
            self._scan()
        except (ValueError, struct.error, McapError, ZstdError) as error:
            self._complain(f"failed to read: {error}")
        self._finish()

    def _complain(self, text: str) -> None:
        self.complaints.append(text)

    def _hold(self, condition: bool, text: str) -> None:
        if not condition:
            self._complain(text)

    # ------------------------------------------------------------------ records

    def _scan(self) -> None:
        self._hold(self._data[: len(MAGIC)] == MAGIC, "bad magic at the start")
        self._hold(self._data[-len(MAGIC) :] == MAGIC, "bad magic at the end")
        for k, (at, length, record) in enumerate(_records(self._data[: -len(MAGIC)], len(MAGIC))):
            self._hold((k == 0) == isinstance(record, Header), f"record {k} is {type(record).__name__}")
            self._hold(self._footer is None, "a record behind the footer")
            self._take(at, length, record)

    def _take(self, at: int, length: int, record: Any) -> None:
        match record:
            case Header():
                self._hold(bool(record.library), "Header.library is not set")
                self._hold(record.profile in ("", "ros1", "ros2"), f"profile {record.profile} is not known")
            case Schema():
                self._schema(record)
            case Channel():
                self._channel(record)
            case Message():
                self._complain("a message outside chunks")
            case Chunk():
                self._examine_chunk(at, length, record)
            case MessageIndex():
                self._places[self._chunk][record.channel_id] = at
                self._entries[self._chunk][record.channel_id] = record.records
                self._index_bytes[self._chunk] += length
            case Metadata():
                self._metadata[at] = (length, record.name)
            case DataEnd():
                if record.data_section_crc:
                    self._hold(zlib.crc32(self._data[:at]) == record.data_section_crc, "CRC of the data")
                self._end = at + length
            case Footer():
                self._footer = (at, record)
            case SummaryOffset():
                self._offsets.append((at, record))
            case _:
                self._summary_record(record)
        if self._end is not None and not isinstance(record, DataEnd | Footer | SummaryOffset):
            opcode = self._data[at]
            first, size = self._summary_groups.get(opcode, (at, 0))
            self._hold(first + size == at, f"records of opcode {opcode} in the summary are not side by side")
            self._summary_groups[opcode] = (first, size + length)

    def _summary_record(self, record: Any) -> None:
        self._hold(self._end is not None, f"{type(record).__name__} before DataEnd")
        match record:
            case ChunkIndex():
                start = record.chunk_start_offset
                self._hold(start not in self._indexes, f"multiple indexes of the chunk at {start}")
                self._indexes[start] = record
            case Statistics():
                self._hold(not self._statistics, "multiple Statistics")
                self._statistics.append(record)
                named = set(record.channel_message_counts)
                if named:
                    missing = (named | set(self._channels)) - self._summarised["channel"]
                    self._hold(not missing, f"channels {missing} are not in the summary before Statistics")
            case MetadataIndex():
                self._metadata_indexes.append(record)

    def _schema(self, schema: Schema) -> None:
        self._hold(bool(schema.encoding), f"schema {schema.id} has no encoding")
        self._hold(schema.id != 0, "schema ID 0 is reserved")
        self._known("schema", self._schemas, schema)

    def _channel(self, channel: Channel) -> None:
        self._known("channel", self._channels, channel)
        known = channel.schema_id == 0 or channel.schema_id in self._schemas
        self._hold(known, f"channel {channel.id} of unknown schema {channel.schema_id}")

    def _known(self, kind: str, known: dict[int, Any], record: Any) -> None:
        previous = known.get(record.id)
        self._hold(previous in (None, record), f"two {kind} records with ID {record.id} differ")
        if self._end is not None:
            self._hold(previous is not None, f"{kind} {record.id} is in the summary alone")
            self._summarised[kind].add(record.id)
            return
        self._hold(previous is None, f"duplicate {kind} {record.id}")
        known[record.id] = record

    # ------------------------------------------------------------------ chunks

    def _examine_chunk(self, at: int, length: int, chunk: Chunk) -> None:
        self._chunk = at
        self._places[at], self._entries[at], self._index_bytes[at] = {}, {}, 0
        stream, size = get_chunk_data_stream(chunk, validate_crc=True)
        self._hold(chunk.uncompressed_crc != 0, f"chunk at {at} has no CRC")
        self._hold(size == chunk.uncompressed_size, f"chunk at {at} has {size} bytes")
        messages = []
        for offset, _, record in _records(stream.read(size), 0):
            match record:
                case Schema():
                    self._schema(record)
                case Channel():
                    self._channel(record)
                case Message():
                    self._message(record)
                    messages.append((offset, record))
                case _:
                    self._complain(f"illegal record in chunk: {type(record).__name__}")
        self._chunks[at] = (length, chunk, messages)
        times = [message.log_time for _, message in messages]
        if times:
            self._hold(min(times) == chunk.message_start_time, f"start time of the chunk at {at}")
            self._hold(max(times) == chunk.message_end_time, f"end time of the chunk at {at}")

    def _message(self, message: Message) -> None:
        channel, time = message.channel_id, message.log_time
        self._hold(channel in self._channels, f"a message of channel {channel} before the channel")
        if self._times and time < self._times[1]:
            topic = self._channels[channel].topic if channel in self._channels else "?"
            self._complain(f"log time {time} on {topic} is less than the latest log time {self._times[1]}")
        self._hold(message.sequence > self._sequence.get(channel, -1), f"sequence of channel {channel}")
        self._sequence[channel] = message.sequence
        self._times = [min([time, *self._times]), max([time, *self._times])]
        self._counts[channel] = self._counts.get(channel, 0) + 1

    # ------------------------------------------------------------------ after the last record

    def _finish(self) -> None:
        self._hold(self._end is not None, "no DataEnd")
        self._hold(self._footer is not None, "no Footer")
        self._hold(self._indexes.keys() == self._chunks.keys(), "chunks and their indexes differ")
        for start, index in self._indexes.items():
            if start in self._chunks:
                self._check_index(start, index)
        if self._statistics:
            self._check_statistics(self._statistics[0])
        indexed = {one.offset: (one.length, one.name) for one in self._metadata_indexes}
        self._hold(indexed == self._metadata, "metadata and their indexes differ")
        if self._footer is not None and self._end is not None:
            self._check_summary(*self._footer)

    def _check_index(self, start: int, index: ChunkIndex) -> None:
        length, chunk, messages = self._chunks[start]
        channels = {message.channel_id for _, message in messages}
        missing = channels - self._summarised["channel"]
        self._hold(not missing, f"channels {missing} of the chunk at {start} are not in the summary")
        schemas = {self._channels[k].schema_id for k in channels if k in self._channels} - {0}
        missing = schemas - self._summarised["schema"]
        self._hold(not missing, f"schemas {missing} of the chunk at {start} are not in the summary")
        pairs = {
            "length": (index.chunk_length, length),
            "start time": (index.message_start_time, chunk.message_start_time),
            "end time": (index.message_end_time, chunk.message_end_time),
            "compression": (index.compression, chunk.compression),
            "compressed size": (index.compressed_size, len(chunk.data)),
            "uncompressed size": (index.uncompressed_size, chunk.uncompressed_size),
            "bytes of message indexes": (index.message_index_length, self._index_bytes[start]),
            "places of message indexes": (index.message_index_offsets, self._places[start]),
        }
        for name, (stated, found) in pairs.items():
            self._hold(stated == found, f"chunk at {start}: {name} {found}, its index says {stated}")
        expected: dict[int, list[tuple[int, int]]] = {}
        for offset, message in messages:
            expected.setdefault(message.channel_id, []).append((message.log_time, offset))
        self._hold(expected == self._entries[start], f"chunk at {start}: its message indexes differ")

    def _check_statistics(self, stated: Statistics) -> None:
        if self._times:
            self._hold(stated.message_start_time == self._times[0], "start time in Statistics")
            self._hold(stated.message_end_time == self._times[1], "end time in Statistics")
        self._hold(stated.message_count == sum(self._counts.values()), "message count in Statistics")
        self._hold(stated.channel_message_counts == self._counts, "counts of channels in Statistics")
        counts = (stated.schema_count, stated.channel_count, stated.chunk_count, stated.metadata_count)
        found = (len(self._schemas), len(self._channels), len(self._chunks), len(self._metadata))
        self._hold(
            counts == found, f"Statistics has {counts} schemas, channels, chunks, metadata; not {found}"
        )
        self._hold(stated.attachment_count == 0, "attachment count in Statistics")

    def _check_summary(self, at: int, footer: Footer) -> None:
        self._hold(footer.summary_start == self._end, "start of the summary in the footer")
        first = self._offsets[0][0] if self._offsets else 0
        self._hold(footer.summary_offset_start == first, "start of the summary's offsets in the footer")
        covered = self._data[footer.summary_start : at + PREFIX + 16]
        self._hold(footer.summary_crc == zlib.crc32(covered), "CRC of the summary")
        stated = {o.group_opcode: (o.group_start, o.group_length) for _, o in self._offsets if o.group_length}
        self._hold(
            stated == self._summary_groups,
            f"the summary's offsets {stated} and its groups {self._summary_groups} differ",
        )
