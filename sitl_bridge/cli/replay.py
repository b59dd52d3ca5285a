"""``sitl-bridge replay``: repeats a recorded run to the bit, or a real flight's commands on an airframe."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sitl_bridge.base.errors import UserError
from sitl_bridge.cli.exit_codes import ExitCode
from sitl_bridge.cli.terminal import QuietOption, Terminal, VerboseOption, wind_words

if TYPE_CHECKING:
    from sitl_bridge.analysis.replay.vehicle_replay import VehicleReplay


def replay(
    flight: Annotated[Path, typer.Argument(help="run directory of fly, serve or simulate, or a ULog (.ulg)")],
    airframe: Annotated[
        str | None, typer.Option(help="that flies a ULog's motor commands: name or file")
    ] = None,
    window: Annotated[
        float, typer.Option(min=0.1, max=60.0, help="s of a ULog until the simulation begins anew")
    ] = 1.0,
    wind: Annotated[
        Literal["auto", "log", "fit", "none"],
        typer.Option(help="of a ULog: PX4's estimate, fitted, or calm; auto: the estimate, else fitted"),
    ] = "auto",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="CSV file of a ULog's measured and simulated values")
    ] = None,
    ekf2: Annotated[
        Path | None, typer.Option(help="directory for the files of PX4's own replay of EKF2 from a ULog")
    ] = None,
    px4: Annotated[
        Path | None, typer.Option(help="PX4 checkout or build that runs the replay of EKF2 at once")
    ] = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Repeat a run with its recorded commands and events, and compare every byte.

    Exit code 0 if all truth and all sensor frames are the same to the bit; else 1, and the first difference
    is shown.

    Of a ULog with --airframe: fly its motor commands in simulation, and compare rates, specific force and
    velocity with the measured ones.  Every window begins with the measured motion.

    Of a ULog with --ekf2: write the files with which PX4 runs its estimator on the logged sensors again.
    """
    if not flight.exists():
        raise UserError(f"{flight}: no such run directory or ULog")
    terminal = Terminal(quiet=quiet, verbose=verbose)
    if flight.is_dir():
        if airframe is not None or ekf2 is not None:
            raise UserError("--airframe and --ekf2 are for a ULog, such as those in the run's autopilot/log/")
        raise typer.Exit(ExitCode.SUCCESS if _replay_run(flight, terminal) else ExitCode.FAILED)
    if ekf2 is not None:
        _replay_estimator(flight, ekf2, px4, terminal)
        return
    if airframe is None:
        raise UserError(f"{flight}: name the airframe that is to fly its commands: --airframe NAME")
    _replay_log(flight, airframe, window, wind, output, terminal)


def _replay_run(directory: Path, terminal: Terminal) -> bool:
    from sitl_bridge.analysis.replay.run_replay import differing_versions, replay_run
    from sitl_bridge.record.run_reader import RecordedRun

    run = RecordedRun(directory)
    if not len(run.rows):
        raise UserError(f"{directory}: no step was recorded")
    for note in run.notes:
        terminal.say(f"note: {note}", "yellow")
    with terminal.step(f"repeating {directory}"):
        result = replay_run(run)
    seconds = (int(run.rows["time"][-1]) - run.start) * 1e-6
    vehicles = f"{run.count} vehicle{'s' if run.count > 1 else ''}"
    if result.message_bytes:
        terminal.say(
            f"note: {result.message_bytes:,} bytes of messages of custom sensors and of those that see were"
            " not compared"
        )
    if result.difference is None:
        frames = f"{result.frame_bytes:,} bytes of sensor frames" if result.frame_bytes else "no frames"
        line = f"{directory}: {result.steps:,} steps of {vehicles}, {seconds:.1f} s, {frames}"
        terminal.say(f"{line}: identical to the bit")
        return True
    first = result.difference
    terminal.say(f"{directory}: differs after {result.steps:,} identical steps")
    row = f"{first.step}", f"{first.time:.3f}", first.vehicle, first.field, first.recorded, first.replayed
    terminal.table(("step", "time, s", "vehicle", "field", "recorded", "replayed"), [row])
    for line in differing_versions(run):
        terminal.say(f"note: {line}")
    terminal.point(f"look at {directory / 'run.json'} for the versions that flew it")
    return False


def _replay_log(
    file: Path,
    name: str,
    window: float,
    wind: Literal["auto", "log", "fit", "none"],
    output: Path | None,
    terminal: Terminal,
) -> None:
    from sitl_bridge.analysis.export.recorded_tables import scalar_columns, write_csv_table
    from sitl_bridge.analysis.replay.vehicle_log import read_vehicle_log
    from sitl_bridge.analysis.replay.vehicle_replay import replay_log
    from sitl_bridge.core.vehicle.airframe_file import load_airframe

    airframe = load_airframe(name)
    log = read_vehicle_log(file, len(airframe.rotors))
    if log.damaged:
        terminal.say(f"note: {file}: is damaged; the figures are of the part that can be read", "yellow")
    with terminal.step(f"flying {file.name} on {airframe.name}"):
        result = replay_log(log, airframe, window=window, wind=wind)
    _show(result, f"{file.name} on {airframe.name}", terminal)
    if output is not None:
        write_csv_table(output, scalar_columns(result.table))
        terminal.say(f"{output}: {len(result.table)} rows")


def _replay_estimator(file: Path, directory: Path, px4: Path | None, terminal: Terminal) -> None:
    from sitl_bridge.analysis.replay.estimator_replay import (
        PARAMETERS,
        SCRIPT,
        run_estimator_replay,
        write_replay_files,
    )
    from sitl_bridge.link.px4.find import find_px4

    build = None if px4 is None else find_px4(px4)
    for note in write_replay_files(file, directory, build):
        terminal.say(f"note: {note}")
    if build is None:
        terminal.say(
            f"{directory / SCRIPT} replays the log with PX4, where PX4_BUILD names its build directory;"
            f" edit {PARAMETERS} first to try other parameters"
        )
        return
    with terminal.step("PX4 replays its estimator"):
        result = run_estimator_replay(file, directory)
    terminal.say(
        f"{result.log}: {result.samples:,} positions, RMS {result.rms:.3f} m and at most"
        f" {result.largest:.3f} m from the logged ones"
    )


def _show(result: VehicleReplay, title: str, terminal: Terminal) -> None:
    from sitl_bridge.analysis.replay.vehicle_log import TOO_SELDOM

    line = wind_words(*result.wind)
    if math.isfinite(result.wind_error[0]):
        line += f" (standard error {max(result.wind_error):.2f} m/s)"
    terminal.say(f"{title}: {result.windows} windows of {result.length:g} s")
    terminal.say(f"{line}, {result.wind_source}")
    terminal.say(f"motor commands: {result.source}, {result.rate:.0f} Hz")
    if not result.turning:
        terminal.say(f"note: rotation is taken as measured: {TOO_SELDOM}")
    rows = [
        (e.name, e.unit, *(f"{f:.3g}" for f in (e.measured, e.rms, e.largest, e.bias, e.correlation)))
        for e in result.errors
    ]
    terminal.table(("", "unit", "measured", "RMS error", "largest", "mean", "correlation"), rows)
