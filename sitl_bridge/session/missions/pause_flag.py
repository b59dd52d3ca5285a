"""The pause flag: a file that exists while simulated time is paused.

A mission runs in its own process.  From the flag it knows that a silent vehicle is not lost.
"""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "SITL_BRIDGE_PAUSED"
"""Environment variable with the path of the file."""


def paused() -> bool:
    """Whether simulated time is paused; False if there is no simulation, as with real vehicles."""
    place = os.environ.get(VARIABLE)
    return place is not None and Path(place).exists()
