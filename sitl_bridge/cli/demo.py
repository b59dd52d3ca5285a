"""``sitl-bridge demo``: the first flight, a square in wind with the built-in flight stack."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sitl_bridge.cli.fly import fly

MISSION = "square.plan"
DEFAULTS = ("--wind", "4@270,turbulence=light", "--autopilot", "builtin", "--speed", "10")
"""Options of ``fly``; those of the command line follow them and take precedence."""


def demo(
    options: Annotated[
        list[str] | None, typer.Argument(help="options of `fly`, such as --autopilot px4 or --speed 1")
    ] = None,
) -> None:
    """Fly a square in wind with the built-in flight stack: the first flight on a new machine.

    Any option of `fly` may follow: `sitl-bridge demo --autopilot px4`.
    """
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(fly)
    command: Any = typer.main.get_command(app)
    command.main([MISSION, *DEFAULTS, *(options or ())], prog_name="sitl-bridge demo")
