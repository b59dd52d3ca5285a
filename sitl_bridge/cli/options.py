"""Options that several commands share: their types, help texts and values.

Nothing that only one command needs is imported here.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.quantities import FASTEST_PACE, SLOWEST_PACE
from sitl_bridge.cli.terminal import QuietOption, VerboseOption
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.vehicle.vehicle_specification import Choice
from sitl_bridge.core.world.wind import parse_wind
from sitl_bridge.core.world.world import WorldSpecification
from sitl_bridge.core.world.world_file import load_world
from sitl_bridge.live.bus.address import PASSWORD, BusAddress
from sitl_bridge.live.ros2.settings import LAST_DOMAIN, Ros2Settings
from sitl_bridge.session.settings import FlightOptions, OutletSettings

PythonOption = Annotated[str | None, typer.Option(help="interpreter of the script (default: this program's)")]
RunsOption = Annotated[Path, typer.Option(help="parent directory of run directories")]
LimitOption = Annotated[
    list[str] | None,
    typer.Option(
        help="NAME=VALUE of a measure, with which the run succeeds; may be repeated (docs/report.md)"
    ),
]
ReportOption = Annotated[bool, typer.Option("--report", help="write report.html into the run directory")]

VIEWER_PORT = 19410
"""UDP port on which PX4's viewers expect instance 0."""
STREAM_ADDRESS = "127.0.0.1"
"""Address on which the stream listens unless it is given."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of ``serve``, ``start`` and ``fly``, as written."""

    airframe: Annotated[str | None, typer.Option(help="name or file of the airframe (default: iris)")] = None
    world: Annotated[
        Path | None,
        typer.Option(help="world file (YAML or SDF) or name of a shipped world: origin, air, wind and scene"),
    ] = None
    wind: Annotated[
        str | None,
        typer.Option(
            help="wind, e.g. 8@270,turbulence=light: m/s @ deg that it comes from (8 alone: from north);"
            " replaces the world's"
        ),
    ] = None
    seed: Annotated[int | None, typer.Option(min=0, help="seed of all random streams (default: 0)")] = None
    speed: Annotated[str, typer.Option(help="simulated over real time: 0.5, 1, 20 or max")] = "1"
    instance: Annotated[
        int, typer.Option(min=0, max=254, help="of the first flight stack; sets all ports: 4560 + instance")
    ] = 0
    bus: Annotated[
        str | None,
        typer.Option(
            envvar="SITL_BRIDGE_BUS",
            help="publish on MQTT and take commands: embedded, embedded:PORT or mqtt[s]://USER@HOST:PORT",
        ),
    ] = None
    view: Annotated[
        int | None,
        typer.Option(
            metavar="[PORT]", help="show the run in the browser, live, and take commands there (port 8080)"
        ),
    ] = None
    viewer: Annotated[
        str | None,
        typer.Option(
            metavar="HOST[:PORT]",
            help="send the vehicles' states to PX4's viewers, as its SIH does: UDP port 19410 + instance",
        ),
    ] = None
    stream: Annotated[
        str | None,
        typer.Option(
            metavar="[[HOST:]PORT]", help="let Foxglove connect and follow the run (127.0.0.1, port 8765)"
        ),
    ] = None
    ros2: Annotated[
        str | None,
        typer.Option(
            metavar="[DOMAIN]",
            help="be a node of ROS 2 on this machine: topics and commands (default: ROS_DOMAIN_ID, or 0)",
        ),
    ] = None
    ros2_wait: Annotated[
        list[str] | None,
        typer.Option(metavar="NODE", help="with --ros2: simulated time waits for this node; may be repeated"),
    ] = None
    runs_dir: RunsOption = Path("runs")
    quiet: QuietOption = False
    verbose: VerboseOption = False

    def flight_options(self, **others: Any) -> FlightOptions:
        """Their values.

        Args:
            others: fields of FlightOptions.

        Raises:
            UserError: for an invalid value or file.
        """
        described = self.world is not None or self.wind is not None
        return FlightOptions(
            world=load_settings_world(self.world, self.wind) if described else None,
            seed=self.seed,
            speed=parse_speed(self.speed),
            instance=self.instance,
            outlets=OutletSettings(
                parse_bus(self.bus),
                None if self.view is None else check_port(self.view, "--view"),
                None if self.viewer is None else parse_viewer(self.viewer),
                None if self.stream is None else parse_stream(self.stream),
                parse_ros2(self.ros2, self.ros2_wait or ()),
            ),
            runs=self.runs_dir,
            airframe=None if self.airframe is None else load_airframe(self.airframe),
            **others,
        )


@dataclass(frozen=True, kw_only=True)
class StackOptions(RunOptions):
    """Options of ``start`` and ``fly``, which start the flight stacks."""

    autopilot: Annotated[
        Choice, typer.Option(help="flight stack; auto: PX4 if it is found, else the built-in stack")
    ] = "auto"
    px4: Annotated[Path | None, typer.Option(help="PX4's checkout (default: PX4_DIR, ~/PX4-Autopilot)")] = (
        None
    )
    controller: Annotated[
        str | None,
        typer.Option(help="controller of the built-in stack: hector_pid, lee or your own FILE.py:CLASS"),
    ] = None
    expose: Annotated[
        bool, typer.Option("--expose", help="let other machines reach PX4's MAVLink ports, and its files")
    ] = False
    headless: Annotated[bool, typer.Option("--headless", help="print no live line, for logs and CI")] = False

    def flight_options(self, **others: Any) -> FlightOptions:
        """Their values; see RunOptions."""
        return super().flight_options(
            autopilot=self.autopilot,
            px4=self.px4,
            controller=self.controller,
            expose=self.expose,
            **others,
        )


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take each field of its parameter ``run``, a RunOptions, as an option of its own."""
    signature = inspect.signature(command, eval_str=True)
    kind = signature.parameters["run"].annotation
    types = get_type_hints(kind, include_extras=True)
    parameters = [one for one in signature.parameters.values() if one.name != "run"]
    parameters += [
        inspect.Parameter(
            one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=types[one.name]
        )
        for one in fields(kind)
    ]

    @functools.wraps(command)
    def call(**values: Any) -> None:
        options = kind(**{one.name: values.pop(one.name) for one in fields(kind)})
        command(run=options, **values)

    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


def check_port(port: int, option: str) -> int:
    """A TCP or UDP port that programs of users may open.

    Raises:
        UserError: for any other number.
    """
    if not 1024 <= port <= 65535:
        raise UserError(f"{option} {port}: give a port from 1024 to 65535")
    return port


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


def parse_ros2(domain: str | None, wait: Sequence[str]) -> Ros2Settings | None:
    """How the run is shown to ROS 2; None where it is not.

    Raises:
        UserError: for nodes to wait for without a domain, and for a number that is none.
    """
    if domain is not None:
        return Ros2Settings(parse_domain(domain), tuple(wait))
    if wait:
        raise UserError(f"--ros2-wait {wait[0]}: give --ros2, too")
    return None


def parse_domain(text: str) -> int:
    """A ROS 2 domain; that of ROS_DOMAIN_ID for an empty text.

    Raises:
        UserError: for a number that is none.
    """
    text = text or os.environ.get("ROS_DOMAIN_ID", "") or "0"
    if not text.isdecimal() or int(text) > LAST_DOMAIN:
        raise UserError(f"--ros2: a domain of ROS 2 is 0 to {LAST_DOMAIN}, not {text!r}")
    return int(text)


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


def parse_limits(options: Iterable[str] | None) -> dict[str, float | None]:
    """Limits by name, of ``--limit``.

    Raises:
        UserError: for a faulty one.
    """
    if not options:
        return {}
    from sitl_bridge.analysis.evaluation.measures import limit_of_option

    return dict(limit_of_option(text) for text in options)
