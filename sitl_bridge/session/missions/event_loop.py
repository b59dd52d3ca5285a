"""An event loop that tells the time gate when the mission has nothing left to do."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from sitl_bridge.session.missions.time_gate import TimeGate


class _Selector(selectors.DefaultSelector):
    """A selector that ends the turn before it waits: the loop lets it wait only if no callback is ready."""

    def __init__(self, gate: TimeGate) -> None:
        super().__init__()
        self._gate = gate

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0.0:
            self._gate.idle()
        return super().select(timeout)


class TurnLoop(asyncio.SelectorEventLoop):
    """An event loop for a mission that takes turns, to which calls in executors, as all of MAVSDK's, belong.

    Args:
        gate: of this process.
    """

    def __init__(self, gate: TimeGate) -> None:
        super().__init__(_Selector(gate))
        self._gate = gate

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Hold simulated time until the call has returned."""
        self._gate.hold()
        try:
            future: asyncio.Future[Any] = super().run_in_executor(executor, func, *args)
        except BaseException:
            self._gate.release()
            raise
        future.add_done_callback(lambda _: self._gate.release())
        return future
