"""``sitl-bridge serve``: only the simulation, for a flight stack that is started separately."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system import signals
from sitl_bridge.cli.options import BoardOptions, takes_options
from sitl_bridge.cli.terminal import Terminal

if TYPE_CHECKING:
    from sitl_bridge.link.hil.link_status import ServerStatus
    from sitl_bridge.session.settings import FlightSettings

EVERY = 10.0
"""s of wall time between lines of the state with ``--verbose`` where there is no terminal."""


def status_line(status: ServerStatus, host: str) -> Text:
    """The live line of a server; of several vehicles it shows the links only."""
    link = status.links[0]
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{status.seconds:7.1f} s", "bold")
    line.append(f"  {status.real_time_factor:4.1f} x", "cyan")
    if len(status.links) > 1:
        line.append(f"  {sum(link.connected for link in status.links)} of {len(status.links)} connected")
        line.append(f"  {sum(link.armed for link in status.links)} armed", "green")
        return line
    if not link.connected:
        line.append(f"  waiting for a flight stack on {host}:{link.port}", "yellow")
        return line
    line.append("  armed" if link.armed else "  disarmed", "green")
    north, east, down = (float(value) for value in status.position[0])
    line.append(f"  N {north:.1f} E {east:.1f} up {-down:.1f} m")
    if link.held:
        line.append("  the flight stack does not answer; the simulation waits", "red")
    elif link.stalled:
        line.append("  the flight stack does not answer; running at real time", "red")
    return line


@takes_options
def serve(
    run: BoardOptions,
    host: Annotated[str, typer.Option(help="address to listen on; 0.0.0.0 for other hosts")] = "127.0.0.1",
    vehicles: Annotated[
        int,
        typer.Option(
            min=1, max=255, help="number of vehicles; vehicle i listens on port 4560 + instance + i"
        ),
    ] = 1,
    on_stall: Annotated[
        Literal["continue", "wait", "abort"],
        typer.Option(help="reaction if the flight stack stops answering: continue, wait or abort"),
    ] = "continue",
    battery: Annotated[
        bool, typer.Option("--battery", help="send the simulated battery to a PX4 on this host")
    ] = False,
    px4_files: Annotated[
        Path | None, typer.Option(help="write PX4's start-up files into this directory, as `px4-files` does")
    ] = None,
) -> None:
    """Run the simulation for a flight stack that you start: in a debugger, in Docker or on another host.

    PX4 needs the airframe's parameters: --px4-files DIR writes them before the link opens.  Without --battery
    PX4 simulates its own battery.  With --device it is `start --device`.
    """
    if vehicles > 1 and run.instance + vehicles > 255:
        raise UserError(f"--vehicles {vehicles}: instances end at 254; use a smaller --instance")
    from sitl_bridge.session.settings import ExternalStacks, FlightSettings

    terminal = Terminal(quiet=run.quiet, verbose=run.verbose)
    if run.device is not None:
        from sitl_bridge.cli.session_run import run_session

        if (host, vehicles, on_stall, battery, px4_files) != ("127.0.0.1", 1, "continue", False, None):
            raise UserError(
                "--device: a board is joined by this program; leave out --host, --vehicles, --on-stall,"
                " --battery and --px4-files"
            )
        board = FlightSettings.without_mission(run.flight_options(), 1)
        raise typer.Exit(signals.run(lambda: run_session(board, terminal, live=terminal.live)))
    external = ExternalStacks(host, battery, px4_files)
    settings = FlightSettings.for_external(external, run.flight_options(), vehicles, on_stall)
    raise typer.Exit(signals.run(lambda: _serve(settings, terminal)))


def _serve(settings: FlightSettings, terminal: Terminal) -> int:
    """Serve until a signal, or until the server ends by itself; returns the exit code."""
    from rich.live import Live

    from sitl_bridge.session.served import ServedSimulation

    def notify(line: str) -> None:
        terminal.say(line, "yellow" if line.startswith(("note: ", "warning: ")) else "")

    for note in settings.world.scene.notes:
        notify(f"note: {note}")
    host = settings.host
    with ServedSimulation(settings, notify) as session:
        first, last = settings.instances[0], settings.instances[-1]
        stacks = f"flight stack {first}" if first == last else f"flight stacks {first} to {last}"
        ports = f"{settings.ports[0]}" if first == last else f"{settings.ports[0]} to {settings.ports[-1]}"
        notify(f"waiting for {stacks} on {host}:{ports}; stop with Ctrl-C")
        if terminal.live:
            with Live(console=terminal.console, refresh_per_second=10, transient=True) as display:
                session.wait(lambda status: display.update(status_line(status, host)))
        elif terminal.verbose:
            session.wait(_limit_rate(lambda status: terminal.say(status_line(status, host).plain)))
        else:
            session.wait()
    return int(bool(session.errors.lines))


def _limit_rate(show: Callable[[ServerStatus], None]) -> Callable[[ServerStatus], None]:
    """The function, called at most once in ``EVERY`` seconds."""
    last = -math.inf

    def call(status: ServerStatus) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY:
            last = time.monotonic()
            show(status)

    return call
