"""``sitl-bridge schema``: JSON Schemas of the users' files, and the kind of a file by its content.

``python -m sitl_bridge.cli.schema`` writes them into schemas/; the shipped files refer to them for
editors: ``# yaml-language-server: $schema=../schemas/scenario.json``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal, get_args

import typer
from pydantic import BaseModel

from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.world.world import WorldSpecification
from sitl_bridge.lab.campaign.file import Campaign
from sitl_bridge.session.scenario import Scenario

FileKind = Literal["scenario", "airframe", "world", "campaign"]
MODELS: dict[FileKind, type[BaseModel]] = {
    "scenario": Scenario,
    "airframe": Airframe,
    "world": WorldSpecification,
    "campaign": Campaign,
}
DIRECTORY = Path(__file__).resolve().parent.parent.parent / "schemas"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema(kind: Annotated[FileKind, typer.Argument(help="kind of file")]) -> None:
    """Print the JSON Schema of a scenario, airframe, world or campaign file.

    Editors complete and check a file whose first line is
    `# yaml-language-server: $schema=PATH`, with the path of the printed schema.
    """
    typer.echo(schema_text(kind), nl=False)


def file_kind(data: JsonObject) -> FileKind:
    """Kind of a file: the one that has most of its top-level fields; an airframe if none has any.

    Only a campaign varies values.
    """
    known = {kind: set(model.model_fields) for kind, model in MODELS.items()}
    known["scenario"] -= {"name"}  # a name that several kinds have identifies none
    if "vary" in data:
        return "campaign"
    return max(("airframe", "world", "scenario"), key=lambda kind: len(known[kind] & set(data)))


def file_schema(kind: FileKind) -> JsonObject:
    """JSON Schema of a kind of file."""
    made = MODELS[kind].model_json_schema(by_alias=True)
    if kind == "airframe":
        made = _based(made)
    return {"$schema": _DIALECT, **made, "title": f"sitl-bridge {kind}"}


def _based(made: JsonObject) -> JsonObject:
    """An airframe's schema for files with a base, whose sections may be given in part."""
    for part in made.get("$defs", {}).values():
        if "kind" not in part.get("required", ()):
            part.pop("required", None)
        else:
            part["required"] = ["kind"]
            if "rate" in part["properties"]:
                description = "remove this sensor of the base"
                part["properties"]["remove"] = {"const": True, "description": description}
    needed = made.pop("required", [])
    made["properties"] = {
        "base": {"type": "string", "description": "airframe (name or file) whose sections this one changes"},
        **made["properties"],
    }
    controller = made["properties"]["controller"]
    made["properties"]["controller"] = {
        "anyOf": [{"type": "string", "description": "kind of controller"}, controller],
        "description": "controller of the built-in flight stack",
    }
    sensors = made["properties"]["sensors"]
    made["properties"]["sensors"] = {
        "anyOf": [{"type": "string", "description": "suite of sensors, in airframes/sensors"}, sensors],
        "description": "sensors, or the name of a suite",
    }
    made["anyOf"] = [{"required": ["base"]}, {"required": needed}]
    return made


def schema_text(kind: FileKind) -> str:
    """The text of the schema's file."""
    return json.dumps(file_schema(kind), indent=2) + "\n"


def write(directory: Path = DIRECTORY) -> None:
    """Write all schemas."""
    directory.mkdir(exist_ok=True)
    for kind in get_args(FileKind):
        (directory / f"{kind}.json").write_text(schema_text(kind), encoding="utf-8")


if __name__ == "__main__":
    write()
