"""Environment variables and exit codes of a mission's process."""

from __future__ import annotations

import os
from pathlib import Path

URL_VARIABLE, SYSTEM_VARIABLE = "SITL_BRIDGE_URL", "SITL_BRIDGE_SYSTEM"
"""Connection URL and MAVLink system of the vehicle."""
FLEET_VARIABLE = "SITL_BRIDGE_FLEET"
"""File that describes the vehicles of a fleet to a mission, see fleet_script.py."""
PAUSE_VARIABLE = "SITL_BRIDGE_PAUSED"
"""Path of a file that exists while simulated time is paused."""
MAP_VARIABLE = "SITL_BRIDGE_MAP"
"""File of the map that a vehicle's sensors build, see live_map.py."""

SUCCEEDED, FAILED, INTERRUPTED = 0, 1, 130
"""Exit codes."""


def paused() -> bool:
    """Whether simulated time is paused, so that a silent vehicle is not lost; False for real vehicles."""
    place = os.environ.get(PAUSE_VARIABLE)
    return place is not None and Path(place).exists()
