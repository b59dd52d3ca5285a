"""The live view and the streams in the simulation's program: processes that follow the recording."""

from __future__ import annotations

from collections.abc import Sequence

from sitl_bridge.live.run.client_link import PictureRequest, Sent, SnapshotRequest, StackReports
from sitl_bridge.live.run.outlet import Outlet, RunContext
from sitl_bridge.live.view.page_server import page_url, require_free_port, require_viser
from sitl_bridge.live.view.pictures import pack_picture
from sitl_bridge.perception.sensor_runner import SensorRunner


class Stream(Outlet):
    """Starts the process of a stream and serves it, until it is closed.

    Args:
        name, module, run, directory: as of ``Outlet``.
        arguments: of the process, before the run directory.
    """

    def __init__(
        self, name: str, module: str, run: RunContext, directory: str, arguments: Sequence[str]
    ) -> None:
        super().__init__(name, module, run, directory, [*arguments, str(run.directory.resolve())])
        names = run.source.simulation.names
        self._runners = {
            (names[host.vehicle], host.name): host for host in run.hosts if isinstance(host, SensorRunner)
        }

    def process(self, message: Sent) -> None:
        """Answer a message of the process; also: pictures and samples."""
        match message:
            case PictureRequest(vehicle, sensor):
                runner = self._runners.get((vehicle, sensor))
                sample = None if runner is None else runner.latest
                if sample is None:
                    self._send(pack_picture(vehicle, sensor, -1.0, {}))
                else:
                    seconds = (sample.time - self._source.simulation.start) * 1e-6
                    self._send(pack_picture(vehicle, sensor, seconds, sample.arrays))
            case _:
                super().process(message)


class LiveView(Stream):
    """Shows a running simulation on a page and executes commands from it, until it is closed.

    Raises:
        UserError: if viser is missing or the port is in use.
    """

    def __init__(self, run: RunContext, port: int) -> None:
        require_viser()
        require_free_port(port)
        super().__init__("the live view", "sitl_bridge.live.view.live_page", run, "view", [str(port)])
        self.url = page_url(port)

    def process(self, message: Sent) -> None:
        """Answer a message of the process; also: reports of the flight stacks."""
        super().process(message)
        if isinstance(message, SnapshotRequest):
            self._send(StackReports(self._run.stacks()))
