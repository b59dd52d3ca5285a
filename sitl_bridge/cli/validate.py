"""``sitl-bridge validate``: how well simulators predict real flights."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from sitl_bridge.cli.terminal import QuietOption, Terminal, VerboseOption


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
    from sitl_bridge.lab.validation import (
        Windows,
        compare,
        default_predictors,
        find_predictor,
        lines,
        read_flights,
        update_page,
    )

    terminal = Terminal(quiet=quiet, verbose=verbose)
    if output is not None:
        make_directory(output.parent)
    predictors = [find_predictor(name) for name in simulator or default_predictors()]
    list_digests = terminal.say if terminal.verbose else (lambda _line: None)
    with terminal.step("reading flights"):
        fitting, testing = (
            Windows.of(read_flights(place, terminal.say, list_digests), every) for place in (fit, flights)
        )
    with terminal.step("predicting") as say:
        scores = compare(predictors, fitting, testing, say)
    tables = list(lines(scores))
    for line in tables:
        terminal.say(line)
    if output is not None:
        page = output.read_text(encoding="utf-8") if output.exists() else ""
        write_whole(output, update_page(page, tables))
        terminal.say(f"{output}: written")
