"""``sitl-bridge fly``: options in, one live line while it flies, a summary at the end.

Everything that happens is in ``run/single_vehicle.py``.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from sitl_bridge.cli.fleet_display import fleet_line, show_fleet
from sitl_bridge.cli.options import BUS_HELP, load_settings_world, parse_bus, parse_speed
from sitl_bridge.errors import UserError
from sitl_bridge.files.airframe_file import load_airframe
from sitl_bridge.report.summary import show
from sitl_bridge.run.autopilot_choice import Choice
from sitl_bridge.run.fleet_outcome import FleetProgress
from sitl_bridge.run.fleet_settings import FleetSettings
from sitl_bridge.run.session import FleetSession
from sitl_bridge.run.single_vehicle import FlightSession, FlightSettings, Progress
from sitl_bridge.system import signals
from sitl_bridge.system.interpreter import find_interpreter


def live_line(progress: Progress) -> Text:
    """The line a pilot looks at while it flies."""
    server, vehicle = progress.server, progress.vehicle
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{server.time:7.1f} s", "bold")
    line.append(f"  {server.real_time_factor:4.1f} x", "cyan")
    if not server.links[0].connected:
        line.append(
            "  waiting for the flight stack" if server.steps == 0 else "  the flight stack is gone", "yellow"
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
        line.append(f"  waits for: {'; '.join(vehicle.waits_for)}", "yellow")
    return line


def fly(
    mission: Annotated[
        Path, typer.Argument(help="plan of QGroundControl (.plan), MAVSDK script (.py) or scenario (.yaml)")
    ],
    arguments: Annotated[list[str] | None, typer.Argument(help="handed to the script")] = None,
    python: Annotated[
        str | None,
        typer.Option(help="interpreter that runs the script, of an environment of your own (else this one)"),
    ] = None,
    airframe: Annotated[str | None, typer.Option(help="name or file of the airframe (else iris)")] = None,
    world: Annotated[Path | None, typer.Option(help="file of the world: origin, atmosphere, wind")] = None,
    wind: Annotated[
        str | None,
        typer.Option(help="m/s @ deg it comes from, e.g. 8@270,turbulence=light; replaces the world's"),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="of everything random (else 0)")] = None,
    speed: Annotated[str, typer.Option(help="simulated over real time: 0.5, 1, 20, max")] = "1",
    autopilot: Annotated[
        Choice, typer.Option(help="who flies; auto: PX4 where it is found, else the built-in stack")
    ] = "auto",
    px4: Annotated[
        Path | None, typer.Option(help="PX4 checkout or build (else PX4_DIR, ~/PX4-Autopilot)")
    ] = None,
    controller: Annotated[
        str | None,
        typer.Option(help="of the built-in stack: hector_pid, lee, or FILE.py:CLASS of your own"),
    ] = None,
    instance: Annotated[int, typer.Option(min=0, max=254, help="of the flight stack; decides all ports")] = 0,
    time_limit: Annotated[
        float | None, typer.Option(help="s of simulated time after which the flight counts as failed")
    ] = None,
    bus: Annotated[str | None, typer.Option(envvar="SITL_BRIDGE_BUS", help=BUS_HELP)] = None,
    expose: Annotated[
        bool, typer.Option("--expose", help="let other machines reach PX4's MAVLink ports, and so its files")
    ] = False,
    headless: Annotated[bool, typer.Option("--headless", help="no live line, for logs and CI")] = False,
    runs_dir: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("runs"),
) -> None:
    """Fly a mission with real PX4, or with the built-in flight stack, in a simulated vehicle; or a scenario.

    QGroundControl on this machine sees the vehicles by itself.  Exit code 0 only when the mission succeeded.
    A scenario file says itself which vehicles fly, with which controllers and in which world.
    """
    address = parse_bus(bus)
    interpreter = None if python is None else find_interpreter(python)
    settings: FlightSettings | FleetSettings
    if mission.suffix in (".yaml", ".yml"):
        settings = _scenario(
            mission,
            {"--airframe": airframe, "--controller": controller},
            seed=seed,
            world=None if world is None and wind is None else load_settings_world(world, wind),
            time_limit=time_limit,
            autopilot=autopilot,
            instance=instance,
            speed=parse_speed(speed),
            px4=px4,
            runs=runs_dir,
            arguments=tuple(arguments or ()),
            bus=address,
            expose=expose,
            python=interpreter,
        )
    else:
        settings = FlightSettings(
            mission=mission,
            airframe=load_airframe(airframe or "iris"),
            world=load_settings_world(world, wind),
            seed=seed or 0,
            speed=parse_speed(speed),
            autopilot=autopilot,
            px4=px4,
            controller=controller,
            instance=instance,
            runs=runs_dir,
            arguments=tuple(arguments or ()),
            time_limit=math.inf if time_limit is None else time_limit,
            bus=address,
            expose=expose,
            python=interpreter,
        )
    raise typer.Exit(signals.run(lambda: run(settings, Console(), live=not headless)))


def _scenario(file: Path, theirs: dict[str, str | None], **choices: Any) -> FleetSettings:
    """Settings of a scenario file and the command line.

    Raises:
        UserError: for a faulty file, or an option that says what the file says for each vehicle.
    """
    from sitl_bridge.run.scenario import Choices, load_scenario  # loads what only formations need

    given = [name for name, value in theirs.items() if value is not None]
    if given:
        raise UserError(f"{file}: a scenario names its vehicles itself; leave out {', '.join(given)}")
    return load_scenario(file, Choices(**choices))


def run(settings: FlightSettings | FleetSettings, console: Console, *, live: bool) -> int:
    """Fly, show, sum up.

    Returns:
        the exit code.

    Raises:
        UserError: for what the user can mend before take-off.
    """

    def notify(line: str) -> None:
        console.print(Text(line), soft_wrap=True)

    session = (
        FlightSession(settings, notify)
        if isinstance(settings, FlightSettings)
        else FleetSession(settings, notify)
    )
    status: int | None = None
    try:
        with session:
            for description in dict.fromkeys(flown_by.description for flown_by, _ in session.crews):
                console.print(Text(description))
            for warning in dict.fromkeys(
                flown_by.warning for flown_by, _ in session.crews if flown_by.warning
            ):
                console.print(Text(warning, "yellow"))
            console.print(Text(f"run directory {session.directory.path}"))
            if live and console.is_terminal:
                with Live(console=console, refresh_per_second=10, transient=True) as display:
                    session.fly_fleet(lambda progress: display.update(_line(session, progress)))
            else:
                session.fly_fleet()
    except signals.Interrupted as signalled:
        status = signalled.status
        console.print(Text(f"{signalled}: everything was stopped", "yellow"))
        if not session.started:
            return status
    succeeded = _conclude(session, console)
    return status if status is not None else int(not succeeded)


def _line(session: FleetSession, progress: FleetProgress) -> Text:
    if isinstance(session, FlightSession):
        return live_line(Progress(progress.server, progress.vehicles[0]))
    return fleet_line(progress)


def _conclude(session: FleetSession, console: Console) -> bool:
    """Sum up; returns whether the flight succeeded."""
    if isinstance(session, FlightSession):
        one, record = session.conclude()
        show(console, one, record, session.messages)
        return one.succeeded
    outcome = session.conclude_fleet()
    show_fleet(console, outcome)
    return outcome.succeeded
