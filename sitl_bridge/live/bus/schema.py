"""The JSON Schemas of the bus's messages, written by ``python -m sitl_bridge.live.bus.schema``."""

from __future__ import annotations

import json
from pathlib import Path

from sitl_bridge.live.bus.messages import PUBLISHED, RUN_COMMANDS, VEHICLE_COMMANDS

DIRECTORY = Path(__file__).parent / "schemas"


def schemas() -> dict[str, str]:
    """Return the text of each schema by file name."""
    commands = {f"command_{kind}": model for kind, model in RUN_COMMANDS.items()}
    commands |= {f"vehicle_command_{kind}": model for kind, model in VEHICLE_COMMANDS.items()}
    found = {name: model.model_json_schema(mode="serialization") for name, model in PUBLISHED.items()}
    found |= {name: model.model_json_schema(mode="validation") for name, model in commands.items()}
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {f"{name}.json": json.dumps(dialect | schema, indent=2) + "\n" for name, schema in found.items()}


def write(directory: Path = DIRECTORY) -> None:
    """Write all schemas, and remove obsolete files."""
    wanted = schemas()
    for path in directory.glob("*.json"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (directory / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
