"""Choice of a vehicle's flight stack, and how many there may be."""

from __future__ import annotations

from typing import Literal

Choice = Literal["auto", "px4", "builtin"]
"""Choice of a flight stack; auto: PX4 if it is found, else the built-in stack."""

LAST_INSTANCE = 254
"""Highest instance of a flight stack: its MAVLink system id is one more, and 255 is the ground station's."""
