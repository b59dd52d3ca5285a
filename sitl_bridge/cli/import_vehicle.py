"""``sitl-bridge import``: makes an airframe file of a vehicle's descriptions in other formats."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sitl_bridge.base.errors import UserError, shorten
from sitl_bridge.cli.terminal import QuietOption, Terminal, VerboseOption

if TYPE_CHECKING:
    from sitl_bridge.lab.importing import Imported

MOST_SHOWN = 12
"""Lines of what was left out that are printed; the file has all."""


def import_vehicle(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="SDF (file or directory of a model), URDF, xacro; airframe script or .params of PX4; thrust"
            " table (.csv); flight log (.ulg), to which open figures are fitted; later ones win"
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="airframe file (.yaml) to write")],
    name: Annotated[str | None, typer.Option(help="of the vehicle (default: the model's)")] = None,
    mass: Annotated[float | None, typer.Option(min=0.005, max=1000.0, help="kg, ready to fly")] = None,
    arm: Annotated[
        float | None, typer.Option(min=0.01, max=20.0, help="m from the centre to the farthest rotor's hub")
    ] = None,
    propeller: Annotated[
        str | None, typer.Option(help="diameter x pitch in inches of a measured size, 10x4.5")
    ] = None,
    battery: Annotated[str | None, typer.Option(help="cells and capacity in Ah: 4S 5.0")] = None,
    px4: Annotated[Path | None, typer.Option(help="PX4's source tree or build, for airframe scripts")] = None,
    as_gazebo: Annotated[
        bool, typer.Option("--as-gazebo", help="move as in Gazebo: its rotor law, an ideal battery")
    ] = False,
    arg: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE, argument of a xacro or jinja template; repeatable")
    ] = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Make an airframe file of a vehicle as Gazebo, ROS, PX4 or a thrust stand describe it.

    The file names the source of every figure, marks those that are estimated, and lists what was left out.
    """
    from sitl_bridge.lab.importing import Choices, Given
    from sitl_bridge.lab.importing import import_vehicle as make

    cells, capacity = _battery(battery)
    given = Given(name, mass, arm, propeller, cells, capacity)
    terminal = Terminal(quiet=quiet, verbose=verbose)
    choices = Choices(px4, as_gazebo, dict(_argument(entry) for entry in arg or []))
    _show(make(files, output, given, choices), terminal)


def _argument(entry: str) -> tuple[str, str]:
    name, equals, value = entry.partition("=")
    if not equals or not name:
        raise UserError(f"--arg {shorten(entry)}: write NAME=VALUE")
    return name, value


def _battery(text: str | None) -> tuple[int | None, float | None]:
    if text is None:
        return None, None
    match = re.fullmatch(r"(\d{1,2})\s*[sS](?:[\s,]*(\d+(?:\.\d+)?)\s*(?:Ah)?)?", text.strip())
    if match is None or not 1 <= int(match[1]) <= 14 or (match[2] and not float(match[2]) > 0.0):
        raise UserError(f"--battery {shorten(text)}: write cells and ampere hours, as in '4S 5.0'")
    return int(match[1]), float(match[2]) if match[2] else None


def _show(made: Imported, terminal: Terminal) -> None:
    for note in made.notes:
        terminal.say(f"note: {note}")
    if made.estimated:
        terminal.say(f"estimated, as the file says: {', '.join(made.estimated)}")
    for what in made.left_out[:MOST_SHOWN]:
        terminal.say(f"left out: {what}")
    if len(made.left_out) > MOST_SHOWN:
        terminal.say(f"and {len(made.left_out) - MOST_SHOWN} more, listed at the end of the file")
    terminal.say(f"{made.path}: written; see it with `check`, fly it with --airframe {made.path}")
