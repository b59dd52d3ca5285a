"""Types of numpy arrays, whose shapes are in the docstrings, and the runs of a mask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Singles: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]
"""Whole numbers: indices, counts, us."""
Bytes: TypeAlias = NDArray[np.uint8]
Words: TypeAlias = NDArray[np.uint64]
Mask: TypeAlias = NDArray[np.bool_]
Records: TypeAlias = NDArray[np.void]
AnyArray: TypeAlias = NDArray[Any]
"""Of numbers of any type."""
Columns: TypeAlias = Mapping[str, AnyArray]
"""A table: its columns by their names."""


def interpolate(time: Floats | float, known: AnyArray, values: AnyArray) -> Floats:
    """Return the columns of (k, c) values at times (n,): linear between the known ones (k,), held beyond."""
    return np.stack([np.interp(time, known, column) for column in values.T], axis=-1)


def true_spans(flags: Mask) -> list[tuple[int, int]]:
    """Return first index and the one behind the last of each run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
