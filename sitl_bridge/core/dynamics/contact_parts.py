"""Names of the parts of a vehicle that touch objects."""

from __future__ import annotations


def part_name(part: int) -> str:
    """Return the name of the part of a CONTACT (contact_log.py)."""
    return "body" if part == 0 else f"rotor {part}" if part > 0 else f"contact point {-part}"
