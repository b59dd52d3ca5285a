"""Octree maps of OctoMap, .bt and .ot, read into a dense grid of occupied cells.

The formats are those of octomap's AbstractOcTree.cpp, OcTreeBaseImpl.hxx and OcTree.cpp: a text header, then
the nodes from the root down, children in the order of x, y, z as bits 0, 1, 2.  The map spans 16 levels with
the root's centre at the origin.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sitl_bridge.base.arrays import Bytes, Ints, Mask
from sitl_bridge.base.errors import UserError, shorten
from sitl_bridge.base.input_file import read_bytes
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.world.scene_specification import VoxelGrid

FORMATS = (".bt", ".ot")
MAX_BYTES = 300_000_000
MAX_CELLS = 250_000_000
"""Most cells of the box around the occupied ones: 250 MB while it is read, 31 MB afterwards."""
LEVELS = 16
_HEADERS = {".bt": b"# Octomap OcTree binary file", ".ot": b"# Octomap OcTree file"}
_DATA_BYTES = {"OcTree": 4, "ColorOcTree": 7}
"""Bytes of a node in an .ot file before the mask of its children: log odds, and a colour."""
_TRUNCATED, _DEEP = -1, -2


def load_octree(path: Path, axes: str) -> VoxelGrid:
    """Occupied cells of an octree map, along north, east, down.

    Args:
        path: of the file.
        axes: ``z_up`` for x east, y north, z up; ``ned``.

    Raises:
        UserError: for a file that cannot be read, is broken or empty, or takes too much memory.
    """
    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise UserError(f"{path}: is not a supported octree map; the formats are {', '.join(FORMATS)}")
    raw = read_bytes(path, MAX_BYTES)
    tree, size, start = _header(path, raw)
    data = np.frombuffer(raw, np.uint8)[start:]
    if not len(data):
        raise UserError(f"{path}: is an empty map: it has no nodes")
    leaves = np.zeros((4096, 4), np.int64)
    while True:
        count = _leaves(data, 0 if kind == ".bt" else _DATA_BYTES[tree], leaves)
        if count <= len(leaves):
            break
        leaves = np.zeros((count, 4), np.int64)
    if count == _TRUNCATED:
        raise UserError(f"{path}: is broken: it ends within its nodes; save the map again")
    if count == _DEEP:
        raise UserError(f"{path}: is broken: its nodes are deeper than {LEVELS} levels; save the map again")
    if count == 0:
        raise UserError(f"{path}: is an empty map: it has no occupied cell")
    return _grid(path, leaves[:count], size, axes)


def _header(path: Path, raw: bytes) -> tuple[str, float, int]:
    """Kind of tree, size of a cell in m, and where the nodes begin."""
    head, separator, _ = raw[:4096].partition(b"\ndata\n")
    lines = head.split(b"\n")
    expected = _HEADERS[path.suffix.lower()]
    if not separator or not lines[0].startswith(expected):
        raise UserError(
            f"{path}: is broken or not a {path.suffix} map of OctoMap: it does not begin with"
            f" {expected.decode()!r} and a line `data`"
        )
    fields = dict(line.decode("ascii", "replace").split(" ", 1) for line in lines[1:] if b" " in line)
    tree = fields.get("id", "").strip()
    if tree not in _DATA_BYTES:
        known = ", ".join(_DATA_BYTES)
        raise UserError(f"{path}: is a map of kind {shorten(tree, 40)!r}; the kinds are {known}")
    try:
        size = float(fields["res"])
    except (KeyError, ValueError) as error:
        raise UserError(f"{path}: is broken: its header has no resolution `res`") from error
    if not 1e-4 <= size <= 1e4:
        raise UserError(f"{path}: has cells of {size:g} m; the size must be from 0.1 mm to 10 km")
    return tree, size, len(head) + len(separator)


@compiled
def _leaves(data: Bytes, data_bytes: int, leaves: Ints) -> int:
    """Read the nodes of a file.

    A node of a .bt file has two bits a child: 01 free, 10 occupied, 11 a node of its own.  One of an .ot file
    has log odds (and a colour), then a mask of the children.

    Args:
        data: (bytes,) uint8.
        data_bytes: of a node of an .ot file before its mask; 0 for a .bt file.
        leaves: (k, 4) key of the least cell and cells along an edge, of as many occupied leaves as fit.

    Returns:
        the number of occupied leaves, or what is wrong with the file.
    """
    stack = np.zeros((8 * LEVELS + 1, 4), np.int64)
    stack[0, 3] = 1 << LEVELS
    depth, at, count = 1, 0, 0
    node_bytes = data_bytes + 1 if data_bytes > 0 else 2
    while depth > 0:
        depth -= 1
        x, y, z, edge = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
        if at + node_bytes > len(data):
            return _TRUNCATED
        if data_bytes > 0 and data[at + data_bytes] == 0:
            # Log odds of zero or more: a probability of a half or more.
            if data[at + 3] & 0x80 == 0:
                count = _add(leaves, count, x, y, z, edge)
            at += node_bytes
            continue
        if edge == 1:
            return _DEEP
        half = edge >> 1
        # The first child stands next in the file, so it is put on the stack last.
        for child in range(7, -1, -1):
            if data_bytes == 0:
                bits = int(data[at + child // 4] >> (2 * (child % 4)) & 3)
            else:
                bits = 3 * int(data[at + data_bytes] >> child & 1)
            cx, cy, cz = x + half * (child & 1), y + half * (child >> 1 & 1), z + half * (child >> 2 & 1)
            if bits == 3:
                stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = cx, cy, cz, half
                depth += 1
            elif bits == 2:
                count = _add(leaves, count, cx, cy, cz, half)
        at += node_bytes
    return count


@compiled
def _add(leaves: Ints, count: int, x: int, y: int, z: int, edge: int) -> int:
    """Add a leaf where there is room for it; returns the number of leaves."""
    if count < len(leaves):
        leaves[count, 0], leaves[count, 1], leaves[count, 2], leaves[count, 3] = x, y, z, edge
    return count + 1


def _grid(path: Path, leaves: Ints, size: float, axes: str) -> VoxelGrid:
    """The dense grid of the leaves."""
    low, high = leaves[:, :3].min(axis=0), (leaves[:, :3] + leaves[:, 3:]).max(axis=0)
    shape = high - low
    if int(np.prod(shape)) > MAX_CELLS:
        extent = " x ".join(str(n) for n in shape)
        raise UserError(
            f"{path}: spans {extent} cells of {size:g} m; a map can have {MAX_CELLS:,}; crop the map,"
            " or save it with a coarser resolution"
        )
    occupied = np.zeros(shape, np.bool_)
    _fill(occupied, leaves, low)
    corner = (low - (1 << (LEVELS - 1))) * size
    if axes == "z_up":
        occupied = np.ascontiguousarray(occupied.transpose(1, 0, 2)[:, :, ::-1])
        top = corner[2] + shape[2] * size
        corner = np.array([corner[1], corner[0], -top])
    return VoxelGrid(occupied, corner.astype(np.float64), size)


@compiled
def _fill(occupied: Mask, leaves: Ints, low: Ints) -> None:
    """Mark the cells of all leaves."""
    for k in range(len(leaves)):
        x, y, z, edge = leaves[k, 0] - low[0], leaves[k, 1] - low[1], leaves[k, 2] - low[2], leaves[k, 3]
        for i in range(x, x + edge):
            for j in range(y, y + edge):
                for m in range(z, z + edge):
                    occupied[i, j, m] = True
