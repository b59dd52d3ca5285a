"""``sitl-bridge autopilot``: the built-in flight stack, for a simulator that someone else starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sitl_bridge.autopilot.stack_main import fly
from sitl_bridge.autopilot.stack_process import Configuration
from sitl_bridge.cli.options import load_settings_world
from sitl_bridge.files.airframe_file import load_airframe
from sitl_bridge.system.signals import run


def autopilot(
    airframe: Annotated[str, typer.Argument(help="name or file of the airframe that is served")] = "iris",
    world: Annotated[Path | None, typer.Option(help="file of the world that is served")] = None,
    instance: Annotated[int, typer.Option(min=0, max=254, help="decides all ports and the system id")] = 0,
    simulator: Annotated[str, typer.Option(help="address of the simulator")] = "127.0.0.1",
    controller: Annotated[
        str | None, typer.Option(help="hector_pid, lee, rotors or FILE.py:CLASS (else the airframe's)")
    ] = None,
) -> None:
    """Run the built-in flight stack (not PX4) beside a simulator that runs or will, such as `serve`.

    It logs to log/flight.ulg in the present directory.
    """
    configuration = Configuration(
        airframe=load_airframe(airframe),
        world=load_settings_world(world, None),
        instance=instance,
        simulator=simulator,
        controller=controller,
    )
    raise typer.Exit(run(lambda: fly(configuration)))
