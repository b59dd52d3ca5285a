"""Maps as .bt files of OctoMap, by pyoctomap."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.errors import UserError

LEVELS = 16


def write_octree(path: Path, cell: float, free: NDArray[np.float64], occupied: NDArray[np.float64]) -> Path:
    """Write free and occupied cells as an octree, x east, y north, z up.

    Args:
        path: of the file.
        cell: m, edge of a cell.
        free: (n, 3) m NED, centres of cells.
        occupied: (m, 3) likewise.

    Raises:
        UserError: where pyoctomap is missing, the map is too large for an octree, or the file cannot be
            written.
    """
    try:
        import pyoctomap
    except ImportError as error:
        raise UserError(
            f"{path}: octree maps need the package pyoctomap, which is not installed: pip install pyoctomap;"
            " or save the map as .npz"
        ) from error
    reach = (1 << (LEVELS - 1)) * cell
    if max(np.abs(free).max(initial=0.0), np.abs(occupied).max(initial=0.0)) > reach:
        raise UserError(f"{path}: an octree with cells of {cell:g} m reaches {reach:g} m from the origin")
    tree = pyoctomap.OcTree(cell)
    for centers, value in ((free, False), (occupied, True)):
        for point in np.stack([centers[:, 1], centers[:, 0], -centers[:, 2]], axis=1):
            tree.updateNode(point, value, lazy_eval=True)
    tree.updateInnerOccupancy()
    if not tree.writeBinary(str(path)):
        raise UserError(f"{path}: cannot be written")
    return path
