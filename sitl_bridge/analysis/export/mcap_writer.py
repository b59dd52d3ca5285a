"""Writes MCAP files (https://mcap.dev/spec) from many messages at once, without a loop over their bytes.

The records that are few are encoded by the package mcap.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Self

import numpy as np
import zstandard
from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from mcap.records import (
    Channel,
    ChunkIndex,
    DataEnd,
    Footer,
    Header,
    Metadata,
    MetadataIndex,
    Schema,
    Statistics,
    SummaryOffset,
)
from numpy.typing import NDArray

MAGIC = b"\x89MCAP0\r\n"
CHUNK = 1 << 20
"""Bytes of messages from which on a chunk ends."""
ZSTD = "zstd"
LEVEL = 1
"""Of zstd: its fastest but the negative ones."""
_MESSAGE: list[Any] = [
    ("opcode", "u1"),
    ("length", "<u8"),
    ("channel", "<u2"),
    ("sequence", "<u4"),
    ("log_time", "<u8"),
    ("publish_time", "<u8"),
]
_PREFIX = 9
"""Bytes of a record's opcode and length."""
_ENTRY = np.dtype([("time", "<u8"), ("offset", "<u8")])


@dataclass(frozen=True)
class Block:
    """Messages of one channel and size.

    Attributes:
        channel: its ID.
        time: (k,) ns.
        data: (k, size).
    """

    channel: int
    time: NDArray[np.int64]
    data: NDArray[np.uint8]

    @classmethod
    def of(cls, channel: int, time: int, message: bytes) -> Self:
        """A single message."""
        return cls(channel, np.array([time], np.int64), np.frombuffer(message, np.uint8)[None])

    def records(self, sequence: NDArray[np.int64]) -> bytes:
        """The messages' records, one behind the other, with (k,) sequence numbers."""
        size = self.data.shape[1]
        table = np.zeros(len(self.time), np.dtype([*_MESSAGE, ("data", "u1", (size,))]))
        table["opcode"], table["length"] = Opcode.MESSAGE, table.dtype.itemsize - _PREFIX
        table["channel"], table["log_time"], table["publish_time"] = self.channel, self.time, self.time
        table["sequence"] = sequence
        table["data"] = self.data
        return table.tobytes()

    @property
    def size(self) -> int:
        """Bytes of a record."""
        return np.dtype(_MESSAGE).itemsize + int(self.data.shape[1])


class McapWriter:
    """Writes one file; messages of each ``write`` are in the order of their times.

    Args:
        file: opened for writing bytes.
        profile, library: of the header.
    """

    def __init__(self, file: IO[bytes], profile: str, library: str) -> None:
        self._file, self._at, self._checksum = file, 0, 0
        self._schemas: list[Schema] = []
        self._channels: list[Channel] = []
        self._chunks: list[ChunkIndex] = []
        self._metadata: list[MetadataIndex] = []
        self._counts: dict[int, int] = {}
        self._span = (2**63 - 1, 0)
        self._compressor = zstandard.ZstdCompressor(level=LEVEL)
        self._put(MAGIC)
        self._record(Header(profile=profile, library=library))

    @property
    def count(self) -> int:
        """Messages written so far."""
        return sum(self._counts.values())

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self._at += len(data)
        self._checksum = zlib.crc32(data, self._checksum)

    def _record(self, record: Any) -> None:
        builder = RecordBuilder()
        record.write(builder)
        self._put(builder.end())

    def register_schema(self, name: str, encoding: str, data: bytes) -> int:
        """ID of a new schema."""
        number = len(self._schemas) + 1
        schema = Schema(id=number, data=data, encoding=encoding, name=name)
        self._schemas.append(schema)
        self._record(schema)
        return number

    def register_channel(self, topic: str, message_encoding: str, schema_id: int) -> int:
        """ID of a new channel."""
        number = len(self._channels) + 1
        channel = Channel(
            id=number, topic=topic, message_encoding=message_encoding, metadata={}, schema_id=schema_id
        )
        self._channels.append(channel)
        self._record(channel)
        return number

    def add_metadata(self, name: str, facts: Mapping[str, str]) -> None:
        """Write a record of metadata."""
        begin = self._at
        self._record(Metadata(name=name, metadata=dict(facts)))
        self._metadata.append(MetadataIndex(offset=begin, length=self._at - begin, name=name))

    def write(self, blocks: Sequence[Block]) -> None:
        """Write messages, each once."""
        blocks = [block for block in blocks if len(block.time)]
        if not blocks:
            return
        counts = [len(block.time) for block in blocks]
        which = np.repeat(np.arange(len(blocks)), counts)
        index = np.concatenate([np.arange(count) for count in counts])
        times = np.concatenate([block.time for block in blocks])
        channels = np.array([block.channel for block in blocks])[which]
        order = np.argsort(times, kind="stable")
        sequence = self._sequence(channels, order)
        parts_of = np.split(sequence, np.cumsum(counts)[:-1])
        records = [block.records(numbers) for block, numbers in zip(blocks, parts_of, strict=True)]
        times, which, index, channels = times[order], which[order], index[order], channels[order]
        sizes = np.array([block.size for block in blocks])[which]
        ends = np.cumsum(sizes)
        starts = (index * sizes).tolist()
        parts = [
            records[b][start : start + size]
            for b, start, size in zip(which.tolist(), starts, sizes.tolist(), strict=True)
        ]
        first = 0
        while first < len(parts):
            begin = int(ends[first] - sizes[first])
            last = max(int(np.searchsorted(ends, begin + CHUNK)), first + 1)
            part = slice(first, last)
            offsets = ends[part] - sizes[part] - begin
            self._chunk(b"".join(parts[part]), times[part], channels[part], offsets)
            first = last

    def _sequence(self, channels: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of messages within their channels, in the order in which they are written."""
        sequence = np.zeros(len(channels), np.int64)
        for channel in np.unique(channels).tolist():
            places = order[channels[order] == channel]
            done = self._counts.get(channel, 0)
            sequence[places] = np.arange(done + 1, done + 1 + len(places))
            self._counts[channel] = done + len(places)
        return sequence

    def _chunk(
        self,
        data: bytes,
        times: NDArray[np.int64],
        channels: NDArray[np.int64],
        offsets: NDArray[np.int64],
    ) -> None:
        """Write a chunk with the index of its messages."""
        packed = self._compressor.compress(data)
        begin, first, last = self._at, int(times[0]), int(times[-1])
        head = struct.pack("<QQQI", first, last, len(data), zlib.crc32(data))
        name = struct.pack("<I", len(ZSTD)) + ZSTD.encode() + struct.pack("<Q", len(packed))
        self._put(struct.pack("<BQ", Opcode.CHUNK, len(head) + len(name) + len(packed)))
        self._put(head + name)
        self._put(packed)
        length, places = self._at - begin, {}
        for channel in np.unique(channels).tolist():
            these = channels == channel
            entries = np.zeros(int(these.sum()), _ENTRY)
            entries["time"], entries["offset"] = times[these], offsets[these]
            places[channel] = self._at
            self._put(struct.pack("<BQHI", Opcode.MESSAGE_INDEX, 6 + entries.nbytes, channel, entries.nbytes))
            self._put(entries.tobytes())
        self._span = (min(self._span[0], first), max(self._span[1], last))
        self._chunks.append(
            ChunkIndex(
                chunk_length=length,
                chunk_start_offset=begin,
                compression=ZSTD,
                compressed_size=len(packed),
                message_end_time=last,
                message_index_length=self._at - begin - length,
                message_index_offsets=places,
                message_start_time=first,
                uncompressed_size=len(data),
            )
        )

    def finish(self) -> None:
        """Write summary and footer; does not close the file."""
        self._record(DataEnd(self._checksum))
        summary, begin = RecordBuilder(), self._at
        offsets = []
        statistics = Statistics(
            attachment_count=0,
            channel_count=len(self._channels),
            channel_message_counts=self._counts,
            chunk_count=len(self._chunks),
            message_count=self.count,
            message_end_time=self._span[1],
            message_start_time=min(self._span),
            metadata_count=len(self._metadata),
            schema_count=len(self._schemas),
        )
        groups: list[tuple[Opcode, Sequence[Any]]] = [
            (Opcode.SCHEMA, self._schemas),
            (Opcode.CHANNEL, self._channels),
            (Opcode.STATISTICS, [statistics]),
            (Opcode.CHUNK_INDEX, self._chunks),
            (Opcode.METADATA_INDEX, self._metadata),
        ]
        for opcode, records in groups:
            start = summary.count
            for record in records:
                record.write(summary)
            if records:
                offsets.append(SummaryOffset(opcode, begin + start, summary.count - start))
        offset_start = begin + summary.count
        for offset in offsets:
            offset.write(summary)
        data = summary.end()
        # The checksum covers the summary and the footer up to it.
        footer = struct.pack("<BQQQ", Opcode.FOOTER, 8 + 8 + 4, begin, offset_start)
        self._put(data)
        self._record(Footer(begin, offset_start, zlib.crc32(footer, zlib.crc32(data))))
        self._put(MAGIC)
