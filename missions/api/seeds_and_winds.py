"""One flight with several seeds and winds: where the vehicle lands.

python missions/api/seeds_and_winds.py [builtin|px4]
"""

from __future__ import annotations

import sys
from typing import Any

import sitl_bridge as sb


def main(**flown: Any) -> dict[tuple[int, str], float]:
    """Fly, and return the distances in m from the landing place in truth, by seed and wind."""
    off = {}
    for wind in ("0@0", "4@90,turbulence=light", "8@180"):
        with sb.Sitl("iris", world=sb.World(wind=wind), warm=1, **flown) as sitl:
            for seed in (1, 2, 3):
                sitl.reset(seed)
                drone = sitl.vehicle
                drone.arm()
                drone.take_off(5)
                drone.go_to(north=10, east=0)
                drone.land()
                off[seed, wind] = float(abs(drone.position[:2] - (10, 0)).max())
    return off


if __name__ == "__main__":
    for (seed, wind), distance in main(autopilot=(sys.argv[1:] or ["builtin"])[0]).items():
        print(f"seed {seed}, wind {wind}: {distance:.2f} m off")
