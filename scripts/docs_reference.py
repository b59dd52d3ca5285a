"""Writes docs/reference/ and the table of the rooms' imports in docs/inside.md from the code.

The pages: commands, files, airframes, measures, bus topics, recorded columns.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel

from sitl_bridge.analysis.evaluation.measures import KINDS
from sitl_bridge.cli.exit_codes import MEANINGS
from sitl_bridge.cli.main import COMMANDS, build
from sitl_bridge.cli.schema import file_schema
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import WorldSpecification
from sitl_bridge.lab.campaign.file import Campaign
from sitl_bridge.lab.validation.benchmark import update_page
from sitl_bridge.live.run.messages import message_models
from sitl_bridge.record.records import Row, Step, flat, row_type
from sitl_bridge.session.scenario import Scenario

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from project.test_layout import ROOMS, modules, neighbours, room  # noqa: E402  (of the tests, not a package)

MODELS: dict[str, type[BaseModel]] = {
    "Airframe": Airframe,
    "World": WorldSpecification,
    "Scenario": Scenario,
    "Campaign": Campaign,
}
"""Name and model of each kind of file; a section stands on the page where it comes first."""
GUARD = 1e6
"""Limits from here on only keep nonsense out; the page leaves them out."""


PLACE = ROOT / "docs" / "reference"


def main() -> None:
    """Write the pages."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


def pages() -> dict[Path, str]:
    """Content of each generated page, by its path."""
    lines: dict[str, Iterable[str]] = {
        "command-line": command_line(),
        **user_files(),
        "airframes": airframes(),
        "measures": measures(),
        "bus-topics": bus_topics(),
        "recorded-columns": recorded_columns(),
    }
    found = {PLACE / f"{name}.md": "\n".join(text).rstrip() + "\n" for name, text in lines.items()}
    inside = ROOT / "docs" / "inside.md"
    found[inside] = update_page(inside.read_text(encoding="utf-8"), [*rooms_table(), ""])
    return found


def rooms_table() -> Iterator[str]:
    """A row for each room, with a dot below the number of each room that it imports from."""
    rooms = [name for name in ROOMS if not name.startswith("__")]
    pairs = {(room(name), room(other)) for name in modules() for other in neighbours(name)}
    yield f"| | {' | '.join(str(i + 1) for i in range(len(rooms)))} |"
    yield "|---" * (1 + len(rooms)) + "|"
    for i, name in enumerate(rooms):
        dots = ("•" if name != other and (name, other) in pairs else "" for other in rooms)
        yield f"| {i + 1} {name} | {' | '.join(dots)} |"


def cell(text: object) -> str:
    """Text for a cell of a table."""
    return " ".join(str(text).split()).replace("|", "\\|")


def command_line() -> Iterator[str]:
    """The page of the commands, as ``--help`` describes them."""
    yield "# Command line\n"
    yield "`--install-completion` installs the completion of commands and options in the shell.\n"
    yield "## Exit codes\n"
    yield "| code | meaning |"
    yield "|---|---|"
    for code, meaning in MEANINGS.items():
        yield f"| {code:d} | {meaning} |"
    yield ""
    for name in COMMANDS:
        group: Any = typer.main.get_command(build([name]))
        command = group.commands[name]
        if hasattr(command, "commands"):
            yield f"## {name}\n"
            yield f"{(command.help or '').strip()}\n"
            for inner, one in command.commands.items():
                yield from usage(f"{name} {inner}", one, "###")
        else:
            yield from usage(name, command, "##")


def usage(name: str, command: Any, level: str) -> Iterator[str]:
    """One command, as ``--help`` describes it."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    names = [p.metavar or str(p.name).upper() for p in arguments]
    yield f"{level} {name}\n"
    yield f"```text\nsitl-bridge {' '.join([name, '[OPTIONS]', *names])}\n```\n"
    yield f"{(command.help or '').strip()}\n"
    if not arguments and not options:
        return
    yield "| argument or option | meaning | default |"
    yield "|---|---|---|"
    words = [[name] for name in names] + [[*one.opts, *one.secondary_opts] for one in options]
    for parameter, shown in zip([*arguments, *options], words, strict=True):
        default = "" if parameter.default in (None, (), []) else f"`{cell(parameter.default)}`"
        default = "required" if parameter.required else default
        yield f"| {', '.join(f'`{cell(o)}`' for o in shown)} | {cell(parameter.help or '')} | {default} |"
    yield ""


def user_files() -> dict[str, list[str]]:
    """The pages of the fields of each kind of file, by their names."""
    pages = {heading: f"{heading.lower()}-file" for heading in MODELS}
    places = {model.__name__: f"{pages[heading]}.md" for heading, model in MODELS.items()}
    found = {}
    for heading, model in MODELS.items():
        article = "an" if heading[0] in "AEIOU" else "a"
        found[pages[heading]] = [
            f"# {heading} file\n",
            f"Every field of {article} {heading.lower()} file.  A field without a default is required"
            f"{', unless there is a `base`' if model is Airframe else ''}.\n",
            *describe(heading, file_schema(heading.lower()), places, f"{pages[heading]}.md"),
        ]
    return found


def airframes() -> Iterator[str]:
    """The page of the airframes that are included."""
    yield "# Airframes\n"
    yield "Included [airframes](../how-to/airframe.md).  Each has an inertial unit, a magnetometer, a"
    yield "barometer, a satellite receiver and a battery monitor; the last column has what there is more.\n"
    yield "| airframe | vehicle | mass, kg | rotors | sensors |"
    yield "|---|---|---|---|---|"
    for path in sorted((ROOT / "airframes").glob("*.yaml")):
        airframe = load_airframe(path)
        count = Counter(str(sensor.kind) for sensor in airframe.sensors)
        shown = [
            name if number == 1 else f"{number} {name}"
            for name, number in count.items()
            if number > 1 or name not in ("imu", "magnetometer", "barometer", "gps", "battery")
        ]
        yield (
            f"| `{path.stem}` | {cell(airframe.description)} | {airframe.mass:.4g} | {len(airframe.rotors)} "
            f"| {', '.join(shown)} |"
        )


def measures() -> Iterator[str]:
    """The page of what is measured of a flight."""
    yield "# Measures\n"
    yield "What `summary.json` holds of a flight, by the names under which"
    yield "[limits](../report.md#measures-and-limits) are set.\n"
    yield "| measure | meaning | unit | limit |"
    yield "|---|---|---|---|"
    for kind in KINDS.values():
        limit = "" if kind.limit is None else f"{kind.limit:g}, {kind.source}"
        yield f"| `{kind.name}` | {cell(kind.title)} | {kind.unit} | {cell(limit)} |"


def describe(heading: str, schema: dict[str, Any], places: dict[str, str], page: str = "") -> Iterator[str]:
    """The fields of a schema, and of each section that it refers to and that has no place on a page yet."""
    sections: dict[str, dict[str, Any]] = schema.pop("$defs", {})
    new = {name: section for name, section in sections.items() if name not in places}
    places |= {name: f"{page}#{anchor(f'{heading}: {name}')}" for name in new}
    yield from fields(schema, sections, places)
    for name, section in new.items():
        if "properties" in section:
            yield f"### {heading}: {name}\n"
            yield from fields(section, sections, places)


def bus_topics() -> Iterator[str]:
    """The page of the bus's messages, a topic each."""
    yield "# Bus topics\n"
    yield "Topics below `sitl/RUN/`, and the fields of their JSON messages.  [The message bus](../bus.md)"
    yield "tells how they are used; `sitl-bridge schema bus` prints their schema.\n"
    for topic, (model, mode) in message_models().items():
        yield f"## `{topic}`\n"
        yield from describe(topic, model.model_json_schema(mode=mode), {})


def recorded_columns() -> Iterator[str]:
    """The page of the columns of a run's tables; meanings are the comments of the records."""
    yield "# Recorded columns\n"
    yield "Columns of the tables of a [run](../run-directory.md), in their order, with their types in NumPy,"
    yield "as `RecordedRun` and `sb.TruthTable` give them.  The files themselves and exported tables have one"
    yield "column a component.  Positions are from the world's origin, body axes FRD.  There are as many"
    yield "columns of rotors as the vehicle with most has, here a quadrotor's; what another lacks is 0.\n"
    for file, record, dtype in (("truth.npy", Row, row_type(4)), ("steps.npy", Step, Step.dtype)):
        meanings = dict(
            re.findall(r"^    (\w+): [^#\n]*(?:# (.*))?$", inspect.getsource(record), re.MULTILINE)
        )
        yield f"## {file}\n"
        yield "| column | meaning | type | in the file and exports |"
        yield "|---|---|---|---|"
        exported = iter(flat(dtype).names or ())
        for name in dtype.names or ():
            shape = dtype[name].shape
            names = [next(exported) for _ in range(shape[0] if shape else 1)]
            shown = f"`{names[0]}`" if len(names) == 1 else f"`{names[0]}` to `{names[-1]}`"
            count = f" × {shape[0]}" if shape else ""
            meaning = cell(meanings[name].replace("``", "`"))
            yield f"| `{name}` | {meaning} | {dtype[name].base.name}{count} | {shown} |"
        yield ""


def anchor(heading: str) -> str:
    """Identifier that GitHub and mkdocs give to a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def fields(schema: dict[str, Any], sections: dict[str, Any], places: dict[str, str]) -> Iterator[str]:
    """The table of a section's fields."""
    if description := schema.get("description"):
        yield f"{' '.join(description.split())}\n"
    required = schema.get("required", ())
    yield "| field | type | default | meaning |"
    yield "|---|---|---|---|"
    for name, field in schema["properties"].items():
        default = "" if name in required or "default" not in field else default_of(field, sections)
        meaning = cell(field.get("description", ""))
        yield f"| `{name}` | {kind(field, places)} | {default} | {meaning} |"
    yield ""


def default_of(field: dict[str, Any], sections: dict[str, Any]) -> str:
    """The default of a field; of a section with its own defaults, that it has them."""
    default = field["default"]
    for part in [field, *field.get("anyOf", ()), *field.get("oneOf", ())]:
        section = sections.get(part.get("$ref", "").rsplit("/", 1)[-1])
        if section and default == {
            name: value.get("default", {}) for name, value in section["properties"].items()
        }:
            return "its defaults"
    return f"`{cell(json.dumps(default))}`"


def kind(field: dict[str, Any], places: dict[str, str]) -> str:
    """The type of a field, with a link if it is a section."""
    if reference := field.get("$ref"):
        name = reference.rsplit("/", 1)[1]
        return f"[{name}]({places[name]})"
    for key in ("anyOf", "oneOf", "allOf"):
        if key in field:
            return " or ".join(dict.fromkeys(kind(part, places) for part in field[key]))
    if "const" in field:
        return f"`{json.dumps(field['const']).strip(chr(34))}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if field.get("type") == "array":
        inner = field.get("items") or (field.get("prefixItems") or [{}])[0]
        return f"list of {kind(inner, places)}"
    if field.get("exclusiveMinimum", -GUARD) >= field.get("minimum", GUARD):
        field = {key: value for key, value in field.items() if key != "minimum"}
    limits = [
        f"{sign} {field[key]:g}"
        for key, sign in (
            ("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<"),
        )
        if key in field and abs(field[key]) < GUARD
    ]  # fmt: skip
    return " ".join([str(field.get("type", "any")), *limits])


if __name__ == "__main__":
    main()
