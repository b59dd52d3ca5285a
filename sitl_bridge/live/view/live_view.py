"""The live view in the simulation's program: it starts the page's process and serves it from a thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.core.sensors.sensor_host import SensorHost
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.live.bus.client_link import Sent, SnapshotRequest, StackReport, StackReports
from sitl_bridge.live.bus.execution import CommandWitness, Execution
from sitl_bridge.live.bus.run_source import RunSource
from sitl_bridge.live.bus.simulation_commands import OnCommand
from sitl_bridge.live.view.page_server import page_url, require_free_port, require_viser
from sitl_bridge.live.view.pictures import LastSample
from sitl_bridge.live.view.stream_outlets import Stream
from sitl_bridge.perception.sensor_runner import SensorRunner


def last_samples(hosts: Sequence[SensorHost], simulation: Simulation) -> LastSample:
    """The last samples of the sensors that run beside a simulation."""
    runners = {
        (simulation.names[host.vehicle], host.name): host for host in hosts if isinstance(host, SensorRunner)
    }

    def last(vehicle: str, sensor: str) -> tuple[float, Mapping[str, NDArray[Any]]] | None:
        runner = runners.get((vehicle, sensor))
        sample = None if runner is None else runner.latest
        return None if sample is None else ((sample.time - simulation.start) * 1e-6, sample.arrays)

    return last


class LiveView(Stream):
    """Shows a running simulation on a page and executes commands from it, until it is closed.

    Args:
        source: the running simulation.
        port: TCP port of the page on this machine.
        run: the run directory, whose run.json is written and whose recording has begun.
        on_formation, on_flight: execute delegated commands; None refuses them.
        last_sample: of the cameras.
        stacks: the flight stacks' reports, in the order of the vehicles.
        notify: prints messages for the user.
        witness: takes each command that was carried out or refused.
        errors: collects errors that do not end the simulation.

    Raises:
        UserError: if viser is missing or the port is in use.
    """

    def __init__(
        self,
        source: RunSource,
        port: int,
        *,
        run: Path,
        on_formation: OnCommand | None = None,
        on_flight: OnCommand | None = None,
        last_sample: LastSample = lambda _vehicle, _sensor: None,
        stacks: Callable[[], list[StackReport]] = list,
        notify: Callable[[str], None] = lambda _line: None,
        witness: CommandWitness = lambda _time, _name, _vehicle, _data, _refused: None,
        errors: ErrorLog | None = None,
    ) -> None:
        require_viser()
        require_free_port(port)
        execution = Execution(source, on_formation, on_flight=on_flight, witness=witness)
        super().__init__(
            "the live view",
            "sitl_bridge.live.view.live_page",
            [str(port)],
            source,
            run=run,
            directory="view",
            execution=execution,
            last_sample=last_sample,
            notify=notify,
            errors=errors,
        )
        self._port, self._stacks = port, stacks

    def _process(self, message: Sent) -> None:
        super()._process(message)
        if isinstance(message, SnapshotRequest):
            self._send(StackReports(self._stacks()))

    @property
    def url(self) -> str:
        """Address of the page."""
        return page_url(self._port)
