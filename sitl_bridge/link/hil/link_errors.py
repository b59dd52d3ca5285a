"""Wrong input from flight stacks on the simulator link: counted by kind, reported once per kind."""

from __future__ import annotations

from collections.abc import Mapping

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


def fault_texts(counts: Mapping[str, int]) -> list[str]:
    """Counts above zero as phrases, for a report."""
    return [f"{counts[kind]} {noun}" for kind, (_, noun) in FAULTS.items() if counts.get(kind)]
