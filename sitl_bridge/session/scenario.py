"""Scenario files: one schema for fleets, formations and avoidance.

Positions are m NED from the world's origin, angles deg, times s of simulated time.  All faults of a file are
reported at once; files that it names are relative to its directory.  scenario_settings.py makes
settings of a session of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Discriminator, Field, Tag

from sitl_bridge.base.errors import ConfigurationError, FieldError, UserError, faults_of
from sitl_bridge.base.field_paths import FieldPath
from sitl_bridge.base.input_file import exists, is_file
from sitl_bridge.base.json_data import JsonObject, ReadJson
from sitl_bridge.base.quantities import STRICT, Positive, Seed
from sitl_bridge.base.yaml_file import Document, place_faults, read, validate
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.simulation.events import (
    AnyEvent,
    CustomEvent,
    EventSpecification,
    WindEvent,
    event_faults,
)
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.vehicle.stack_choice import LAST_INSTANCE
from sitl_bridge.core.vehicle.vehicle_specification import VehicleSpecification
from sitl_bridge.core.world.world import WorldSpecification
from sitl_bridge.core.world.world_file import (
    find_world,
    load_world,
    wind_with_files_beside,
    with_files_beside,
)
from sitl_bridge.link.hil.link_state import OnStall
from sitl_bridge.live.ros2.choices import RosChoices
from sitl_bridge.swarm.avoidance.neighbours import Obstacle
from sitl_bridge.swarm.avoidance.scene_obstacles import obstacles_of_scene
from sitl_bridge.swarm.avoidance.specification import (
    AvoidanceSettings,
    AvoidanceSpecification,
    flight_faults,
)
from sitl_bridge.swarm.formation.events import (
    FORMATION_KINDS,
    AnyFormationEvent,
    FormationEvent,
)
from sitl_bridge.swarm.formation.specification import FormationPlan, FormationSection, plan_formation
from sitl_bridge.swarm.radio import RadioSpecification

SUFFIXES = (".yaml", ".yml")
SWARM_AIRFRAME = "iris_rtk"
"""Default airframe of a formation or of avoidance: it knows its position to centimetres.  Ordinary receivers
drift by half a metre on each axis."""
SWARMS: tuple[Literal["formation", "avoidance"], ...] = ("formation", "avoidance")
_SET_BY_SWARM = {
    "formation": (("position", "grid", "yaw"), "follows from start and leader of the formation"),
    "avoidance": (("name", "position", "grid", "yaw"), "follows from the vehicle's route in avoidance"),
}
"""Fields of vehicles that a formation or avoidance sets, and by what."""


World = Annotated[
    Annotated[WorldSpecification, Tag("section")] | Annotated[Path, Tag("file")],
    Discriminator(lambda value: "file" if isinstance(value, str | Path) else "section"),
]
ScenarioEvent = Annotated[AnyEvent | AnyFormationEvent, Field(discriminator="kind")]


class Scenario(BaseModel):
    """A flight of one or several vehicles: world, vehicles, scheduled faults and changes, and mission.

    The mission is one of: a script for all vehicles (mission), a mission of each vehicle, a formation, or
    routes with avoidance.
    """

    model_config = STRICT

    name: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_\-]{1,60}$",
        description="name of the run directory; default: that of the file",
    )
    seed: Seed = Field(0, description="seed of all random numbers")
    world: World = Field(WorldSpecification(), description="place, air and wind; or the name of a world file")
    proximity: Proximity = Field(Proximity(), description="collisions and downwash between vehicles")
    radio: RadioSpecification = Field(
        RadioSpecification(), description="radio between the vehicles of a formation or of avoidance"
    )
    vehicles: tuple[VehicleSpecification, ...] = Field(
        (),
        max_length=LAST_INSTANCE + 1,
        description=f"default: as many {SWARM_AIRFRAME} as the formation or avoidance needs",
    )
    events: tuple[ScenarioEvent, ...] = Field((), max_length=1000, description="scheduled faults and changes")
    fence: Path | None = Field(
        None,
        description="plan of QGroundControl whose geofence and rally points all vehicles get; replaces those"
        " of their plans",
    )
    mission: Path | None = Field(None, description="MAVSDK script that flies all vehicles")
    arguments: tuple[str, ...] = Field((), description="arguments of the script")
    python: str | None = Field(
        None, description="interpreter of the script, a path or a program's name; default: this program's"
    )
    formation: FormationSection | None = Field(None, description="formation of all vehicles")
    avoidance: AvoidanceSettings | None = Field(
        None, description="routes of all vehicles, with collision avoidance"
    )
    time_limit: Positive | None = Field(
        None, description="limit of simulated time in s; a longer flight fails; default: none"
    )
    on_stall: OnStall = Field("leave", description="reaction to a flight stack that stops answering")
    ros2: RosChoices = Field(RosChoices(), description="names, rates and transforms of --ros2's topics")
    limits: dict[str, bool | float | None] = Field(
        {}, description="limits of measures by name, which the flight must keep; null for no limit"
    )

    @classmethod
    def faults_between(cls, data: ReadJson) -> list[tuple[FieldPath, str]]:
        """Faults between fields: no mission, two missions for the same vehicles, or sections without use."""
        vehicles = data.get("vehicles")
        groups = [v for v in vehicles if isinstance(v, dict)] if isinstance(vehicles, list) else []
        flown = [name for name in ("mission", *SWARMS) if data.get(name) is not None]
        if any(group.get("mission") is not None for group in groups):
            flown.append("vehicles")
        if not flown:
            return [((), "has no mission; give mission, formation, avoidance, or a mission of each vehicle")]
        if len(flown) > 1:
            return [((flown[0],), f"flies the same vehicles as {flown[1]}; leave one of the two out")]
        found: list[tuple[FieldPath, str]] = []
        if data.get("python") is not None and flown != ["mission"]:
            found.append((("python",), "is the interpreter of mission, which is not given; leave it out"))
        if data.get("arguments") and flown != ["mission"]:
            reason = "belong to mission, which is not given"
            if flown == ["vehicles"]:
                reason += "; give each vehicle its own arguments"
            found.append((("arguments",), f"{reason}; leave them out"))
        if not groups and flown[0] not in SWARMS:
            found.append(((), "has no vehicles; give vehicles: [{airframe: iris}]"))
        if data.get("radio") is not None and flown[0] not in SWARMS:
            found.append((("radio",), "is only used by a formation or avoidance; leave it out"))
        for i, group in enumerate(groups):
            if group.get("params_win") and group.get("params") is None:
                found.append((("vehicles", i, "params_win"), "is about params, which is not given"))
        if flown[0] in _SET_BY_SWARM:
            found += _swarm_vehicle_faults(groups, *_SET_BY_SWARM[flown[0]])
        if flown != ["formation"]:
            found += _formation_event_faults(data.get("events"))
        return found


def _swarm_vehicle_faults(
    groups: list[JsonObject], names: tuple[str, ...], why: str
) -> Iterator[tuple[FieldPath, str]]:
    for i, group in enumerate(groups):
        for name in names:
            if name in group:
                yield ("vehicles", i, name), f"{why}; leave it out"


def _formation_event_faults(events: object) -> Iterator[tuple[FieldPath, str]]:
    for i, event in enumerate(events if isinstance(events, list) else []):
        kind = event.get("kind") if isinstance(event, dict) else None
        if kind in FORMATION_KINDS:
            yield ("events", i), f"{kind} is an event of a formation, which is not given; leave it out"


@dataclass(frozen=True)
class ScenarioVehicle:
    """One vehicle of a scenario."""

    specification: VehicleSpecification  # of its group
    group: int  # number of the group in the file
    name: str  # unique in the scenario
    airframe: Airframe  # loaded
    airframe_name: str  # its name or file
    position: tuple[float, float, float]  # m NED
    yaw: float  # rad


@dataclass(frozen=True)
class LoadedScenario:
    """A scenario file, read and checked."""

    document: Document  # the file as data, for messages
    specification: Scenario  # its content
    name: str  # of the scenario
    world: WorldSpecification  # with paths and contents of its files
    seed: int  # of the run
    vehicles: tuple[ScenarioVehicle, ...]  # all of them, in order
    # of vehicles, flight stacks and the world, with the paths of their files
    events: tuple[EventSpecification, ...]
    formation: FormationPlan | None  # planned and checked, with its events; None for none
    avoidance: AvoidanceSpecification | None  # checked; None for none


WorldChange = Callable[[WorldSpecification], WorldSpecification]
"""Makes the world of a flight from that of its scenario."""


def load_scenario(
    file: Path, *, seed: int | None = None, change_world: WorldChange = lambda world: world
) -> LoadedScenario:
    """Read a scenario file.

    Args:
        file: YAML.
        seed: replaces that of the file.
        change_world: changes the file's world.

    Raises:
        ConfigurationError: with every fault, its line, path and remedy.
    """
    document = read(file)
    made = validate(Scenario, document)
    world = change_world(scenario_world(made.world, file, document))
    return assemble(made, document, file, seed=seed, world=world)


AirframeSource = Callable[[int, str], Airframe]
"""Loads the airframe of a group of vehicles, by the group's number and the airframe's name or file."""


def assemble(
    made: Scenario,
    document: Document,
    file: Path,
    *,
    seed: int | None = None,
    world: WorldSpecification,
    airframes: AirframeSource = lambda _group, source: load_airframe(source),
) -> LoadedScenario:
    """Make a scenario of its content: the world, the vehicles with their airframes, the plans of a swarm.

    Args:
        document: for the lines in messages.
        file: the scenario's; other files are relative to its directory.
        seed: replaces that of the content.
        world: of the flight.

    Raises:
        ConfigurationError: with every fault, its line, path and remedy.
    """
    name = made.name or file.stem
    used_seed = made.seed if seed is None else seed
    formation, avoidance = None, None
    starts: list[_Start] | None = None
    groups = _groups(made, document)
    if made.formation is not None:
        count = sum(group.count for group in groups)
        with place_faults(document), _within_section("formation"):
            formation = plan_formation(made.formation, count, file.parent, made.radio, used_seed)
        starts = [(None, (float(n), float(e), 0.0), 0.0) for n, e, _ in formation.places]
    if made.avoidance is not None:
        avoidance = _avoidance(made, name, world, document)
        starts = [(plan.name, (*plan.start()[:2], 0.0), plan.heading) for plan in avoidance.plans()]
    vehicles = _vehicles(groups, starts, file, document, airframes)
    names = [vehicle.name for vehicle in vehicles]
    events = tuple(_event_beside(event, file.parent) for event in made.events)
    faults = event_faults(events, names, [vehicle.airframe for vehicle in vehicles])
    if faults:
        lines = [document.fault(("events", i), reason) for i, reason in faults]
        raise ConfigurationError(document.source, lines)
    if formation is not None:
        own = [event for event in events if isinstance(event, FormationEvent)]
        formation = formation.with_events(own, names)
    others = tuple(event for event in events if not isinstance(event, FormationEvent))
    return LoadedScenario(document, made, name, world, used_seed, vehicles, others, formation, avoidance)


def scenario_world(world: WorldSpecification | Path, file: Path, document: Document) -> WorldSpecification:
    """The world of a scenario: a section, a file beside it or the name of a shipped world.

    Raises:
        ConfigurationError: with every fault of the world's file.
    """
    if isinstance(world, WorldSpecification):
        return with_files_beside(world, document, "world")
    beside = file.parent / world
    if not world.suffix and not exists(beside):
        try:
            beside = find_world(str(world))
        except UserError as error:
            raise document.error(("world",), str(error)) from error
    if not exists(beside):
        message = f"there is no file {beside}; give the name of a world file, or its sections"
        raise document.error(("world",), message)
    return load_world(beside)


def _event_beside(event: ScenarioEvent, directory: Path) -> ScenarioEvent:
    """An event with the files of its wind, or of its own class, relative to a directory."""
    if isinstance(event, CustomEvent):
        return event.beside(directory.resolve())
    if not isinstance(event, WindEvent):
        return event
    return event.model_copy(update={"wind": wind_with_files_beside(event.wind, directory)})


@contextmanager
def _within_section(name: str) -> Iterator[None]:
    """Let paths of faults begin with the section, except those of the radio, which is a section itself."""
    try:
        yield
    except FieldError as error:
        path = error.path if error.path[:1] == ("radio",) else (name, *error.path)
        raise FieldError(path, str(error)) from error


def _groups(made: Scenario, document: Document) -> tuple[VehicleSpecification, ...]:
    """Vehicles of the file, or the default ones of a formation or avoidance."""
    if made.formation is not None:
        path: FieldPath = ("formation", "count")
        needed = made.formation.count
    elif made.avoidance is not None:
        path, needed = ("avoidance",), len(made.avoidance.plans())
    else:
        return made.vehicles
    groups = made.vehicles
    if needed is None:
        if groups:
            return groups
        message = "give count, the number of vehicles, or the section vehicles"
        raise document.error(("formation",), message)
    if not groups:
        return (VehicleSpecification(count=max(needed, 1), airframe=SWARM_AIRFRAME),)
    if len(groups) == 1 and "count" not in groups[0].model_fields_set and needed > 0:
        return (groups[0].model_copy(update={"count": needed}),)
    count = sum(group.count for group in groups)
    if count != needed:
        what = "has" if made.formation is not None else "has routes for"
        message = f"{what} {needed} vehicles, but the section vehicles has {count}; give the same number"
        raise document.error(path, message)
    return groups


def _avoidance(
    made: Scenario, name: str, world: WorldSpecification, document: Document
) -> AvoidanceSpecification:
    assert made.avoidance is not None
    fields = {field: getattr(made.avoidance, field) for field in AvoidanceSettings.model_fields}
    fields["obstacles"] = _obstacles(made.avoidance, world, document)
    whole = AvoidanceSpecification(name=name, radio=made.radio, world=world, **fields)
    faults = []
    for where, message in flight_faults(whole):
        path = where if where[:1] == ("radio",) else ("avoidance", *where)
        faults.append(document.fault(path, message))
    if faults:
        raise ConfigurationError(document.source, faults)
    return whole


def _obstacles(
    settings: AvoidanceSettings, world: WorldSpecification, document: Document
) -> tuple[Obstacle, ...]:
    """The obstacles of the world's scene."""
    routes = settings.plans()
    if not settings.scene or not routes:
        return ()
    try:
        return obstacles_of_scene(world.scene, routes)
    except UserError as error:
        raise document.error(("avoidance", "scene"), str(error)) from error


_Start = tuple[str | None, tuple[float, float, float], float]


def _vehicles(
    groups: tuple[VehicleSpecification, ...],
    starts: list[_Start] | None,
    file: Path,
    document: Document,
    airframes: AirframeSource,
) -> tuple[ScenarioVehicle, ...]:
    """All vehicles with their airframes and positions; ``starts`` are name, position and yaw in a swarm."""
    found: list[ScenarioVehicle] = []
    faults: list[str] = []
    for i, group in enumerate(groups):
        near = file.parent / group.airframe
        source = str(near) if is_file(near) else group.airframe
        try:
            airframe = airframes(i, source)
        except UserError as error:
            faults += [document.fault(("vehicles", i, "airframe"), fault) for fault in faults_of(error)]
            continue
        for k, position in enumerate(group.positions()):
            number = len(found)
            own = str(number) if group.name is None else group.name + (str(k) if group.count > 1 else "")
            vehicle = ScenarioVehicle(group, i, own, airframe, source, position, math.radians(group.yaw))
            if starts is not None:
                vehicle = _place(vehicle, starts[number])
            found.append(vehicle)
    if faults:
        raise ConfigurationError(document.source, faults)
    names = [vehicle.name for vehicle in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        message = f"several vehicles are called {', '.join(twice)}; give each its own name"
        raise document.error(("vehicles",), message)
    return tuple(found)


def _place(vehicle: ScenarioVehicle, start: _Start) -> ScenarioVehicle:
    """A vehicle at the start of its formation or route, unless the file sets a position."""
    name, position, yaw = start
    if name is not None:
        return replace(vehicle, name=name, position=position, yaw=yaw)
    return (
        vehicle
        if "position" in vehicle.specification.model_fields_set
        else replace(vehicle, position=position)
    )
