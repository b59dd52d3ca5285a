"""Sources of an airframe's figures: where each comes from, or how it was derived.

Shipped airframes name the source of every figure; a file of one's own may leave them out.  The checks work on
plain data, valid or not, so that faults of sources are reported with all others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from sitl_bridge.base.errors import shorten
from sitl_bridge.base.field_paths import FieldPath, suggestion
from sitl_bridge.base.json_data import JsonObject

_SETTINGS = {"name", "description", "sources", "ground_effect", "base"}
_LABELS = {"kind", "instance", "parameters", "options"}
"""Numbers that are settings rather than physical figures: a sensor's instance, PX4's parameters, the options
of a custom class."""
DERIVED = "derived:"
_SHORTEST_REASON = 10


def figures(data: object) -> Iterator[tuple[FieldPath, str]]:
    """Paths of all figures of an airframe that have a source, and their paths in ``sources``.

    Both are the same except for sensors: all of a kind share their source, ``sensors.imu.accelerometer``.
    """
    if isinstance(data, Mapping):
        for key, value in data.items():
            if key not in _SETTINGS:
                yield from _walk(value, (key,), str(key))


def _walk(value: object, path: FieldPath, name: str) -> Iterator[tuple[FieldPath, str]]:
    if isinstance(value, Mapping):
        for key, child in value.items():
            if key not in _LABELS:
                yield from _walk(child, (*path, key), f"{name}.{key}")
    elif isinstance(value, list | tuple):
        if path == ("sensors",):
            yield from _sensors(value)
        elif any(isinstance(child, Mapping) for child in value):
            for i, child in enumerate(value):
                yield from _walk(child, (*path, i), f"{name}[{i}]")
        elif value:
            yield path, name
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, name


def _sensors(sensors: Sequence[object]) -> Iterator[tuple[FieldPath, str]]:
    for i, sensor in enumerate(sensors):
        # A custom sensor documents its figures in its own file.
        if isinstance(sensor, Mapping) and sensor.get("kind") != "custom":
            yield from _walk(sensor, ("sensors", i), f"sensors.{shorten(str(sensor.get('kind')))}")


def figure_paths(data: object) -> list[str]:
    """Paths in ``sources`` of an airframe's figures, each once: ``rotor_model.radius``."""
    return list(dict.fromkeys(name for _, name in figures(data)))


def covers(key: str, name: str) -> bool:
    """Whether an entry of ``sources`` covers a figure: it is its path or the beginning of it."""
    return name == key or name.startswith((key + ".", key + "["))


def source_of(sources: Mapping[str, str], name: str) -> str:
    """Source of a figure: the longest entry that covers it; empty if none does."""
    return sources.get(max((key for key in sources if covers(key, name)), key=len, default=""), "")


def find_unsourced(data: object) -> list[str]:
    """Paths of figures without a source, each once."""
    sources = _sources(data)
    return [name for name in figure_paths(data) if not any(covers(key, name) for key in sources)]


def empty_sources(data: object) -> list[tuple[FieldPath, str]]:
    """Sources without content."""
    faults: list[tuple[FieldPath, str]] = []
    for key, text in _sources(data).items():
        if not isinstance(text, str):
            continue
        if not text.strip():
            faults.append((("sources", key), "is empty; give the source"))
        elif text.startswith(DERIVED) and len(text.removeprefix(DERIVED).strip()) < _SHORTEST_REASON:
            faults.append((("sources", key), "is derived; add how"))
    return faults


def useless_sources(data: object, known: Callable[[FieldPath], bool]) -> list[tuple[FieldPath, str]]:
    """Entries of ``sources`` without a figure: misspelt, or left over.

    Args:
        data: plain data of an airframe.
        known: whether the schema has a path; a missing or invalid figure is not reported again here.
    """
    names = figure_paths(data)
    faults: list[tuple[FieldPath, str]] = []
    for key in _sources(data):
        if any(covers(key, name) for name in names):
            continue
        path = _path_of(key, data)
        if path is None or not known(path):
            faults.append((("sources", key), "no figure has this path" + suggestion(key, names)))
    return faults


def _path_of(key: str, data: object) -> FieldPath | None:
    """Path in the data of an entry of ``sources``; None for a kind of sensor that is not there."""
    parts: list[str | int] = [
        int(n) if n else word for word, n in re.findall(r"([^.\[\]]+)|\[(\d{1,4})\]", key)
    ]
    if len(parts) > 1 and parts[0] == "sensors":
        sensors = data.get("sensors") if isinstance(data, Mapping) else None
        kinds = (
            [s.get("kind") for s in sensors if isinstance(s, Mapping)] if isinstance(sensors, list) else []
        )
        return ("sensors", kinds.index(parts[1]), *parts[2:]) if parts[1] in kinds else None
    return tuple(parts) or None


def _sources(data: object) -> JsonObject:
    given = data.get("sources") if isinstance(data, Mapping) else None
    return {str(key): text for key, text in given.items()} if isinstance(given, Mapping) else {}
