"""``sitl-bridge simulate``: formations and collision avoidance without MAVLink, many vehicles in one process.

An algorithm is tried here first, on point masses or models, and flown unchanged on full dynamics.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from sitl_bridge.cli.options import RunsOption
from sitl_bridge.errors import UserError
from sitl_bridge.files.airframe_file import load_airframe
from sitl_bridge.files.yaml_file import read
from sitl_bridge.record.run_directory import RunDirectory
from sitl_bridge.sensors.custom import not_sampled
from sitl_bridge.vehicle.airframe import Airframe

On = Literal["quick", "full"]


def simulate(
    scenarios: Annotated[
        list[Path], typer.Argument(help="a formation, or one or more avoidance scenarios (.yaml)")
    ],
    on: Annotated[
        On, typer.Option(help="point masses and models, or full dynamics with the built-in stack's loops")
    ] = "quick",
    airframe: Annotated[
        str, typer.Option(help="of every vehicle on full dynamics; its attitude model in avoidance")
    ] = "iris",
    method: Annotated[
        str, typer.Option(help="of avoidance: nmpc or a classic, several with commas, or all")
    ] = "nmpc",
    seed: Annotated[int, typer.Option(min=0, help="seed of all random streams")] = 1,
    seeds: Annotated[int, typer.Option(min=1, help="how many seeds of avoidance, from --seed on")] = 1,
    runs_dir: RunsOption = Path("runs"),
) -> None:
    """Fly a formation or avoidance scenarios in this process; figures and a summary are kept.

    Exit code 0 only when all went as the scenario demands.
    """
    for scenario in scenarios:
        if not scenario.is_file():
            raise UserError(f"{scenario}: no such scenario file")
    formations = [scenario for scenario in scenarios if "formation" in read(scenario).data]
    if formations and len(scenarios) > 1:
        raise UserError(f"{formations[0]}: is a formation, and those are simulated one by one")
    console = Console()
    told = ", ".join(str(scenario) for scenario in scenarios)
    console.print(f"flying {told}; the first time with a version, what is needed is compiled")
    if formations:
        good = _formation(formations[0], on, airframe, seed, runs_dir, console)
    else:
        good = _avoidance(scenarios, on, airframe, method, range(seed, seed + seeds), runs_dir, console)
    raise typer.Exit(0 if good else 1)


def _formation(file: Path, on: On, airframe: str, seed: int, runs: Path, console: Console) -> bool:
    from sitl_bridge.files.formation_file import load_formation
    from sitl_bridge.report.formation_result import write_result
    from sitl_bridge.report.plot_formation import draw
    from sitl_bridge.swarm.in_process import fly_built_in
    from sitl_bridge.swarm.quick_simulation import fly_quick

    plan = load_formation(file)
    frame = _airframe(airframe, on, console)
    directory = RunDirectory(runs, file.stem)
    try:
        if on == "full":
            flown = fly_built_in(plan, frame, seed)
            result = flown.result
            console.print(
                f"in truth with a steady centre at most {flown.worst_steady_error:.2f} m off a slot, "
                f"never closer than {flown.separation:.2f} m, {flown.contacts} contacts"
            )
        else:
            result = fly_quick(plan)
        write_result(result, directory.path)
        draw(result, directory.path / "formation.png", f"{file}, {on}")
    finally:
        directory.close()
    for name, value in result.summary().items():
        console.print(f"{name}: {value}")
    console.print(f"run directory {directory.path}")
    return result.succeeded


def _airframe(name: str, on: On, console: Console) -> Airframe:
    """The airframe without users' own sensors, which are not sampled here."""
    found = load_airframe(name)
    notice = not_sampled(found.custom_sensors())
    if on == "full" and notice:
        console.print(f"note: {notice}", highlight=False)
    return found.without_custom_sensors()


def _avoidance(
    files: list[Path], on: On, airframe: str, method: str, seeds: range, runs: Path, console: Console
) -> bool:
    from sitl_bridge.files.avoidance_file import load_avoidance
    from sitl_bridge.report.attitude_identification import identified_model
    from sitl_bridge.report.plot_avoidance import save_figures
    from sitl_bridge.swarm.avoidance.avoidance_specification import Scenario
    from sitl_bridge.swarm.avoidance.classical_methods import METHODS
    from sitl_bridge.swarm.avoidance.closed_loop import Plant, fly
    from sitl_bridge.swarm.avoidance.comparison import PREDICTIVE, pilots, row, succeeded, table
    from sitl_bridge.swarm.avoidance.full_dynamics import DynamicsPlant

    loaded = [load_avoidance(file) for file in files]
    frame = _airframe(airframe, on, console)
    methods = [PREDICTIVE, *METHODS] if method == "all" else method.split(",")
    makers = {name: pilots(name) for name in methods}
    known = identified_model(airframe, "builtin")
    if known is not None:
        loaded = [scenario.with_model(known.model) for scenario in loaded]
        console.print(f"attitude model where a scenario gives none: {known.airframe} under {known.stack}")

    def plant(scenario: Scenario) -> Plant | None:
        if on == "quick":
            return None
        plans = scenario.plans()
        starts, yaws = [plan.start() for plan in plans], [plan.yaw for plan in plans]
        return DynamicsPlant(frame, starts, yaws, scenario.wind)

    directory = RunDirectory(runs, files[0].stem)
    rows, good = [], True
    try:
        for scenario in loaded:
            for name, make in makers.items():
                flights = [
                    fly(scenario, seed=seed, method=name, pilots=make, plant=plant(scenario))
                    for seed in seeds
                ]
                rows.append(row(scenario.name, name, flights))
                if name == PREDICTIVE:
                    good = good and all(succeeded(flight) for flight in flights)
                save_figures(flights[0], directory.path / name)
        text = table(rows)
        (directory.path / "table.txt").write_text(text + "\n", encoding="utf-8")
        directory.write_json("summary.json", {"rows": [asdict(entry) for entry in rows]})
    finally:
        directory.close()
    console.print(text, soft_wrap=True, highlight=False)
    console.print(f"figures, table and summary in {directory.path}")
    return good
