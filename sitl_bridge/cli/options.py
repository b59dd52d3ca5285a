"""Options that several commands share: their types, help texts and values.

Nothing that only one command needs is imported here.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Annotated

import typer

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.quantities import FASTEST_PACE, SLOWEST_PACE
from sitl_bridge.core.world.wind import parse_wind
from sitl_bridge.core.world.world import WorldSpecification
from sitl_bridge.core.world.world_file import load_world
from sitl_bridge.live.bus.address import PASSWORD, BusAddress
from sitl_bridge.session.outlet_choices import OutletChoices

WorldOption = Annotated[
    Path | None,
    typer.Option(help="world file (YAML or SDF) or name of a shipped world: origin, air, wind and scene"),
]
WindOption = Annotated[
    str | None,
    typer.Option(
        help="wind, e.g. 8@270,turbulence=light: m/s @ deg that it comes from (8 alone: from north);"
        " replaces the world's"
    ),
]
PythonOption = Annotated[str | None, typer.Option(help="interpreter of the script (default: this program's)")]
SpeedOption = Annotated[str, typer.Option(help="simulated over real time: 0.5, 1, 20 or max")]
RunsOption = Annotated[Path, typer.Option(help="parent directory of run directories")]
BusOption = Annotated[
    str | None,
    typer.Option(
        envvar="SITL_BRIDGE_BUS",
        help="publish on MQTT and take commands: embedded, embedded:PORT or mqtt[s]://USER@HOST:PORT",
    ),
]
Px4Option = Annotated[Path | None, typer.Option(help="PX4's checkout (default: PX4_DIR, ~/PX4-Autopilot)")]
ExposeOption = Annotated[
    bool, typer.Option("--expose", help="let other machines reach PX4's MAVLink ports, and its files")
]
ViewOption = Annotated[
    int | None,
    typer.Option(
        metavar="[PORT]", help="show the run in the browser, live, and take commands there (port 8080)"
    ),
]
VIEWER_PORT = 19410
"""UDP port on which PX4's viewers expect instance 0."""
ViewerOption = Annotated[
    str | None,
    typer.Option(
        metavar="HOST[:PORT]",
        help="send the vehicles' states to PX4's viewers, as its SIH does: UDP port 19410 + instance",
    ),
]
SamplesOption = Annotated[
    Path | None,
    typer.Option(
        metavar="SOCKET",
        help="offer images, clouds and scans on this local socket as ROS 2 messages, an MCAP stream",
    ),
]
STREAM_ADDRESS = "127.0.0.1"
"""Address on which the stream listens unless it is given."""
StreamOption = Annotated[
    str | None,
    typer.Option(
        metavar="[[HOST:]PORT]", help="let Foxglove connect and follow the run (127.0.0.1, port 8765)"
    ),
]
AirframeOption = Annotated[str, typer.Option(help="name or file of the airframe")]


def check_port(port: int, option: str) -> int:
    """A TCP or UDP port that programs of users may open.

    Raises:
        UserError: for any other number.
    """
    if not 1024 <= port <= 65535:
        raise UserError(f"{option} {port}: give a port from 1024 to 65535")
    return port


def outlet_choices(
    view: int | None,
    viewer: str | None = None,
    samples: Path | None = None,
    stream: str | None = None,
) -> OutletChoices:
    """The pages and streams of the command line.

    Raises:
        UserError: for an invalid port or address.
    """
    return OutletChoices(
        None if view is None else check_port(view, "--view"),
        None if viewer is None else parse_viewer(viewer),
        samples,
        None if stream is None else parse_stream(stream),
    )


def parse_viewer(text: str) -> tuple[str, int]:
    """``HOST`` or ``HOST:PORT``.

    Raises:
        UserError: for any other text.
    """
    host, colon, port = text.partition(":")
    if not host or (colon and not port.isdecimal()):
        raise UserError(f"--viewer {text!r}: write HOST or HOST:PORT, such as 127.0.0.1")
    return host, check_port(int(port), "--viewer: port") if colon else VIEWER_PORT


def parse_stream(text: str) -> tuple[str, int]:
    """``PORT`` or ``HOST:PORT``.

    Raises:
        UserError: for any other text.
    """
    host, colon, port = text.rpartition(":")
    if not port.isdecimal() or (colon and not host):
        raise UserError(f"--stream {text!r}: write PORT or HOST:PORT, such as 8765 or 0.0.0.0:8765")
    return host or STREAM_ADDRESS, check_port(int(port), "--stream: port")


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
