"""``sitl-bridge start``: vehicles that stay up for a ground station and for scripts that the user starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from sitl_bridge.base.system import signals
from sitl_bridge.cli.fly import (
    AutopilotOption,
    ControllerOption,
    HeadlessOption,
    InstanceOption,
    SeedOption,
    run,
)
from sitl_bridge.cli.options import (
    AirframeOption,
    BusOption,
    ExposeOption,
    Px4Option,
    RunsOption,
    SamplesOption,
    SpeedOption,
    StreamOption,
    ViewerOption,
    ViewOption,
    WindOption,
    WorldOption,
    load_settings_world,
    outlet_choices,
    parse_bus,
    parse_speed,
)
from sitl_bridge.cli.terminal import QuietOption, Terminal, VerboseOption
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.vehicle.vehicle_specification import LAST_INSTANCE
from sitl_bridge.session.fleet_settings import FleetSettings
from sitl_bridge.session.serving import SPACING
from sitl_bridge.session.single_vehicle import FlightSettings


def start(
    airframe: AirframeOption = "iris",
    vehicles: Annotated[
        int,
        typer.Option(
            "--vehicles", "-n", min=1, max=LAST_INSTANCE + 1, help="number of vehicles, in a line to the east"
        ),
    ] = 1,
    world: WorldOption = None,
    wind: WindOption = None,
    seed: SeedOption = None,
    speed: SpeedOption = "1",
    autopilot: AutopilotOption = "auto",
    px4: Px4Option = None,
    controller: ControllerOption = None,
    instance: InstanceOption = 0,
    bus: BusOption = None,
    view: ViewOption = None,
    viewer: ViewerOption = None,
    samples: SamplesOption = None,
    stream: StreamOption = None,
    expose: ExposeOption = False,
    headless: HeadlessOption = False,
    runs_dir: RunsOption = Path("runs"),
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Bring up PX4, or the built-in flight stack, and the simulation, and leave them up until Ctrl-C.

    QGroundControl finds the vehicles automatically; your scripts connect to the ports that are printed.
    Simulated time runs at most twice as fast as real time while a vehicle is disarmed.
    """
    one = FlightSettings(
        None,
        load_airframe(airframe),
        controller,
        seed=seed,
        world=load_settings_world(world, wind),
        autopilot=autopilot,
        instance=instance,
        speed=parse_speed(speed),
        px4=px4,
        runs=runs_dir,
        bus=parse_bus(bus),
        outlets=outlet_choices(view, viewer, samples, stream),
        expose=expose,
    )
    settings = one if vehicles == 1 else _several(one.fleet, vehicles)
    terminal = Terminal(quiet=quiet, verbose=verbose)
    raise typer.Exit(signals.run(lambda: run(settings, terminal, live=not headless)))


def _several(fleet: FleetSettings, count: int) -> FleetSettings:
    """The same flight with ``count`` vehicles, SPACING apart, on consecutive instances."""
    (first,) = fleet.vehicles
    vehicles = tuple(
        replace(
            first, name=str(number), position=(0.0, SPACING * number, 0.0), instance=first.instance + number
        )
        for number in range(count)
    )
    return replace(fleet, vehicles=vehicles, on_stall="leave", proximity=Proximity())
