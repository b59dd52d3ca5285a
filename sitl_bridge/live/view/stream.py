"""The streams in the simulation's program: processes that follow the recording, with pictures of cameras."""

from __future__ import annotations

from collections.abc import Sequence

from sitl_bridge.base.arrays import Columns
from sitl_bridge.live.bus.client_link import PictureRequest, Sent
from sitl_bridge.live.bus.outlet import Outlet, RunContext
from sitl_bridge.live.view.pictures import LastSample, picture_of
from sitl_bridge.perception.sensor_runner import SensorRunner


def last_samples(run: RunContext) -> LastSample:
    """The last samples of the sensors that run beside a simulation."""
    simulation = run.source.simulation
    runners = {
        (simulation.names[host.vehicle], host.name): host
        for host in run.hosts
        if isinstance(host, SensorRunner)
    }

    def last(vehicle: str, sensor: str) -> tuple[float, Columns] | None:
        runner = runners.get((vehicle, sensor))
        sample = None if runner is None else runner.latest
        return None if sample is None else ((sample.time - simulation.start) * 1e-6, sample.arrays)

    return last


class Stream(Outlet):
    """Starts the process of a stream and serves it, until it is closed.

    Args:
        name, module, run, directory: as of ``Outlet``.
        arguments: of the process, before the run directory.

    Attributes:
        last_sample: of the cameras.
    """

    def __init__(
        self, name: str, module: str, run: RunContext, directory: str, arguments: Sequence[str]
    ) -> None:
        super().__init__(name, module, run, directory, [*arguments, str(run.directory.resolve())])
        self.last_sample = last_samples(run)

    def process(self, message: Sent) -> None:
        """Answer a message of the process; also: pictures and samples."""
        match message:
            case PictureRequest(vehicle, sensor):
                self._send(picture_of(self.last_sample, vehicle, sensor))
            case _:
                super().process(message)
