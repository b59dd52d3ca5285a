"""Builds the simulation of a recorded run anew from its run.json."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import ValidationError

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import airframe_beside
from sitl_bridge.core.world.world import World, WorldSpecification
from sitl_bridge.core.world.world_file import world_beside
from sitl_bridge.record.run_reader import RecordedRun, readable


def rebuild(run: RecordedRun) -> Simulation:
    """Build a run's simulation as it was before the first step.

    Raises:
        UserError: if run.json lacks what this takes, or a file that it names is missing.
    """
    file, facts = run.path / "run.json", run.description
    if "step" not in facts or "vehicles" not in facts:
        raise UserError(f"{file}: does not hold what repeats a run; another version of sitl-bridge wrote it")
    with readable(file):
        try:
            return _rebuilt(facts)
        except KeyError as error:
            raise UserError(f"{file}: has no {error}, which repeats a run") from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise UserError(f"{file}: {where}: {first['msg']}") from error


def _rebuilt(facts: JsonObject) -> Simulation:
    directory = Path(facts["directory"])
    world = world_beside(WorldSpecification.model_validate(facts["world"]), directory)
    setups = []
    for vehicle in facts["vehicles"]:
        airframe = airframe_beside(Airframe.model_validate(vehicle["airframe"]), directory)
        north, east, down = vehicle["position"]
        setups.append(
            VehicleSetup.from_airframe(airframe, (north, east, down), vehicle["yaw_radians"], vehicle["name"])
        )
    proximity = facts["proximity"]
    return Simulation(
        World(world, start=facts["start"]),
        setups,
        seed=facts["seed"],
        step=facts["step"],
        substeps=facts["substeps"],
        start=facts["start"],
        proximity=None if proximity is None else Proximity(**proximity),
    )


def differing_versions(run: RecordedRun) -> list[str]:
    """Software whose version now is another than when the run was recorded, in words."""
    found = []
    for name, recorded in run.description.get("versions", {}).items():
        try:
            now = version(name)
        except PackageNotFoundError:
            continue
        if now != recorded:
            found.append(f"{name} {recorded} then, {now} now")
    return found
