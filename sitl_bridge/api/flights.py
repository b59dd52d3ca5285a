"""The command line's flights from Python: plans, scripts and scenarios, with PX4 or the built-in stack."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sitl_bridge.analysis.evaluation.measures import validate_limits
from sitl_bridge.api.airframe_choice import AirframeChoice, airframe_of
from sitl_bridge.api.compiling import compilation_shown
from sitl_bridge.api.truth_table import TruthTable
from sitl_bridge.api.vehicle_arrays import validate_parameters
from sitl_bridge.api.world_choice import WindChoice, World, WorldChoice, world_of
from sitl_bridge.autopilot.control.user_controller import Controller
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.system.interpreter import find_interpreter
from sitl_bridge.base.user_file import place_of, require_not_loading
from sitl_bridge.core.vehicle.stack_choice import Choice
from sitl_bridge.link.px4.given_parameters import load_parameters
from sitl_bridge.live.outlets import BusSettings
from sitl_bridge.plan.plan_file import load_fence
from sitl_bridge.session.mission_file import find_mission
from sitl_bridge.session.session import Session
from sitl_bridge.session.settings import FlightOptions, FlightSettings


@dataclass(frozen=True)
class FlightResult:
    """The result of a flight.

    Attributes:
        succeeded: whether the verdict is that the flight succeeded.
        reason: why it has not; empty after a success.
        names: of the vehicles.
        directory: the run directory with all logs.
        summary: the figures of ``summary.json``.
    """

    succeeded: bool
    reason: str
    names: tuple[str, ...]
    directory: Path
    summary: JsonObject

    @property
    def truth(self) -> TruthTable:
        """The true motion, step by step."""
        return TruthTable.load(self.directory / "truth.npy", self.names)

    def check(self) -> None:
        """Raise the reason when the flight has not succeeded.

        Raises:
            UserError: with the reason and the run directory.
        """
        if not self.succeeded:
            raise UserError(f"{self.reason or 'the flight failed'}; logs in {self.directory}")


def flight_settings(mission: Path, options: FlightOptions) -> FlightSettings:
    """Settings of a mission: a plan or script flies one vehicle, a scenario file names its vehicles itself.

    Raises:
        UserError: for a faulty file, or an airframe or controller beside a scenario.
    """
    mission = find_mission(mission)
    if mission.suffix not in (".yaml", ".yml"):
        return FlightSettings.from_mission(mission, options)
    from sitl_bridge.session.scenario_settings import scenario_settings  # loads what only formations need

    theirs = {"--airframe": options.airframe, "--controller": options.controller}
    given = [name for name, value in theirs.items() if value is not None]
    if given:
        raise UserError(f"{mission}: a scenario names its vehicles itself; leave out {', '.join(given)}")
    return scenario_settings(mission, options)


def fly(
    mission: str | Path,
    *,
    airframe: AirframeChoice | None = None,
    world: WorldChoice = None,
    wind: WindChoice = None,
    home: tuple[float, float, float] | None = None,
    controller: str | type[Controller] | None = None,
    parameters: Mapping[str, int | float] | None = None,
    params: str | Path | None = None,
    params_win: bool = False,
    seed: int | None = None,
    speed: float = 1.0,
    autopilot: Choice = "auto",
    px4: str | Path | None = None,
    instance: int = 0,
    time_limit: float | None = None,
    arguments: Sequence[str] = (),
    python: str | None = None,
    bus: str | None = None,
    expose: bool = False,
    fence: str | Path | None = None,
    limits: Mapping[str, float | None] | None = None,
    runs: str | Path = "runs",
    notify: Callable[[str], None] | None = None,
) -> FlightResult:
    """Fly a mission from start to summary, as ``sitl-bridge fly`` does.

    Args:
        mission: plan of QGroundControl, MAVSDK script or scenario file.
        airframe: by name, file or as an object; None for the iris.  A scenario names its own.
        world: the world it flies in; None for calm air, or what a scenario says.
        wind: in place of the world's, as of a World.
        home: deg, deg and m of the world's origin, in place of its own.
        parameters, params, params_win: of all flight stacks, as of ``Sitl``.
        controller: of the built-in stack: a name, ``"FILE.py:CLASS"`` or a class that a file holds.
        seed: of all random numbers; None for 0, or what a scenario says.
        speed: simulated over real time; ``math.inf`` for as fast as it goes.
        autopilot: ``"px4"``, ``"builtin"``, or ``"auto"`` for PX4 where it is found.
        px4: PX4 checkout or build; None looks for one.
        instance: of the flight stack; decides all ports.
        time_limit: s of simulated time after which the flight counts as failed.
        arguments: of a script; ``python``, ``bus`` and ``expose`` are as on the command line.
        fence: a plan whose geofence and rally points all vehicles get, in place of those of plans.
        limits: of measures by name, with which the flight succeeds; ``runs`` takes the run directory.
        notify: takes the lines that the command line prints, from several threads.

    Raises:
        UserError: for every error before take-off.  A flight that fails is a result, not an error.
    """
    require_not_loading("a flight")
    options = FlightOptions(
        wind=None if wind is None else World(wind=wind).specification.wind,
        origin=None if home is None else World(origin=home).specification.origin,
        parameters=validate_parameters(parameters or {}),
        parameter_file=load_parameters(params, wins=params_win),
        airframe=None if airframe is None else airframe_of(airframe),
        controller=_law(controller),
        seed=seed,
        world=None if world is None else world_of(world).specification,
        time_limit=time_limit,
        autopilot=autopilot,
        instance=instance,
        speed=speed,
        px4=None if px4 is None else Path(px4),
        runs=Path(runs),
        arguments=tuple(arguments),
        outlets=() if bus is None else (BusSettings.parse(bus),),
        expose=expose,
        fence=None if fence is None else load_fence(fence),
        python=None if python is None else find_interpreter(python),
        limits=validate_limits(limits or {}, "limits"),
    )
    settings = flight_settings(Path(mission), options)
    with compilation_shown():
        return run_settings(settings, notify or (lambda _line: None))


def _law(controller: str | type[Controller] | None) -> str | None:
    """A controller as the flight stack's process takes it."""
    if inspect.isclass(controller):
        return place_of(controller, "controller")
    if controller is not None and not isinstance(controller, str):
        raise UserError("controller: a flight takes a name, FILE.py:CLASS or a class, not a function")
    return controller


def run_settings(settings: FlightSettings, notify: Callable[[str], None]) -> FlightResult:
    """Fly by settings, and wait for the end."""
    session = Session(settings, notify)
    with session:
        session.fly()
    outcome = session.conclude()
    directory = session.directory.path
    summary = directory / "summary.json"
    return FlightResult(
        outcome.succeeded,
        outcome.reason,
        outcome.names,
        directory,
        json.loads(summary.read_text(encoding="utf-8")) if summary.is_file() else {},
    )
