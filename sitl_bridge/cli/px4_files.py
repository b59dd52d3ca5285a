"""``sitl-bridge px4-files``: PX4's start-up files for an airframe, for a PX4 that is started separately."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sitl_bridge.base.errors import UserError
from sitl_bridge.cli.options import parse_speed


def px4_files(
    directory: Annotated[Path, typer.Argument(help="directory of the files; created if missing")],
    airframe: Annotated[str, typer.Option(help="name or file of the airframe")] = "iris",
    speed: Annotated[str, typer.Option(help="speed of the flight; scales PX4's timeouts")] = "1",
    battery: Annotated[
        bool, typer.Option("--battery", help="for `serve --battery`, which sends PX4 the simulated battery")
    ] = False,
    board: Annotated[
        bool, typer.Option("--board", help="the parameters alone, for a board in hardware-in-the-loop")
    ] = False,
) -> None:
    """Write PX4's start-up files into DIRECTORY; put it first on PX4's PATH and start PX4 as none_iris.

    `px4-rc.simulator` sets the parameters, `px4-rc.mavlink` a port for each instance from 10 on.  With
    --board it is a file of parameters that QGroundControl loads into a board (docs/hitl.md).
    """
    from sitl_bridge.core.vehicle.airframe_file import load_airframe

    if board:
        from sitl_bridge.link.px4.board_parameters import write_board_file

        if battery or speed != "1":
            raise UserError("--board: a board runs at real time and makes up its battery; leave out the rest")
        typer.echo(write_board_file(directory, load_airframe(airframe)))
        return
    from sitl_bridge.link.px4.airframe_parameters import parameters_for
    from sitl_bridge.link.px4.startup import write_startup_files
    from sitl_bridge.link.px4.versions import rename_for

    parameters = parameters_for(
        load_airframe(airframe), speed=parse_speed(speed), battery_over_mavlink=battery
    )
    # The version of PX4 that will read them is not known here.
    typer.echo(write_startup_files(directory, rename_for(parameters, None)))
