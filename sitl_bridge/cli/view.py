"""``sitl-bridge view``: plays a recording on a page in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system import signals
from sitl_bridge.live.outlets import check_port
from sitl_bridge.live.view.page_server import DEFAULT_PORT, page_url, require_viser


def view(
    run: Annotated[Path, typer.Argument(help="run directory of fly, serve or simulate")],
    port: Annotated[int, typer.Option(help="of the page on this machine")] = DEFAULT_PORT,
) -> None:
    """Play a recording in the browser: vehicles, tracks, wind, plan and scene, with a slider of time.

    The page is served on this machine only, until Ctrl-C.  `fly`, `start` and `serve` show a run live with
    --view.
    """
    require_viser()
    check_port(port, "--port")
    raise typer.Exit(signals.run(lambda: _play(run, port)))


def _play(directory: Path, port: int) -> int:
    from sitl_bridge.live.view.playback import Playback
    from sitl_bridge.live.view.viewed_run import ViewedRun

    run = ViewedRun(directory)
    if not len(run.recorded.rows):
        raise UserError(f"{directory}: no step was recorded")
    for note in run.notes:
        typer.echo(f"note: {note}")
    playback = Playback(run, port)
    try:
        typer.echo(f"{directory} plays at {page_url(port)}; stop with Ctrl-C")
        playback.run()
    finally:
        playback.close()
    return 0
