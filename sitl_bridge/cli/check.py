"""``sitl-bridge check``: validates a file and prints the figures that follow from it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sitl_bridge.base.errors import UserError
from sitl_bridge.cli.options import ParamOption, ParamsOption, ParamsWinOption

UNITS = {
    "rad_s": "rad/s", "deg_s2": "°/s²", "kg_m2": "kg m²", "m_s2": "m/s²", "kg_m3": "kg/m³", "m_s": "m/s",
    "kg": "kg",
    "ms": "ms", "min": "min", "deg": "°", "nt": "nT", "pa": "Pa", "w": "W", "v": "V", "a": "A", "k": "K",
    "m": "m", "s": "s",
}  # fmt: skip
"""Units by the ends of the facts' names; the longer ends come first."""


def check(
    file: Annotated[
        str, typer.Argument(help="airframe (name or file), world (YAML or SDF), scenario, campaign or plan")
    ],
    flight: Annotated[
        Path | None, typer.Option(help="of an airframe: ULog (.ulg) or table (.csv) of a flight beside it")
    ] = None,
    param: ParamOption = None,
    params: ParamsOption = None,
    params_win: ParamsWinOption = False,
    px4: Annotated[
        Path | None, typer.Option(help="PX4 whose parameters are known (default: the one that `fly` takes)")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="of an airframe: SVG to write, its rotors, sensors and feet")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of a table")] = False,
) -> None:
    """Validate an airframe, world, scenario, campaign or QGroundControl plan, and print its figures.

    Airframes, worlds, scenarios and campaigns may name Python files, which are executed: trust them like
    programs.
    """
    from sitl_bridge.base.json_data import plain_values
    from sitl_bridge.cli.facts import derive_facts
    from sitl_bridge.link.px4.given_parameters import load_parameters, parse_parameters
    from sitl_bridge.session.settings import FlightOptions

    given = FlightOptions(
        parameters=parse_parameters(param),
        parameter_file=load_parameters(params, wins=params_win),
        px4=px4,
    )
    facts = derive_facts(file, flight, given)
    if flight is not None and "beside" not in facts:
        raise UserError(f"--flight {flight}: stands beside an airframe, which {file} is not")
    if (param or params) and "parameters" not in facts:
        raise UserError(f"--param and --params: are of an airframe or a scenario, which {file} is not")
    if picture is not None:
        from sitl_bridge.cli.airframe_picture import draw_airframe
        from sitl_bridge.core.vehicle.airframe_file import load_airframe

        if "thrust_to_weight" not in facts:
            raise UserError(f"--picture {picture}: draws an airframe, which {file} is not")
        facts["picture"] = str(draw_airframe(load_airframe(file), picture))
    if as_json:
        typer.echo(json.dumps(plain_values(facts), indent=2, allow_nan=False))
        return
    console = Console()
    parameters, reasons = facts.pop("px4_parameters", None), facts.pop("px4_reasons", {})
    warnings = facts.pop("warnings")
    facts.pop("parameters", None)  # the warnings name them
    console.print(Text(f"{file} is valid", "italic"), soft_wrap=True)
    table = Table(show_header=False)
    for name, value in facts.items():
        table.add_row(_title(name), _as_text(value))
    console.print(table)
    if parameters:
        console.print("PX4 parameters", style="bold")
        for reason in dict.fromkeys(reasons.values()):
            console.print(reason, style="italic", highlight=False)
            of_it = (f"{name} {value:g}" for name, value in parameters.items() if reasons[name] == reason)
            console.print("  " + "  ".join(of_it), highlight=False)
    for warning in warnings:
        console.print(f"note: {warning}", style="yellow")


def _title(name: str) -> str:
    """The name of a figure for readers, with its unit: ``top_speed_m_s`` is ``top speed, m/s``."""
    for suffix, unit in UNITS.items():
        if name.endswith(f"_{suffix}"):
            return f"{name.removesuffix(f'_{suffix}').replace('_', ' ')}, {unit}"
    return name.replace("_", " ")


def _as_text(value: object) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, float):
        return f"{value:.5g}" if math.isfinite(value) else "unbounded"
    if isinstance(value, dict):
        return "\n".join(f"{name} {_as_text(item)}" for name, item in value.items())
    if isinstance(value, list):
        rows = (
            "  ".join(_as_text(part) for part in item) if isinstance(item, list) else _as_text(item)
            for item in value
        )
        return "\n".join(rows) or "none"
    return str(value)
