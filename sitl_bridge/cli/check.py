"""``sitl-bridge check``: validate a file, and tell what follows from it."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from sitl_bridge.config.airframe import Airframe, find_airframe, load_airframe
from sitl_bridge.config.world import load_world
from sitl_bridge.config.yaml_file import load
from sitl_bridge.dynamics.performance import performance
from sitl_bridge.flight.plan import Plan, load_plan
from sitl_bridge.px4.parameters import parameters_for
from sitl_bridge.world.atmosphere import air
from sitl_bridge.world.world import World

Facts = dict[str, Any]


def airframe_facts(airframe: Airframe) -> Facts:
    """What follows from an airframe at PX4's usual home: performance, and PX4's parameters."""
    world = World()
    environment = world.environment[0]
    _, _, density = air(environment, 0.0)
    result = performance(airframe.record, density, float(environment["gravity"]))
    hover = result.hover
    warnings = []
    if not airframe.inertia.of_a_body():
        warnings.append("inertia: one principal moment exceeds the sum of the other two; no body's does")
    if result.thrust_to_weight < 1.5:
        warnings.append(
            f"thrust to weight is only {result.thrust_to_weight:.2f}; little is left to control with"
        )
    derived = sorted(path for path, source in airframe.sources.items() if source.startswith("derived"))
    return {
        "name": airframe.name,
        "description": airframe.description,
        "mass_kg": airframe.mass,
        "inertia_kg_m2": airframe.inertia.matrix().tolist(),
        "rotors": len(airframe.rotors),
        "thrust_to_weight": result.thrust_to_weight,
        "hover_rotor_speed_rad_s": float(np.mean(hover.rotor_speed)),
        "hover_throttle": float(np.mean(hover.command)),
        "hover_power_w": hover.motor_power,
        "hover_battery_current_a": hover.battery_current,
        "endurance_min": result.endurance / 60.0 if math.isfinite(result.endurance) else None,
        "top_speed_m_s": result.top_speed,
        "sensors": [f"{sensor.kind} {sensor.instance}, {sensor.rate:g} Hz" for sensor in airframe.sensors],
        "derived_figures": derived,
        "px4_parameters": parameters_for(airframe, world),
        "warnings": warnings,
    }


def plan_facts(plan: Plan) -> Facts:
    """What a plan holds."""
    return {
        "items": len(plan.items),
        "legs": len(plan.legs),
        "length_m": plan.length,
        "fence_circles": len(plan.circles),
        "fence_polygons": len(plan.polygons),
        "rally_points": len(plan.rally_points),
        "warnings": [],
    }


def facts_of(file: str) -> Facts:
    """Validate whatever the file is and tell what follows from it.

    Raises:
        ConfigurationError: with every fault of the file.
        UserError: when there is no such file.
    """
    if file.endswith(".plan"):
        return plan_facts(load_plan(file))
    path = find_airframe(file)
    data, _ = load(path)
    if "rotors" not in data and ("wind" in data or "origin" in data):
        return load_world(path).model_dump(mode="json") | {"warnings": []}
    return airframe_facts(load_airframe(path))


def check(
    file: Annotated[str, typer.Argument(help="airframe (name or file), world file or .plan")],
    as_json: Annotated[bool, typer.Option("--json", help="for machines")] = False,
) -> None:
    """Validate an airframe, a world or a QGroundControl plan, and print what follows from it."""
    facts = facts_of(file)
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    console = Console()
    parameters = facts.pop("px4_parameters", None)
    warnings = facts.pop("warnings")
    table = Table(title=f"{file} is valid", show_header=False, title_justify="left")
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), _words(value))
    console.print(table)
    if parameters:
        console.print("PX4 parameters", style="bold")
        console.print("  ".join(f"{name} {value:g}" for name, value in parameters.items()), highlight=False)
    for warning in warnings:
        console.print(f"note: {warning}", style="yellow")


def _words(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return (
            "\n".join(_words(item) if not isinstance(item, list) else str(item) for item in value) or "none"
        )
    return "unbounded" if value is None else str(value)
