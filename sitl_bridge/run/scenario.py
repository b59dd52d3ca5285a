"""Scenario files: vehicles, world, wind, events and what flies them, in one YAML.

A formation is a section of it, see formation/scenario.py.  Positions are m NED, angles deg, times s of
simulated time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sitl_bridge.bus.address import BusAddress
from sitl_bridge.dynamics.proximity import Proximity
from sitl_bridge.errors import ConfigurationError, UserError
from sitl_bridge.field_paths import FieldPath
from sitl_bridge.files.airframe_file import load_airframe
from sitl_bridge.files.avoidance_file import is_avoidance, load_avoidance
from sitl_bridge.files.formation_file import load_formation
from sitl_bridge.files.yaml_file import Document, Fault, read, validate
from sitl_bridge.hil.server import OnStall
from sitl_bridge.input_file import is_file
from sitl_bridge.quantities import Degrees, Positive, Seed, Vector
from sitl_bridge.run.autopilot_choice import Choice, who_flies
from sitl_bridge.run.fleet_settings import ORDERS, RUN_DIRECTORY, FleetSettings
from sitl_bridge.run.mission_process import check_mission
from sitl_bridge.run.scheduled_events import EventSpecification, event_faults
from sitl_bridge.run.vehicle_run import LAST_INSTANCE, VehicleSettings, faults_of
from sitl_bridge.swarm.avoidance import flight_conditions
from sitl_bridge.swarm.formation.formation_specification import FormationSpecification
from sitl_bridge.system.interpreter import find_interpreter
from sitl_bridge.world.world import Origin, WorldSpecification

SUFFIXES = (".yaml", ".yml")
_STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class GridSpecification(BaseModel):
    """How several vehicles stand: row by row to the east, the rows one behind the other to the south."""

    model_config = _STRICT

    spacing: Positive = Field(3.0, description="m")
    columns: int | None = Field(
        None, ge=1, le=LAST_INSTANCE + 1, description="in a row; near a square without"
    )


class VehicleSpecification(BaseModel):
    """One vehicle, or several alike."""

    model_config = _STRICT

    name: str | None = Field(
        None, pattern=r"^[A-Za-z0-9_\-]{1,40}$", description="its number without; of several, beginning of it"
    )
    count: int = Field(1, ge=1, le=LAST_INSTANCE + 1)
    airframe: str = Field("iris", description="name or file")
    position: Vector = Field((0.0, 0.0, 0.0), description="m north, east, down; of several, the first one's")
    grid: GridSpecification = GridSpecification()
    yaw: Degrees = Field(0.0, description="deg")
    autopilot: Choice = "auto"
    controller: str | None = Field(None, description="of the built-in stack")
    parameters: dict[str, int | float] = Field(default_factory=dict, description="of the flight stack")
    mission: Path | None = Field(None, description="plan or script that flies each of them")
    arguments: tuple[str, ...] = Field((), description="handed to the script")
    python: str | None = Field(None, description="interpreter of the script, a path or a program's name")

    def positions(self) -> Iterator[tuple[float, float, float]]:
        """Where they stand."""
        columns = self.grid.columns or math.ceil(math.sqrt(self.count))
        north, east, down = self.position
        for i in range(self.count):
            row, column = divmod(i, columns)
            yield north - row * self.grid.spacing, east + column * self.grid.spacing, down


class ProximitySpecification(BaseModel):
    """What vehicles do to one another."""

    model_config = _STRICT

    collisions: bool = True
    downwash: bool = True
    restitution: float = Field(Proximity.restitution, ge=0.001, le=1.0)
    breaking_speed: Positive | None = Field(
        None, description="m/s of closing speed above which a rotor that is hit stops; never without"
    )


class Scenario(BaseModel):
    """A scenario file."""

    model_config = _STRICT

    name: str | None = Field(None, pattern=r"^[A-Za-z0-9_\-]{1,60}$", description="the file's without")
    seed: Seed = 0
    world: WorldSpecification = WorldSpecification()
    proximity: ProximitySpecification = ProximitySpecification()
    vehicles: tuple[VehicleSpecification, ...] = Field((), max_length=LAST_INSTANCE + 1)
    events: tuple[EventSpecification, ...] = Field((), max_length=1000)
    mission: Path | None = Field(None, description="one script that flies all vehicles")
    arguments: tuple[str, ...] = Field((), description="handed to the script")
    python: str | None = Field(None, description="interpreter of that script, a path or a program's name")
    formation: FormationSpecification | None = None
    time_limit: Positive | None = Field(None, description="s")
    on_stall: OnStall = "leave"

    @classmethod
    def faults_between(cls, data: Any) -> list[tuple[tuple[str | int, ...], str]]:
        """What no single field shows: nothing to fly, or two that would fly the same vehicles."""
        vehicles = data.get("vehicles")
        groups = [v for v in vehicles if isinstance(v, dict)] if isinstance(vehicles, list) else []
        flown = [name for name in ("mission", "formation") if data.get(name) is not None]
        if any(group.get("mission") is not None for group in groups):
            flown.append("vehicles")
        if not flown:
            return [((), "nothing flies: give mission, formation, or missions of the vehicles' own")]
        if len(flown) > 1:
            return [((flown[0],), f"flies the same vehicles as {flown[1]}; leave one out")]
        if data.get("python") is not None and flown != ["mission"]:
            return [(("python",), "is the interpreter of mission's script, and there is no mission here")]
        if not groups and flown != ["formation"]:
            return [((), "has no vehicles")]
        return []


@dataclass(frozen=True)
class Choices:
    """What a command line says beside a scenario; None leaves it to the file.

    Attributes:
        seed, world, time_limit: in place of the file's.
        autopilot: of all vehicles, ``auto`` leaves it to the file.
        instance: of the first vehicle; the others' follow.
        speed, px4, runs, bus, expose: as in FleetSettings.
        arguments: handed to the script that flies all, after the file's own.
        python: interpreter of all scripts, in place of the file's.
    """

    seed: int | None = None
    world: WorldSpecification | None = None
    time_limit: float | None = None
    autopilot: Choice = "auto"
    instance: int = 0
    speed: float = 1.0
    px4: Path | None = None
    runs: Path = Path("runs")
    arguments: tuple[str, ...] = ()
    bus: BusAddress | None = None
    expose: bool = False
    python: Path | None = None


def load_scenario(file: Path, choices: Choices) -> FleetSettings:
    """Read a scenario file.

    Raises:
        ConfigurationError: with every fault of the file and its line, or of what it names.
        UserError: for a formation or an avoidance scenario that cannot be flown.
    """
    document = read(file)
    if is_avoidance(document.data):
        return _avoidance(file, choices)
    made = validate(Scenario, document)
    world = choices.world or _placed_world(made.world, file.parent)
    vehicles = _vehicles(made, file, choices, document, world.origin)
    settings = FleetSettings(
        vehicles=vehicles,
        name=made.name or file.stem,
        world=world,
        seed=made.seed if choices.seed is None else choices.seed,
        speed=choices.speed,
        px4=choices.px4,
        runs=choices.runs,
        mission=_mission(made, file, choices, document, world, vehicles),
        python=None if made.mission is None else _python(made.python, file, choices),
        time_limit=next((x for x in (choices.time_limit, made.time_limit) if x is not None), math.inf),
        on_stall=made.on_stall,
        proximity=Proximity(**made.proximity.model_dump()),
        events=made.events,
        bus=choices.bus,
        expose=choices.expose,
    )
    names = [vehicle.name for vehicle in vehicles]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise _fault(document, ("vehicles",), f"two are called {', '.join(twice)}")
    airframes = [vehicle.airframe for vehicle in vehicles]
    faults = event_faults(made.events, names, airframes)
    if faults:
        lines = [_fault_line(document, ("events", i), reason) for i, reason in faults]
        raise ConfigurationError(str(file), lines)
    return settings


def _fault_line(document: Document, path: FieldPath, message: str) -> str:
    return str(Fault(document.line(path), path, message))


def _fault(document: Document, path: FieldPath, message: str) -> ConfigurationError:
    return ConfigurationError(document.source, [_fault_line(document, path, message)])


def _avoidance(file: Path, choices: Choices) -> FleetSettings:
    """Settings of an avoidance scenario, whose vehicles stand below their first points."""
    scenario = load_avoidance(file)
    airframe = load_airframe(flight_conditions.airframe_of(scenario, file))
    flight_conditions.check_launch(
        scenario, flight_conditions.lasting_deviation(scenario, airframe), str(file)
    )
    if choices.arguments:
        raise ConfigurationError(str(file), [f"takes no arguments: {' '.join(choices.arguments)}"])
    _refuse_python(file, choices)
    world, seed = choices.world or flight_conditions.world_of(scenario), choices.seed or 0
    vehicles = tuple(
        VehicleSettings(
            airframe,
            name=plan.name,
            position=(*plan.start()[:2], 0.0),
            yaw=plan.yaw,
            instance=choices.instance + number,
            autopilot=choices.autopilot,
        )
        for number, plan in enumerate(scenario.plans())
    )
    stack = "builtin" if who_flies(choices.autopilot, choices.px4).px4 is None else "px4"
    command = _flock_command("avoidance", file, world, vehicles)
    return FleetSettings(
        vehicles=vehicles,
        name=scenario.name,
        world=world,
        seed=seed,
        speed=choices.speed,
        px4=choices.px4,
        runs=choices.runs,
        mission=(*command, "--seed", str(seed), "--stack", stack),
        mission_prepares=True,
        time_limit=math.inf if choices.time_limit is None else choices.time_limit,
        proximity=Proximity(**ProximitySpecification().model_dump()),
        bus=choices.bus,
        expose=choices.expose,
        separation=scenario.controller.distances.minimum,
    )


def _refuse_python(file: Path, choices: Choices) -> None:
    """What this program flies itself runs in no other interpreter."""
    if choices.python is not None:
        raise ConfigurationError(str(file), ["is flown by sitl-bridge itself; leave out --python"])


def _python_of(group: VehicleSpecification, file: Path, choices: Choices) -> Path | None:
    """Interpreter of a vehicle's own script; plans have none."""
    if group.mission is None or (group.mission.suffix == ".plan" and group.python is None):
        return None
    return _python(group.python, file, choices)


def _python(name: str | None, file: Path, choices: Choices) -> Path | None:
    """Interpreter of a script: the command line's, else the file's, whose relative paths start from the file.

    Raises:
        ConfigurationError: if there is none.
    """
    if choices.python is not None or name is None:
        return choices.python
    try:
        return find_interpreter(name, file.parent)
    except UserError as error:
        fault = str(error).removeprefix("--python: ")
        raise ConfigurationError(str(file), [f"python: {fault}"]) from error


def _flock_command(
    kind: str, file: Path, world: WorldSpecification, vehicles: tuple[VehicleSettings, ...]
) -> tuple[str, ...]:
    """Command of the interpreter that flies a formation or an avoidance scenario."""
    origin = world.origin
    command = ["-m", f"sitl_bridge.offboard.{kind}_runner", str(file), "--output", RUN_DIRECTORY]
    command += [f"--origin={origin.latitude},{origin.longitude},{origin.altitude}"]
    for vehicle in vehicles:
        command += ["--url", vehicle.url, "--system", str(vehicle.instance + 1)]
    return tuple(command)


def _placed_world(world: WorldSpecification, directory: Path) -> WorldSpecification:
    """The same with a recorded wind's file taken relative to the scenario's."""
    series = world.wind.series
    if series is None:
        return world
    placed = series.model_copy(update={"file": directory / series.file})
    return world.model_copy(update={"wind": world.wind.model_copy(update={"series": placed})})


def _vehicles(
    made: Scenario, file: Path, choices: Choices, document: Document, origin: Origin
) -> tuple[VehicleSettings, ...]:
    groups = list(made.vehicles)
    found: list[VehicleSettings] = []
    faults: list[str] = []
    starts = None
    if made.formation is not None:
        starts = load_formation(file).places
        if not groups:
            groups = [VehicleSpecification(count=made.formation.count)]
        count = sum(group.count for group in groups)
        if count != made.formation.count:
            message = f"is of {made.formation.count}, and there are {count} vehicles"
            raise _fault(document, ("formation", "count"), message)
    for i, group in enumerate(groups):
        near, what = file.parent / group.airframe, "airframe"
        try:
            airframe = load_airframe(near if is_file(near) else group.airframe)
            if group.mission is not None:
                what = "mission"
                check_mission(
                    file.parent / group.mission, group.arguments, origin, _python_of(group, file, choices)
                )
        except UserError as error:
            path = ("vehicles", i, what)
            faults += [_fault_line(document, path, fault) for fault in faults_of(error)]
            continue
        for k, position in enumerate(group.positions()):
            number = len(found)
            if starts is not None and "position" not in group.model_fields_set:
                north, east, _ = np.asarray(starts[number]).tolist()
                position = (north, east, 0.0)
            found.append(
                VehicleSettings(
                    airframe,
                    name=str(number)
                    if group.name is None
                    else group.name + (str(k) if group.count > 1 else ""),
                    position=position,
                    yaw=math.radians(group.yaw),
                    instance=choices.instance + number,
                    autopilot=group.autopilot if choices.autopilot == "auto" else choices.autopilot,
                    controller=group.controller,
                    parameters=group.parameters,
                    mission=None if group.mission is None else file.parent / group.mission,
                    arguments=group.arguments,
                    python=_python_of(group, file, choices),
                )
            )
    if faults:
        raise ConfigurationError(str(file), faults)
    return tuple(found)


def _mission(
    made: Scenario,
    file: Path,
    choices: Choices,
    document: Document,
    world: WorldSpecification,
    vehicles: tuple[VehicleSettings, ...],
) -> tuple[str, ...] | None:
    """Command of the interpreter that flies all vehicles; None where each has a mission of its own."""
    if made.formation is not None:
        _refuse_python(file, choices)
        command = _flock_command("formation", file, world, vehicles)
        return (*command, "--orders", ORDERS) if choices.bus is not None else command
    if made.mission is None:
        return None
    script = file.parent / made.mission
    if script.suffix == ".plan":
        raise _fault(document, ("mission",), "a plan flies one vehicle; give it to each of them")
    try:
        check_mission(script, (), world.origin, _python(made.python, file, choices))
    except UserError as error:
        lines = [_fault_line(document, ("mission",), fault) for fault in faults_of(error)]
        raise ConfigurationError(str(file), lines) from error
    return (str(script), *made.arguments, *choices.arguments)
