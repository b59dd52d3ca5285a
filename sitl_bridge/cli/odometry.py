"""``sitl-bridge odometry``: estimators of motion over a recorded sensor run, side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sitl_bridge.analysis.evaluation.pose_error import Alignment, DeltaUnit
from sitl_bridge.base.errors import UserError
from sitl_bridge.cli.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sitl_bridge.lab.odometry import MotionEstimator, OdometryResult, Yardstick


def odometry(
    run: Annotated[Path, typer.Argument(help="run directory, or the recording of one sensor")],
    names: Annotated[
        list[str] | None,
        typer.Option("--with", help="estimators: kiss-icp, small-gicp, stereo-vo; several by commas"),
    ] = None,
    external: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=PROGRAM ARGUMENTS with {clouds} or {stereo} for the recording and {trajectory} for the"
            " TUM file that the program writes"
        ),
    ] = None,
    sensor: Annotated[str | None, typer.Option(help="which one, where there are several of a kind")] = None,
    voxel: Annotated[
        float, typer.Option(min=0.01, max=100.0, help="m, of the maps of lidar estimators")
    ] = 0.5,
    align: Annotated[Alignment, typer.Option(help="none, origin, se3 or sim3")] = "se3",
    delta: Annotated[float, typer.Option(help="length of the pairs of the relative error")] = 1.0,
    delta_unit: Annotated[DeltaUnit, typer.Option(help="of --delta: frames, m or s")] = "m",
    output: Annotated[
        Path | None, typer.Option(help="directory of the results; RUN/odometry without")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of a table")] = False,
) -> None:
    """Run estimators of motion over a recorded sensor run; print their errors, CPU time and memory.

    Each estimator is run in a process of its own.  The results hold its trajectory as a TUM file, a picture
    of the trajectories and one of the errors.
    """
    from sitl_bridge.lab.odometry import (
        Yardstick,
        built_in_estimator,
        external_estimator,
        recorded_sensors,
    )

    chosen = [name for entry in names or () for name in entry.split(",") if name]
    if not chosen and not external:
        raise UserError("choose at least one estimator: --with kiss-icp, or --external NAME=PROGRAM ...")
    sensors = recorded_sensors(run)
    estimators = [built_in_estimator(name, sensors, sensor, voxel) for name in chosen]
    estimators += [external_estimator(text, sensors, sensor) for text in external or ()]
    place = output if output is not None else run / "odometry"
    _compare(estimators, place, Yardstick(align, delta, delta_unit), as_json)


def _compare(estimators: Sequence[MotionEstimator], place: Path, yardstick: Yardstick, as_json: bool) -> None:
    from sitl_bridge.base.output_file import write_json
    from sitl_bridge.lab.odometry import collect_results, evaluate, picture_writer

    draw = picture_writer()
    report = (lambda _line: None) if as_json else typer.echo
    results = evaluate(estimators, place, yardstick, report)
    write_json(place / "results.json", collect_results(results))
    draw(results, place)
    if as_json:
        typer.echo(json.dumps(collect_results(results), indent=2))
    else:
        title = f"alignment {yardstick.how}, RPE over {yardstick.delta:g} {yardstick.unit}; rmse"
        _print_table(results, title)
        typer.echo(f"trajectories and pictures: {place}")
    faults = [f"{result.estimator.name}: {result.fault}" for result in results if result.fault]
    if faults:
        raise UserError("\n".join(faults))


def _print_table(results: Sequence[OdometryResult], title: str) -> None:
    columns = []
    for result in results:
        cells = [result.estimator.sensor.name, str(result.poses)]
        if result.comparison is None:
            cells += ["failed", *([""] * 4)]
        else:
            ape = result.comparison.absolute.statistics()
            rpe = result.comparison.relative.statistics()
            cells += [f"{ape['translation'].rmse:.3f}", f"{ape['translation'].max:.3f}"]
            cells += [f"{ape['angle'].rmse:.2f}", f"{rpe['translation'].rmse:.3f}"]
            cells.append(f"{rpe['angle'].rmse:.2f}")
        columns.append([*cells, f"{result.cpu:.1f}", f"{result.memory / 1e6:.0f}"])
    measures = ("sensor", "poses", "APE m", "APE max m", "APE deg", "RPE m", "RPE deg", "CPU s", "memory MB")
    names = [result.estimator.name for result in results]
    Terminal().table(("", *names), zip(measures, *columns, strict=True), title=title, right=len(names))
