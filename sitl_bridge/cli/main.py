"""The program ``sitl-bridge``: its commands, and how their errors are told.

Each command lives in a module of its own that is imported only when it is meant, so that ``--help`` is quick.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from sitl_bridge.errors import UserError

COMMANDS = {
    "fly": ("sitl_bridge.cli.fly", "Fly a plan, a MAVSDK script or a scenario, from start to summary."),
    "simulate": ("sitl_bridge.cli.simulate", "Fly formations and avoidance without MAVLink, in one process."),
    "serve": ("sitl_bridge.cli.serve", "Only simulate, for a PX4 that someone else starts."),
    "check": ("sitl_bridge.cli.check", "Validate an airframe, a world or a plan; print what follows."),
    "doctor": ("sitl_bridge.cli.doctor", "Tell what is missing on this machine and what to type."),
    "identify": ("sitl_bridge.cli.identify", "Fit the attitude model that avoidance plans with to a flight."),
    "px4-files": ("sitl_bridge.cli.px4_files", "Write PX4's start-up files of an airframe."),
    "export": ("sitl_bridge.cli.export", "Turn the truth log of a run into CSV."),
}
"""Name to module (which has a function of that name) and the line that ``--help`` shows."""

USER_ERROR = 2
"""Exit code for what the user can mend."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it; commands that run long end by themselves with the same."""


def _show_version(wanted: bool) -> None:
    if wanted:
        from sitl_bridge import __version__

        typer.echo(__version__)
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="show it and exit")
    ] = False,
) -> None:
    """Fly real PX4 firmware in simulated multirotors, in lockstep, from one command."""
    del version


def _entry(name: str, meant: bool) -> Callable[..., None]:
    """The command's function where it is meant, else a place holder that only the list of commands shows."""
    module, _ = COMMANDS[name]
    if not meant:
        return lambda: None
    function: Callable[..., None] = getattr(importlib.import_module(module), name.replace("-", "_"))
    return function


def build(arguments: Sequence[str]) -> typer.Typer:
    """The program for a command line; only the command that ``arguments`` begin with is imported."""
    app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
    app.callback()(_root)
    for name, (_, summary) in COMMANDS.items():
        app.command(name, short_help=summary)(_entry(name, bool(arguments) and arguments[0] == name))
    return app


def main() -> None:
    """Run a command; what the user can mend is one message and exit code 2, without a traceback."""
    try:
        build(sys.argv[1:])()
    except UserError as error:
        typer.echo(f"sitl-bridge: {error}", err=True)
        sys.exit(USER_ERROR)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
