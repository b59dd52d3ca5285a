"""``sitl-bridge`` without a command: its version and its help."""

from __future__ import annotations

from typing import Annotated

import typer


def _show_version(wanted: bool) -> None:
    if wanted:
        from sitl_bridge import __version__

        typer.echo(__version__)
        raise typer.Exit


def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="print the version and exit"),
    ] = False,
) -> None:
    """Fly simulated multirotors with real PX4 firmware, in lockstep, from one command."""
    del version
