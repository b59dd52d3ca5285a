"""Wrong input from flight stacks on the simulator link: counted by kind, reported once per kind."""

from __future__ import annotations

from collections.abc import Mapping

from sitl_bridge.base.kernels.record import Packed

FAULTS = {
    "bad_checksums": (
        "sent a frame with a wrong checksum; such frames are ignored",
        "frames with a wrong checksum",
    ),
    "garbage": (
        "sent bytes that are not part of a MAVLink frame; they are skipped",
        "bytes that are not part of a MAVLink frame",
    ),
    "mavlink1": (
        "sends MAVLink 1, which is ignored; the simulator link needs MAVLink 2",
        "MAVLink 1 frames, ignored",
    ),
    "unknown": (
        "sent a message that does not belong on the simulator link; such messages are ignored",
        "messages that do not belong on the simulator link",
    ),
    "not_finite": (
        "sent a motor command that is not a finite number; it counts as 0",
        "motor commands that are not finite numbers, taken as 0",
    ),
    "clamped": (
        "sent a motor command outside -1 to 1; such commands are limited to that range",
        "motor commands outside -1 to 1, limited",
    ),
    "ahead": (
        "sent motor commands with a time stamp ahead of the simulation; they do not count as answers",
        "motor commands with a time stamp ahead of the simulation",
    ),
}
"""Counters of a LINK: the message about the first one, and the noun after their number."""


class FaultCounts:
    """Totals of each vehicle over all its connections."""

    def __init__(self, vehicles: int) -> None:
        self._past: list[dict[str, int]] = [dict.fromkeys(FAULTS, 0) for _ in range(vehicles)]
        self._reported: set[tuple[int, str]] = set()

    def of(self, vehicle: int, link: Packed) -> dict[str, int]:
        """Counts by kind, including zeros."""
        return {kind: past + int(link[kind]) for kind, past in self._past[vehicle].items()}

    def end_connection(self, vehicle: int, link: Packed) -> None:
        """Keep the counts of a link that is about to be cleared."""
        self._past[vehicle] = self.of(vehicle, link)

    def new_messages(self, vehicle: int, link: Packed) -> list[str]:
        """Messages about kinds that have not been reported for this vehicle before."""
        fresh = [
            kind
            for kind, count in self.of(vehicle, link).items()
            if count and (vehicle, kind) not in self._reported
        ]
        self._reported.update((vehicle, kind) for kind in fresh)
        return [FAULTS[kind][0] for kind in fresh]


def fault_texts(counts: Mapping[str, int]) -> list[str]:
    """Counts above zero as phrases, for a report."""
    return [f"{counts[kind]} {noun}" for kind, (_, noun) in FAULTS.items() if counts.get(kind)]
