"""``sitl-bridge schema``: JSON Schemas of users' files and of the bus, and the kind of a file by its content.

``python -m sitl_bridge.cli.schema`` writes those of files into schemas/; the shipped files refer to them for
editors: ``# yaml-language-server: $schema=../schemas/scenario.json``.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from sitl_bridge.base.json_data import JsonObject

if TYPE_CHECKING:
    from pydantic import BaseModel

FileKind = Literal["scenario", "airframe", "world", "campaign"]
SchemaKind = Literal[FileKind, "bus"]
MODELS: dict[FileKind, tuple[str, str]] = {
    "scenario": ("session.scenario", "Scenario"),
    "airframe": ("core.vehicle.airframe", "Airframe"),
    "world": ("core.world.world", "WorldSpecification"),
    "campaign": ("lab.campaign.file", "Campaign"),
}
"""Module and class of the model of each kind."""
DIRECTORY = Path(__file__).resolve().parent.parent.parent / "schemas"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema(kind: Annotated[SchemaKind, typer.Argument(help="kind of file, or the bus")]) -> None:
    """Print the JSON Schema of a scenario, airframe, world or campaign file, or of the bus's messages.

    Editors complete and check a file whose first line is
    `# yaml-language-server: $schema=PATH`, with the path of the printed schema.  That of the bus has a
    property for each topic.
    """
    typer.echo(schema_text(kind), nl=False)


def _model(kind: FileKind) -> type[BaseModel]:
    module, name = MODELS[kind]
    model: type[BaseModel] = getattr(import_module(f"sitl_bridge.{module}"), name)
    return model


def file_kind(data: JsonObject) -> FileKind:
    """Kind of a file: the one that has most of its top-level fields; an airframe if none has any.

    Only a campaign varies values.
    """
    if "vary" in data:
        return "campaign"
    # A name that several kinds have identifies no scenario.
    most_of_scenario = len(set(data) - {"name"})

    def known(kind: FileKind) -> int:
        fields = set(_model(kind).model_fields) - ({"name"} if kind == "scenario" else set())
        return len(fields & set(data))

    likely: FileKind = max(("airframe", "world"), key=known)
    # The model of scenarios is imported only where it could know more.
    return likely if known(likely) >= most_of_scenario else max((likely, "scenario"), key=known)


def file_schema(kind: FileKind) -> JsonObject:
    """JSON Schema of a kind of file."""
    made = _model(kind).model_json_schema(by_alias=True)
    if kind == "airframe":
        made = _without_required(made)
    return {"$schema": _DIALECT, **made, "title": f"sitl-bridge {kind}"}


def _without_required(made: JsonObject) -> JsonObject:
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
        "default": controller.pop("default"),
        "description": "controller of the built-in flight stack",
    }
    sensors = made["properties"]["sensors"]
    made["properties"]["sensors"] = {
        "anyOf": [{"type": "string", "description": "suite of sensors, in airframes/sensors"}, sensors],
        "description": "sensors, or the name of a suite",
    }
    made["anyOf"] = [{"required": ["base"]}, {"required": needed}]
    return made


def bus_schema() -> JsonObject:
    """JSON Schema of the bus: a property for the messages of each topic."""
    from pydantic.json_schema import models_json_schema

    from sitl_bridge.live.run.messages import message_models

    models = message_models()
    references, sections = models_json_schema(list(models.values()), title="sitl-bridge bus")
    properties = {topic: references[use] for topic, use in models.items()}
    return {"$schema": _DIALECT, **sections, "properties": properties}


def schema_text(kind: SchemaKind) -> str:
    """The text of the schema's file."""
    made = bus_schema() if kind == "bus" else file_schema(kind)
    return json.dumps(made, indent=2) + "\n"


def write(directory: Path = DIRECTORY) -> None:
    """Write all schemas."""
    directory.mkdir(exist_ok=True)
    for kind in get_args(FileKind):
        (directory / f"{kind}.json").write_text(schema_text(kind), encoding="utf-8")


if __name__ == "__main__":
    write()
