"""Work on items in their order, on a thread of its own: the files and streams of sensors in flight."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")
Argument = TypeVar("Argument")


class BackgroundWriter(Generic[Item]):
    """Takes items on one thread and works on them on another; after a fault it only empties the queue.

    Args:
        name: of the thread.
        waiting: items that wait; ``put`` waits when there are more.
        work: writes an item.
        end: closes what was opened, after the last item; its argument is whether there was a fault.
        fault_of: one sentence for an error of ``work`` or ``end``, None for a defect, which is raised.
        report: takes the sentence of the first fault, on the thread of ``put`` or ``close``.
    """

    def __init__(
        self,
        name: str,
        waiting: int,
        *,
        work: Callable[[Item], None],
        end: Callable[[bool], None],
        fault_of: Callable[[Exception], str | None],
        report: Callable[[str], None],
    ) -> None:
        self._work, self._end, self._fault_of, self._report = work, end, fault_of, report
        self._fault: str | None = None
        self._reported = False
        self._queue: queue.Queue[tuple[Item] | None] = queue.Queue(waiting)
        self._thread: threading.Thread | None = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, item: Item) -> None:
        """Add an item; it must not change afterwards."""
        if self._fault is None:
            self._queue.put((item,))
        self._report_fault()

    def close(self) -> None:
        """Work on what waits, and end; safe to call twice."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
        self._report_fault()

    def _report_fault(self) -> None:
        if self._fault is not None and not self._reported:
            self._reported = True
            self._report(self._fault)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            if self._fault is None:
                self._try(self._work, item[0])
        self._try(self._end, self._fault is not None)

    def _try(self, action: Callable[[Argument], None], argument: Argument) -> None:
        try:
            action(argument)
        except Exception as error:
            fault = self._fault_of(error)
            if fault is None:
                self._fault = self._fault or f"{type(error).__name__}: {error}"
                raise
            self._fault = self._fault or fault
