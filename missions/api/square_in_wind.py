"""A square in 8 m/s of wind, and how far the corners were missed.

python missions/api/square_in_wind.py [builtin|px4]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import sitl_bridge as sb

CORNERS = ((20, 0, -10), (20, 20, -10), (0, 20, -10), (0, 0, -10))


def main(**flown: Any) -> list[float]:
    """Fly, and return the distances in m in truth; the arguments are those of ``sb.Sitl``."""
    missed = []
    with sb.Sitl("iris", world=sb.World(wind="8@270"), seed=1, **flown) as sitl:
        drone = sitl.vehicle
        drone.arm()
        drone.take_off(10)
        for corner in CORNERS:
            drone.go_to(corner)
            missed.append(float(np.linalg.norm(drone.position - corner)))
        drone.land()
        sitl.verdict().check()
    return missed


if __name__ == "__main__":
    print("missed by", ", ".join(f"{d:.2f} m" for d in main(autopilot=(sys.argv[1:] or ["builtin"])[0])))
