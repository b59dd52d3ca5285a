"""Starts what shows a run and passes on commands to it: the bus, the live page and the streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.core.sensors.sensor_host import SensorHost
from sitl_bridge.live.bus.address import BusAddress
from sitl_bridge.live.bus.client_link import StackReport
from sitl_bridge.live.bus.execution import CommandWitness
from sitl_bridge.live.bus.outlet import Outlet
from sitl_bridge.live.bus.run_source import RunSource
from sitl_bridge.live.bus.simulation_commands import OnCommand
from sitl_bridge.session.settings import OutletSettings


class RunOutput(Protocol):
    """Shows a run to others until it is closed."""

    def start(self) -> None:
        """Begin."""
        ...

    def close(self) -> None:
        """End; safe to call twice."""
        ...


@dataclass(frozen=True)
class RunContext:
    """A run that has begun to record.

    Attributes:
        source: the simulation.
        directory: of the run.
        witness: takes each command that was carried out or refused.
        errors: collects errors that do not end the simulation.
        notify: prints messages for the user.
        instances: of the vehicles' flight stacks.
        hosts: of its sensors that see.
        on_formation, on_flight: execute delegated commands; None refuses them.
        stacks: the flight stacks' reports, in the order of the vehicles.
    """

    source: RunSource
    directory: Path
    witness: CommandWitness
    errors: ErrorLog
    notify: Callable[[str], None]
    instances: tuple[int, ...]
    hosts: tuple[SensorHost, ...] = ()
    on_formation: OnCommand | None = None
    on_flight: OnCommand | None = None
    stacks: Callable[[], list[StackReport]] = list


def start_outlets(run: RunContext, settings: OutletSettings, keep: Callable[[RunOutput], object]) -> None:
    """Start what shows a run.

    Args:
        run: that is shown.
        settings: of the outlets.
        keep: takes each outlet before it starts, to close it at the end.

    Raises:
        UserError: for a port in use.
    """
    made: list[RunOutput] = []
    if settings.bus is not None:
        made.append(_bus(run, settings.bus))
    if settings.view is not None:
        made.append(_live_view(run, settings.view))
    if settings.viewer is not None:
        made.append(_viewer_stream(run, settings.viewer))
    if settings.samples is not None:
        made.append(_sample_socket(run, settings.samples))
    if settings.stream is not None:
        made.append(_foxglove_stream(run, settings.stream))
    for outlet in made:
        keep(outlet)
        outlet.start()


def _bus(run: RunContext, address: BusAddress) -> Outlet:
    from sitl_bridge.live.bus.bus import Bus  # importing MQTT takes time, which other runs save

    return Bus(
        run.source,
        address,
        run=run.directory.name,
        directory=run.directory / "bus",
        on_formation=run.on_formation,
        on_flight=run.on_flight,
        notify=run.notify,
        witness=run.witness,
        errors=run.errors,
    )


def _live_view(run: RunContext, port: int) -> Outlet:
    from sitl_bridge.live.view.live_view import LiveView, last_samples

    return LiveView(
        run.source,
        port,
        run=run.directory,
        on_formation=run.on_formation,
        on_flight=run.on_flight,
        last_sample=last_samples(run.hosts, run.source.simulation),
        stacks=run.stacks,
        notify=run.notify,
        witness=run.witness,
        errors=run.errors,
    )


def _viewer_stream(run: RunContext, target: tuple[str, int]) -> Outlet:
    from sitl_bridge.live.view.stream_outlets import viewer_stream

    return viewer_stream(
        run.source, target, run.instances, run=run.directory, notify=run.notify, errors=run.errors
    )


def _sample_socket(run: RunContext, path: Path) -> RunOutput:
    from sitl_bridge.analysis.export.sample_socket import SampleSocket

    return SampleSocket(path, run.hosts, run.source.simulation.names, run.notify)


def _foxglove_stream(run: RunContext, address: tuple[str, int]) -> Outlet:
    from sitl_bridge.live.view.live_view import last_samples
    from sitl_bridge.live.view.stream_outlets import foxglove_stream

    return foxglove_stream(
        run.source,
        address,
        run=run.directory,
        last_sample=last_samples(run.hosts, run.source.simulation),
        notify=run.notify,
        errors=run.errors,
    )
