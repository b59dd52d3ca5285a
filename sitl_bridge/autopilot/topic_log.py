"""The ULog topics of the built-in stack, with the layouts of PX4 v1.16's message definitions.

A field that the stack has no value for is nan, or 0 if it is an integer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path

from sitl_bridge.autopilot.process import LOG_ENDED
from sitl_bridge.record.topic_memory import TopicMemory
from sitl_bridge.record.ulog_writer import UlogWriter, spread


@cache
def formats() -> dict[str, tuple[str, ...]]:
    """Fields of all topics, and of what is nested in them, as ULog writes them."""
    text = resources.files("sitl_bridge.autopilot").joinpath("log_topics.txt").read_text(encoding="ascii")
    found: dict[str, tuple[str, ...]] = {}
    for block in text.replace("\n    ", ";").splitlines():
        name, *fields = block.split(";")
        found[name] = tuple(fields)
    return found


def topics() -> list[str]:
    """Names of the topics that are logged."""
    return [name for name in formats() if name != "position_setpoint"]


def _report(line: str) -> None:
    """Print a line for the program that started the stack's process."""
    print(f"{LOG_ENDED}{line}", flush=True)


@cache
class _Row:
    """Places of a topic's fields in a row, and the row without known values."""

    def __init__(self, topic: str) -> None:
        self.unknown: list[float] = []
        self.place: dict[str, int] = {}
        for name, kind, count in spread(formats(), topic)[1:]:
            self.place[name.replace(".", "__")] = len(self.unknown)
            self.unknown += [math.nan if kind in ("float", "double") else 0] * count
        self.sampled = self.place.get("timestamp_sample")


class TopicLog:
    """Writes samples of topics to a ULog file, or keeps some of them in memory.

    Args:
        path: of the file, in a directory that exists; or the memory.
        start: us.
        info: kept as ULog information.
        parameters: the stack's, by name.
    """

    def __init__(
        self,
        path: Path | TopicMemory,
        start: int,
        info: dict[str, str | int],
        parameters: dict[str, int | float],
    ) -> None:
        self.file: UlogWriter | TopicMemory
        if isinstance(path, TopicMemory):
            self.file, kept = path, path.topics
        else:
            self.file = UlogWriter(path, start, formats(), topics(), info, parameters, _report)
            kept = topics()
        self._rows = {topic: _Row(topic) for topic in kept}

    def keeps(self, *topics: str) -> bool:
        """Whether samples of any of these topics are kept."""
        return any(topic in self._rows for topic in topics)

    def put(self, topic: str, now: int, **values: float | Sequence[float]) -> None:
        """Write a sample of a topic that is kept; a dot in a field's name is given as two underscores."""
        row = self._rows.get(topic)
        if row is None:
            return
        flat = row.unknown.copy()
        for name, value in values.items():
            at = row.place[name]
            if isinstance(value, (int, float)):
                flat[at] = value
            else:
                flat[at : at + len(value)] = value
        if row.sampled is not None:
            flat[row.sampled] = now
        self.file.write(topic, now, *flat)


def name_values(names: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    """Values by the names of their fields."""
    return dict(zip(names, values, strict=True))
