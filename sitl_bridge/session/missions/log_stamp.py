"""Time stamps of the lines that a mission prints."""

from __future__ import annotations

import math


def stamp(seconds: float) -> str:
    """``[    12.34 s]``; a dash before the vehicle has sent its time."""
    return f"[{seconds:9.2f} s]" if math.isfinite(seconds) else f"[{'-':>9} s]"


def stamp_since(start: float, seconds: float) -> str:
    """The stamp of a moment since a start; a dash for what came before it, or at no known time."""
    return stamp(seconds - start if seconds >= start else math.nan)
