"""Reads ULog files, PX4's and the built-in flight stack's: topics as arrays, as far as a file goes."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Self

import numpy as np
from pyulog import ULog

from sitl_bridge.base.arrays import Columns, Floats, true_spans
from sitl_bridge.base.error_log import cause
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.system.child_process import COLOUR
from sitl_bridge.record.topic_memory import TopicMemory
from sitl_bridge.record.ulog_samples import UlogSamples

MOST_ENDS = 1000
"""Times that a reader may come to the end of a file, which a sound reader does once for each way back."""
DEBUG = 7
"""Level of the least important messages."""
Fields = Mapping[str, Sequence[str]]
"""Topics, each with those of its fields that are kept besides the time; none stands for all."""
ESSENTIAL: Fields = {
    "distance_sensor": ("orientation", "current_distance", "max_distance", "min_distance"),
    "estimator_states": tuple(f"states[{i}]" for i in range(10, 16)),
    "estimator_status": ("filter_fault_flags",),
    "vehicle_command": ("command", "param1", "param2"),
    "vehicle_land_detected": ("landed",),
    "vehicle_status": ("nav_state", "arming_state"),
}
"""Fields that every PX4 logs: a topic whose definition has lost one of them is damaged, and left out."""


@dataclass(frozen=True)
class FlightLog:
    """Topics of a flight as arrays."""

    columns: Mapping[tuple[str, int], Columns]  # of the topics by (name, instance), then by field
    messages: Sequence[tuple[int, int, str]] = ()  # (us, level, text) in order; 0 emergency to 7 debug
    info: JsonObject = field(default_factory=dict)  # about the writer, by name
    version: str = ""  # of the writer, such as v1.16.0; its commit where it is no release; empty if unknown
    parameters: Mapping[str, float] = field(default_factory=dict)  # of the writer at the start, by name
    damaged: bool = False  # whether parts cannot be read

    @classmethod
    def read(cls, path: Path, topics: Fields, *, whole: bool = False) -> Self:
        """Read some topics of a ULog, of each the named fields; what the log lacks is left out.

        A file that ends in the middle is read up to there, a topic up to where its time goes back; of a
        damaged file, what pyulog can read.

        Args:
            path: of the ULog.
            topics: to read.
            whole: refuse a damaged file.

        Raises:
            UserError: for a file that cannot be read, is no ULog or is damaged.
        """
        try:
            samples = UlogSamples.find(path, set(topics))
            with _Watched(io.FileIO(path)) as file:
                log = _parse(path, file if samples is None else io.BytesIO(samples.rest), list(topics))
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
        found: dict[tuple[str, int], Columns] = {}
        damaged = bool(log.file_corruption)
        for data in log.data_list:
            kept = topics[data.name] and ("timestamp", *topics[data.name])
            if samples is not None:
                columns = samples.columns(data, kept)
            else:
                columns = {name: np.array(c) for name, c in data.data.items() if not kept or name in kept}
            asked = ESSENTIAL.get(data.name, ())
            if any(name not in columns for name in ("timestamp", *asked) if not kept or name in kept):
                damaged = True
                continue
            back = np.flatnonzero(np.diff(columns["timestamp"].astype(np.int64)) < 0)
            if len(back):
                damaged = True
                columns = {name: column[: back[0] + 1] for name, column in columns.items()}
            found.setdefault((data.name, data.multi_id), columns)
        if whole and damaged:
            raise UserError(f"{path}: is damaged; take another flight")
        messages = [
            (m.timestamp, _level(m.log_level), COLOUR.sub("", m.message)) for m in log.logged_messages
        ]
        info = log.msg_info_dict
        release = log.get_version_info_str() if isinstance(info.get("ver_sw_release"), int) else None
        version = str(release or info.get("ver_sw") or "")[:20]
        return cls(found, messages, info, version, dict(log.initial_parameters), damaged)

    @classmethod
    def from_memory(cls, memory: TopicMemory, writer: str) -> Self:
        """Read the log that a flight stack of this name kept in memory."""
        found = {(topic, 0): memory.columns(topic) for topic in memory.topics}
        # As in a ULog, a topic without samples is not there.
        found = {key: columns for key, columns in found.items() if len(columns["timestamp"])}
        return cls(found, memory.messages, {"sys_name": writer})

    @property
    def writer(self) -> str:
        """Name of the flight stack."""
        return str(self.info.get("sys_name", "PX4"))

    def topic(self, name: str, instance: int = 0) -> Columns | None:
        """Return the columns of one instance of a topic by field name; None if it was not logged."""
        found = self.columns.get((name, instance))
        return found if found is not None and len(found["timestamp"]) else None

    def instances(self, name: str) -> list[int]:
        """Return the logged instances of a topic."""
        return sorted(instance for topic, instance in self.columns if topic == name)

    def air_times(self) -> list[tuple[float, float]]:
        """Return begin and end in s of the flights by the land detector, at most to the end of the log."""
        detected = self.topic("vehicle_land_detected")
        if detected is None:
            return []
        time = seconds(detected)
        spans = true_spans(np.asarray(detected["landed"]) == 0)
        return [(float(time[begin]), float(time[min(end, len(time) - 1)])) for begin, end in spans]


class _Watched(io.BufferedReader):
    """A file that ends a reader that has come to its end too often.

    pyulog steps back by the length that a damaged definition claims, also where it has read less, and so goes
    round for ever.
    """

    _ends = 0

    def read(self, size: int | None = -1) -> bytes:
        """Bytes, as any file's."""
        data = super().read(size)
        self._ends += size is not None and len(data) < size
        if self._ends > MOST_ENDS:
            raise EOFError("its definitions are damaged")
        return data


def _parse(path: Path, file: BinaryIO, topics: list[str]) -> ULog:
    """Read some topics; what pyulog prints about each damaged place is dropped."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return ULog(file, topics)
    except OSError:
        raise
    except Exception as error:  # pyulog raises whatever its parser meets
        raise UserError(f"{path}: cannot be read as a ULog: {cause(error)}") from error


def _level(character: int) -> int:
    """Return the level of a logged message, a digit's character code; debug where the byte is damaged."""
    level = int(character) - ord("0")
    return level if 0 <= level <= DEBUG else DEBUG


def seconds(topic: Columns) -> Floats:
    """Return the (k,) time stamps of a topic in s."""
    return np.asarray(topic["timestamp"], np.float64) * 1e-6


def columns(topic: Columns, *names: str) -> Floats:
    """Return (k, c) columns of a topic, side by side."""
    return np.stack([np.asarray(topic[name], np.float64) for name in names], axis=-1)
