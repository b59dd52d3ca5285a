"""Live orders of page and bus on their way to a formation in flight.

swarm/formation/live_orders.py checks them.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeAlias

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import ReadJson

Execute: TypeAlias = Callable[[str, ReadJson, int | None], None]
"""Executes an order, kind and data, for one vehicle or for all; raises UserError to refuse it."""


class Orders:
    """Live orders of page and bus to a formation; each is answered once it has been executed."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[partial[None], Future[None]]] = queue.SimpleQueue()
        self._execute: Execute | None = None
        self._refusal = "the formation has not started yet"

    def open(self, execute: Execute) -> None:
        """Take orders from now on, which ``execute`` carries out."""
        self._execute, self._refusal = execute, ""

    def close(self, refusal: str) -> None:
        """Refuse all orders from now on, and those that wait."""
        self._refusal = refusal
        self.serve()

    def ask(self, kind: str, data: ReadJson, vehicle: int | None) -> Future[None]:
        """Send an order to one vehicle, or to all (None), from any thread; the future completes with its end.

        Raises:
            UserError: while no formation takes orders.
        """
        if self._refusal or self._execute is None:
            raise UserError(self._refusal)
        answer: Future[None] = Future()
        self._waiting.put((partial(self._execute, kind, data, vehicle), answer))
        return answer

    def serve(self) -> None:
        """Execute the orders that wait, or refuse them with a UserError."""
        while not self._waiting.empty():
            execute, answer = self._waiting.get()
            try:
                if self._refusal:
                    raise UserError(self._refusal)
                execute()
                answer.set_result(None)
            except UserError as error:
                answer.set_exception(error)
