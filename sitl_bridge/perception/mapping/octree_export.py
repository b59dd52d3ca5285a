"""Maps as .bt and .ot files of OctoMap: the octree's nodes in depth-first order.

A .bt file has 16 bits a node, as OctoMap's OcTree::writeBinary (Hornung et al., 2013, section 5.4): two bits
for each of the eight children.  An .ot file has the log-odds of every node and a mask of its children, as
OcTreeBaseImpl::writeData; an inner node has the greatest log-odds of its children.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.output_file import write_whole

LEVELS = 16
UNKNOWN, FREE, OCCUPIED, INNER = 0b00, 0b01, 0b10, 0b11
"""A child in its parent's bits, the first child in the lowest ones."""
FULL_NODE = np.dtype([("log_odds", "<f4"), ("children", "u1")])
HEADER = (
    "# Octomap OcTree{binary} file\n"
    "# (feel free to add / change comments, but leave the first line as it is!)\n#\n"
    "id OcTree\nsize {size}\nres {cell:.15g}\ndata\n"
)

Codes = NDArray[np.uint64]


def write_octree(path: Path, cell: float, free: NDArray[np.int64], occupied: NDArray[np.int64]) -> Path:
    """Write free and occupied cells as an octree, x east, y north, z up.

    Args:
        path: of the file.
        cell: m, edge of a cell.
        free: (n, 3) cells, counted from the origin along north, east, down.
        occupied: (m, 3) likewise.

    Raises:
        UserError: where the map is too large for an octree, or the file cannot be written.
    """
    keys = _keys(path, cell, np.concatenate([free, occupied]))
    kinds = np.repeat(np.array([FREE, OCCUPIED], np.uint64), [len(free), len(occupied)])
    places, depths, bits, size = _inner_nodes(_codes(keys), kinds)
    order = np.lexsort((depths, places))
    header = HEADER.format(binary=" binary", size=size, cell=cell).encode()
    return write_whole(path, header + bits[order].astype("<u2").tobytes())


def write_full_octree(
    path: Path, cell: float, cells: NDArray[np.int64], log_odds: NDArray[np.float32]
) -> Path:
    """Write the log-odds of known cells as an octree, x east, y north, z up.

    Args:
        path: of the file.
        cell: m, edge of a cell.
        cells: (n, 3) counted from the origin along north, east, down.
        log_odds: (n,) of them.

    Raises:
        UserError: as ``write_octree``.
    """
    places, depths, nodes = _full_nodes(_codes(_keys(path, cell, cells)), log_odds)
    order = np.lexsort((depths, places))
    header = HEADER.format(binary="", size=len(nodes), cell=cell).encode()
    return write_whole(path, header + nodes[order].tobytes())


def _keys(path: Path, cell: float, cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return OctoMap's keys (n, 3) of cells (n, 3) along north, east, down.

    Raises:
        UserError: for cells that are too far from the origin.
    """
    keys = np.stack([cells[:, 1], cells[:, 0], -1 - cells[:, 2]], axis=1) + (1 << (LEVELS - 1))
    if len(keys) and (keys.min() < 0 or keys.max() >= 1 << LEVELS):
        reach = (1 << (LEVELS - 1)) * cell
        raise UserError(f"{path}: an octree with cells of {cell:g} m reaches {reach:g} m from the origin")
    return keys


def _full_nodes(
    codes: Codes, log_odds: NDArray[np.float32]
) -> tuple[Codes, NDArray[np.int64], NDArray[np.void]]:
    """Return the first leaf's code, the depth and the FULL_NODE of every node; eight equal leaves are one.

    Args:
        codes: (n,) of the leaves, each once.
        log_odds: (n,) of the leaves.
    """
    places: list[Codes] = []
    depths: list[NDArray[np.int64]] = []
    nodes: list[NDArray[np.void]] = []

    def emit(codes: Codes, level: NDArray[np.void], depth: int) -> None:
        places.append(codes << np.uint64(3 * (LEVELS - depth)))
        depths.append(np.full(len(codes), depth))
        nodes.append(level)

    level = np.zeros(len(codes), FULL_NODE)
    level["log_odds"] = log_odds
    for depth in range(LEVELS, 0, -1):
        parents, index = np.unique(codes >> np.uint64(3), return_inverse=True)
        above = np.zeros(len(parents), FULL_NODE)
        least = np.full(len(parents), np.inf, np.float32)
        above["log_odds"] = -np.inf
        np.maximum.at(above["log_odds"], index, level["log_odds"])
        np.minimum.at(least, index, level["log_odds"])
        np.bitwise_or.at(above["children"], index, (1 << (codes & np.uint64(7))).astype(np.uint8))
        inner = np.bincount(index, level["children"] > 0, len(parents)) > 0
        pruned = (above["children"] == 0xFF) & (least == above["log_odds"]) & ~inner & (depth > 1)
        above["children"][pruned] = 0
        kept = ~pruned[index]
        emit(codes[kept], level[kept], depth)
        codes, level = parents, above
    emit(codes, level, 0)
    return np.concatenate(places), np.concatenate(depths), np.concatenate(nodes)


def _codes(keys: NDArray[np.int64]) -> Codes:
    """Return the Morton codes of keys (n, 3): x the lowest bit of every three."""
    codes = np.zeros(len(keys), np.uint64)
    for bit in range(LEVELS):
        for axis in range(3):
            one = (keys[:, axis] >> bit) & 1
            codes |= one.astype(np.uint64) << np.uint64(3 * bit + axis)
    return codes


def _inner_nodes(codes: Codes, kinds: Codes) -> tuple[Codes, NDArray[np.int64], Codes, int]:
    """Return the nodes with children, where eight equal leaves are one, and the count of all nodes.

    Args:
        codes: (n,) of the leaves, each once.
        kinds: (n,) FREE or OCCUPIED.

    Returns:
        the first leaf's code, depth and bits of every node with children, and the number of all nodes.
    """
    places: list[Codes] = []
    depths: list[NDArray[np.int64]] = []
    bits: list[Codes] = []
    size = 1
    for depth in range(LEVELS - 1, -1, -1):
        parents, index = np.unique(codes >> np.uint64(3), return_inverse=True)
        of_parent = np.zeros(len(parents), np.uint64)
        np.bitwise_or.at(of_parent, index, kinds << ((codes & np.uint64(7)) * np.uint64(2)))
        children = np.bincount(index, minlength=len(parents))
        whole = np.zeros(len(parents), np.uint64)
        for kind in (FREE, OCCUPIED):
            whole[of_parent == kind * 0x5555] = kind
        inner = (whole == 0) | (depth == 0)
        places.append(parents[inner] << np.uint64(3 * (LEVELS - depth)))
        depths.append(np.full(int(inner.sum()), depth))
        bits.append(of_parent[inner])
        size += int(children[inner].sum())
        codes, kinds = parents, np.where(inner, np.uint64(INNER), whole)
    return np.concatenate(places), np.concatenate(depths), np.concatenate(bits), size
