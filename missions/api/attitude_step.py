"""A step of 15 degrees of roll, and the response as a picture.

python missions/api/attitude_step.py [builtin|px4]
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

import sitl_bridge as sb

STEP = math.radians(15)


def main(picture: Path | None = None, **flown: Any) -> NDArray[np.float64]:
    """Fly, draw, and return (steps, 2) s since the step and rad of roll, in truth."""
    with sb.Sitl("iris", seed=1, **flown) as sitl:
        drone = sitl.vehicle
        drone.arm()
        drone.take_off(20)
        drone.set_attitude(thrust=0.6)
        drone.run(0.5)
        begin = drone.time
        drone.set_attitude(roll=STEP, thrust=0.6)
        drone.run(1.0)
        truth = drone.truth
    w, x, y, z = truth.attitude.T
    roll = np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    response = np.column_stack([truth.time - begin, roll])[truth.time >= begin]
    if picture is not None:
        plt.plot(response[:, 0], np.degrees(response[:, 1]))
        plt.xlabel("s since the step")
        plt.ylabel("roll, deg")
        plt.savefig(picture)
    return response


if __name__ == "__main__":
    main(Path("attitude_step.png"), autopilot=(sys.argv[1:] or ["builtin"])[0])
    print("attitude_step.png")
