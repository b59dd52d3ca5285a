"""Reading back over MAVLink the parameters that PX4 was given, so that none is missing without notice.

Here is what to ask for and what the answers mean; the socket belongs to run/monitor.py.  PX4 answers a
PARAM_REQUEST_READ at once, whatever the rate of the link (mavlink_parameters.cpp).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from sitl_bridge.mavlink import common as mavlink
from sitl_bridge.mavlink.decoder import parameter_bytes

if TYPE_CHECKING:
    from sitl_bridge.vehicle.control_effectiveness import Parameters


BATCH = 40
"""Requests sent at once: the answers, 37 bytes each, fit any socket's buffer."""

RETRY = 0.3
"""s of wall time after which a request counts as lost."""

PATIENCE = 20.0
"""s of wall time without an answer after which the rest counts as unanswered."""

LISTED = 6
"""Parameters that a message lists by name."""

_INTEGER_TYPES = range(mavlink.MAV_PARAM_TYPE_UINT8, mavlink.MAV_PARAM_TYPE_INT64 + 1)


class ReadBack:
    """Compares the parameters that PX4 has with those it was given.

    Args:
        expected: name to value, as they were handed over.
        optional: names that this PX4 may not have; they are not asked for.

    Attributes:
        count: number of parameters that are asked for.
        wrong: name to the value that PX4 has instead.
        unanswered: names that PX4 did not answer for.
    """

    def __init__(self, expected: Parameters, optional: Collection[str] = ()) -> None:
        self._expected = expected
        self._left = [name for name in expected if name not in optional]
        self.count = len(self._left)
        self._awaited: set[str] = set()
        self._asked = -math.inf
        self._answered = math.nan
        self.wrong: Parameters = {}
        self.unanswered: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        """Whether every parameter has been compared or given up."""
        return not self._left

    def requests(self, now: float) -> list[str]:
        """Names to ask for now; empty while answers are awaited.

        Args:
            now: s of wall time, of any steady clock.
        """
        if math.isnan(self._answered):
            self._answered = now
        if now - self._answered > PATIENCE:
            self.unanswered, self._left = tuple(self._left), []
        if not self._left or (self._awaited and now - self._asked < RETRY):
            return []
        batch = self._left[:BATCH]
        self._awaited, self._asked = set(batch), now
        return batch

    def take(self, message: Any, now: float) -> None:
        """Compare an answer.

        Args:
            message: a decoded PARAM_VALUE.
            now: s of the clock of :meth:`requests`.
        """
        name, raw = message.param_id, parameter_bytes(message)
        if name not in self._left:
            return
        self._left.remove(name)
        self._awaited.discard(name)
        self._answered = now
        expected = self._expected[name]
        has: int | float
        if message.param_type in _INTEGER_TYPES:
            (has,) = struct.unpack("<i", raw)
            same = has == expected
        else:
            (has,) = struct.unpack("<f", raw)
            same = bool(np.float32(expected) == np.float32(has))
        if not same:
            self.wrong[name] = has

    def fault(self) -> str:
        """What did not arrive, in one sentence; empty where all did, and until all has been compared."""
        if not self.done:
            return ""
        parts = []
        if self.wrong:
            found = [
                f"{name} is {has:.7g}, not {self._expected[name]:.7g}" for name, has in self.wrong.items()
            ]
            parts.append(_listed(found))
        if self.unanswered:
            parts.append(f"no answer for {_listed(list(self.unanswered))}")
        if not parts:
            return ""
        count = len(self.wrong) + len(self.unanswered)
        return f"{count} of {self.count} parameters did not reach PX4: {'; '.join(parts)}"


def _listed(words: list[str]) -> str:
    more = len(words) - LISTED
    return ", ".join(words[:LISTED]) + (f" and {more} more" if more > 0 else "")
