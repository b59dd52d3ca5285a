"""``sitl-bridge identify``: fit the attitude model of collision avoidance to a recorded flight."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sitl_bridge.errors import UserError


def identify(
    flight: Annotated[Path, typer.Argument(help="run directory, or a ULog")],
    airframe: Annotated[
        str | None, typer.Option(help="name or file of the airframe (default: the run's)")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="store the model in airframes/identified, for collision avoidance")
    ] = False,
) -> None:
    """Fit gain and time constant of roll and pitch, and drag, to a flight in calm air.

    The flight must follow attitude setpoints that tilt in all directions, with real PX4 or the built-in
    stack: `sitl-bridge fly missions/offboard_attitude.py`.
    """
    from sitl_bridge.report import attitude_identification
    from sitl_bridge.report.recorded_flight import read_flight

    log = flight_log(flight)
    name = airframe or airframe_of(flight)
    file = attitude_identification.models_file(name)
    recorded = read_flight(log)
    seconds = recorded.time[-1] - recorded.time[0]
    found = attitude_identification.identify(
        recorded.time,
        recorded.truth,
        recorded.commands,
        airframe=file.stem,
        stack=recorded.stack,
        flight=f"{flight_name(flight)}, {seconds:.0f} s",
    )
    model = found.model
    typer.echo(f"{found.airframe} under {found.stack}, {found.flight}")
    for axis, gain, time, fit in (
        ("roll ", model.roll_gain, model.roll_time_constant, found.fit_roll),
        ("pitch", model.pitch_gain, model.pitch_time_constant, found.fit_pitch),
    ):
        typer.echo(f"{axis}: gain {gain:.3f}, time constant {time:.3f} s; explains {fit:.0%} of the angle")
    typer.echo(f"drag: {model.drag:.4f} s/m")
    if keep:
        attitude_identification.save(found, file)
        typer.echo(f"stored in {file}")


def flight_log(flight: Path) -> Path:
    """The ULog of a run directory, or the file itself.

    Raises:
        UserError: if there is none, or more than one.
    """
    if not flight.is_dir():
        if not flight.is_file():
            raise UserError(f"{flight}: no such run directory or ULog")
        return flight
    logs = sorted(flight.glob("autopilot/**/*.ulg"))
    if len(logs) == 1:
        return logs[0]
    if not logs:
        raise UserError(f"{flight}: contains no ULog")
    raise UserError(f"{flight}: contains {len(logs)} ULogs; give one of them, e.g. {logs[0]}")


def _run(flight: Path) -> dict[str, object]:
    """The first vehicle in run.json; empty if it cannot be read."""
    try:
        vehicles = json.loads((flight / "run.json").read_text(encoding="utf-8"))["vehicles"]
        return dict(vehicles[0])
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return {}


def airframe_of(flight: Path) -> str:
    """The airframe of a run.

    Raises:
        UserError: if it is not known.
    """
    given = _run(flight).get("airframe")
    name = given.get("name") if isinstance(given, dict) else given
    if not isinstance(name, str):
        raise UserError(f"{flight}: the airframe is not recorded here; give it with --airframe")
    return name


def flight_name(flight: Path) -> str:
    """Name of a flight in the stored model: the mission of the run, or the name of the log."""
    mission = _run(flight).get("mission")
    return mission if isinstance(mission, str) else flight.name
