"""The battery's warning level: none, low, critical or emergency."""

from __future__ import annotations

from collections.abc import Mapping

from sitl_bridge.autopilot.commander_data import CRITICAL, EMERGENCY, WARNING

LOW, CRITICALLY_LOW, EMPTY = 1, 2, 3
"""battery_status.warning."""

TEXTS = {
    LOW: (WARNING, "Low battery level, return advised"),
    CRITICALLY_LOW: (CRITICAL, "Critical battery level, land now"),
    EMPTY: (EMERGENCY, "Emergency battery level, land immediately"),
}
"""MAV_SEVERITY and text when a level is entered."""


def warning_level(remaining: float, before: int, armed: bool, values: Mapping[str, float]) -> int:
    """Return the battery's warning level; it does not decrease while the vehicle is armed.

    Args:
        remaining: charge 0..1; nan if unknown.
        before: previous level.
        armed: whether the vehicle is armed.
        values: parameter values.
    """
    level = 0
    if remaining <= values["BAT_EMERGEN_THR"]:
        level = EMPTY
    elif remaining <= values["BAT_CRIT_THR"]:
        level = CRITICALLY_LOW
    elif remaining <= values["BAT_LOW_THR"]:
        level = LOW
    return max(level, before) if armed else level
