"""The occupancy map that the simulated vehicle's sensors build in flight, as its mission reads it."""

from __future__ import annotations

import os
from pathlib import Path

from sitl_bridge.base.errors import UserError
from sitl_bridge.perception.mapping.occupancy_map import OccupancyMap
from sitl_bridge.session.missions.environment import MAP_VARIABLE


class LiveMap:
    """Reads the map of a mission's vehicle.

    Raises:
        UserError: where the vehicle builds no map.
    """

    def __init__(self) -> None:
        named = os.environ.get(MAP_VARIABLE)
        if not named:
            raise UserError(
                "the vehicle builds no map: fly an airframe with a ranging sensor that has a map_cell"
            )
        self.file = Path(named)
        self._read = -1

    def newer(self) -> OccupancyMap | None:
        """Return the map where it has changed since the last call, or None.

        Raises:
            UserError: for a file that is no map.
        """
        try:
            written = self.file.stat().st_mtime_ns
        except FileNotFoundError:
            return None
        if written == self._read:
            return None
        self._read = written
        return OccupancyMap.load(self.file)
