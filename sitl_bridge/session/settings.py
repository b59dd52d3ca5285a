"""Settings of a run of any number of vehicles, and the options of a user that they are made of.

Everything is checked here before anything starts.  Settings of scenario files are made in
scenario_settings.py.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from sitl_bridge.autopilot.parameters import load_built_in
from sitl_bridge.base.errors import ConfigurationError, UserError, did_you_mean, faults_of
from sitl_bridge.base.rotations import quaternion_from_euler
from sitl_bridge.base.user_file import class_at
from sitl_bridge.core.dynamics.performance import speed_share_in_wind
from sitl_bridge.core.dynamics.proximity import Proximity, hull, touching_pairs
from sitl_bridge.core.dynamics.records import STATE
from sitl_bridge.core.sensors.perception.lidar import LidarSpecification
from sitl_bridge.core.simulation.events import EventSpecification, gusts_of, problems
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.vehicle.controller import BUILT_IN, beside
from sitl_bridge.core.vehicle.stack_choice import LAST_INSTANCE, Choice
from sitl_bridge.core.world.atmosphere import air
from sitl_bridge.core.world.geography import Projection
from sitl_bridge.core.world.wind import WindSpecification
from sitl_bridge.core.world.world import Origin, World, WorldSpecification
from sitl_bridge.link.hil.link_state import OnStall
from sitl_bridge.link.hil.ports import FIRST_PORT, GROUND_STATION_PORT, offboard_port
from sitl_bridge.link.px4.find import Px4Build, find_px4
from sitl_bridge.link.px4.given_parameters import (
    ChosenParameters,
    Known,
    ParameterFile,
    build_parameters,
    given_faults,
    grounding,
)
from sitl_bridge.link.px4.versions import rename_for
from sitl_bridge.live.outlets import OutletSettings
from sitl_bridge.plan.plan import Plan, fence_breach, with_fence_of
from sitl_bridge.session.mission_file import check_mission

if TYPE_CHECKING:
    from sitl_bridge.swarm.avoidance.specification import AvoidanceSpecification
    from sitl_bridge.swarm.formation.specification import FormationPlan

BUILTIN = "the built-in flight stack"
BOARD = "PX4 on the board"

REPLACED_VARIABLES = {
    "PX4_HOME_": "--home",
    "PX4_PARAM_": "--param",
    "PX4_SIM_SPEED_FACTOR": "--speed",
    "PX4_SIM_MODEL": "--airframe",
    "PX4_SYS_AUTOSTART": "--airframe",
}
"""PX4's variables of the environment, by their beginnings, that options of this program replace."""
NEARLY_BLOWN = 1.1**-0.5
"""Share of a rotor's full speed above which less than a tenth of its thrust is left (derived: PX4 reserves as
much, link/px4/airframe_parameters.py, and thrust goes with the square of the speed)."""
SPACING = 3.0
"""m between vehicles in a line."""


# --------------------------------------------------------------------------- flight stacks


@dataclass(frozen=True)
class AutopilotChoice:
    """The flight stack of a vehicle, and the reason for the choice."""

    # of the flight stack; the user starts an external one
    kind: Literal["px4", "builtin", "external", "board"]
    px4: Px4Build | None = None  # the PX4 build; None for other kinds
    reason: str = ""  # of the choice, for the user

    @property
    def name(self) -> str:
        """The flight stack, as named in messages."""
        names = {"px4": "PX4", "builtin": BUILTIN, "external": "the flight stack", "board": BOARD}
        return names[self.kind]

    @property
    def description(self) -> str:
        """The flight stack with its version, or with the reason for the choice."""
        if self.kind == "board":
            return f"flight stack: {BOARD} at {self.reason}"
        if self.px4 is None:
            return f"flight stack: {self.name}, not PX4: {self.reason}"
        return f"flight stack: PX4 {self.px4.version} from {self.px4.root}"

    @property
    def warning(self) -> str:
        """Warning about this version of PX4; empty for versions that have been flown."""
        if self.px4 is None:
            return ""
        from sitl_bridge.link.px4.versions import describe_untested

        return describe_untested(self.px4.version)

    def known_parameters(self) -> Known | None:
        """The flight stack's own list of its parameters, as PX4's; None where there is none."""
        if self.px4 is not None:
            return build_parameters(self.px4.etc)
        if self.kind != "builtin":
            return None
        return {
            info.name: {
                "type": "Int32" if info.is_integer else "Float",
                "default": info.default,
                "min": info.minimum,
                "max": info.maximum,
            }
            for info in load_built_in()
        }


def ignored_variables(environment: Mapping[str, str]) -> list[str]:
    """A sentence about variables that PX4's users know and that have no effect here; none without them."""
    found = [
        f"{name} ({option})"
        for name in sorted(environment)
        for start, option in REPLACED_VARIABLES.items()
        if name.startswith(start)
    ]
    return [f"no effect of the environment's {', '.join(found)}: give the option"] if found else []


def choose_autopilot(choice: Choice = "auto", px4: Path | None = None) -> AutopilotChoice:
    """Choose the flight stack.

    Args:
        choice: ``auto`` uses PX4 if it is found; if a directory was given, PX4 must be there.
        px4: directory of PX4 that the user gave.

    Raises:
        UserError: if PX4 is requested and not found, or if both stacks are requested.
    """
    if choice == "builtin":
        if px4 is not None:
            raise UserError("--px4 and --autopilot builtin contradict each other; leave one of them out")
        return AutopilotChoice("builtin", reason="requested with --autopilot builtin")
    named = px4 is not None or bool(os.environ.get("PX4_DIR"))
    try:
        return AutopilotChoice("px4", find_px4(px4), "found")
    except UserError as error:
        if choice == "px4" or named:
            raise
        return AutopilotChoice("builtin", reason=str(error))


@dataclass(frozen=True)
class Board:
    """A flight controller that flies in hardware-in-the-loop."""

    device: str  # serial port, or udp:HOST:PORT
    baud: int = 921600  # of a serial port
    station: str = f"127.0.0.1:{GROUND_STATION_PORT}"  # address of the ground station


@dataclass(frozen=True)
class ExternalStacks:
    """Flight stacks that the user starts."""

    host: str = "127.0.0.1"  # address on which the simulator links listen
    battery: bool = False  # whether PX4 on this host gets the simulated battery, and is monitored
    startup: Path | None = None  # directory for PX4's start-up files; None for none


# --------------------------------------------------------------------------- options of a user


@dataclass(frozen=True, kw_only=True)
class RunChoices:
    """Choices of a user for any run, whatever is flown."""

    speed: float = 1.0  # simulated over wall time; inf for as fast as possible
    px4: Path | None = None  # PX4 to fly with; None searches for it
    board: Board | None = None  # that flies in place of a PX4 on this computer
    runs: Path = Path("runs")  # parent of the run directories
    outlets: tuple[OutletSettings, ...] = ()  # what shows the run
    # whether other machines may reach the MAVLink ports of PX4, and through them its files
    expose: bool = False
    fence: Plan | None = None  # whose geofence and rally points all vehicles get; replaces that of plans
    # of measures by name, with which the flight succeeds; None for no limit
    limits: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FlightOptions(RunChoices):
    """Options of a flight as a user gives them; None means the value of the scenario file, or the default."""

    airframe: Airframe | None = None  # of a vehicle that no scenario describes; the iris by default
    controller: str | None = None  # of the built-in stack of such a vehicle; the airframe's by default
    seed: int | None = None  # of all random streams; 0 by default
    world: WorldSpecification | None = None  # of all vehicles; calm air by default
    wind: WindSpecification | None = None  # in place of the world's
    origin: Origin | None = None  # likewise
    time_limit: float | None = None  # s of simulated time after which the flight fails; none by default
    # of all vehicles; ``auto`` means that of the scenario file, else PX4 if it is found
    autopilot: Choice = "auto"
    # of the first vehicle's flight stack; sets all ports.  The other vehicles' instances follow.
    instance: int = 0
    arguments: tuple[str, ...] = ()  # of the script, after those in the scenario file
    python: Path | None = None  # interpreter of all scripts
    # of all flight stacks; they override those of a scenario, and those of ``parameter_file``
    parameters: Mapping[str, int | float] = field(default_factory=dict)
    parameter_file: ParameterFile | None = None  # in place of a scenario's

    def change_world(self, world: WorldSpecification) -> WorldSpecification:
        """The world of a file, with what the options change of it."""
        changes = {"wind": self.wind, "origin": self.origin}
        given = {name: value for name, value in changes.items() if value is not None}
        return (self.world or world).model_copy(update=given)


# --------------------------------------------------------------------------- settings


@dataclass(frozen=True)
class VehicleSettings:
    """One vehicle of a run: loaded airframe, position, flight stack, instance and mission.

    A ``VehicleSpecification`` is an entry of a scenario file, which may describe several of them.
    """

    airframe: Airframe  # loaded
    name: str = "0"  # of the vehicle; it also seeds its random streams
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)  # m NED of its starting point on the ground
    yaw: float = 0.0  # rad
    instance: int = 0  # of the flight stack; sets all ports
    autopilot: Choice = "auto"  # choice of the flight stack
    controller: str | None = None  # of the built-in stack; None for the airframe's
    # of the flight stack; they override those computed from the airframe
    parameters: Mapping[str, int | float] = field(default_factory=dict)
    parameter_file: ParameterFile | None = None  # of a real vehicle; ``parameters`` override it
    mission: Path | None = None  # a plan or a script for this vehicle; None if one program flies all vehicles
    arguments: tuple[str, ...] = ()  # of the script
    python: Path | None = None  # interpreter of the script; None for this program's

    @property
    def offboard_port(self) -> int:
        """UDP port to which the flight stack sends the offboard link."""
        return offboard_port(self.instance)

    @property
    def url(self) -> str:
        """MAVSDK's connection URL of the vehicle."""
        return f"udpin://127.0.0.1:{self.offboard_port}"

    def check(
        self, world: WorldSpecification, px4: Path | None, board: Board | None = None
    ) -> tuple[AutopilotChoice | None, Plan | None, list[str]]:
        """Check everything that can be checked before the start.

        Returns:
            the flight stack (None if it cannot be chosen), the plan if it flies one, and all faults.
        """
        faults = []
        plan: Plan | None = None
        autopilot: AutopilotChoice | None = None
        try:
            if self.mission is not None:
                plan = check_mission(self.mission, self.arguments, world.origin, self.python)
        except UserError as error:
            faults += faults_of(error)
        try:
            if board is not None:
                autopilot = AutopilotChoice("board", reason=board.device)
            else:
                autopilot = choose_autopilot(self.autopilot, px4)
        except UserError as error:
            faults += faults_of(error)
        if autopilot is not None:
            faults += self.parameter_faults(autopilot)
        if self.controller is None:
            return autopilot, plan, faults
        if autopilot is not None and autopilot.kind != "builtin":
            faults.append("--controller: only the built-in stack has controllers; add --autopilot builtin")
        else:
            faults += [
                f"--controller: {fault}" for fault in controller_faults(self.controller, self.airframe)
            ]
        return autopilot, plan, faults

    @property
    def named_parameters(self) -> dict[str, int | float]:
        """Those given by name, here and in the airframe's file; not a real vehicle's (``px4.airframe``).

        These are of its own PX4, which may be another version: what this one lacks is left out.
        """
        own = self.airframe.px4.parameters if self.airframe.px4.airframe is None else {}
        return {**own, **self.parameters}

    def parameter_faults(self, autopilot: AutopilotChoice) -> list[str]:
        """Faults of the parameters that are given by name, here and in the airframe's file."""
        external, px4 = autopilot.kind == "external", autopilot.px4
        given = dict(self.parameters) if autopilot.kind == "builtin" else self.named_parameters
        known = autopilot.known_parameters()
        faults = given_faults(given, known, None if px4 is None else px4.etc, own_battery=external)
        return [f"parameters of {self.airframe.name}: {fault}" for fault in faults]

    def parameter_notes(self, autopilot: AutopilotChoice, world: World) -> list[str]:
        """Return what is not used of the parameter file, and what keeps PX4 on the ground, in sentences."""
        chosen = self.choose_parameters(autopilot, world)
        notes = [] if chosen is None else chosen.notes(autopilot.name)
        if autopilot.kind == "builtin":
            return notes
        flown, own = {} if chosen is None else chosen.flown, self.airframe.px4.parameters
        held = grounding({**own, **flown, **self.parameters})
        known = autopilot.known_parameters()
        unknown = () if known is None else sorted(rename_for(own, known).keys() - known.keys())
        if unknown:
            held.append(f"left out, not parameters of {autopilot.name}: {', '.join(unknown)}")
        return notes + [f"parameters of {self.airframe.name}: {note}" for note in held]

    def choose_parameters(
        self, autopilot: AutopilotChoice, world: World, speed: float = 1.0
    ) -> ChosenParameters | None:
        """Return the part of the parameter file that is flown, at a speed factor; None without one."""
        if self.parameter_file is None:
            return None
        # Computing parameters imports scipy, which takes time that most runs save.
        from sitl_bridge.link.px4.airframe_parameters import parameters_for, scaled_time_outs

        etc = None if autopilot.px4 is None else autopilot.px4.etc
        own, known = parameters_for(self.airframe, world), autopilot.known_parameters()
        chosen = self.parameter_file.choose(own, known, etc, lenient=autopilot.kind != "builtin")
        return replace(chosen, flown=scaled_time_outs(chosen.flown, speed))


def controller_faults(name: str, airframe: Airframe) -> list[str]:
    """Faults of a controller's name; the content of its file is checked when the stack loads it."""
    own = class_at(name)
    if own is not None:
        return [] if own[0].is_file() else [f"{own[0]}: no such file"]
    if name not in BUILT_IN:
        near = did_you_mean(name, BUILT_IN)
        return [f"there is no {name!r}{near}; give {', '.join(BUILT_IN)} or FILE.py:CLASS"]
    if name == "rotors" and airframe.controller.rotors is None:
        return [f"RotorS publishes no gains for {airframe.name}; use lee"]
    return []


@dataclass(frozen=True)
class FlightSettings(RunChoices):
    """Vehicles, world, missions and outlets of a run."""

    vehicles: tuple[VehicleSettings, ...]  # at least one
    name: str  # of the scenario or mission; also of the run directory
    world: WorldSpecification = field(default_factory=WorldSpecification)  # of all vehicles
    seed: int = 0  # of all random streams
    # flight stacks that the user starts; None for those of this program
    external: ExternalStacks | None = None
    # arguments of the interpreter for a program that flies all vehicles, in addition to their own missions;
    # None for none.  The file that $SITL_BRIDGE_FLEET names describes the vehicles.
    mission: tuple[str, ...] | None = None
    python: Path | None = None  # interpreter of that command; None for this program's
    formation: FormationPlan | None = None  # that this program flies with all vehicles; None for none
    avoidance: AvoidanceSpecification | None = None  # likewise
    time_limit: float = math.inf  # s of simulated time after which the flight fails; inf for none
    on_stall: OnStall = "leave"  # reaction of the link to a flight stack that stops answering
    proximity: Proximity | None = None  # collisions and downwash between vehicles
    events: tuple[EventSpecification, ...] = ()  # scheduled faults and changes
    wait: bool = True  # whether a flight of a program begins when its vehicles can arm, or before

    @classmethod
    def from_options(
        cls, options: FlightOptions, vehicles: tuple[VehicleSettings, ...], name: str, **stated: Any
    ) -> Self:
        """The options of a user, with what a mission or a scenario file states of this class's fields.

        Options take precedence, but add to the stated limits.
        """
        chosen = {one.name: getattr(options, one.name) for one in fields(RunChoices)}
        chosen["limits"] = {**stated.get("limits", {}), **options.limits}
        chosen["world"] = options.change_world(stated.get("world", WorldSpecification()))
        for key in ("seed", "time_limit"):
            if getattr(options, key) is not None:
                chosen[key] = getattr(options, key)
        return cls(vehicles, name, **(stated | chosen))

    @classmethod
    def from_mission(cls, mission: Path, options: FlightOptions) -> Self:
        """A flight of one vehicle by a plan of QGroundControl, or by a Python script that uses MAVSDK."""
        (alone,) = _in_a_line(options, 1)
        vehicle = replace(alone, mission=mission, arguments=options.arguments, python=options.python)
        return cls.from_options(options, (vehicle,), mission.stem, on_stall="continue")

    @classmethod
    def without_mission(cls, options: FlightOptions, count: int = 1) -> Self:
        """Vehicles in a line to the east, SPACING apart, that wait for commands."""
        return cls.from_options(
            options,
            _in_a_line(options, count),
            "start",
            on_stall="continue" if count == 1 else "leave",
            proximity=Proximity() if count > 1 else None,
        )

    @classmethod
    def for_external(
        cls, external: ExternalStacks, options: FlightOptions, count: int = 1, on_stall: OnStall = "continue"
    ) -> Self:
        """Vehicles in a line likewise, whose flight stacks the user starts."""
        vehicles = _in_a_line(options, count)
        return cls.from_options(
            options,
            vehicles,
            f"serve-{vehicles[0].airframe.name}",
            external=external,
            on_stall=on_stall,
            proximity=Proximity() if count > 1 else None,
        )

    def given_notes(self, autopilots: Sequence[AutopilotChoice]) -> list[str]:
        """Return what is unused of parameter files and environment, and what keeps PX4 on the ground."""
        world, notes = self.make_world(), list[str]()
        if self.external is None:
            notes += ignored_variables(os.environ)
        for vehicle, autopilot in zip(self.vehicles, autopilots, strict=True):
            notes += vehicle.parameter_notes(autopilot, world)
        return list(dict.fromkeys(notes))

    def make_world(self) -> World:
        """The world, with the gusts among the events."""
        return World(self.world, gusts_of(self.events))

    @property
    def has_mission(self) -> bool:
        """Whether a mission flies any of the vehicles; without one, the flight lasts until it is ended."""
        common = (self.mission, self.formation, self.avoidance)
        own = (vehicle.mission for vehicle in self.vehicles)
        return any(mission is not None for mission in (*common, *own))

    @property
    def instances(self) -> list[int]:
        """Instances of the flight stacks."""
        return [vehicle.instance for vehicle in self.vehicles]

    @property
    def ports(self) -> list[int]:
        """TCP ports of the simulator links."""
        return [FIRST_PORT + instance for instance in self.instances]

    @property
    def host(self) -> str:
        """Address on which the simulator links listen."""
        return "127.0.0.1" if self.external is None else self.external.host

    def check(self) -> tuple[tuple[AutopilotChoice, Plan | None], ...]:
        """Check everything that can be checked before the start.

        Returns:
            flight stack of each vehicle, and its plan with the geofence given, if it flies one.

        Raises:
            ConfigurationError: with all faults.
        """
        faults = []
        for outlet in self.outlets:
            try:
                outlet.check()
            except UserError as error:
                faults.append(f"--{outlet.option}: {error}")
        if not self.speed > 0:
            faults.append(f"--speed: {self.speed:g} is not above 0")
        if self.seed < 0:
            faults.append(f"--seed: {self.seed} is negative")
        if not self.time_limit > 0:
            faults.append(f"--time-limit: {self.time_limit:g} s is not above 0")
        if self.board is not None:
            faults += self._board_faults(self.board)
        found: list[tuple[AutopilotChoice, Plan | None]] = []
        for vehicle in self.vehicles:
            if not 0 <= vehicle.instance <= LAST_INSTANCE:
                faults.append(f"--instance: {vehicle.instance} is not within 0..{LAST_INSTANCE}")
            if self.external is not None:
                found.append((AutopilotChoice("external"), None))
                faults += vehicle.parameter_faults(found[-1][0])
                if self.external.startup is None and (vehicle.parameters or vehicle.parameter_file):
                    faults.append("--param and --params: give --px4-files, too, which PX4 reads them from")
                continue
            autopilot, plan, wrong = vehicle.check(self.world, self.px4, self.board)
            faults += [fault for fault in wrong if fault not in faults]
            faults += self.fence_faults(vehicle, plan)
            if autopilot is not None:
                found.append((autopilot, None if plan is None else with_fence_of(plan, self.fence)))
        if self.expose and not any(choice.px4 for choice, _ in found) and len(found) == len(self.vehicles):
            faults.append("--expose: is about PX4's ports, and no PX4 flies")
        names = [vehicle.name for vehicle in self.vehicles]
        faults += problems(self.events, names, [v.airframe for v in self.vehicles])
        if self.proximity is not None and self.proximity.collisions:
            faults += self._find_touching()
        try:
            self.world.wind.load_series()
        except UserError as error:
            faults += faults_of(error)
        if faults:
            raise ConfigurationError("cannot fly" if self.external is None else "cannot serve", faults)
        return tuple(found)

    def fence_faults(self, vehicle: VehicleSettings, plan: Plan | None = None) -> list[str]:
        """Return where a vehicle and its plan violate the geofence, with which it could not arm."""
        fence, origin = self.fence, self.world.origin
        if fence is None:
            return []
        at = Projection.from_degrees(origin.latitude, origin.longitude, origin.altitude)
        north, east, _ = vehicle.position
        places = [(f"the start of vehicle {vehicle.name}", at.point(north, east))]
        if plan is not None:
            places += [(f"{plan.source}: {leg.where}", leg.point) for leg in plan.legs]
        breaches = [(where, fence_breach(fence, point)) for where, point in places]
        return [f"fence {fence.source}: {where} {breach}" for where, breach in breaches if breach]

    def _board_faults(self, board: Board) -> list[str]:
        """Return what cannot be had with a board."""
        from sitl_bridge.link.hil.board import NETWORK, parse_address

        faults = []
        if self.speed != 1.0:
            faults.append("--speed: a board runs by its own clock, at real time; leave --speed out")
        if len(self.vehicles) > 1:
            faults.append(f"--device: one board flies one vehicle, not {len(self.vehicles)}")
        if self.px4 is not None or self.vehicles[0].autopilot != "auto":
            faults.append("--device: the board is the flight stack; leave out --px4 and --autopilot")
        if self.fence is not None:
            faults.append("--fence: a board keeps its geofence when it is off; upload it with QGroundControl")
        if self.vehicles[0].parameters or self.vehicles[0].parameter_file is not None:
            faults.append(
                "parameters: a board keeps its own; load them with QGroundControl (px4-files --board)"
            )
        addresses = {"--gcs": board.station}
        if board.device.startswith(NETWORK):
            addresses["--device"] = board.device.removeprefix(NETWORK)
        for option, address in addresses.items():
            try:
                parse_address(address)
            except UserError as error:
                faults.append(f"{option}: {error}")
        return faults

    def _find_touching(self) -> list[str]:
        hulls = np.array([hull(vehicle.airframe.vehicle()) for vehicle in self.vehicles])
        states = np.zeros(len(hulls), STATE)
        for state, vehicle in zip(states, self.vehicles, strict=True):
            state["position"] = vehicle.position
            state["attitude"] = quaternion_from_euler(0.0, 0.0, vehicle.yaw)
        names = [vehicle.name for vehicle in self.vehicles]
        return [
            f"{names[i]} and {names[j]} touch one another where they start; move one of them"
            for i, j in touching_pairs(hulls, states)
        ]

    def notes(self) -> list[str]:
        """Return what the user should know of the world and the vehicles, in sentences."""
        scene, blown = self.world.scene, self._wind_notes()
        if self.fence is not None:
            blown += [f"fence {self.fence.source}: {note}" for note in self.fence.notes]
        if self.board is not None:
            blown += board_notes(self.vehicles[0].airframe)
        if scene.objects or not scene.ground:
            return [*scene.notes, *blown]
        lidars = [
            vehicle.airframe.name
            for vehicle in self.vehicles
            for sensor in vehicle.airframe.perception_sensors()
            if isinstance(sensor, LidarSpecification) and sensor.odometry is not None
        ]
        return [
            *scene.notes,
            *blown,
            *(
                f"{name} takes its position from lidar odometry, which needs walls or other objects; this"
                " world has level ground only, and the position may drift by metres: choose another with"
                " --world"
                for name in dict.fromkeys(lidars)
            ),
        ]

    def _wind_notes(self) -> list[str]:
        """Vehicles that the mean wind blows away, in sentences."""
        wind = self.world.wind
        parts = [p for p in (getattr(wind, "steady", None), getattr(wind, "log_profile", None)) if p]
        turns = [math.radians(part.direction) for part in parts]
        north = sum(part.speed * math.cos(turn) for part, turn in zip(parts, turns, strict=True))
        east = sum(part.speed * math.sin(turn) for part, turn in zip(parts, turns, strict=True))
        speed = round(math.hypot(north, east), 3)
        if speed == 0.0:
            return []
        environment, notes = self.make_world().environment[0], list[str]()
        for vehicle in self.vehicles:
            with contextlib.suppress(UserError):  # of a vehicle that cannot hover, which is said elsewhere
                density, gravity = air(environment, 0.0)[2], float(environment["gravity"])
                share = speed_share_in_wind(vehicle.airframe.record, speed, density, gravity)
                if share > NEARLY_BLOWN:
                    how = "cannot" if share > 1.0 else "can hardly"
                    notes.append(
                        f"{vehicle.airframe.name} {how} hold its place in {speed:g} m/s of wind: a rotor"
                        f" needs {share:.0%} of its full speed, without what turns and gusts take"
                    )
        return list(dict.fromkeys(notes))


def board_notes(airframe: Airframe) -> list[str]:
    """Return what to know before a board flies an airframe in hardware-in-the-loop."""
    notes = [
        "PROPELLERS OFF, motor battery off: the board runs on USB alone",
        "PX4 makes up the battery in hardware-in-the-loop; the simulated one stays here (docs/hitl.md)",
    ]
    kinds = [sensor.kind for sensor in airframe.sensors]
    for kind in ("imu", "gps", "magnetometer", "barometer", "range_finder"):
        if kinds.count(kind) > 1:
            notes.append(
                f"a board in hardware-in-the-loop knows one {kind}; it gets the first of {airframe.name}'s"
            )
    return notes


def _in_a_line(options: FlightOptions, count: int) -> tuple[VehicleSettings, ...]:
    airframe = options.airframe or load_airframe("iris")
    return tuple(
        VehicleSettings(
            airframe,
            name=str(number),
            position=(0.0, SPACING * number, 0.0),
            instance=options.instance + number,
            autopilot=options.autopilot,
            controller=options.controller and beside(options.controller, Path.cwd()),
            parameters=options.parameters,
            parameter_file=options.parameter_file,
        )
        for number in range(count)
    )
