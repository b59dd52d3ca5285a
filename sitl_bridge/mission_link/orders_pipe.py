"""Orders on their way from the program that runs vehicles to the one that flies their formation, and answers.

A pair of sockets, JSON lines both ways.  An order is plain data here: whoever takes it checks it.  What
orders do is in swarm/formation/live_orders.py.
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

from sitl_bridge.errors import UserError

PATIENCE = 5.0
"""s of wall time after which an order that was not taken is not carried out any more."""
LONGEST = 1 << 18
"""Bytes of an order."""

Take: TypeAlias = Callable[[str, Mapping[str, Any], int | None], None]
"""Carries out an order, kind and data, for one vehicle or for all; raises UserError to refuse it."""


class OrdersPipe:
    """The end of the program that runs the vehicles.

    Attributes:
        other: the other end, which the process that flies the formation inherits.
    """

    def __init__(self) -> None:
        self._here, self.other = socket.socketpair()
        self._waiting: dict[int, Future[None]] = {}
        self._count = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended = ""

    def begin(self) -> None:
        """From now on somebody has the other end."""
        self.other.close()
        self._thread = threading.Thread(target=self._read, name="orders", daemon=True)
        self._thread.start()

    def ask(self, kind: str, data: Mapping[str, Any], vehicle: int | None) -> Future[None]:
        """Send an order.

        Args:
            kind: of order, as in the topic of a command.
            data: what is to be done, as JSON has it.
            vehicle: number of the one it is for; None for all.

        Returns:
            done when it is carried out, or UserError where it is refused.

        Raises:
            UserError: where nobody flies the formation.
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
            "before": time.monotonic() + PATIENCE,
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
                # Half an order would be read together with the next one.
                self._ended = "the formation takes no orders any more" if sent else self._ended
            raise UserError("the program that flies the formation does not read its orders")
        return answer

    def close(self) -> None:
        """Hang up; safe to call twice."""
        self.other.close()
        with contextlib.suppress(OSError):  # the other end was first
            self._here.shutdown(socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join()
        self._here.close()

    def _read(self) -> None:
        # What breaks off in the middle of a line answers nothing.
        with self._here.makefile("rb") as lines, contextlib.suppress(OSError, ValueError):
            for line in lines:
                self._take(json.loads(line))
        with self._lock:
            self._ended = "the formation has ended"
            left, self._waiting = self._waiting, {}
        for answer in left.values():
            answer.set_exception(UserError(self._ended))

    def _take(self, said: dict[str, object]) -> None:
        number, refused = said["number"], said["refused"]
        assert isinstance(number, int)
        with self._lock:
            answer = self._waiting.pop(number)
        if refused is None:
            answer.set_result(None)
        else:
            answer.set_exception(UserError(str(refused)))


async def receive_orders(other: int, take: Take) -> None:
    """Carry out orders until the line is hung up: the end of the program that flies the formation.

    Args:
        other: file descriptor of ``OrdersPipe.other``.
        take: carries them out.
    """
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=other), limit=LONGEST)
    try:
        async for line in reader:
            order = json.loads(line)
            answer = {"number": order["number"], "refused": _refusal(order, take)}
            writer.write(json.dumps(answer).encode() + b"\n")
    finally:
        writer.close()


def _refusal(order: dict[str, object], take: Take) -> str | None:
    """Why an order was refused; None when it was carried out."""
    kind, vehicle, before = order["kind"], order["vehicle"], order["before"]
    assert isinstance(kind, str)
    assert isinstance(before, float)
    assert vehicle is None or isinstance(vehicle, int)
    if time.monotonic() > before:
        return f"the formation did not take it within {PATIENCE:g} s"
    data = order["data"]
    assert isinstance(data, dict)
    try:
        take(kind, data, vehicle)
    except UserError as error:
        return str(error)
    return None
