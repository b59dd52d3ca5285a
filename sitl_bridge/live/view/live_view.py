"""The live view in the simulation's program: it starts the page's process and serves it from a thread."""

from __future__ import annotations

from sitl_bridge.live.bus.client_link import Sent, SnapshotRequest, StackReports
from sitl_bridge.live.bus.outlet import RunContext
from sitl_bridge.live.view.page_server import page_url, require_free_port, require_viser
from sitl_bridge.live.view.stream import Stream


class LiveView(Stream):
    """Shows a running simulation on a page and executes commands from it, until it is closed."""

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
