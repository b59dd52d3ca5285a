"""Read-back of PX4's parameters over MAVLink, so that missing ones are reported.

This module selects the requests and compares the answers; session/monitor.py has the socket.  PX4 answers a
PARAM_REQUEST_READ at once, whatever the rate of the link (mavlink_parameters.cpp).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.decoder import parameter_bytes
from sitl_bridge.link.mavlink.message import MavlinkMessage

if TYPE_CHECKING:
    from sitl_bridge.core.vehicle.control_effectiveness import Parameters


BATCH = 40
"""Requests sent at once: the answers, 37 bytes each, fit any socket's buffer."""

RETRY = 0.3
"""Time after which a request counts as lost, s of wall time."""

TIMEOUT = 20.0
"""Time without an answer after which the rest counts as unanswered, s of wall time."""

LISTED = 6
"""Largest number of parameters named in a message."""

_INTEGER_TYPES = range(mavlink.MAV_PARAM_TYPE_UINT8, mavlink.MAV_PARAM_TYPE_INT64 + 1)


class ReadBack:
    """Compares PX4's parameters with the expected ones.

    Args:
        expected: name to value, as set.
        optional: names that this PX4 may not have; they are not requested.

    Attributes:
        count: number of requested parameters.
        wrong: name to PX4's deviating value.
        unanswered: names without an answer.
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
        """Whether every parameter has been compared or has timed out."""
        return not self._left

    def requests(self, now: float) -> list[str]:
        """Return the names to request now; empty while answers are pending.

        Args:
            now: s of a monotonic wall clock.
        """
        if math.isnan(self._answered):
            self._answered = now
        if now - self._answered > TIMEOUT:
            self.unanswered, self._left = tuple(self._left), []
        if not self._left or (self._awaited and now - self._asked < RETRY):
            return []
        batch = self._left[:BATCH]
        self._awaited, self._asked = set(batch), now
        return batch

    def take(self, message: MavlinkMessage, now: float) -> None:
        """Compare an answer.

        Args:
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
        """A sentence about missing or wrong parameters; empty until all are compared."""
        if not self.done:
            return ""
        parts = []
        if self.wrong:
            found = [
                f"{name} is {has:.7g}, not {self._expected[name]:.7g}" for name, has in self.wrong.items()
            ]
            parts.append(_list_words(found))
        if self.unanswered:
            parts.append(f"no answer for {_list_words(list(self.unanswered))}")
        if not parts:
            return ""
        count = len(self.wrong) + len(self.unanswered)
        return f"{count} of {self.count} parameters did not reach PX4: {'; '.join(parts)}"


def _list_words(words: list[str]) -> str:
    more = len(words) - LISTED
    return ", ".join(words[:LISTED]) + (f" and {more} more" if more > 0 else "")
