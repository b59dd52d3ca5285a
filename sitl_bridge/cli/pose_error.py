"""``sitl-bridge pose-error``: absolute and relative pose error of an estimated trajectory."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from sitl_bridge.analysis.evaluation.pose_error import Alignment, Comparison, DeltaUnit, PoseErrors, compare
from sitl_bridge.cli.terminal import Terminal

UNITS = {"translation": "m", "angle": "deg", "full": ""}
"""Unit of each part of an error."""


def pose_error(
    estimate: Annotated[Path, typer.Argument(help="trajectory of the estimator, a TUM file")],
    truth: Annotated[Path, typer.Argument(help="true trajectory, a TUM file")],
    align: Annotated[
        Alignment, typer.Option(help="none, origin (first poses), se3 or sim3 (least squares of positions)")
    ] = "none",
    delta: Annotated[float, typer.Option(help="length of the pairs of the relative error")] = 1.0,
    delta_unit: Annotated[DeltaUnit, typer.Option(help="unit of --delta: frames, m or s")] = "frames",
    all_pairs: Annotated[bool, typer.Option("--all-pairs", help="let pairs overlap")] = False,
    tolerance: Annotated[
        float, typer.Option(min=0.0, help="greatest time in s between matched poses")
    ] = 0.01,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of a table")] = False,
) -> None:
    """Print absolute (APE) and relative (RPE) pose error of a trajectory, by evo's definitions.

    A TUM file contains one line per pose: time x y z qx qy qz qw.
    """
    from sitl_bridge.lab.odometry import read_tum

    found = compare(
        read_tum(estimate),
        read_tum(truth),
        how=align,
        delta=delta,
        unit=delta_unit,
        all_pairs=all_pairs,
        tolerance=tolerance,
    )
    if as_json:
        typer.echo(json.dumps(_facts(found, align), indent=2))
    else:
        _print_table(found, align, f"RPE over {delta:g} {delta_unit}")


def _facts(found: Comparison, align: str) -> dict[str, object]:
    def part(errors: PoseErrors) -> dict[str, object]:
        return {name: dataclasses.asdict(figures) for name, figures in errors.statistics().items()}

    return {
        "matched_poses": found.matched,
        "path_length": found.length,
        "alignment": {
            "kind": align,
            "rotation": found.alignment.rotation.tolist(),
            "translation": found.alignment.translation.tolist(),
            "scale": found.alignment.scale,
        },
        "ape": part(found.absolute),
        "rpe": {"pairs": len(found.relative.translation), **part(found.relative)},
    }


def _print_table(found: Comparison, align: str, relative: str) -> None:
    scale = f", scale {found.alignment.scale:.6g}" if align == "sim3" else ""
    title = f"{found.matched} matched poses, {found.length:.2f} m; alignment: {align}{scale}"
    rows = []
    for kind, errors in (("APE", found.absolute), (relative, found.relative)):
        for name, figures in errors.statistics().items():
            unit = f" [{UNITS[name]}]" if UNITS[name] else ""
            values = (f"{value:.6f}" for value in dataclasses.astuple(figures))
            rows.append((f"{kind} {name}{unit}", *values))
    Terminal().table(("error", "rmse", "mean", "median", "std", "min", "max"), rows, title=title, right=6)
