"""Reads files of point clouds: PCD and PLY, binary or text."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.base.input_file import read_bytes

MAX_BYTES = 500_000_000
"""Of a cloud: ten million points of 50 bytes."""
ENDINGS = (".pcd", ".ply")
TIMES = ("time", "t", "timestamp", "offset")
"""Names of a point's time in the drivers' files."""

_PCD_TYPES = {"F4": "<f4", "F8": "<f8", **{f"{k}{n}": f"<{k.lower()}{n}" for k in "IU" for n in (1, 2, 4, 8)}}
_PLY_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2", "ushort": "u2",
    "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4", "float": "f4", "float32": "f4",
    "double": "f8", "float64": "f8",
}  # fmt: skip


class _CloudError(Exception):
    """Fault of a file."""


def read_cloud(path: Path) -> tuple[Floats, Floats]:
    """Return the points (n, 3) of a file, and each point's time (n,) relative to the last one's, 0 or less.

    Points that are not finite are left out.  Without times, all are 0.

    Raises:
        ConfigurationError: for a file that cannot be read, with the reason.
    """
    content = read_bytes(path, MAX_BYTES)
    try:
        table = _ply(content) if content.startswith(b"ply") else _pcd(content)
        missing = [name for name in "xyz" if name not in (table.dtype.names or ())]
        if missing:
            raise _CloudError(f"has no {', '.join(missing)}")
    except _CloudError as error:
        raise ConfigurationError(str(path), [str(error)]) from error
    points = np.column_stack([table[name].astype(float) for name in "xyz"])
    stamp = next((name for name in TIMES if name in (table.dtype.names or ())), None)
    time = np.zeros(len(table)) if stamp is None else table[stamp].astype(float)
    good = np.isfinite(points).all(axis=1) & np.isfinite(time)
    points, time = points[good], time[good]
    return points, time - (time.max() if len(time) else 0.0)


def _header(content: bytes, last: bytes) -> tuple[list[str], bytes]:
    """Lines up to the one that begins with ``last``, and what follows them."""
    begin = content.find(b"\n" + last)
    end = content.find(b"\n", begin + 1) if begin >= 0 else -1
    if end < 0 or end > 100_000:
        raise _CloudError(f"is no PCD or PLY file: it has no line {last.decode()}")
    return content[:end].decode("ascii", "replace").splitlines(), content[end + 1 :]


def _table(body: bytes, kind: np.dtype[np.void], count: int) -> Records:
    if len(body) < count * kind.itemsize:
        raise _CloudError(
            f"is cut short: {count} points need {count * kind.itemsize} bytes, it has {len(body)}"
        )
    return np.frombuffer(body, kind, count)


def _text(body: bytes, kind: np.dtype[np.void], count: int) -> Records:
    try:
        figures = np.array(body.split(), dtype=float)
    except ValueError as error:
        raise _CloudError("holds a word that is no number") from error
    columns = len(kind.names or ())
    if len(figures) < count * columns:
        raise _CloudError(f"is cut short: {count} points of {columns} numbers, it has {len(figures)}")
    rows = figures[: count * columns].reshape(count, columns)
    table = np.zeros(count, [(name, "<f8") for name in kind.names or ()])
    for i, name in enumerate(kind.names or ()):
        table[name] = rows[:, i]
    return table


def _pcd(content: bytes) -> Records:
    lines, body = _header(content, b"DATA ")
    facts = {words[0].upper(): words[1:] for line in lines if (words := line.split())}
    try:
        names = [name.lower() for name in facts["FIELDS"]]
        kinds = [_PCD_TYPES[a.upper() + b] for a, b in zip(facts["TYPE"], facts["SIZE"], strict=True)]
        counts = [int(n) for n in facts.get("COUNT", ["1"] * len(names))]
        count = int(facts["POINTS"][0])
        encoding = facts["DATA"][0]
        if count < 0 or min(counts) < 1:
            raise ValueError
        fields = [(n, k) if c == 1 else (n, k, (c,)) for n, k, c in zip(names, kinds, counts, strict=True)]
        kind: np.dtype[np.void] = np.dtype(fields)
    except (KeyError, ValueError, IndexError) as error:
        raise _CloudError("has no valid PCD header (FIELDS, SIZE, TYPE, COUNT, POINTS, DATA)") from error
    if encoding == "ascii" and set(counts) == {1}:
        return _text(body, kind, count)
    if encoding != "binary":
        raise _CloudError(f"has the encoding {encoding}; binary and ascii with one number a field are read")
    return _table(body, kind, count)


def _ply(content: bytes) -> Records:
    lines, body = _header(content, b"end_header")
    order, count, fields, within = "", -1, [], ""
    for line in lines:
        match line.split():
            case ["format", encoding, _]:
                order = {"binary_little_endian": "<", "binary_big_endian": ">", "ascii": "a"}.get(
                    encoding, ""
                )
            case ["element", name, number]:
                within = name if count < 0 or name == "vertex" else "after"
                if name == "vertex" and not number.isdigit():
                    raise _CloudError(f"has {number} vertices")
                count = int(number) if name == "vertex" else count
                if name != "vertex" and count < 0:
                    raise _CloudError(f"has the element {name} before the vertices, which is not read")
            case ["property", code, name] if within == "vertex":
                if code not in _PLY_TYPES:
                    raise _CloudError(f"has a property of the unknown type {code}")
                fields.append((name.lower(), _PLY_TYPES[code]))
            case ["property", "list", *_] if within == "vertex":
                raise _CloudError("has lists in its vertices, which are not read")
    if not order or count < 0 or not fields:
        raise _CloudError("has no valid PLY header (format, element vertex, properties)")
    endian = "<" if order == "a" else order
    kind: np.dtype[np.void] = np.dtype([(name, endian + code) for name, code in fields])
    return _text(body, kind, count) if order == "a" else _table(body, kind, count)
