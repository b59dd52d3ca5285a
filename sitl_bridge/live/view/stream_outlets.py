"""The streams in the simulation's program: processes that follow the recording and send no commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.live.bus.client_link import PictureRequest, Sent
from sitl_bridge.live.bus.execution import Execution
from sitl_bridge.live.bus.outlet import Outlet
from sitl_bridge.live.bus.run_source import RunSource
from sitl_bridge.live.view.pictures import LastSample, picture_of


class Stream(Outlet):
    """Starts the process of a stream and serves it, until it is closed.

    Args:
        name: of the process, for messages.
        module: that it runs.
        arguments: of the process, before the run directory.
        source: the running simulation.
        run: the run directory, whose run.json is written and whose recording has begun.
        directory: for the log, in the run directory.
        execution: of the commands from the process; None for a stream, which sends none.
        last_sample: of the cameras.
        notify: prints messages for the user.
        errors: collects errors that do not end the simulation.
    """

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str],
        source: RunSource,
        *,
        run: Path,
        directory: str,
        execution: Execution | None = None,
        last_sample: LastSample = lambda _vehicle, _sensor: None,
        notify: Callable[[str], None] = lambda _line: None,
        errors: ErrorLog | None = None,
    ) -> None:
        super().__init__(
            name,
            module,
            source,
            execution or Execution(source),
            directory=run / directory,
            notify=notify,
            errors=errors,
        )
        self._arguments = [*arguments, str(run.resolve())]
        self._last_sample = last_sample

    def start(self, arguments: Sequence[str] = (), first: Sequence[Sent] = ()) -> None:
        """Start the process."""
        super().start([*self._arguments, *arguments], first)

    def _process(self, message: Sent) -> None:
        match message:
            case PictureRequest(vehicle, sensor):
                self._send(picture_of(self._last_sample, vehicle, sensor))
            case _:
                super()._process(message)


def viewer_stream(
    source: RunSource,
    target: tuple[str, int],
    instances: Sequence[int],
    *,
    run: Path,
    notify: Callable[[str], None] = lambda _line: None,
    errors: ErrorLog | None = None,
) -> Stream:
    """The state stream for PX4's viewers.

    Args:
        source, run, notify, errors: as of ``Stream``.
        target: host, and the UDP port of instance 0.
        instances: of the vehicles' flight stacks.
    """
    host, port = target
    arguments = [host, str(port), ",".join(str(number) for number in instances)]
    return Stream(
        "the state stream for viewers",
        "sitl_bridge.live.view.viewer_stream",
        arguments,
        source,
        run=run,
        directory="viewer",
        notify=notify,
        errors=errors,
    )


def foxglove_stream(
    source: RunSource,
    address: tuple[str, int],
    *,
    run: Path,
    last_sample: LastSample = lambda _vehicle, _sensor: None,
    notify: Callable[[str], None] = lambda _line: None,
    errors: ErrorLog | None = None,
) -> Stream:
    """The stream for Foxglove.

    Args:
        source, run, last_sample, notify, errors: as of ``Stream``.
        address: host and TCP port to listen on.
    """
    host, port = address
    return Stream(
        "the stream for Foxglove",
        "sitl_bridge.live.view.foxglove_stream",
        [host, str(port)],
        source,
        run=run,
        directory="stream",
        last_sample=last_sample,
        notify=notify,
        errors=errors,
    )
