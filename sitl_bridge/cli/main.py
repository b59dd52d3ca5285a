"""The program ``sitl-bridge``: its commands, and how their errors are reported.

Each command lives in a module of its own that is imported only when it is run, so that ``--help`` is quick.
This module imports almost nothing; ``sitl_bridge/__main__.py`` sets the signal handlers before it.
"""

from __future__ import annotations

import importlib
import io
import keyword
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from sitl_bridge.base.error_log import cause
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system import signals
from sitl_bridge.base.system.garbage import collect_seldom
from sitl_bridge.cli.exit_codes import ExitCode
from sitl_bridge.live.outlets import OUTLETS

if TYPE_CHECKING:
    import typer

COMMANDS = {
    "demo": "Fly a square in wind: the first flight on a new machine.",
    "fly": "Fly a plan, a MAVSDK script or a scenario, from start to summary.",
    "start": "Bring up vehicles for QGroundControl and your scripts.",
    "simulate": "Fly formations and avoidance without MAVLink, in one process.",
    "campaign": "Fly a scenario many times with varied values.",
    "serve": "Run only the simulation, for a PX4 that you start.",
    "mission": "Fly a plan or a script with a flight stack that already runs.",
    "autopilot": "Run only the built-in flight stack, for `serve`.",
    "schema": "Print the JSON Schema of a scenario, airframe, world or campaign file.",
    "import": "Make an airframe file of a Gazebo or ROS model, PX4 parameters, a thrust table.",
    "check": "Validate an airframe, world, scenario, campaign or plan; print its figures.",
    "doctor": "Print what is missing on this machine, and the remedies.",
    "warm": "Compile ahead what flights, flight tests and campaigns run.",
    "report": "Evaluate runs and write a report as one HTML file.",
    "identify": "Fit an airframe, or an attitude model, to a flight.",
    "validate": "Compare simulators by how well they predict real flights.",
    "log-statistics": "Compare the sensors in simulated logs with those of real flights.",
    "pose-error": "Print pose errors of an estimated trajectory.",
    "odometry": "Compare estimators of motion over a recorded run.",
    "px4-files": "Write PX4's start-up files for an airframe.",
    "replay": "Repeat a run to the bit, or fly a real log's motor commands.",
    "view": "Play a recording in the browser, in three dimensions.",
    "export": "Convert the recording of a run to MCAP, CSV or Parquet.",
}
"""Summaries in ``--help``, by name; a module of that name has the function or the group of commands."""

FORMER = {
    "--samples": "--samples is gone: images, clouds and scans are topics of --ros2, which need no ROS; a"
    " program reads them with cyclonedds, and the Python API gives them as arrays"
}
"""Options of earlier versions: what there is in their place."""

COMPLETION = "_SITL_BRIDGE_COMPLETE"
"""Environment variable with which a shell asks for completions."""
TRACEBACK = "SITL_BRIDGE_TRACEBACK"
"""Environment variable that prints the traceback of a defect."""


def function(name: str) -> str:
    """The function of a command, and its module; a word of Python's has an ending."""
    return name.replace("-", "_") + ("_vehicle" if keyword.iskeyword(name) else "")


def module(name: str) -> str:
    """The module of a command."""
    return f"sitl_bridge.cli.{function(name)}"


def _entry(name: str, requested: bool) -> Callable[..., object]:
    """The function or group of a requested command, else a placeholder for the list of commands."""
    if not requested:
        return lambda: None
    entry: Callable[..., object] = getattr(importlib.import_module(module(name)), function(name))
    return entry


def _help(entry: Callable[..., object]) -> str:
    """The docstring of a command, a line for each paragraph: typer would keep the line breaks."""
    paragraphs = (entry.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def build(arguments: Sequence[str]) -> typer.Typer:
    """The program for a command line; only the command that ``arguments`` begin with is imported."""
    import typer

    from sitl_bridge.cli.root import root

    app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
    app.callback()(root)
    for name, summary in COMMANDS.items():
        entry = _entry(name, bool(arguments) and arguments[0] == name)
        if isinstance(entry, typer.Typer):
            for command in entry.registered_commands:
                command.help = _help(command.callback) if command.callback else None
            app.add_typer(entry, name=name, short_help=summary)
            continue
        # The demonstration passes its options on to `fly`.
        settings = {"ignore_unknown_options": name == "demo"}
        app.command(name, help=_help(entry), short_help=summary, context_settings=settings)(entry)
    return app


def with_values(arguments: Sequence[str]) -> list[str]:
    """A command line in which every option has a value.

    Raises:
        UserError: for an option that there was in earlier versions.
    """
    given = list(arguments)
    optional = {f"--{one.option}": one.bare for one in OUTLETS}
    made: list[str] = []
    for i, word in enumerate(given):
        if word == "--":
            return made + given[i:]
        if word.partition("=")[0] in FORMER:
            raise UserError(FORMER[word.partition("=")[0]])
        following = given[i + 1] if i + 1 < len(given) else ""
        bare = optional.get(word)
        made.append(word if bare is None or re.fullmatch(bare[1], following) else f"{word}={bare[0]}")
    return made


def _words() -> list[str]:
    """The words of the command line; while a shell completes one, those that it has so far."""
    if COMPLETION in os.environ:
        return os.environ.get("COMP_WORDS", os.environ.get("_TYPER_COMPLETE_ARGS", "")).split()[1:]
    return sys.argv[1:]


def main() -> None:
    """Run a command; every error is one message without a traceback."""
    signals.exit_on_signals()
    collect_seldom()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # where the terminal's encoding lacks characters of a unit
    try:
        build(_words())(with_values(sys.argv[1:]), prog_name="sitl-bridge")
    except UserError as error:
        _end(ExitCode.USER_ERROR, str(error))
    except OSError as error:
        _end(ExitCode.USER_ERROR, cause(error))
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        _end(
            ExitCode.DEFECT,
            f"a defect of this program: {cause(error)}; set {TRACEBACK}=1 to print the traceback",
        )


def _end(status: int, line: str) -> NoReturn:
    print(f"sitl-bridge: {line}", file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    main()
