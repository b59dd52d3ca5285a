"""``sitl-bridge mission``: a plan or a script for a vehicle that already runs, simulated or real."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from sitl_bridge.cli.options import PythonOption


def mission(
    file: Annotated[Path, typer.Argument(help="QGroundControl plan (.plan) or MAVSDK script (.py)")],
    arguments: Annotated[list[str] | None, typer.Argument(help="passed to the script")] = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="connection URL of the vehicle, for a plan udpin://HOST:PORT (default: that of the instance)"
        ),
    ] = None,
    instance: Annotated[
        int, typer.Option(min=0, max=254, help="instance of the flight stack; its system id is one more")
    ] = 0,
    python: PythonOption = None,
) -> None:
    """Fly a mission with a flight stack that already runs, beside `serve`, in a container or in a vehicle.

    The exit code is 0 only if the mission succeeded.
    """
    from sitl_bridge.base.system.interpreter import THIS, find_interpreter
    from sitl_bridge.link.hil.ports import offboard_port
    from sitl_bridge.session.mission_file import check_mission_file, find_mission
    from sitl_bridge.session.missions.environment import SYSTEM_VARIABLE, URL_VARIABLE
    from sitl_bridge.session.running_vehicle import fly_running

    found = find_mission(file)
    interpreter = None if python is None else find_interpreter(python)
    plan = check_mission_file(found, arguments or (), interpreter)
    connection = url or f"udpin://127.0.0.1:{offboard_port(instance)}"
    if plan is not None:
        fly_running(connection, instance + 1, plan, typer.echo)
        typer.echo("mission succeeded")
        return
    environment = {**os.environ, URL_VARIABLE: connection, SYSTEM_VARIABLE: str(instance + 1)}
    # The script replaces this program: it takes the signals and gives the exit code.
    command = [str(interpreter or THIS), str(found), *(arguments or ())]
    os.execve(command[0], command, environment)  # noqa: S606
