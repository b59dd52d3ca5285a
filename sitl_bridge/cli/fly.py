"""``sitl-bridge fly``: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system import signals
from sitl_bridge.base.system.interpreter import find_interpreter
from sitl_bridge.cli.options import (
    LimitOption,
    PythonOption,
    ReportOption,
    StackOptions,
    parse_limits,
    takes_options,
)
from sitl_bridge.cli.terminal import Terminal


@takes_options
def fly(
    run: StackOptions,
    mission: Annotated[
        Path | None,
        typer.Argument(help="QGroundControl plan (.plan), MAVSDK script (.py) or scenario (.yaml)"),
    ] = None,
    arguments: Annotated[list[str] | None, typer.Argument(help="passed to the script")] = None,
    python: PythonOption = None,
    time_limit: Annotated[
        float | None, typer.Option(help="limit of simulated time in s; a longer flight fails")
    ] = None,
    limit: LimitOption = None,
    report: ReportOption = False,
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
    from sitl_bridge.api.flights import flight_settings
    from sitl_bridge.cli.session_run import run_session

    options = run.flight_options(
        time_limit=time_limit,
        arguments=tuple(arguments or ()),
        python=None if python is None else find_interpreter(python),
        limits=parse_limits(limit),
    )
    settings = flight_settings(mission, options)
    terminal = Terminal(quiet=run.quiet, verbose=run.verbose)
    raise typer.Exit(
        signals.run(lambda: run_session(settings, terminal, live=not run.headless, report=report))
    )
