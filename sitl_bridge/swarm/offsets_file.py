"""Slots of a formation from a file: CSV or YAML with offsets forward, right, down in m."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.csv_table import read_rows
from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.base.yaml_file import load

Array: TypeAlias = NDArray[np.float64]


def load_offsets(path: Path, count: int) -> Array:
    """Slots from a file: CSV with the header ``forward,right,down``, or YAML with a list ``offsets``.

    Args:
        path: of the file; ``.csv`` is read as CSV, any other as YAML.
        count: of vehicles.

    Returns:
        (count, 3) m, formation frame, the leader's first.

    Raises:
        ConfigurationError: with the line of every fault.
    """
    rows, lines = _csv_offsets(path) if path.suffix.lower() == ".csv" else _yaml_offsets(path)
    faults: list[str] = []
    offsets = []
    for row, line in zip(rows, lines, strict=True):
        try:
            values = [float(value) for value in row]
        except (TypeError, ValueError):
            values = []
        if len(values) != 3 or not all(math.isfinite(value) for value in values):
            faults.append(f"line {line}: must be three finite numbers: forward, right, down in m")
        offsets.append(values)
    if len(rows) != count:
        faults.append(f"line {lines[-1] if lines else 1}: {len(rows)} slots for {count} vehicles")
    if faults:
        raise ConfigurationError(str(path), faults)
    return np.array(offsets, dtype=np.float64).reshape(count, 3)


def _csv_offsets(path: Path) -> tuple[list[Any], list[int]]:
    table = read_rows(path)
    if not table or [cell.strip() for cell in table[0][0]] != ["forward", "right", "down"]:
        raise ConfigurationError(str(path), ["line 1: the header must be forward,right,down"])
    return [row for row, _ in table[1:]], [line for _, line in table[1:]]


def _yaml_offsets(path: Path) -> tuple[list[Any], list[int]]:
    data, lines = load(path)
    rows = data.get("offsets")
    if not isinstance(rows, list) or set(data) != {"offsets"}:
        raise ConfigurationError(str(path), ["line 1: must be a list `offsets` of [forward, right, down]"])
    return [r if isinstance(r, list) else [] for r in rows], [lines["offsets", i] for i in range(len(rows))]
