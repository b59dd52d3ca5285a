"""The ULog topics of the built-in stack, with the layouts of PX4 v1.16's message definitions.

A field that the stack has no value for is nan, or 0 if it is an integer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from importlib import resources

from sitl_bridge.record.ulog_writer import spread


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


@cache
class Row:
    """Places of a topic's fields in a row, and the row without known values."""

    def __init__(self, topic: str) -> None:
        self.unknown: list[float] = []
        self.place: dict[str, int] = {}
        for name, kind, count in spread(formats(), topic)[1:]:
            self.place[name.replace(".", "__")] = len(self.unknown)
            self.unknown += [math.nan if kind in ("float", "double") else 0] * count
        self.sampled = self.place.get("timestamp_sample")


def name_values(names: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    """Values by the names of their fields."""
    return dict(zip(names, values, strict=True))
