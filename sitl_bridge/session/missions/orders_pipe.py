"""Live orders from the bridge's process to the program that flies a formation, and their answers.

A pair of sockets with JSON lines in both directions.  Orders are plain data here; the formation checks and
executes them, see swarm/formation/live_orders.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeAlias

from sitl_bridge.base.errors import UserError

ORDER_LIMIT = 5.0
"""s of wall time after which an order that has not been read is no longer executed."""
MOST_BYTES = 1 << 18
"""Greatest length of an order."""

Execute: TypeAlias = Callable[[str, Mapping[str, Any], int | None], None]
"""Executes an order, kind and data, for one vehicle or for all; raises UserError to refuse it."""


class OrdersPipe:
    """The bridge's end of the pipe.

    Attributes:
        other: the formation's end, which the process that flies the formation inherits.
    """

    def __init__(self) -> None:
        self._here, self.other = socket.socketpair()
        self._waiting: dict[int, Future[None]] = {}
        self._count = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended = ""

    def begin(self) -> None:
        """Start reading answers; the formation's process has inherited the other end."""
        self.other.close()
        self._thread = threading.Thread(target=self._read, name="orders", daemon=True)
        self._thread.start()

    def ask(self, kind: str, data: Mapping[str, Any], vehicle: int | None) -> Future[None]:
        """Send an order.

        Args:
            kind: of order, as in the topic of a command.
            data: of the order, as in JSON.
            vehicle: number of its vehicle; None for all.

        Returns:
            completed when the order has been executed, with a UserError if it is refused.

        Raises:
            UserError: if no program flies the formation.
        """
        answer: Future[None] = Future()
        with self._lock:
            if self._thread is None:
                raise UserError("the formation has not started yet")
            if self._ended:
                raise UserError(self._ended)
            self._count += 1
            number = self._count
            self._waiting[number] = answer
        order = {
            "number": number,
            "kind": kind,
            "vehicle": vehicle,
            "before": time.monotonic() + ORDER_LIMIT,
            "data": dict(data),
        }
        line = json.dumps(order).encode() + b"\n"
        try:
            sent = self._here.send(line, socket.MSG_DONTWAIT)
        except OSError:
            sent = 0
        if sent < len(line):
            with self._lock:
                self._waiting.pop(number, None)
                # The next order would be appended to the incomplete one.
                self._ended = "the formation no longer takes orders" if sent else self._ended
            raise UserError("the program that flies the formation does not read its orders")
        return answer

    def close(self) -> None:
        """Close both ends; safe to call twice."""
        self.other.close()
        with contextlib.suppress(OSError):  # the other end closed first
            self._here.shutdown(socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join()
        self._here.close()

    def _read(self) -> None:
        # An incomplete last line is ignored.
        with self._here.makefile("rb") as lines, contextlib.suppress(OSError, ValueError):
            for line in lines:
                self._take(json.loads(line))
        with self._lock:
            self._ended = "the formation has ended"
            left, self._waiting = self._waiting, {}
        for answer in left.values():
            answer.set_exception(UserError(self._ended))

    def _take(self, reply: dict[str, object]) -> None:
        number, refused = reply["number"], reply["refused"]
        assert isinstance(number, int)
        with self._lock:
            answer = self._waiting.pop(number)
        if refused is None:
            answer.set_result(None)
        else:
            answer.set_exception(UserError(str(refused)))


async def receive_orders(other: int, execute: Execute) -> None:
    """The formation's end of the pipe: execute orders until the bridge closes it.

    Args:
        other: file descriptor of ``OrdersPipe.other``.
        execute: called with each order.
    """
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=other), limit=MOST_BYTES)
    try:
        async for line in reader:
            order = json.loads(line)
            answer = {"number": order["number"], "refused": _execute(order, execute)}
            writer.write(json.dumps(answer).encode() + b"\n")
    finally:
        writer.close()


def _execute(order: dict[str, object], execute: Execute) -> str | None:
    """Execute an order; returns the reason of a refusal, None for success."""
    kind, vehicle, before = order["kind"], order["vehicle"], order["before"]
    assert isinstance(kind, str)
    assert isinstance(before, float)
    assert vehicle is None or isinstance(vehicle, int)
    if time.monotonic() > before:
        return f"the formation did not read the order within {ORDER_LIMIT:g} s"
    data = order["data"]
    assert isinstance(data, dict)
    try:
        execute(kind, data, vehicle)
    except UserError as error:
        return str(error)
    return None
