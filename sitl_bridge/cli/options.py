"""Options that several commands share: their types, help texts and values.

Nothing that only one command needs is imported here.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Annotated

import typer

from sitl_bridge.bus.address import PASSWORD, BusAddress
from sitl_bridge.errors import UserError
from sitl_bridge.files.world_file import load_world
from sitl_bridge.quantities import FASTEST_PACE, SLOWEST_PACE
from sitl_bridge.world.wind import parse_wind
from sitl_bridge.world.world import WorldSpecification

WorldOption = Annotated[
    Path | None,
    typer.Option(help="world file (YAML or SDF) or name of a shipped world: origin, air, wind and scene"),
]
WindOption = Annotated[
    str | None,
    typer.Option(
        help="wind, e.g. 8@270,turbulence=light: m/s @ deg that it comes from; replaces the world's"
    ),
]
SpeedOption = Annotated[str, typer.Option(help="simulated over real time: 0.5, 1, 20 or max")]
RunsOption = Annotated[Path, typer.Option(help="parent directory of run directories")]
BusOption = Annotated[
    str | None,
    typer.Option(
        envvar="SITL_BRIDGE_BUS",
        help="publish on MQTT and take commands: embedded, embedded:PORT or mqtt[s]://USER@HOST:PORT",
    ),
]
AirframeOption = Annotated[str, typer.Option(help="name or file of the airframe")]


def parse_bus(text: str | None) -> BusAddress | None:
    """The broker of ``--bus``, with the password from the environment.

    The password is removed from the environment, so that no child process inherits it.

    Raises:
        UserError: for an invalid address.
    """
    password = os.environ.pop(PASSWORD, None)
    return None if text is None else BusAddress.parse(text, password)


def parse_speed(text: str) -> float:
    """``0.5``, ``1``, ``20`` or ``max``.

    Raises:
        UserError: for any other text.
    """
    if text == "max":
        return math.inf
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not SLOWEST_PACE <= speed <= FASTEST_PACE:
        raise UserError(
            f"--speed {text!r}: write a factor from {SLOWEST_PACE:g} to {FASTEST_PACE:g}, such as 0.5, 1 or"
            " 20, or max"
        )
    return speed


def load_settings_world(world: Path | None, wind: str | None) -> WorldSpecification:
    """World of the command line: the file, with the wind of ``--wind`` in place of its own.

    Raises:
        UserError: for an invalid file or wind.
    """
    specification = load_world(world) if world is not None else WorldSpecification()
    if wind is None:
        return specification
    return specification.model_copy(update={"wind": parse_wind(wind)})
