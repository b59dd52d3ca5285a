"""Reads what a page shows of a run: its vehicles, its world and the rows of its recording."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from sitl_bridge.analysis.export.plans import PlannedLine, planned_lines, slot_places
from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.rotations import quaternion_from_euler
from sitl_bridge.core.sensors.perception.camera import ImagingSpecification
from sitl_bridge.core.sensors.perception.depth_camera import DepthCameraSpecification
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import airframe_beside, load_airframe
from sitl_bridge.core.world.earth import gravity
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_geometry import GeometryLoader
from sitl_bridge.core.world.scene_specification import SceneSpecification
from sitl_bridge.core.world.world import Origin, WorldSpecification
from sitl_bridge.core.world.world_file import world_beside
from sitl_bridge.record.records import ROW
from sitl_bridge.record.run_reader import RecordedRun

PICTURED = (ImagingSpecification, DepthCameraSpecification)
"""Sensors that take pictures."""
STAND_IN = "iris"
"""Airframe that is drawn where run.json holds none that this version reads."""


@dataclass(frozen=True)
class Camera:
    """A sensor whose pictures can be shown."""

    vehicle: str
    sensor: str


class ViewedRun:
    """The parts of a run that are shown.

    Attributes:
        notes: what cannot be shown, and why.

    Raises:
        UserError: if it is no run directory, or its run.json or truth.npy cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.recorded = RecordedRun(path)
        self.path = self.recorded.path
        self.notes = [*self.recorded.notes]
        described = self.recorded.description
        if "vehicles" not in described or "world" not in described:
            raise UserError(f"{path / 'run.json'}: does not describe vehicles and world")
        self.names = self.recorded.names
        self._directory = Path(described.get("directory", self.path))
        found = [self._airframe(vehicle) for vehicle in described["vehicles"]]
        self.airframes = tuple(airframe or load_airframe(STAND_IN) for airframe in found)
        without = [name for name, airframe in zip(self.names, found, strict=True) if airframe is None]
        if without:
            drawn = f"vehicle {without[0]} is" if len(without) == 1 else f"{len(without)} vehicles are"
            self.notes.append(f"{drawn} drawn as {STAND_IN}: run.json has no airframe")
        self.scene = self._scene(described["world"])

    @property
    def title(self) -> str:
        """Of the browser's tab: airframes, run, project."""
        kinds = ", ".join(dict.fromkeys(airframe.name for airframe in self.airframes))
        count = f"{len(self.names)} x " if len(self.names) > 1 else ""
        return f"{count}{kinds} - {self.path.name} - sitl-bridge"

    @property
    def start(self) -> int:
        """us of simulated time at which the run began."""
        return int(self.recorded.description.get("start", 0))

    @property
    def origin(self) -> tuple[float, float, float]:
        """Latitude deg, longitude deg and altitude m of the world's origin."""
        origin = Origin.model_validate(self.recorded.description["world"].get("origin") or {})
        return origin.latitude, origin.longitude, origin.altitude

    @property
    def gravity(self) -> float:
        """m/s^2 at the world's origin."""
        latitude, _, altitude = self.origin
        return float(gravity(math.radians(latitude), altitude))

    def _airframe(self, vehicle: JsonObject) -> Airframe | None:
        try:
            return airframe_beside(Airframe.model_validate(vehicle["airframe"]), self._directory)
        except (KeyError, ValidationError):
            return None

    def _scene(self, world: JsonObject) -> Scene:
        """The scene; objects that cannot be read are noted and left out."""
        try:
            return Scene(world_beside(WorldSpecification.model_validate(world), self._directory).scene)
        except (UserError, ValidationError):
            return self._scene_in_part(world)

    def _scene_in_part(self, world: JsonObject) -> Scene:
        try:
            specification = SceneSpecification.model_validate(world.get("scene") or {})
            origin = Origin.model_validate(world["origin"])
        except (KeyError, ValidationError):
            self.notes.append("the scene is not shown: this version does not read its description")
            return Scene()
        return Scene(GeometryLoader(self._directory, origin).load_shown(specification, self.notes))

    def at_start(self) -> Records:
        """(n,) ROW of the vehicles before the first step."""
        rows = np.zeros(len(self.names), ROW)
        rows["time"], rows["vehicle"] = self.start, np.arange(len(rows))
        for row, vehicle in zip(rows, self.recorded.description["vehicles"], strict=True):
            row["position"] = vehicle.get("position", (0.0, 0.0, 0.0))
            row["attitude"] = quaternion_from_euler(0.0, 0.0, math.radians(vehicle.get("yaw", 0.0)))
        return rows

    def planned_lines(self) -> tuple[list[PlannedLine], list[tuple[int, Floats]]]:
        """Lines of plans, fences and a formation, and the places of its slots: us, (n, 3) m NED."""
        run = self.recorded
        try:
            return run.describe(lambda _description: (list(planned_lines(run)), list(slot_places(run))))
        except UserError as error:
            self.notes.append(f"plan and formation are not shown: {error}")
            return [], []

    def cameras(self) -> list[Camera]:
        """The vehicles' sensors that take pictures."""
        return [
            Camera(name, sensor.name)
            for name, airframe in zip(self.names, self.airframes, strict=True)
            for sensor in airframe.perception_sensors()
            if isinstance(sensor, PICTURED)
        ]
