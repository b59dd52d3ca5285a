"""``sitl-bridge simulate``: formations and collision avoidance without MAVLink, many vehicles in one process.

An algorithm is tested first on point masses or models, and then flown unchanged with full dynamics.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from sitl_bridge.base.errors import UserError
from sitl_bridge.cli.exit_codes import ExitCode
from sitl_bridge.cli.options import ReportOption, RunsOption
from sitl_bridge.cli.report import write_report_of
from sitl_bridge.cli.terminal import QuietOption, Terminal, VerboseOption

if TYPE_CHECKING:
    from rich.console import Console

    from sitl_bridge.analysis.evaluation.verdict import Verdict
    from sitl_bridge.autopilot.stack_fleet import StackFleet
    from sitl_bridge.core.simulation.events import OnEvent
    from sitl_bridge.core.vehicle.airframe import Airframe
    from sitl_bridge.record.run_directory import RunDirectory
    from sitl_bridge.session.scenario import LoadedScenario
    from sitl_bridge.swarm.avoidance.closed_loop import Flight, Plant
    from sitl_bridge.swarm.avoidance.specification import AvoidanceSpecification

On = Literal["quick", "full"]


def simulate(
    scenarios: Annotated[
        list[Path], typer.Argument(help="a scenario with a formation, or one or more with avoidance (.yaml)")
    ],
    on: Annotated[
        On, typer.Option(help="quick: point masses and models; full: dynamics and the built-in stack")
    ] = "quick",
    airframe: Annotated[
        str | None, typer.Option(help="name or file of the airframe of all vehicles, replaces the scenario's")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="seed of all random streams, replaces the scenario's")
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="avoidance: number of flights, with seeds from --seed on")
    ] = 1,
    report: ReportOption = False,
    runs_dir: RunsOption = Path("runs"),
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Simulate a formation or avoidance scenarios in one process, and write tracks and a summary.

    Scheduled events happen as in fly; an event that would have no effect is refused.

    The exit code is 0 only if the verdict is that the simulation succeeded.
    """
    from sitl_bridge.cli.flight_display import verdict_lines, verdict_text
    from sitl_bridge.session.mission_file import find_mission
    from sitl_bridge.session.scenario import load_scenario

    scenarios = [find_mission(file) for file in scenarios]
    loaded = [load_scenario(file, seed=seed) for file in scenarios]
    _validate_scenarios(loaded, on, airframe)
    terminal = Terminal(quiet=quiet, verbose=verbose)
    console = terminal.console
    names = ", ".join(str(file) for file in scenarios)
    console.print(f"simulating {names}; the first simulation with a new version compiles")
    for scenario in loaded:
        for note in _notes_on_unused(scenario, on):
            console.print(f"note: {note}", highlight=False)
    if loaded[0].formation is not None:
        reason, errors, directory = _formation(loaded[0], on, airframe, runs_dir, terminal)
    else:
        reason, directory = _avoidance(loaded, on, airframe, seeds, runs_dir, terminal)
        errors = ()
    verdict = _judge(directory, reason, errors)
    console.print(Text.assemble(f"{loaded[0].name}: ", verdict_text(verdict)))
    for line in verdict_lines(verdict):
        console.print(line, soft_wrap=True)
    written = not report or write_report_of(directory, console)
    if not verdict.succeeded:
        terminal.point_to_run(directory)
    raise typer.Exit(ExitCode.SUCCESS if verdict.succeeded and written else ExitCode.FAILED)


def _judge(directory: Path, reason: str, errors: Iterable[str]) -> Verdict:
    from sitl_bridge.analysis.evaluation.run_record import SUMMARY, read_run
    from sitl_bridge.analysis.evaluation.verdict import conclude
    from sitl_bridge.base.json_data import plain_values
    from sitl_bridge.base.output_file import write_json

    run = read_run(directory)
    summary = run.summary | {"reason": reason, "errors": list(errors)}
    verdict, _ = conclude(run, summary)
    write_json(directory / SUMMARY, plain_values(summary))
    return verdict


def _validate_scenarios(loaded: list[LoadedScenario], on: On, airframe: str | None) -> None:
    """Refuse scenarios that cannot be simulated here, and events without effect."""
    from sitl_bridge.core.vehicle.airframe_file import load_airframe
    from sitl_bridge.session.event_support import flight_kind, validate_events, validate_events_of

    for scenario in loaded:
        if scenario.formation is None and scenario.avoidance is None:
            raise UserError(
                f"{scenario.document.source}: contains neither formation nor avoidance; use sitl-bridge fly"
            )
        if scenario.formation is not None and len(loaded) > 1:
            raise UserError(
                f"{scenario.document.source}: formations are simulated one at a time; give one file"
            )
        validate_events(scenario, flight_kind(scenario, on))
        if airframe is not None:
            validate_events_of(scenario, load_airframe(airframe))


def _limits(loaded: list[LoadedScenario], on: On) -> dict[str, float | None]:
    from sitl_bridge.session.scenario_settings import limits_of, separation_limit

    has_truth = on == "full" and loaded[0].formation is not None
    given = {name: limit for scenario in loaded for name, limit in limits_of(scenario).items()}
    return (separation_limit(loaded[0]) if has_truth else {}) | given


def _describe(
    run: RunDirectory, loaded: list[LoadedScenario], on: On, airframes: list[Airframe], **facts: object
) -> None:
    """Write run.json; ``facts`` go before what the scenario tells."""
    scenario = loaded[0]
    settings = {
        "kind": "simulate",
        "on": on,
        "scenarios": [one.document.source for one in loaded],
        "world": scenario.world.model_dump(mode="json"),
        "seed": scenario.seed,
        "events": [event.model_dump(mode="json") for event in scenario.events],
        "limits": _limits(loaded, on),
        "vehicles": [
            {"name": vehicle.name, "airframe": airframe.model_dump(mode="json")}
            for vehicle, airframe in zip(scenario.vehicles, airframes, strict=True)
        ],
    }
    run.describe(**(settings | facts))


def _notes_on_unused(scenario: LoadedScenario, on: On) -> Iterable[str]:
    """Notes on sections of a scenario that are not simulated here."""
    given = scenario.specification
    wind = scenario.world.wind.model_dump(exclude_defaults=True)
    if on == "quick" and scenario.formation is not None and wind:
        yield f"{scenario.document.source}: wind does not act on point masses; add --on full"
    if on == "quick" and scenario.formation is not None and scenario.world.scene.objects:
        yield f"{scenario.document.source}: point masses fly through the scene's objects; add --on full"
    if "proximity" in given.model_fields_set and (on == "quick" or scenario.avoidance is not None):
        yield f"{scenario.document.source}: proximity is not simulated here; use sitl-bridge fly"
    if given.fence is not None:
        yield f"{scenario.document.source}: no flight stack holds the fence here; use sitl-bridge fly"
    end = math.inf if scenario.avoidance is None else scenario.avoidance.duration
    for i, event in enumerate(scenario.events):
        if event.at >= end:
            late = f"{event.kind} at {event.at:g} s is after the end, {end:g} s"
            yield f"{scenario.document.source}: events[{i}]: {late}"


def _formation(
    scenario: LoadedScenario, on: On, airframe: str | None, runs: Path, terminal: Terminal
) -> tuple[str, tuple[str, ...], Path]:
    """Fly a formation; returns why it failed, errors of the program, and the run directory."""
    from sitl_bridge.analysis.evaluation.formation import write_result
    from sitl_bridge.api.formation_flight import fly_formation
    from sitl_bridge.record.run_description import describe_simulation
    from sitl_bridge.record.run_directory import RunDirectory
    from sitl_bridge.record.run_recorder import RunRecorder
    from sitl_bridge.swarm.quick_simulation import fly_quick

    console = terminal.console
    plan = scenario.formation
    assert plan is not None
    directory, airframes = RunDirectory(runs, scenario.name), _airframes(scenario, airframe)
    with contextlib.ExitStack() as stack:
        stack.callback(directory.close)
        stack.enter_context(terminal.step(f"simulating {scenario.name}"))
        _describe(directory, [scenario], on, airframes)

        def record(fleet: StackFleet) -> OnEvent:
            facts = describe_simulation(
                "simulate", fleet.simulation, airframes, scenario.specification.proximity
            )
            _describe(directory, [scenario], on, airframes, **facts)
            recorder = RunRecorder(directory.path, fleet.errors, fleet.simulation.most_rotors)
            stack.enter_context(recorder)
            fleet.record(recorder)
            return lambda event, begins, vehicles: recorder.note_scheduled(
                fleet.time, event, begins, vehicles
            )

        if on == "full":
            flown = fly_formation(
                scenario,
                airframes,
                tables=directory.path,
                say=terminal.say,
                record=record,
            )
            result, errors = flown.result, flown.errors
            console.print(
                f"true slot error while the centre moved steadily: at most {flown.worst_steady_error:.2f} m; "
                f"least separation {flown.separation:.2f} m, {flown.contacts} contacts"
            )
        else:
            result, errors = fly_quick(plan), ()
        for name, value in result.summary().items():
            console.print(f"{name}: {value}")
        write_result(result, directory.path)
    console.print(f"run directory {directory.path}")
    return result.reason, tuple(errors), directory.path


def _airframes(scenario: LoadedScenario, name: str | None) -> list[Airframe]:
    from sitl_bridge.core.vehicle.airframe_file import load_airframe

    given = None if name is None else load_airframe(name)
    return [vehicle.airframe if given is None else given for vehicle in scenario.vehicles]


def _avoidance(
    loaded: list[LoadedScenario],
    on: On,
    airframe: str | None,
    seeds: int,
    runs: Path,
    terminal: Terminal,
) -> tuple[str, Path]:
    """Fly scenarios with avoidance; returns what failed, and the run directory."""
    from sitl_bridge.base.output_file import write_json, write_whole
    from sitl_bridge.record.run_directory import RunDirectory
    from sitl_bridge.swarm.avoidance.closed_loop import fly, reason, row, table

    console = terminal.console
    directory = RunDirectory(runs, loaded[0].name)
    rows, failed = [], []
    try:
        _describe(directory, loaded, on, _airframes(loaded[0], airframe))
        for scenario in loaded:
            frame = _airframes(scenario, airframe)[0]
            if on == "full" and (names := ", ".join(sensor.name for sensor in frame.custom_sensors())):
                console.print(f"note: custom sensors are not sampled in avoidance: {names}", highlight=False)
            specification = _with_attitude_model(scenario, airframe, console)
            flights, reasons = [], []
            for seed in range(scenario.seed, scenario.seed + seeds):
                plant = None if on == "quick" else _full_dynamics(scenario, frame, seed, terminal)
                with terminal.step(f"{scenario.name}, seed {seed}"):
                    flights.append(fly(specification, seed=seed, plant=plant))
                if why := reason(flights[-1]):
                    reasons.append(f"with seed {seed} {why}")
            rows.append(row(scenario.name, flights))
            if reasons:
                count = f"{len(reasons)} of {len(flights)} flights failed"
                failed.append(f"{scenario.name}: {count}: {reasons[0]}")
            _write_tracks(flights[0], directory.path)
        text = table(rows)
        write_whole(directory.path / "table.txt", text + "\n")
        write_json(directory.path / "summary.json", {"rows": [asdict(entry) for entry in rows]})
    finally:
        directory.close()
    console.print(text, soft_wrap=True, highlight=False)
    console.print(f"table and summary in {directory.path}")
    return "; ".join(failed), directory.path


def _write_tracks(flight: Flight, directory: Path) -> None:
    """Write ``tracks.npz``, unless the directory has it: of several flights the first is reported."""
    import numpy as np

    from sitl_bridge.base.output_file import write_arrays

    file = directory / "tracks.npz"
    if not file.is_file():
        arrays = {
            "time": flight.time,
            "position": flight.state[:, :, :3],
            "reference": flight.reference,
            "names": np.array(flight.names),
        }
        write_arrays(file, arrays)


def _full_dynamics(scenario: LoadedScenario, airframe: Airframe, seed: int, terminal: Terminal) -> Plant:
    """The vehicles of an avoidance scenario on full dynamics, with the scenario's events."""
    from sitl_bridge.swarm.avoidance.full_dynamics import DynamicsPlant

    assert scenario.avoidance is not None
    plans = scenario.avoidance.plans()
    return DynamicsPlant(
        airframe,
        [plan.start() for plan in plans],
        [plan.heading for plan in plans],
        scenario.world,
        seed=seed,
        events=scenario.events,
        names=[vehicle.name for vehicle in scenario.vehicles],
        say=terminal.say,
    )


def _with_attitude_model(
    scenario: LoadedScenario, airframe: str | None, console: Console
) -> AvoidanceSpecification:
    """The scenario's avoidance with the attitude model identified for its airframe, unless it sets one."""
    from sitl_bridge.session.identified_models import identified_model

    assert scenario.avoidance is not None
    known = identified_model(airframe or scenario.vehicles[0].airframe_name, "builtin")
    if known is None:
        return scenario.avoidance
    console.print(f"attitude model unless the scenario sets one: {known.airframe} with {known.stack}")
    return scenario.avoidance.with_model(known.model)
