"""Satellite navigation is jammed while the vehicle returns home: what the flight stack does and says.

python missions/api/jammed_return.py [builtin|px4]
"""

from __future__ import annotations

import math
import sys
from typing import Any

import sitl_bridge as sb


def main(**flown: Any) -> list[sb.Message]:
    """Fly, and return the messages of the flight stack; the arguments are those of ``sb.Sitl``."""
    with sb.Sitl("iris", seed=2, **flown) as sitl:
        drone = sitl.vehicle
        drone.arm()
        drone.take_off(10)
        drone.go_to(north=40, east=0, height=10)
        drone.return_home(wait=False)
        drone.run(6)
        with sitl.fault(sb.faults.GpsJamming(level=1.0)):
            drone.run(8)
        drone.run_until(lambda vehicle: not vehicle.armed, limit=200)
        drone.run(1)  # the stack may tell why it disarmed a moment later
        print(f"came down {math.hypot(*drone.position[:2]):.1f} m from home")
        return drone.messages


if __name__ == "__main__":
    for message in main(autopilot=(sys.argv[1:] or ["builtin"])[0]):
        print(message)
