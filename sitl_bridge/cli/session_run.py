"""Runs a session on the terminal: the live line during it, and the summary after it."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.live import Live
from rich.text import Text

from sitl_bridge.analysis.evaluation.summary import Outcome
from sitl_bridge.base.system import signals
from sitl_bridge.cli.flight_display import live_line, show, show_fleet
from sitl_bridge.cli.report import write_report_of
from sitl_bridge.cli.terminal import Terminal
from sitl_bridge.link.hil.ports import GROUND_STATION_PORT
from sitl_bridge.session.session import Session
from sitl_bridge.session.settings import FlightSettings
from sitl_bridge.session.started_run import Progress


def run_session(settings: FlightSettings, terminal: Terminal, *, live: bool, report: bool = False) -> int:
    """Fly, show progress and print the summary.

    Returns:
        the exit code.

    Raises:
        UserError: before take-off, with the cause and the remedy.
    """
    console = terminal.console
    session = Session(settings, terminal.say)
    for note in settings.notes():
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

                    def show_progress(progress: Progress) -> None:
                        ready(progress)
                        display.update(Text.assemble(_format_elapsed(begun), live_line(progress)))

                    session.fly(show_progress)
            else:
                session.fly(ready)
    except signals.Interrupted as signalled:
        status = signalled.status
        console.print(Text(f"{signalled}: all processes have been stopped", "yellow"))
        if not session.started:
            return status
    with terminal.step("evaluating the flight"):
        outcome = session.conclude()
    # There is nothing to summarise where nobody flew vehicles that have no mission.
    if (
        session.settings.has_mission
        or not outcome.succeeded
        or any(_flew(one) for one, _ in outcome.vehicles)
    ):
        if len(session.vehicles) == 1:
            show(console, *outcome.vehicles[0], session.vehicles[0].messages, outcome.verdict)
        else:
            show_fleet(console, outcome)
    written = not report or write_report_of(session.directory.path, console)
    if not outcome.succeeded:
        terminal.point_to_run(session.directory.path, outcome.reason)
    return status if status is not None else int(not (outcome.succeeded and written))


def _ready_line(session: Session) -> Callable[[Progress], None]:
    """Tell how vehicles without a mission are reached; the function tells once when all can arm."""
    if session.settings.has_mission:
        return lambda _progress: None
    session.say(
        f"QGroundControl finds the vehicles by itself, at UDP port {GROUND_STATION_PORT}; for scripts:"
    )
    for vehicle in session.settings.vehicles:
        reached = f"udpin://0.0.0.0:{vehicle.offboard_port}, system id {vehicle.instance + 1}"
        session.say(f"  instance {vehicle.instance}, {vehicle.airframe.name}: {reached}")
    session.say("Ctrl-C ends it")
    printed = False

    def tell(progress: Progress) -> None:
        nonlocal printed
        if not printed and all(vehicle.can_arm for vehicle in progress.vehicles):
            printed = True
            session.say(f"ready to arm after {progress.server.seconds:.0f} s of simulated time")

    return tell


def _format_elapsed(begun: float) -> str:
    """Wall time since ``begun``, such as ``1:05``."""
    minutes, seconds = divmod(int(time.monotonic() - begun), 60)
    return f"{minutes}:{seconds:02d}"


def _flew(one: Outcome) -> bool:
    return one.figures is not None and one.figures.air_time > 0
