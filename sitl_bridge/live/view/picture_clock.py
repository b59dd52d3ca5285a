"""When a page shows its next picture: at even intervals of wall time, whatever a picture itself takes."""

from __future__ import annotations

import time
from collections.abc import Callable

RATE = 25.0
"""Hz of pictures; 20 Hz remain where a fifth of them is late."""
INTERVAL = 1.0 / RATE


class PictureClock:
    """Evenly spaced moments.  Those that have passed already are left out, not made up for.

    Args:
        now: monotonic time in s.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._due = now() + INTERVAL

    def remaining(self) -> float:
        """Seconds until the next moment, 0 if it has passed; the following one is then an interval later."""
        now = self._now()
        due = self._due if self._due > now - INTERVAL else now
        self._due = due + INTERVAL
        return max(due - now, 0.0)
