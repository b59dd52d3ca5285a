"""``sitl-bridge validate``: how well simulators predict real flights."""

from __future__ import annotations

import hashlib
import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sitl_bridge.base.errors import UserError
from sitl_bridge.cli.terminal import QuietOption, Terminal, VerboseOption

if TYPE_CHECKING:
    from sitl_bridge.analysis.replay.vehicle_log import VehicleLog
    from sitl_bridge.lab.validation.windows import Predictor

SHIPPED = ("constant", "textbook", "rotorpy", "crazyflow")
DEFAULT = (
    "constant",
    "constant:observed",
    "textbook",
    "textbook:observed",
    "crazyflie_published",
    "crazyflie_published:observed",
    "crazyflie_identified",
    "crazyflie_identified:observed",
)
PEERS = ("rotorpy", "crazyflow")
"""Packages that are no dependencies."""


def validate(
    flights: Annotated[Path, typer.Argument(help="directory of the flights to be predicted")],
    fit: Annotated[Path, typer.Option(help="directory of other flights, to which figures are fitted")],
    simulator: Annotated[
        list[str] | None,
        typer.Option(
            help="constant, textbook, rotorpy, crazyflow, an airframe, or FILE.py with a class Simulator,"
            " each with :observed after it if wanted; repeatable (default: all shipped ones of a Crazyflie)"
        ),
    ] = None,
    every: Annotated[float, typer.Option(min=0.01, help="s between the starts of predictions")] = 0.1,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="page (.md) whose tables are written anew")
    ] = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Predict real flights from their motor commands, and compare simulators by their errors.

    From every 0.1 s in the air, the measured state and the logged commands and battery are given for 0.5 s.
    Flights are tables of known data sets (.csv) or ULogs (.ulg); a copy of another is left out.  --verbose
    lists the flights with their SHA-256.
    """
    if simulator is None or any(name.startswith("crazyflow") for name in simulator):
        os.environ.setdefault("SCIPY_ARRAY_API", "1")  # crazyflow needs it before anything imports scipy
    from sitl_bridge.base.output_file import make_directory, write_whole
    from sitl_bridge.lab.validation.benchmark import compare, lines, updated
    from sitl_bridge.lab.validation.windows import Windows

    terminal = Terminal(quiet=quiet, verbose=verbose)
    if output is not None:
        make_directory(output.parent)
    names = simulator or [
        *DEFAULT,
        *(peer + more for peer in PEERS if find_spec(peer) for more in ("", ":observed")),
    ]
    predictors = [_predictor(name) for name in names]
    with terminal.step("reading flights"):
        fitting, testing = (Windows.of(_flights(place, terminal), every) for place in (fit, flights))
    with terminal.step("predicting") as say:
        scores = compare(predictors, fitting, testing, say)
    tables = list(lines(scores))
    for line in tables:
        terminal.say(line)
    if output is not None:
        page = output.read_text(encoding="utf-8") if output.exists() else ""
        write_whole(output, updated(page, tables))
        terminal.say(f"{output}: written")


def _flights(place: Path, terminal: Terminal) -> dict[str, VehicleLog]:
    from sitl_bridge.analysis.replay.vehicle_log import read_vehicle_log
    from sitl_bridge.lab.identification.data_sets import BLACKBIRD_SPEEDS, read_table

    blackbird = {str(f.parent.relative_to(place)): f for f in sorted(place.rglob(BLACKBIRD_SPEEDS))}
    files = blackbird or {f.stem: f for f in sorted(place.glob("*")) if f.suffix in (".csv", ".ulg")}
    hashes: dict[str, str] = {}
    for name, f in list(files.items()):
        first = hashes.setdefault(hashlib.sha256(f.read_bytes()).hexdigest(), name)
        if first != name:
            terminal.say(f"note: {name} is left out: it is a copy of {first}")
            del files[name]
    if terminal.verbose:
        for digest, name in hashes.items():
            terminal.say(f"{digest}  {name}")
    read = {
        name: read_table(f) if f.suffix == ".csv" else read_vehicle_log(f, 4, whole=True)
        for name, f in files.items()
    }
    found = {name: log for name, log in read.items() if log.airborne}
    for name in read.keys() - found.keys():
        terminal.say(f"note: {name} is left out: it never leaves the ground effect")
    if not found:
        raise UserError(f"{place}: has no flights, tables (.csv) or ULogs (.ulg)")
    return found


def _predictor(text: str) -> Predictor:
    from sitl_bridge.lab.validation.disturbances import Observed

    name, _, observed = text.partition(":")
    if observed not in ("", "observed"):
        raise UserError(f"--simulator {text}: after its name, only :observed may stand")
    return Observed(_simulator(name)) if observed else _simulator(name)


def _simulator(name: str) -> Predictor:
    from sitl_bridge.base.user_file import load_class
    from sitl_bridge.lab.validation.simulators import sitl_bridge
    from sitl_bridge.lab.validation.windows import Predictor

    if name in PEERS and find_spec(name) is None:
        raise UserError(f"--simulator {name}: is not installed; pip install {name}")
    if name in SHIPPED:
        made: Predictor = import_module(f"sitl_bridge.lab.validation.simulators.{name}").Simulator()
        return made
    if not name.endswith(".py"):
        return sitl_bridge.Simulator(name)
    return load_class(Path(name), "Simulator", Predictor, "simulator")()
