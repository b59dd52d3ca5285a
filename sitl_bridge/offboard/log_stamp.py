"""How lines of a mission's own log are stamped."""

from __future__ import annotations

import math


def stamp(seconds: float) -> str:
    """``[    12.34 s]``; dashes while the vehicle has not sent its clock."""
    return f"[{seconds:9.2f} s]" if math.isfinite(seconds) else f"[{'-':>9} s]"
