"""``sitl-bridge autopilot``: the built-in flight stack, for a simulator that is started separately."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sitl_bridge.base.system.signals import run


def autopilot(
    airframe: Annotated[str, typer.Argument(help="name or file of the simulator's airframe")] = "iris",
    world: Annotated[Path | None, typer.Option(help="file of the simulator's world")] = None,
    instance: Annotated[int, typer.Option(min=0, max=254, help="sets all ports and the system id")] = 0,
    simulator: Annotated[str, typer.Option(help="address of the simulator")] = "127.0.0.1",
    controller: Annotated[
        str | None, typer.Option(help="hector_pid, lee, rotors or FILE.py:CLASS (default: the airframe's)")
    ] = None,
) -> None:
    """Run the built-in flight stack (not PX4) for a separate simulator, such as `serve`.

    The simulator may be started before or after it.  It writes log/flight.ulg in the current directory.
    """
    from sitl_bridge.autopilot.main import fly
    from sitl_bridge.autopilot.process import Configuration
    from sitl_bridge.core.vehicle.airframe_file import load_airframe
    from sitl_bridge.core.world.world import WorldSpecification
    from sitl_bridge.core.world.world_file import load_world

    configuration = Configuration(
        airframe=load_airframe(airframe),
        world=WorldSpecification() if world is None else load_world(world),
        instance=instance,
        simulator=simulator,
        controller=controller,
    )
    raise typer.Exit(run(lambda: fly(configuration)))
