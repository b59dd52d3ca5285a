"""``sitl-bridge fly``: options, the live line during a flight and the summary after it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live
from rich.text import Text

from sitl_bridge.analysis.report.flight_record import FlightRecord
from sitl_bridge.analysis.report.summary import show
from sitl_bridge.api.flights import flight_settings
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system import signals
from sitl_bridge.base.system.interpreter import find_interpreter
from sitl_bridge.cli.fleet_display import fleet_line, show_fleet
from sitl_bridge.cli.limit_options import LimitOption, ReportOption, parse_limits, write_report_of
from sitl_bridge.cli.options import (
    BusOption,
    ExposeOption,
    Px4Option,
    PythonOption,
    RunsOption,
    SamplesOption,
    SpeedOption,
    StreamOption,
    ViewerOption,
    ViewOption,
    WindOption,
    WorldOption,
    load_settings_world,
    outlet_choices,
    parse_bus,
    parse_speed,
)
from sitl_bridge.cli.terminal import QuietOption, Terminal, VerboseOption
from sitl_bridge.core.vehicle.vehicle_specification import Choice
from sitl_bridge.link.hil.ports import GROUND_STATION_PORT
from sitl_bridge.session.fleet_outcome import FleetProgress
from sitl_bridge.session.fleet_settings import FleetSettings
from sitl_bridge.session.flight_choices import Choices
from sitl_bridge.session.session import FleetSession
from sitl_bridge.session.single_vehicle import FlightSession, FlightSettings, Progress

ControllerOption = Annotated[
    str | None,
    typer.Option(help="controller of the built-in stack: hector_pid, lee or your own FILE.py:CLASS"),
]
SeedOption = Annotated[int | None, typer.Option(min=0, help="seed of all random streams (default: 0)")]
AutopilotOption = Annotated[
    Choice, typer.Option(help="flight stack; auto: PX4 if it is found, else the built-in stack")
]
InstanceOption = Annotated[int, typer.Option(min=0, max=254, help="of the flight stack; sets all ports")]
HeadlessOption = Annotated[bool, typer.Option("--headless", help="print no live line, for logs and CI")]


def live_line(progress: Progress) -> Text:
    """The live line during a flight of one vehicle."""
    server, vehicle = progress.server, progress.vehicle
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{server.time:7.1f} s", "bold")
    line.append(f"  {server.real_time_factor:4.1f} x", "cyan")
    if not server.links[0].connected:
        line.append(
            "  waiting for the flight stack" if server.steps == 0 else "  flight stack disconnected", "yellow"
        )
        return line
    if vehicle.silent:
        line.append("  no telemetry", "red")
    line.append(f"  {vehicle.mode or 'starting'}", "bold green" if vehicle.armed else "green")
    line.append("  armed" if vehicle.armed else "  disarmed")
    north, east, down = (float(value) for value in server.position[0])
    line.append(f"  N {north:.1f} E {east:.1f} up {-down:.1f} m")
    line.append(f"  {float(math.hypot(*server.velocity[0])):.1f} m/s")
    voltage, current, left = (float(value) for value in server.battery[0])
    line.append(f"  {voltage:.1f} V {current:.0f} A {left:.0%}")
    if server.links[0].stalled:
        line.append("  the flight stack does not answer", "red")
    if vehicle.waits_for and not vehicle.armed:
        line.append(f"  cannot arm yet: {'; '.join(vehicle.waits_for)}", "yellow")
    return line


def fly(
    mission: Annotated[
        Path | None,
        typer.Argument(help="QGroundControl plan (.plan), MAVSDK script (.py) or scenario (.yaml)"),
    ] = None,
    arguments: Annotated[list[str] | None, typer.Argument(help="passed to the script")] = None,
    python: PythonOption = None,
    airframe: Annotated[str | None, typer.Option(help="name or file (default: iris)")] = None,
    world: WorldOption = None,
    wind: WindOption = None,
    seed: SeedOption = None,
    speed: SpeedOption = "1",
    autopilot: AutopilotOption = "auto",
    px4: Px4Option = None,
    controller: ControllerOption = None,
    instance: InstanceOption = 0,
    time_limit: Annotated[
        float | None, typer.Option(help="limit of simulated time in s; a longer flight fails")
    ] = None,
    bus: BusOption = None,
    view: ViewOption = None,
    viewer: ViewerOption = None,
    samples: SamplesOption = None,
    stream: StreamOption = None,
    expose: ExposeOption = False,
    headless: HeadlessOption = False,
    limit: LimitOption = None,
    report: ReportOption = False,
    runs_dir: RunsOption = Path("runs"),
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Fly a mission or a scenario in simulation, with real PX4 or the built-in flight stack.

    QGroundControl finds the vehicles automatically.  A scenario sets its vehicles and world.  The exit code
    is 0 only if the verdict is that the flight succeeded (docs/report.md).  `start` brings up vehicles
    without a mission.
    """
    if mission is None:
        raise UserError(
            "fly: name a mission, for example: sitl-bridge fly square.plan; for a vehicle that waits for"
            " QGroundControl or your scripts: sitl-bridge start"
        )
    choices = Choices(
        seed=seed,
        world=None if world is None and wind is None else load_settings_world(world, wind),
        time_limit=time_limit,
        autopilot=autopilot,
        instance=instance,
        speed=parse_speed(speed),
        px4=px4,
        runs=runs_dir,
        arguments=tuple(arguments or ()),
        bus=parse_bus(bus),
        outlets=outlet_choices(view, viewer, samples, stream),
        expose=expose,
        python=None if python is None else find_interpreter(python),
        limits=parse_limits(limit),
    )
    settings = flight_settings(mission, airframe, controller, choices)
    terminal = Terminal(quiet=quiet, verbose=verbose)
    raise typer.Exit(signals.run(lambda: run(settings, terminal, live=not headless, report=report)))


def run(
    settings: FlightSettings | FleetSettings, terminal: Terminal, *, live: bool, report: bool = False
) -> int:
    """Fly, show progress and print the summary.

    Returns:
        the exit code.

    Raises:
        UserError: before take-off, with the cause and the remedy.
    """

    console = terminal.console
    session = (
        FlightSession(settings, terminal.say)
        if isinstance(settings, FlightSettings)
        else FleetSession(settings, terminal.say)
    )
    for note in session.fleet.notes():
        terminal.say(f"note: {note}", "yellow")
    session.verbose = terminal.verbose
    status: int | None = None
    try:
        with session:
            for description in dict.fromkeys(autopilot.description for autopilot, _ in session.choices):
                console.print(Text(description))
            for warning in dict.fromkeys(
                autopilot.warning for autopilot, _ in session.choices if autopilot.warning
            ):
                console.print(Text(warning, "yellow"))
            console.print(Text(f"run directory {session.directory.path}"))
            ready, begun = _ready_line(session), time.monotonic()
            if live and terminal.live:
                with Live(console=console, refresh_per_second=10, transient=True) as display:

                    def show_progress(progress: FleetProgress) -> None:
                        ready(progress)
                        display.update(Text.assemble(_elapsed(begun), _line(session, progress)))

                    session.fly_fleet(show_progress)
            else:
                session.fly_fleet(ready)
    except signals.Interrupted as signalled:
        status = signalled.status
        console.print(Text(f"{signalled}: all processes have been stopped", "yellow"))
        if not session.started:
            return status
    with terminal.step("evaluating the flight"):
        outcome = session.conclude_fleet()
    # There is nothing to summarise where nobody flew vehicles that have no mission.
    if session.fleet.has_mission or not outcome.succeeded or any(_flew(r) for _, r in outcome.vehicles):
        if isinstance(session, FlightSession):
            show(console, *outcome.vehicles[0], session.messages, outcome.verdict)
        else:
            show_fleet(console, outcome)
    written = not report or write_report_of(session.directory.path, console)
    if not outcome.succeeded:
        terminal.point_to_run(session.directory.path, outcome.reason)
    return status if status is not None else int(not (outcome.succeeded and written))


def _ready_line(session: FleetSession) -> Callable[[FleetProgress], None]:
    """Tell how vehicles without a mission are reached; the function tells once when all can arm."""
    if session.fleet.has_mission:
        return lambda _progress: None
    session.say(
        f"QGroundControl finds the vehicles by itself, at UDP port {GROUND_STATION_PORT}; for scripts:"
    )
    for vehicle in session.fleet.vehicles:
        reached = f"udpin://0.0.0.0:{vehicle.offboard_port}, system id {vehicle.instance + 1}"
        session.say(f"  instance {vehicle.instance}, {vehicle.airframe.name}: {reached}")
    session.say("Ctrl-C ends it")
    told = False

    def tell(progress: FleetProgress) -> None:
        nonlocal told
        if not told and all(vehicle.can_arm for vehicle in progress.vehicles):
            told = True
            session.say(f"ready to arm after {progress.server.time:.0f} s of simulated time")

    return tell


def _elapsed(begun: float) -> str:
    """Wall time since ``begun``, such as ``1:05``."""
    minutes, seconds = divmod(int(time.monotonic() - begun), 60)
    return f"{minutes}:{seconds:02d}"


def _line(session: FleetSession, progress: FleetProgress) -> Text:
    if isinstance(session, FlightSession):
        return live_line(Progress(progress.server, progress.vehicles[0]))
    return fleet_line(progress)


def _flew(record: FlightRecord | None) -> bool:
    return record is not None and record.air_time > 0
