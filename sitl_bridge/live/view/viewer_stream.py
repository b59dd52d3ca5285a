"""The process of the state stream for PX4's viewers: it follows the recording and sends the vehicles' states.

Its priority is low.  The other side is live_view.py.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from pathlib import Path

from sitl_bridge.base.errors import UserError
from sitl_bridge.live.bus.broker import lower_priority
from sitl_bridge.live.bus.client_link import RowsRequest
from sitl_bridge.live.bus.topics import Topics, topic_name
from sitl_bridge.live.view.run_link import RunLink
from sitl_bridge.live.view.viewed_run import ViewedRun
from sitl_bridge.live.view.viewer_messages import ViewerMessages
from sitl_bridge.record.row_follower import RowFollower

INTERVAL = 0.04
"""s of wall time between two states, as PX4's SIH sends them."""
HEARTBEAT = 1.0
"""s of wall time between two heartbeats."""


class ViewerStream:
    """Sends the states of all vehicles until stopped.

    Args:
        target: host, and the port of instance 0.
    """

    def __init__(
        self, descriptor: int, target: tuple[str, int], instances: tuple[int, ...], directory: Path
    ) -> None:
        run = self._run = ViewedRun(directory)
        self._link = RunLink(descriptor, Topics(topic_name(directory.name), run.names))
        self._rows_source = RowFollower(directory, len(run.names))
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        host, port = target
        self._targets = [(host, port + instance) for instance in instances]
        self._messages = [
            ViewerMessages(instance + 1, len(airframe.rotors), run.origin, run.gravity)
            for instance, airframe in zip(instances, run.airframes, strict=True)
        ]

    def run(self) -> None:
        """Send until stopped."""
        beat = due = time.monotonic()
        while not self._link.stopped.wait(max(due - time.monotonic(), 0.0)):
            now = time.monotonic()
            due = max(due + INTERVAL, now)
            self._link.send(RowsRequest())
            self.send(heartbeat=now >= beat)
            if now >= beat:
                beat = now + HEARTBEAT
        self._socket.close()

    def send(self, *, heartbeat: bool) -> None:
        """Send the last state of every vehicle."""
        rows = self._rows_source.rows()[-len(self._targets) :]
        if not len(rows):
            rows = self._run.at_start()
        for row, messages, target in zip(rows, self._messages, self._targets, strict=True):
            frames = [messages.heartbeat(row)] if heartbeat else []
            frames += [messages.controls(row), messages.state(row)]
            for frame in frames:
                with contextlib.suppress(OSError):  # nobody listens there, or not any more
                    self._socket.sendto(frame, target)


def main() -> None:
    """Run the process: descriptor of the link, host, port, instances with commas, run directory."""
    instances = tuple(int(number) for number in sys.argv[4].split(","))
    try:
        stream = ViewerStream(int(sys.argv[1]), (sys.argv[2], int(sys.argv[3])), instances, Path(sys.argv[5]))
    except UserError as error:
        sys.exit(str(error))
    lower_priority()
    stream.run()


if __name__ == "__main__":
    main()
