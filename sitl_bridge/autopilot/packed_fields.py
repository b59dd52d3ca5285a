"""Fields of a record as plain numbers, read in one call: many times quicker than field by field."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

CODES = {"i": "q", "f": "d"}


def packed_fields(record: np.dtype[np.void], names: Sequence[str]) -> struct.Struct:
    """Return what unpacks the numbers of some fields of a record, one after another.

    Args:
        record: of fields of 64 bits, or of arrays of them.
        names: of the fields, in their order in the record.
    """
    parts, at = ["="], 0
    for name in names:
        assert record.fields is not None
        field, offset = record.fields[name][:2]
        base, shape = field.subdtype or (field, ())
        assert base.itemsize == 8, name
        assert offset >= at, name
        count = int(np.prod(shape, dtype=int))
        parts.append(f"{offset - at}x{count}{CODES[base.kind]}")
        at = offset + 8 * count
    return struct.Struct("".join(parts))
