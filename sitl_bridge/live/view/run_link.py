"""The side of the simulation's program in a process that shows a run: the link, and commands by the queue."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.live.run.client_link import (
    FROM_BRIDGE,
    Orders,
    PipeEnd,
    Results,
    Sent,
    SimulationSnapshot,
    Stop,
    UserNotice,
)
from sitl_bridge.live.run.command_queue import CommandQueue, Order
from sitl_bridge.live.run.messages import Reply
from sitl_bridge.live.run.topics import Topics, topic_name


def quit_now() -> None:
    """End the process."""
    os._exit(1)


class RunLink:
    """Reads the link on a thread of its own and passes commands on; from any thread.

    Args:
        descriptor: of the link's socket.
        on_end: called when the simulation's program has ended; by default the process ends as well.
    """

    def __init__(
        self,
        descriptor: int,
        directory: Path,
        names: tuple[str, ...],
        on_replies: Callable[[list[Reply]], None] = lambda _replies: None,
        on_message: Callable[[Sent], None] = lambda _message: None,
        on_end: Callable[[], None] = quit_now,
    ) -> None:
        self._link = PipeEnd(socket.socket(fileno=descriptor), FROM_BRIDGE)
        topics = self._topics = Topics(topic_name(directory.name), names)
        self._on_replies, self._on_message = on_replies, on_message
        self._on_end = on_end
        self.snapshot: SimulationSnapshot | None = None
        self.stopped = threading.Event()
        self._lock = threading.Lock()
        self._count = 0
        self._queue = CommandQueue(topics, self._hand_on, self._time)
        self.thread = threading.Thread(target=self._read, name="link", daemon=True)
        self.thread.start()

    def _time(self) -> float:
        return 0.0 if self.snapshot is None else self.snapshot.time

    def _hand_on(self, orders: list[Order]) -> None:
        self._link.send(Orders(orders))

    def send(self, message: Sent) -> None:
        """Send a message to the simulation's program."""
        self._link.send(message)

    def notify(self, line: str) -> None:
        """Print a line for the user."""
        self._link.send(UserNotice(line))

    def command(self, kind: str, vehicle: str | None, fields: JsonObject) -> None:
        """Send a command by the queue, as a client of the bus publishes it."""
        where = self._topics.root if vehicle is None else f"{self._topics.root}/vehicle/{vehicle}"
        with self._lock:
            self._count += 1
            request = {"version": 1, "request_id": f"{os.getpid()}-{self._count}", **fields}
            reply = self._queue.receive(f"{where}/command/{kind}", json.dumps(request).encode())
            self._queue.poll()
        if reply is not None:
            self._on_replies([reply])

    def _read(self) -> None:
        while True:
            try:
                message = self._link.receive()
            except (EOFError, OSError):
                self._link.close()
                self._on_end()
                return
            match message:
                case SimulationSnapshot():
                    self.snapshot = message
                case Results(results):
                    with self._lock:
                        replies = self._queue.settle(results)
                        self._queue.poll()
                    self._on_replies(replies)
                case Stop():
                    self.stopped.set()
                case _:
                    self._on_message(message)
