"""One thread that polls the monitors of all vehicles."""

from __future__ import annotations

import threading

from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.session.monitor import POLL, Monitor

FLEET_POLL = 4
"""Longest poll period in units of POLL, for this number of vehicles or more: 60 ms, in which at 3 times real
time less than BATTERY_PERIOD passes."""


class MonitorThread:
    """Polls all monitors; less often for several vehicles, because their simulated time runs slower.

    Args:
        monitors: opened.
        errors: receives errors of reading; polling continues after them.
    """

    def __init__(self, monitors: list[Monitor], errors: ErrorLog) -> None:
        self._monitors = monitors
        self._errors = errors
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="monitors", daemon=True)

    def start(self) -> None:
        """Start polling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop polling."""
        self._stop.set()
        self._thread.join(timeout=5.0)

    def _run(self) -> None:
        while not self._stop.wait(POLL * min(len(self._monitors), FLEET_POLL)):
            for monitor in self._monitors:
                with self._errors.guard(f"reading of telemetry on UDP port {monitor.port}"):
                    monitor.poll()
