"""Message streams of a link: PX4's stream sets and the intervals requested by a peer.

Intervals are in simulated time.  A stream sends at most one message per poll, at the first poll of each of
its intervals since the boot: when it sends does not depend on when a peer asked for it.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from importlib import resources

from sitl_bridge.autopilot.mavlink.telemetry import MESSAGES
from sitl_bridge.link.mavlink import common as mavlink

SECOND = 1_000_000

CLOCK: int = mavlink.MAVLINK_MSG_ID_ATTITUDE
"""The last message of a poll: a peer that has received it has received all others of its time."""


def _rates(link: str) -> Iterator[tuple[str, float]]:
    text = resources.files("sitl_bridge.autopilot.mavlink").joinpath("stream_rates.csv").read_text("utf-8")
    for row in csv.DictReader(text.splitlines()):
        if row[link]:
            yield row["message"], float(row[link])


def _by_id(rates: Iterable[tuple[str, float]]) -> dict[int, float]:
    return {getattr(mavlink, f"MAVLINK_MSG_ID_{name}"): rate for name, rate in rates}


NORMAL = _by_id(sorted(_rates("normal")))
"""Hz on the ground station's link (mavlink_main.cpp, MAVLINK_MODE_NORMAL, and px4-rc.mavlink of SITL).  PX4
sends GPS_RAW_INT with each GNSS fix."""
ONBOARD = _by_id(_rates("onboard"))
"""Hz on the offboard and payload links (MAVLINK_MODE_ONBOARD)."""

NEVER, AGAIN = -1, -2
"""In place of the interval of the last message: of a new peer, and of one that has asked for another."""


class Streams:
    """Streams of one link.

    Args:
        rates: Hz by message id.
    """

    def __init__(self, rates: dict[int, float]) -> None:
        self._defaults = {number: round(SECOND / rate) for number, rate in rates.items()}
        self._intervals = dict(self._defaults)
        self._sent = dict.fromkeys(self._intervals, NEVER)  # number of the interval of the last message
        self._put_clock_last()

    def set_interval(self, number: int, interval: float) -> bool:
        """Set the interval of a message (SET_MESSAGE_INTERVAL).

        Args:
            number: message id.
            interval: us; 0 for PX4's default, below 0 to disable.

        Returns:
            Whether the message exists.
        """
        if number not in MESSAGES:
            return False
        whole = math.ceil(interval)  # a stream sends once a poll at most, however short its interval is
        if interval < 0 or (whole == 0 and number not in self._defaults):
            self._intervals.pop(number, None)
            self._sent.pop(number, None)
        else:
            self._intervals[number] = whole or self._defaults[number]
            self._sent[number] = AGAIN
            self._put_clock_last()
        return True

    def _put_clock_last(self) -> None:
        if CLOCK in self._sent:
            self._sent[CLOCK] = self._sent.pop(CLOCK)

    def interval(self, number: int) -> int:
        """Return the interval of a message in us; -1 if it is disabled, 0 if it does not exist."""
        if number not in MESSAGES:
            return 0
        return self._intervals.get(number, -1)

    def due(self, now: int, *, first: bool = False) -> Iterator[int]:
        """Yield the ids of the messages that are due; with ``first`` only of those that were never sent."""
        for number, sent in self._sent.items():
            present = now // self._intervals[number]
            if present != sent and (sent == NEVER or not first):
                self._sent[number] = present
                yield number
