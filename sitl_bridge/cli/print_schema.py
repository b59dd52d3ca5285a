"""``sitl-bridge schema``: the JSON Schema of a file format, for editors and other tools."""

from __future__ import annotations

from typing import Annotated

import typer

from sitl_bridge.cli.file_schema import FileKind, schema_text


def schema(kind: Annotated[FileKind, typer.Argument(help="kind of file")]) -> None:
    """Print the JSON Schema of a scenario, airframe, world or campaign file.

    Editors complete and check a file whose first line is
    `# yaml-language-server: $schema=PATH`, with the path of the printed schema.
    """
    typer.echo(schema_text(kind), nl=False)
