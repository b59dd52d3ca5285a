"""The bus in the simulation's program: it starts the MQTT client process and serves it from a thread.

Messages are in messages.py, the queue of commands in command_queue.py, their execution in execution.py; the
client process is client.py.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from sitl_bridge.live.bus.address import BusAddress
from sitl_bridge.live.bus.broker import free_port, require_free
from sitl_bridge.live.bus.client_settings import ClientSettings
from sitl_bridge.live.run.client_link import Connected, Sent, SnapshotRequest
from sitl_bridge.live.run.command_queue import Counts
from sitl_bridge.live.run.outlet import Outlet, RunContext
from sitl_bridge.live.run.topics import Topics, topic_name


class Bus(Outlet):
    """Publishes a running simulation and executes commands for it, until it is closed.

    It reads the simulation while it runs and passes commands to it between two steps.  A slow or missing
    broker does not affect the simulation.

    Args:
        address: of the broker; its ``run`` names the run in topics, else invalid characters of the run's own
            name become '_'.

    Raises:
        UserError: for a name that is invalid in a topic, or if the embedded broker's port is in use.
    """

    def __init__(self, run: RunContext, address: BusAddress) -> None:
        super().__init__("the bus", "sitl_bridge.live.bus.client", run, "bus")
        if address.embedded:
            address = replace(address, port=address.port or free_port())
            require_free(address.port)
        self.address = address
        name = address.run or topic_name(run.name or run.directory.name)
        self.topics = Topics(name, run.source.simulation.names)
        self.counts = Counts()
        self.connected = threading.Event()

    def start(self, first: Sequence[Sent] = ()) -> None:
        """Start the bus; return before the broker is connected."""
        self._notify(f"bus at {self.address}, topics {self.topics.root}/#")
        if self.address.warning:
            self._notify(self.address.warning)
        run = self.topics.root.removeprefix("sitl/")
        settings = ClientSettings(self.address, run, self.topics.vehicles, self._directory.resolve())
        super().start([settings.message(), *first])

    def _note_end(self) -> None:
        self.connected.clear()

    def process(self, message: Sent) -> None:
        """Answer a message of the process; also: counts and the connection to the broker."""
        match message:
            case SnapshotRequest(counts):
                self.counts = counts
            case Connected(connected):
                (self.connected.set if connected else self.connected.clear)()
        super().process(message)
