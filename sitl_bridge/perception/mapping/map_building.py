"""An occupancy map that a vehicle's sensors build in flight, beside the lockstep.

A sample is inserted on a thread from its delivery on, at the latest until the next one is delivered or the
map is read.  So the map at a simulated time is the same on a slow and on a fast machine.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from sitl_bridge.base.errors import UserError
from sitl_bridge.core.sensors.perception.obstacle_map import Sight
from sitl_bridge.perception.mapping.occupancy_map import OccupancyMap
from sitl_bridge.perception.recording import warn

PUBLISHED = 250_000
"""us of simulated time between two files for programs that read the map in flight."""
CLAMPING = 0.35, 0.85
"""One hit makes a free cell occupied, and five passes free an occupied one: a map of 5 scans a second has to
show what moves by a cell every 0.4 s."""


class MapBuilder:
    """The map of one vehicle.

    Args:
        cell: m, edge of a cell.
        file: for the map, ``.npz``.  None: in memory.
        report: takes one sentence when the map ends early.

    Attributes:
        file: likewise.
    """

    def __init__(self, cell: float, file: Path | None = None, report: Callable[[str], None] = warn) -> None:
        self._map = OccupancyMap(cell, CLAMPING)
        self.file = file
        self._report = report
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="occupancy map")
        self._under_way: Future[None] | None = None
        self._published: int | None = None
        self._ended = self._saved = False
        # What has to be compiled is, before simulated time runs.
        OccupancyMap(cell).insert_ranges(np.zeros(3), [[1.0, 0.0, 0.0]], [cell], 2.0 * cell)

    @property
    def cell(self) -> float:
        """m, edge of a cell."""
        return self._map.cell

    def add(self, time: int, sight: Sight) -> None:
        """Begin to insert a sample.

        Args:
            time: us, of the sample.
        """
        self._finish()
        if not self._ended:
            self._under_way = self._executor.submit(self._insert, time, sight)

    def read(self) -> OccupancyMap:
        """Return the map of all samples added so far."""
        self._finish()
        return self._map.copy()

    def close(self) -> None:
        """Insert what is under way, and write the file; safe to call twice."""
        self._finish()
        self._executor.shutdown()
        if self.file is None or self._saved or not self._map.log_odds.size:
            return
        self._saved = True
        try:
            self._map.save(self.file)
        except UserError as error:
            self._report(str(error))

    def _finish(self) -> None:
        if self._under_way is None:
            return
        future, self._under_way = self._under_way, None
        try:
            future.result()
        except UserError as error:
            self._ended = True
            self._report(f"{error}; the map ends at {self._map.time:.1f} s")

    def _insert(self, time: int, sight: Sight) -> None:
        self._map.insert_ranges(sight.origins, sight.directions, sight.ranges, sight.maximum)
        self._map.time = time * 1e-6
        due = self._published is None or time - self._published >= PUBLISHED
        if self.file is not None and due and self._map.log_odds.size:
            self._published = time
            self._map.publish(self.file)
