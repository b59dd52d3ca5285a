"""Maps as .bt files of OctoMap, by pyoctomap."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sitl_bridge.errors import UserError

if TYPE_CHECKING:
    from sitl_bridge.mapping.occupancy_map import OccupancyMap

LEVELS = 16


def write_octree(path: Path, occupancy: OccupancyMap) -> Path:
    """Write free and occupied cells as an octree, x east, y north, z up.

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
    reach = (1 << (LEVELS - 1)) * occupancy.cell
    far = np.abs(
        np.stack([occupancy.corner, occupancy.corner + np.array(occupancy.log_odds.shape) * occupancy.cell])
    )
    if far.max() > reach:
        raise UserError(
            f"{path}: an octree with cells of {occupancy.cell:g} m reaches {reach:g} m from the origin"
        )
    tree = pyoctomap.OcTree(occupancy.cell)
    for cells, value in ((occupancy.free, False), (occupancy.occupied, True)):
        ned = occupancy.centers(cells)
        for point in np.stack([ned[:, 1], ned[:, 0], -ned[:, 2]], axis=1):
            tree.updateNode(point, value, lazy_eval=True)
    tree.updateInnerOccupancy()
    if not tree.writeBinary(str(path)):
        raise UserError(f"{path}: cannot be written")
    return path
