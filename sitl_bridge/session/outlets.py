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
from sitl_bridge.session.outlet_choices import OutletChoices


class Shower(Protocol):
    """Shows a run to others until it is closed."""

    def start(self) -> None:
        """Begin."""
        ...

    def close(self) -> None:
        """End; safe to call twice."""
        ...


@dataclass(frozen=True)
class ShownRun:
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


def start_outlets(
    run: ShownRun, bus: BusAddress | None, choices: OutletChoices, keep: Callable[[Shower], object]
) -> None:
    """Start what is chosen.

    Args:
        run: that is shown.
        bus: broker; None for none.
        choices: pages and streams.
        keep: takes each outlet before it starts, to close it at the end.

    Raises:
        UserError: for a port in use.
    """
    made: list[Shower] = []
    if bus is not None:
        made.append(_bus(run, bus))
    if choices.view is not None:
        made.append(_live_view(run, choices.view))
    if choices.viewer is not None:
        made.append(_viewer_stream(run, choices.viewer))
    if choices.samples is not None:
        made.append(_sample_socket(run, choices.samples))
    if choices.stream is not None:
        made.append(_foxglove_stream(run, choices.stream))
    for outlet in made:
        keep(outlet)
        outlet.start()


def _bus(run: ShownRun, address: BusAddress) -> Outlet:
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


def _live_view(run: ShownRun, port: int) -> Outlet:
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


def _viewer_stream(run: ShownRun, target: tuple[str, int]) -> Outlet:
    from sitl_bridge.live.view.stream_outlets import viewer_stream

    return viewer_stream(
        run.source, target, run.instances, run=run.directory, notify=run.notify, errors=run.errors
    )


def _sample_socket(run: ShownRun, path: Path) -> Shower:
    from sitl_bridge.analysis.export.sample_socket import SampleSocket

    return SampleSocket(path, run.hosts, run.source.simulation.names, run.notify)


def _foxglove_stream(run: ShownRun, address: tuple[str, int]) -> Outlet:
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
