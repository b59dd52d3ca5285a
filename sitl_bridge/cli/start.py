"""``sitl-bridge start``: vehicles that stay up for a ground station and for scripts that the user starts."""

from __future__ import annotations

from typing import Annotated

import typer

from sitl_bridge.base.system import signals
from sitl_bridge.cli.options import StackOptions, takes_options
from sitl_bridge.cli.terminal import Terminal
from sitl_bridge.core.vehicle.stack_choice import LAST_INSTANCE


@takes_options
def start(
    run: StackOptions,
    vehicles: Annotated[
        int,
        typer.Option(
            "--vehicles", "-n", min=1, max=LAST_INSTANCE + 1, help="number of vehicles, in a line to the east"
        ),
    ] = 1,
) -> None:
    """Bring up PX4, or the built-in flight stack, and the simulation, and leave them up until Ctrl-C.

    QGroundControl finds the vehicles automatically; your scripts connect to the ports that are printed.
    Simulated time runs at most twice as fast as real time while a vehicle is disarmed.
    """
    from sitl_bridge.cli.session_run import run_session
    from sitl_bridge.session.settings import FlightSettings

    settings = FlightSettings.without_mission(run.flight_options(), vehicles)
    terminal = Terminal(quiet=run.quiet, verbose=run.verbose)
    raise typer.Exit(signals.run(lambda: run_session(settings, terminal, live=not run.headless)))
