"""``sitl-bridge demo``: the first flight, a square in wind, with PX4 where it is found."""

from __future__ import annotations

import shlex
import shutil
import sys
from typing import Annotated

import typer

from sitl_bridge.cli.fly import fly

MISSION = "square.plan"
DEFAULTS = ("--wind", "4@270,turbulence=light", "--speed", "10", "--report")
"""Options of ``fly``; those of the command line follow them and take precedence."""

NEXT = """Next:
  xdg-open runs/latest/report.html          the flight as one page in the browser
  {program} fly square.plan --view --speed 1{px4}   the flight live in the browser
  {program} start{px4}                           a vehicle for QGroundControl and your scripts"""
WITHOUT_PX4 = """PX4 was not found.  To fly it: make px4_sitl in a checkout of PX4-Autopilot, then
  {program} demo --px4 DIR"""


def demo(
    options: Annotated[
        list[str] | None, typer.Argument(help="options of `fly`, such as --px4 DIR or --speed 1")
    ] = None,
) -> None:
    """Fly a square in wind: the first flight on a new machine, with PX4 if it is found.

    Any option of `fly` may follow: `sitl-bridge demo --autopilot builtin`.
    """
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(fly)
    command = typer.main.get_command(app)
    try:
        command.main([MISSION, *DEFAULTS, *(options or ())], prog_name="sitl-bridge demo")
    except SystemExit as ended:
        if not ended.code and "--help" not in (options or ()):
            _say_what_is_next(options or [])
        raise


def _say_what_is_next(options: list[str]) -> None:
    """Commands that fly the same flight stack as the demo with its options."""
    from sitl_bridge.session.settings import choose_autopilot

    program = "sitl-bridge" if shutil.which("sitl-bridge") else shlex.quote(sys.argv[0])
    of_px4 = [k for k, option in enumerate(options) if option.partition("=")[0] == "--px4"]
    px4 = "".join(f" {shlex.join(options[k : k + 1 + ('=' not in options[k])])}" for k in of_px4[-1:])
    typer.echo(NEXT.format(program=program, px4=px4))
    if not px4 and choose_autopilot().px4 is None:
        typer.echo(WITHOUT_PX4.format(program=program))
