"""Imports a vehicle: reads its sources in order, completes the figures, and writes the airframe file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from sitl_bridge.api.models import load_airframe
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.input_file import is_file
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.output_file import write_whole
from sitl_bridge.base.xml_file import XmlNode
from sitl_bridge.core.world.sdf_world import search_path
from sitl_bridge.lab.flights.flight_source import read_identification_flight
from sitl_bridge.lab.identification.airframe_identification import (
    check_output,
    identified_fields,
    identified_sources,
    identify_airframe,
    validate_draft,
)
from sitl_bridge.lab.importing.estimates import Given, complete, give_by_hand
from sitl_bridge.lab.importing.figures import Figures
from sitl_bridge.lab.importing.gazebo_sensors import SUITE, read_sensors
from sitl_bridge.lab.importing.gazebo_vehicle import GZ, motor_plugin, read_vehicle
from sitl_bridge.lab.importing.hector import read_hector
from sitl_bridge.lab.importing.model_tree import read_tree, source_file
from sitl_bridge.lab.importing.px4_settings import (
    airframe_script,
    is_script,
    read_px4,
    scale_rotors,
    script_parameters,
)
from sitl_bridge.lab.importing.templates import read_model_file, tree_of
from sitl_bridge.lab.importing.thrust_table import read_thrust

MODELS = (".sdf", ".urdf", ".xacro", ".jinja", ".j2", ".xml", ".world")
PARAMETERS = (".params", ".parm", ".param", ".txt")
FITTED = ("inertia", "thrust", "drag", "lag", "wind")
"""Groups of parameters that a flight log refines."""
ORDER = (
    "mass", "inertia", "rotor_model", "rotors", "motor", "esc", "battery", "drag", "ground_effect", "contact",
    "sensors", "px4",
)  # fmt: skip
"""Sections in the order of shipped files."""
UNSOURCED = ("rotor_model.inflow", "ground_effect", "motor.kind", "rotor_model.rolling_moment_released")


@dataclass(frozen=True)
class Imported:
    """The result of an import."""

    path: Path
    notes: tuple[str, ...]
    estimated: tuple[str, ...]  # paths of figures that no source gives
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class Choices:
    """How sources are read."""

    px4: Path | None = None  # for the airframe script of a gz model; by default as `fly` finds PX4
    as_gazebo: bool = False  # move as in Gazebo: its rotor law, an ideal battery, no drag of the body
    arguments: Mapping[str, str] = field(default_factory=dict)  # of templates


def import_vehicle(
    files: Sequence[Path], output: Path, given: Given | None = None, choices: Choices | None = None
) -> Imported:
    """Make an airframe file of a vehicle's descriptions; later files win.

    Args:
        files: SDF, URDF, xacro; airframe scripts and parameters of PX4; then thrust tables (CSV), which win
            over the figures by hand, and flight logs (ULog), to which open figures are fitted.
        output: the airframe file, which is written whole and then read as a check.
        given: figures by hand.
        choices: how the files are read.

    Raises:
        UserError: for files that cannot be read or make no vehicle, and for an output that cannot be written.
    """
    given, choices = given or Given(), choices or Choices()
    check_output(output)
    figures = Figures(name=given.name or "")
    logs, tables = ([file for file in files if file.suffix.lower() == end] for end in (".ulg", ".csv"))
    others = [file for file in files if file not in (*logs, *tables)]
    models = [file for file in others if file.suffix.lower() in MODELS or file.is_dir()]
    for file in others:
        if is_script(file) or file.suffix.lower() in PARAMETERS:
            read_px4(file, figures)
        elif file in models:
            _read_model(file, figures, choices, alone=len(models) == len(others) and not tables)
        elif file.suffix.lower() == ".yaml":
            read_hector(file, figures)
        elif not is_file(file):
            raise UserError(f"{file}: no such file")
        else:
            raise UserError(
                f"{file}: is of no kind that is read: SDF, URDF or xacro, an airframe script of PX4"
                " (4001_gz_x500), .params, or a thrust table (.csv)"
            )
    give_by_hand(given, figures)
    for table in tables:
        read_thrust(table, figures)
    if given.arm is not None and figures.has("rotors"):
        scale_rotors(figures, given.arm)
    complete(figures, as_gazebo=choices.as_gazebo)
    if choices.as_gazebo:
        figures.caveat = "moves as in Gazebo: no drag of the body, no sag of the battery, no ground effect"
    names = [file.name for file in files]
    with TemporaryDirectory() as directory:
        draft = Path(directory) / "made.yaml"
        for fit in (False, True) if logs else (False,):
            if fit:
                _fit(logs, draft, figures)
            text = airframe_text(figures, names)
            write_whole(draft, text)
            validate_draft(draft, output, "the sources make no valid vehicle")
    write_whole(output, text)
    return Imported(output, tuple(figures.notes), figures.estimated_paths(), tuple(figures.left_out))


def _read_model(file: Path, figures: Figures, choices: Choices, *, alone: bool) -> None:
    place = source_file(file)
    root = read_model_file(place, choices.arguments)
    models = [node for owner in (root, *root.all("world")) for node in owner.all("model", "include")]
    model = next((node for node in models if _has_motors(node)), next(iter(models), None))
    if model is not None and model.tag == "include":
        model = XmlNode("model", model.source, model.line, {"name": model.value("name")}, [model])
    if root.tag != "sdf" or model is None:
        raise root.fault(f"<{root.tag}> has no <model>: it is no vehicle of Gazebo")
    directories = [*search_path(place), tree_of(place)]
    tree = read_tree(
        model, "/".join(place.parts[-2:]), directories, lambda path: read_model_file(path, choices.arguments),
        figures.leave_out,
    )  # fmt: skip
    read_vehicle(tree, figures, as_gazebo=choices.as_gazebo, alone=alone)
    read_sensors(tree, figures)
    kind = next((kind for plugin in tree.plugins if (kind := motor_plugin(plugin.node))), None)
    if not alone or kind is None or not kind.scripts:
        return
    for name in (place.parent.name, tree.name):
        script = airframe_script(name, choices.px4, kind.scripts)
        if script is not None:
            count = script_parameters(script)[0].get("CA_ROTOR_COUNT")
            if count == len(figures.get("rotors")):
                read_px4(script, figures)
                return
    if kind is GZ:
        figures.note(
            f"the range of the motors' speeds is in PX4's airframe script gz_{tree.name}, not found:"
            " name PX4 with --px4 DIR or PX4_DIR, or give the script as well"
        )


def _has_motors(node: XmlNode) -> bool:
    return motor_plugin(node) is not None or any(_has_motors(child) for child in node.children)


def _fit(logs: Sequence[Path], airframe_file: Path, figures: Figures) -> None:
    """Replace the figures that flights show by fitted ones, by analysis by synthesis (lab/identification)."""
    airframe = load_airframe(airframe_file)
    flights = [read_identification_flight(log, len(airframe.rotors)) for log in logs]
    found = identify_airframe(flights, airframe, fit=list(FITTED), fix={}, window=1.0)
    changed, notes = identified_fields(airframe.separate_payload(), found)
    sources = identified_sources(found, ", ".join(log.name for log in logs))
    for section, value in changed.items():
        fields = value if isinstance(value, dict) and not figures.get(section) else {"": value}
        for name, item in fields.items():
            path = f"{section}.{name}" if name else section
            if isinstance(item, dict) and isinstance(figures.get(path), dict):
                item = figures.get(path) | item
            key = path if path in sources else section
            figures.give(path, item, sources.get(key, next(iter(sources.values()))))
    for note in (*notes, *found.advice):
        figures.note(note)


def airframe_text(figures: Figures, files: Sequence[str]) -> str:
    """The airframe file as text: its sources, its figures, and what was left out as comments."""
    data = figures.data()
    data.setdefault("sensors", SUITE)
    data["motor"] = {"kind": data["motor"].pop("kind")} | data["motor"]
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", figures.name).strip("_")[:40] or "vehicle"
    sources = {
        path: text
        for path, text in figures.sources.items()
        if path not in UNSOURCED and not path.startswith("px4.parameters.")
        if path in figures.values or path.startswith("sensors.")
    }
    head: JsonObject = {"name": name, "description": figures.description}
    head |= {"caveat": figures.caveat} if figures.caveat else {}
    lines = [
        f"# Made by `sitl-bridge import {' '.join(files)}`.",
        _dump(head | {"sources": sources}, 100_000),
    ]
    for section in (section for section in ORDER if section in data):
        flow = None if isinstance(data[section], dict | list) else False
        lines.append(_dump({section: data[section]}, flow=flow))
    if figures.left_out:
        lines += ["# Left out:", *(f"# - {what}" for what in figures.left_out)]
    return "\n".join(line.rstrip("\n") for line in lines) + "\n"


def _dump(data: Any, width: int = 110, *, flow: bool | None = False) -> str:
    return str(
        yaml.safe_dump(data, sort_keys=False, width=width, default_flow_style=flow, allow_unicode=True)
    )
