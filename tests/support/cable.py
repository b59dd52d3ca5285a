"""A serial cable between two pseudo terminals, with what cables and adapters do to bytes."""

from __future__ import annotations

import contextlib
import os
import pty
import random
import select
import threading
import time
import tty
from collections import deque
from pathlib import Path

from sitl_bridge.base.system.launch import schedule_in_real_time


class Cable:
    """Joins two pseudo terminals, as a cable with its adapters does.

    Attributes:
        ports: paths of both ends.

    Args:
        delay: s that bytes take.
        batch: s for which an adapter collects bytes before it hands them on; 0 for none.
        loss: share of the pieces of up to 64 bytes that get lost.
        device: path of the second end, which is there while the cable is plugged in; by default that of the
            pseudo terminal.
    """

    def __init__(
        self, delay: float = 0.0, batch: float = 0.0, loss: float = 0.0, device: Path | None = None
    ) -> None:
        self._delay, self._batch, self._loss, self._device = delay, batch, loss, device
        self._random = random.Random(1)
        self._lock = threading.Lock()
        self._pairs = [self._open(), self._open()]
        self.ports = [os.ttyname(far) for _, far in self._pairs]
        if device is not None:
            device.symlink_to(self.ports[1])
            self.ports[1] = str(device)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @staticmethod
    def _open() -> tuple[int, int]:
        near, far = pty.openpty()  # the far end is kept open: a closed one hangs up
        tty.setraw(far)
        os.set_blocking(near, False)
        return near, far

    def unplug(self) -> None:
        """Let the second end vanish."""
        assert self._device is not None
        with self._lock:
            for end in self._pairs.pop():
                os.close(end)
        self._device.unlink()

    def plug(self) -> None:
        """Let it come back, as another port behind the same path."""
        assert self._device is not None
        pair = self._open()
        self._device.symlink_to(os.ttyname(pair[1]))
        with self._lock:
            self._pairs.append(pair)

    def _run(self) -> None:
        schedule_in_real_time(55)
        waiting: list[deque[tuple[float, bytes]]] = [deque(), deque()]  # for each end
        while not self._stop.is_set():
            with self._lock:
                ends = [near for near, _ in self._pairs]
                for number, end in enumerate(ends):
                    with contextlib.suppress(BlockingIOError):
                        self._take(os.read(end, 65536), waiting[1 - number])
                for end, queue in zip(ends, waiting, strict=False):
                    self._give(end, queue)
                if len(ends) == 1:
                    waiting[1].clear()
            with contextlib.suppress(OSError):  # unplugged meanwhile
                select.select(ends, [], [], 0.0005 if any(waiting) else 0.01)

    def _take(self, data: bytes, queue: deque[tuple[float, bytes]]) -> None:
        due = time.monotonic() + self._delay
        if self._batch:
            due = (due // self._batch + 1.0) * self._batch
        for at in range(0, len(data), 64):
            if self._random.random() >= self._loss:
                queue.append((due, data[at : at + 64]))

    @staticmethod
    def _give(end: int, queue: deque[tuple[float, bytes]]) -> None:
        while queue and queue[0][0] <= time.monotonic():
            due, data = queue.popleft()
            with contextlib.suppress(BlockingIOError):  # its reader is late
                data = data[os.write(end, data) :]
            if data:
                queue.appendleft((due, data))
                return

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        for end in (end for pair in self._pairs for end in pair):
            os.close(end)
