"""``sitl-bridge identify``: fit an airframe, or the attitude model of collision avoidance, to flights."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sitl_bridge.base.errors import UserError, shorten
from sitl_bridge.cli.terminal import QuietOption, Terminal, VerboseOption, wind_words

if TYPE_CHECKING:
    from sitl_bridge.analysis.replay.vehicle_log import VehicleLog
    from sitl_bridge.base.arrays import Floats
    from sitl_bridge.lab.identification import Identification, WindEstimate

DEFAULT = "inertia,thrust,drag,lag,wind"


def identify(
    flights: Annotated[
        list[Path],
        typer.Argument(help="run directories, ULogs (.ulg) or tables of a data set (.csv) of one vehicle"),
    ],
    airframe: Annotated[
        str | None,
        typer.Option(help="name or file of the airframe to start from (default: the run's)"),
    ] = None,
    model: Annotated[
        Literal["airframe", "attitude"],
        typer.Option(help="what is fitted: the airframe, or collision avoidance's attitude model"),
    ] = "airframe",
    fit: Annotated[
        str,
        typer.Option(
            help="parameters: mass, inertia, thrust or motors (each rotor's), torque, drag, hub, body_drag,"
            " lag, delay, wind"
        ),
    ] = DEFAULT,
    fix: Annotated[
        list[str] | None, typer.Option(help="FIELD=VALUE that is known, e.g. mass=1.52; repeatable")
    ] = None,
    window: Annotated[
        float, typer.Option(min=0.1, max=10.0, help="s until the simulation begins anew")
    ] = 1.0,
    vehicle: Annotated[str | None, typer.Option(help="name of the vehicle, of a run with several")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="airframe file (.yaml) for the fitted airframe")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="store the attitude model in airframes/identified")
    ] = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Fit an airframe to flights by analysis by synthesis, and estimate the wind along each.

    The flights' motor commands are simulated on the airframe, and its figures are changed until the
    simulated motion is the measured one.  What the flights do not show is reported, with the manoeuvre that
    would show it.  `missions/identification.py` flies all of them.

    With --model attitude: fit gain and time constant of roll and pitch, and drag, to a flight in calm air
    that follows attitude setpoints (`missions/offboard_attitude.py`), for collision avoidance.
    """
    if model == "attitude":
        if fix or output is not None or fit != DEFAULT:
            raise UserError("--fit, --fix and --output are for --model airframe")
        if len(flights) > 1:
            raise UserError("--model attitude is fitted to one flight")
        with Terminal(quiet=quiet, verbose=verbose).step(f"fitting {flights[0]}"):
            _identify_attitude(flights[0], airframe, vehicle, keep=keep)
        return
    if keep:
        raise UserError("--keep stores an attitude model: give --model attitude, or -o FILE for an airframe")
    terminal = Terminal(quiet=quiet, verbose=verbose)
    _identify_airframe(flights, airframe, vehicle, fit, fix or [], window, output, terminal)


def _identify_airframe(
    flights: list[Path],
    named: str | None,
    vehicle: str | None,
    fit: str,
    fix: list[str],
    window: float,
    output: Path | None,
    terminal: Terminal,
) -> None:
    from sitl_bridge.core.vehicle.airframe_file import load_airframe
    from sitl_bridge.lab.identification import (
        check_output,
        identify_airframe,
        read_identification_flight,
        write_identified,
    )

    if output is not None:
        check_output(output)
    name = named or airframe_of(flights[0], vehicle)
    airframe = load_airframe(name)
    groups = [group.strip() for group in fit.split(",") if group.strip()]
    known = dict(_parse_known(entry) for entry in fix)
    logs = [read_identification_flight(flight, len(airframe.rotors), vehicle) for flight in flights]
    for flight, log in zip(flights, logs, strict=True):
        terminal.say(f"{flight} on {name}: {_rotor_source(log)}")
    with terminal.step(f"fitting {name} to {', '.join(map(str, flights))}"):
        found = identify_airframe(logs, airframe, fit=groups, fix=known, window=window)
    _show(found, terminal)
    if output is not None:
        for note in write_identified(output, name, found, [flight.resolve().name for flight in flights]):
            terminal.say(f"note: {note}")
        terminal.say(f"{output}: written; fly it with --airframe {output}")


def _rotor_source(log: VehicleLog) -> str:
    """Source of the simulated rotors' motion."""
    from sitl_bridge.lab.identification import measured_speeds

    commands = f"motor commands {log.source}, {log.commands.rate:.0f} Hz"
    speeds = measured_speeds(log)
    if speeds is not None:
        return f"rotor speeds as the speed controllers reported them, {speeds.rate:.0f} Hz"
    if log.speeds is not None:
        return (
            f"{commands} (the speed controllers' reports, {log.speeds.rate:.0f} Hz, are too slow to be used)"
        )
    return commands


def _parse_known(entry: str) -> tuple[str, float]:
    name, equals, value = entry.partition("=")
    try:
        if not equals:
            raise ValueError
        return name.strip(), float(value)
    except ValueError:
        raise UserError(f"--fix {shorten(entry)}: write FIELD=VALUE, e.g. --fix mass=1.52") from None


def _show(found: Identification, terminal: Terminal) -> None:
    terminal.say(f"fitted to {found.windows} windows of {found.length:g} s")
    rows = [
        (
            estimate.parameter.path,
            estimate.parameter.unit,
            f"{estimate.before:.4g}",
            f"{estimate.value:.4g}",
            f"{estimate.deviation:.2g}",
            f"{100.0 * min(estimate.relative, 9.99):.1f}",
        )
        for estimate in found.estimates
    ]
    rows += [(path, "", "", f"{value:.4g}", "given", "") for path, value in found.fixed.items()]
    if rows:
        terminal.table(("field", "unit", "airframe", "fitted", "+-", "+- %"), rows)
    for wind in found.wind:
        _show_wind(wind, terminal)
    if found.turning:
        for values in found.moment:
            terminal.say(f"constant moment {_thousandths(values)} mN m (roll, pitch, yaw)")
        moment, force = found.slow[:3], found.slow[3:]
        terminal.say(
            f"what no figure explains changes from window to window by {_thousandths(moment)} mN m and"
            f" {_thousandths(force)} mN (north, east, down)"
        )
    errors = []
    for before, after in zip(found.before, found.after, strict=True):
        figures = (before.short, after.short, before.long, after.long)
        errors.append((before.name, before.unit, *("-" if math.isnan(f) else f"{f:.3g}" for f in figures)))
    terminal.table(("held-out part", "unit", "20 ms: before", "after", "2 s: before", "after"), errors)
    for line in found.advice:
        terminal.say(f"note: {line}")


def _thousandths(values: Floats) -> str:
    return ", ".join(f"{value * 1e3:.3g}" for value in values)


def _show_wind(wind: WindEstimate, terminal: Terminal) -> None:
    deviation = wind.mean_deviation.max()
    terminal.say(f"{wind_words(*wind.mean)} on average (standard deviation {deviation:.2f} m/s)")
    rows = [
        (f"{time:.0f}", *(f"{value:.2f}" for value in velocity), f"{deviation.max():.2f}")
        for time, velocity, deviation in zip(wind.time, wind.velocity, wind.deviation, strict=True)
    ]
    terminal.table(("time, s", "m/s north", "m/s east", "+-"), rows)


def _identify_attitude(flight: Path, airframe: str | None, vehicle: str | None, *, keep: bool) -> None:
    from sitl_bridge.lab.identification import flight_log, identify_attitude, read_attitude_flight
    from sitl_bridge.session.identified_models import models_file, save

    log = flight_log(flight, vehicle)
    name = airframe or airframe_of(flight, vehicle)
    file = models_file(name)
    recorded = read_attitude_flight(log)
    seconds = recorded.time[-1] - recorded.time[0]
    found = identify_attitude(
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
        save(found, file)
        typer.echo(f"stored in {file}")


def _run(flight: Path, vehicle: str | None = None) -> dict[str, object]:
    """A vehicle in run.json, the first unless it is named; empty if it cannot be read."""
    try:
        vehicles = json.loads((flight / "run.json").read_text(encoding="utf-8"))["vehicles"]
        return dict(next(v for v in vehicles if vehicle is None or v.get("name") == vehicle))
    except (OSError, ValueError, KeyError, StopIteration, TypeError, AttributeError):
        return {}


def airframe_of(flight: Path, vehicle: str | None = None) -> str:
    """The airframe of a run.

    Raises:
        UserError: if it is not known.
    """
    if not flight.exists():
        raise UserError(f"{flight}: no such run directory or ULog")
    given = _run(flight, vehicle).get("airframe")
    name = given.get("name") if isinstance(given, dict) else given
    if not isinstance(name, str):
        raise UserError(f"{flight}: the airframe is not recorded here; give it with --airframe")
    return name


def flight_name(flight: Path) -> str:
    """Name of a flight in the stored model: the mission of the run, or the name of the log."""
    mission = _run(flight).get("mission")
    return mission if isinstance(mission, str) else flight.name
