"""Whether simulated time is held on purpose, which a mission in a process of its own cannot see otherwise.

Who runs the simulation keeps a file while it does so; a vehicle that is silent then is not lost.
"""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "SITL_BRIDGE_PAUSED"
"""Of the environment: the file."""


def paused() -> bool:
    """Whether time is held; False where nobody says so, for real vehicles above all."""
    place = os.environ.get(VARIABLE)
    return place is not None and Path(place).exists()
