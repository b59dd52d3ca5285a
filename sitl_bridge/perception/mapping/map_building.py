"""An occupancy map that a vehicle's sensors build in flight, beside the lockstep.

A sample is inserted on a thread from its delivery on, at the latest until the next one is delivered or the
map is read.  So the map at a simulated time is the same on a slow and on a fast machine.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.sensors.custom import CustomSensorHost
from sitl_bridge.core.sensors.perception.obstacle_map import RangingSpecification
from sitl_bridge.core.sensors.perception.sight import Sight
from sitl_bridge.core.sensors.sensor_host import SensorHost
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.perception.mapping.occupancy_map import OccupancyMap
from sitl_bridge.perception.payload_runner import runner_for
from sitl_bridge.perception.recording import report_of, warn

PUBLISHED = 250_000
"""us of simulated time between two files for programs that read the map in flight."""
CLAMPING = 0.35, 0.85
"""One hit makes a free cell occupied, and five passes free an occupied one: a map of 5 scans a second has to
show what moves by a cell every 0.4 s."""
FOLDER = "maps"
"""In the run directory: ``NAME.npz``, at most half a second old in flight."""


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


def sensor_hosts(
    airframe: Airframe,
    simulation: Simulation,
    *,
    vehicle: int = 0,
    stream: str | None = None,
    directory: Path | None = None,
    title: Callable[[str], str] = lambda name: name,
    errors: ErrorLog | None = None,
) -> list[SensorHost]:
    """Return the hosts of a vehicle's sensors that are sampled between steps, from now on.

    The user's own come first, then those that see, with their recordings and the map that they build.

    Args:
        simulation: the vehicles and their world.
        vehicle: index of the vehicle.
        stream: name of its random streams; None for the vehicle's.
        directory: of the run, for tables and recordings; None keeps no files.
        title: makes the name of a table or a recording from the sensor's.
        errors: takes the end of a table, a recording or the map; None: printed, or a warning of Python's.

    Raises:
        UserError: for sensors that cannot be loaded, for those that build maps of different cells, and where
            a file or directory cannot be made.
    """
    name, start = stream or simulation.names[vehicle], simulation.time
    hosts: list[SensorHost] = [
        CustomSensorHost(
            sensor,
            vehicle=vehicle,
            name=name,
            seed=simulation.seed,
            start=start,
            table=None if directory is None else directory / f"{title(sensor.name)}.csv",
            errors=errors,
        )
        for sensor in airframe.custom_sensors()
    ]
    found: MapBuilder | None = None
    for sensor in airframe.seeing_sensors():
        mapper = None
        if isinstance(sensor, RangingSpecification) and sensor.map_cell is not None:
            found = found or _map_builder(sensor.map_cell, simulation.names[vehicle], directory, errors)
            if found.cell != sensor.map_cell:
                raise UserError(
                    f"{simulation.names[vehicle]}: its sensors build one map; give {sensor.name} the map_cell"
                    f" of the others, {found.cell:g} m"
                )
            mapper = found
        runner = runner_for(
            sensor,
            simulation,
            vehicle=vehicle,
            name=name,
            start=start,
            directory=directory,
            title=title(sensor.name),
            errors=errors,
            mapper=mapper,
        )
        hosts.append(runner)
    return hosts


def _map_builder(cell: float, name: str, directory: Path | None, errors: ErrorLog | None) -> MapBuilder:
    file = None
    if directory is not None:
        folder = directory / FOLDER
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise UserError(f"{folder}: cannot be made: {error.strerror}") from error
        file = folder / f"{name}.npz"
    return MapBuilder(cell, file, report_of(errors, f"the map of {name}"))
