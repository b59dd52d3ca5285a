"""Time stamps of the lines that a mission prints."""

from __future__ import annotations

import math


def stamp(seconds: float) -> str:
    """``[    12.34 s]``; a dash before the vehicle has sent its time."""
    return f"[{seconds:9.2f} s]" if math.isfinite(seconds) else f"[{'-':>9} s]"
