"""Makes what runs a vehicle's sensors between steps: the user's own, those that see, and payload cameras."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.output_file import make_directory
from sitl_bridge.core.sensors.custom import CustomSensorHost
from sitl_bridge.core.sensors.perception.obstacle_map import RangingSpecification
from sitl_bridge.core.sensors.perception.payload_camera import PayloadCameraSpecification
from sitl_bridge.core.sensors.perception.view import PerceptionSpecification
from sitl_bridge.core.sensors.sensor_host import SensorHost
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.perception.mapping.map_building import MapBuilder
from sitl_bridge.perception.recording import recording_of, report_of
from sitl_bridge.perception.sensor_runner import SensorRunner


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
    own = simulation.names[vehicle]
    hosts: list[SensorHost] = [
        CustomSensorHost(
            sensor,
            vehicle=vehicle,
            name=stream or own,
            seed=simulation.seed,
            start=simulation.time,
            table=None if directory is None else directory / f"{title(sensor.name)}.csv",
            errors=errors,
        )
        for sensor in airframe.custom_sensors()
    ]
    builder: MapBuilder | None = None
    for sensor in airframe.perception_sensors():
        mapper = None
        if isinstance(sensor, RangingSpecification) and sensor.map_cell is not None:
            mapper = builder = builder or _map_builder(sensor.map_cell, own, directory, errors)
            if builder.cell != sensor.map_cell:
                raise UserError(
                    f"{own}: its sensors build one map; give {sensor.name} the map_cell of the others,"
                    f" {builder.cell:g} m"
                )
        runner = runner_for(
            sensor,
            simulation,
            directory=directory,
            title=title(sensor.name),
            errors=errors,
            vehicle=vehicle,
            name=stream,
            mapper=mapper,
        )
        hosts.append(runner)
    return hosts


def _map_builder(cell: float, name: str, directory: Path | None, errors: ErrorLog | None) -> MapBuilder:
    """Its file, ``maps/NAME.npz`` in the run directory, is at most half a second old in flight."""
    file = None
    if directory is not None:
        file = directory / "maps" / f"{name}.npz"
        make_directory(file.parent)
    return MapBuilder(cell, file, report_of(errors, f"the map of {name}"))


def runner_for(
    specification: PerceptionSpecification,
    simulation: Simulation,
    *,
    directory: Path | None = None,
    title: str = "",
    errors: ErrorLog | None = None,
    **others: Any,
) -> SensorRunner:
    """The runner of a sensor that sees.

    Args:
        simulation: the vehicles and their world.
        directory: of the run, for recordings and photos; None for none.
        title: name of the sensor in the run; by default its own.
        errors: takes the end of a recording, and photos that cannot be written.
        others: as of ``SensorRunner``.
    """
    title = title or specification.name
    if not isinstance(specification, PayloadCameraSpecification):
        recording = recording_of(specification, directory, title, errors)
        return SensorRunner(specification, simulation, recording=recording, **others)
    from sitl_bridge.perception.payload_runner import make_payload_runner  # which only such cameras need

    return make_payload_runner(
        specification, simulation, directory=directory, title=title, errors=errors, **others
    )
