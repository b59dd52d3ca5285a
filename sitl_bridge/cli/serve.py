"""``sitl-bridge serve``: the simulation alone, for a flight stack that someone else starts."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from sitl_bridge.bus.address import BusAddress, is_this_machine
from sitl_bridge.cli.options import (
    AirframeOption,
    BusOption,
    RunsOption,
    SpeedOption,
    WindOption,
    WorldOption,
    load_settings_world,
    parse_bus,
    parse_speed,
)
from sitl_bridge.errors import UserError
from sitl_bridge.files.airframe_file import load_airframe
from sitl_bridge.hil.ports import FIRST_PORT
from sitl_bridge.hil.server import LockstepServer, OnStall, Status
from sitl_bridge.kernels.compiled import announced
from sitl_bridge.record.run_directory import RunDirectory
from sitl_bridge.record.truth_log import TruthLog
from sitl_bridge.run.battery_feed import battery_sample
from sitl_bridge.run.monitor import Monitor
from sitl_bridge.sensors.custom import CustomSensorHost
from sitl_bridge.simulation import Simulation, VehicleSetup
from sitl_bridge.system import signals
from sitl_bridge.vehicle.airframe import Airframe
from sitl_bridge.world.world import World, WorldSpecification

TICK = 0.1
"""s of wall time between looks at the server."""


def status_line(status: Status, host: str) -> Text:
    """What the server is doing, on one line."""
    link = status.links[0]
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{status.time:7.1f} s", "bold")
    line.append(f"  {status.real_time_factor:4.1f} x", "cyan")
    if not link.connected:
        line.append(f"  waiting for a flight stack on {host}:{link.port}", "yellow")
        return line
    line.append("  armed" if link.armed else "  disarmed", "green")
    north, east, down = (float(value) for value in status.position[0])
    line.append(f"  N {north:.1f} E {east:.1f} up {-down:.1f} m")
    if link.held:
        line.append("  the flight stack does not read its link; time waits", "red")
    elif link.stalled:
        line.append("  the flight stack does not answer; real time", "red")
    return line


def serve(
    airframe: AirframeOption = "iris",
    world: WorldOption = None,
    wind: WindOption = None,
    seed: Annotated[int, typer.Option(min=0, help="seed of all random streams")] = 0,
    speed: SpeedOption = "1",
    host: Annotated[str, typer.Option(help="address to listen on; 0.0.0.0 for other hosts")] = "127.0.0.1",
    instance: Annotated[int, typer.Option(min=0, max=254, help="listens on port 4560 + instance")] = 0,
    on_stall: Annotated[
        str, typer.Option(help="when the flight stack stops answering: continue, wait or abort")
    ] = "continue",
    battery: Annotated[
        bool, typer.Option("--battery", help="send PX4 the simulated battery; only to a PX4 on this host")
    ] = False,
    bus: BusOption = None,
    runs_dir: RunsOption = Path("runs"),
) -> None:
    """Serve the simulator link to a flight stack that is started elsewhere: in Docker, a debugger, on a host.

    PX4 needs the airframe's parameters: `sitl-bridge px4-files DIR --airframe NAME` writes them.  With
    --battery give both commands that option; without it PX4 makes up a battery of its own.
    """
    settings = _Settings(
        load_airframe(airframe),
        load_settings_world(world, wind),
        seed,
        parse_speed(speed),
        host,
        instance,
        _policy(on_stall),
        battery,
        parse_bus(bus),
        runs_dir,
    )
    raise typer.Exit(signals.run(lambda: _serve(settings, Console())))


@dataclass(frozen=True)
class _Settings:
    """What is served, checked."""

    frame: Airframe
    world: WorldSpecification
    seed: int
    speed: float
    host: str
    instance: int
    on_stall: OnStall
    battery: bool
    bus: BusAddress | None
    runs: Path


def _serve(settings: _Settings, console: Console) -> int:
    """Serve until a signal or until the server ends by itself; returns the exit code.

    Raises:
        UserError: for what the user can mend.
    """
    frame, seed, host, port = settings.frame, settings.seed, settings.host, FIRST_PORT + settings.instance
    with contextlib.ExitStack() as stack:
        with announced(console.print):
            setup = VehicleSetup(frame.vehicle(), frame.sensor_records(), name="0")
            simulation = Simulation(World(settings.world), [setup], seed=seed)
            server = LockstepServer(
                simulation,
                ports=[port],
                host=host,
                speed=settings.speed,
                on_stall=settings.on_stall,
                notify=lambda line: console.print(Text(line), soft_wrap=True),
            )
            stack.callback(server.close)
            server.prepare()
        directory = RunDirectory(settings.runs, f"serve-{frame.name}")
        stack.callback(directory.close)
        server.custom = tuple(
            CustomSensorHost(sensor, seed=seed, table=directory.path / f"{sensor.name}.csv")
            for sensor in frame.custom_sensors()
        )
        directory.describe(
            airframe=frame.model_dump(mode="json"), world=settings.world.model_dump(mode="json"), seed=seed
        )
        server.recorder = stack.enter_context(TruthLog(directory.truth))
        # Whatever ends this, the server writes its last rows before the log is closed.
        stack.callback(server.close)
        console.print(Text(f"run directory {directory.path}"))
        if not is_this_machine(host):
            line = f"warning: whoever reaches {host}:{port} can be the flight stack; the link has no password"
            console.print(Text(line, "yellow"), soft_wrap=True)
        console.print(Text(f"waiting for flight stack {settings.instance} on {host}:{port}; Ctrl-C ends it"))
        if settings.battery:
            cells = frame.battery.cells
            monitor = Monitor(settings.instance, battery=lambda: battery_sample(server, cells))
            stack.callback(monitor.stop)
            monitor.start()
        if settings.bus is not None:
            stack.enter_context(_bus(settings.bus, server, directory, console))
        _watch(server, console, host)
    if server.failure is not None:
        raise server.failure
    return int(bool(server.errors.lines))


def _bus(
    address: BusAddress, server: LockstepServer, directory: RunDirectory, console: Console
) -> contextlib.AbstractContextManager[object]:
    from sitl_bridge.bus.bus import Bus  # MQTT costs start-up time only where it is wanted

    return Bus(
        server,
        address,
        run=directory.path.name,
        directory=directory.path / "bus",
        notify=lambda line: console.print(Text(line), soft_wrap=True),
        errors=server.errors,
    )


def _watch(server: LockstepServer, console: Console, host: str) -> None:
    """Serve until the server ends by itself."""
    server.start()
    if console.is_terminal:
        with Live(console=console, refresh_per_second=10, transient=True) as display:
            while server.running:
                display.update(status_line(server.status(), host))
                time.sleep(TICK)
    while server.running:
        time.sleep(TICK)


def _policy(text: str) -> OnStall:
    for policy in ("continue", "wait", "abort"):
        if text == policy:
            return policy
    raise UserError(f"--on-stall {text!r}: write continue, wait or abort")
