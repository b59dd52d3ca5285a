"""Options that several commands share: their types, help texts and values.

What makes values of them is imported where one is given, so that the help of a command is quick.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from sitl_bridge.base.errors import UserError
from sitl_bridge.cli.terminal import QuietOption, VerboseOption
from sitl_bridge.core.vehicle.stack_choice import Choice
from sitl_bridge.live.outlets import OUTLETS, OutletSettings, Ros2Settings, parse_outlets

if TYPE_CHECKING:
    from sitl_bridge.session.settings import FlightOptions

PythonOption = Annotated[str | None, typer.Option(help="interpreter of the script (default: this program's)")]
RunsOption = Annotated[Path, typer.Option(help="parent directory of run directories")]
LimitOption = Annotated[
    list[str] | None,
    typer.Option(
        help="NAME=VALUE of a measure, with which the run succeeds; may be repeated (docs/report.md)"
    ),
]
ParamOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="parameter of all flight stacks; may be repeated"),
]
ParamsOption = Annotated[
    Path | None,
    typer.Option(
        help="parameters of a real vehicle (.params of QGroundControl, .parm of MAVProxy); those of its"
        " flight are flown"
    ),
]
ParamsWinOption = Annotated[
    bool, typer.Option("--params-win", help="let --params override what follows from the airframe")
]
ReportOption = Annotated[bool, typer.Option("--report", help="write report.html into the run directory")]


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
    home: Annotated[
        str | None,
        typer.Option(
            metavar="LAT,LON,ALT",
            help="deg, deg and m above sea level of the world's origin, where the first vehicle stands;"
            " replaces the world's",
        ),
    ] = None
    seed: Annotated[int | None, typer.Option(min=0, help="seed of all random streams (default: 0)")] = None
    speed: Annotated[str, typer.Option(help="simulated over real time: 0.5, 1, 20 or max")] = "1"
    instance: Annotated[
        int, typer.Option(min=0, max=254, help="of the first flight stack; sets all ports: 4560 + instance")
    ] = 0
    param: ParamOption = None
    params: ParamsOption = None
    params_win: ParamsWinOption = False
    outlets: tuple[OutletSettings, ...] = ()  # an option each, of OUTLETS
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
        from sitl_bridge.core.vehicle.airframe_file import load_airframe
        from sitl_bridge.core.world.wind import parse_wind
        from sitl_bridge.core.world.world import parse_origin
        from sitl_bridge.core.world.world_file import load_world
        from sitl_bridge.link.px4.given_parameters import load_parameters, parse_parameters
        from sitl_bridge.session.settings import FlightOptions

        return FlightOptions(
            world=None if self.world is None else load_world(self.world),
            wind=None if self.wind is None else parse_wind(self.wind),
            origin=None if self.home is None else parse_origin(self.home),
            seed=self.seed,
            speed=parse_speed(self.speed),
            instance=self.instance,
            outlets=_wait_for(self.outlets, tuple(self.ros2_wait or ())),
            runs=self.runs_dir,
            airframe=None if self.airframe is None else load_airframe(self.airframe),
            parameters=parse_parameters(self.param),
            parameter_file=load_parameters(self.params, wins=self.params_win),
            **others,
        )


@dataclass(frozen=True, kw_only=True)
class BoardOptions(RunOptions):
    """Options of ``serve``, ``start`` and ``fly``, for which a board may fly."""

    device: Annotated[
        str | None,
        typer.Option(
            help="fly a board in hardware-in-the-loop: its serial port, or udp:HOST:PORT (docs/hitl.md)"
        ),
    ] = None
    baud: Annotated[int, typer.Option(help="of the serial port")] = 921600
    gcs: Annotated[str, typer.Option(metavar="HOST:PORT", help="ground station, for a board")] = (
        "127.0.0.1:14550"
    )

    def flight_options(self, **others: Any) -> FlightOptions:
        """Their values; see RunOptions."""
        from sitl_bridge.session.settings import Board

        if self.device is None and (self.baud, self.gcs) != (BoardOptions.baud, BoardOptions.gcs):
            raise UserError("--baud and --gcs are of a board: add --device, such as --device /dev/ttyACM0")
        board = None if self.device is None else Board(self.device, self.baud, self.gcs)
        return super().flight_options(board=board, **others)


@dataclass(frozen=True, kw_only=True)
class StackOptions(BoardOptions):
    """Options of ``start`` and ``fly``, which start the flight stacks."""

    autopilot: Annotated[
        Choice, typer.Option(help="flight stack; auto: PX4 if it is found, else the built-in stack")
    ] = "auto"
    px4: Annotated[Path | None, typer.Option(help="PX4's checkout (default: PX4_DIR, ~/PX4-Autopilot)")] = (
        None
    )
    controller: Annotated[
        str | None,
        typer.Option(
            help="controller of the built-in stack: hector_pid, lee, rotors or FILE.py:CLASS"
            " (default: the airframe's)"
        ),
    ] = None
    expose: Annotated[
        bool, typer.Option("--expose", help="let other machines reach PX4's MAVLink ports, and its files")
    ] = False
    fence: Annotated[
        Path | None,
        typer.Option(
            help="plan whose geofence and rally points all vehicles get; replaces those of missions"
        ),
    ] = None
    headless: Annotated[bool, typer.Option("--headless", help="print no live line, for logs and CI")] = False

    def flight_options(self, **others: Any) -> FlightOptions:
        """Their values; see RunOptions."""
        from sitl_bridge.plan.plan_file import load_fence

        return super().flight_options(
            autopilot=self.autopilot,
            px4=self.px4,
            controller=self.controller,
            expose=self.expose,
            fence=None if self.fence is None else load_fence(self.fence),
            **others,
        )


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take each field of its parameter ``run``, a RunOptions, as an option of its own."""
    signature = inspect.signature(command, eval_str=True)
    kind = signature.parameters["run"].annotation
    types = get_type_hints(kind, include_extras=True)
    parameters = [one for one in signature.parameters.values() if one.name != "run"]
    for one in fields(kind):
        options = {one.name: types[one.name]}
        if one.name == "outlets":
            options = {
                o.option: Annotated[
                    str | None, typer.Option(metavar=o.metavar, envvar=o.variable, help=o.help)
                ]
                for o in OUTLETS
            }
        parameters += [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None if name != one.name else one.default,
                annotation=annotation,
            )
            for name, annotation in options.items()
        ]

    @functools.wraps(command)
    def call(**values: Any) -> None:
        values["outlets"] = parse_outlets({one.option: values.pop(one.option) for one in OUTLETS})
        options = kind(**{one.name: values.pop(one.name) for one in fields(kind)})
        command(run=options, **values)

    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


def _wait_for(outlets: tuple[OutletSettings, ...], nodes: tuple[str, ...]) -> tuple[OutletSettings, ...]:
    """The same, with nodes of ROS 2 for which simulated time waits."""
    if nodes and not any(isinstance(one, Ros2Settings) for one in outlets):
        raise UserError(f"--ros2-wait {nodes[0]}: give --ros2, too")
    return tuple(replace(one, wait=nodes) if isinstance(one, Ros2Settings) else one for one in outlets)


def parse_speed(text: str) -> float:
    """``0.5``, ``1``, ``20`` or ``max``.

    Raises:
        UserError: for any other text.
    """
    from sitl_bridge.base.quantities import FASTEST_PACE, SLOWEST_PACE

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


def parse_limits(options: Iterable[str] | None) -> dict[str, float | None]:
    """Limits by name, of ``--limit``.

    Raises:
        UserError: for a faulty one.
    """
    if not options:
        return {}
    from sitl_bridge.analysis.evaluation.measures import limit_of_option

    return dict(limit_of_option(text) for text in options)
