"""Three vehicles fly abreast; one leaves the line, and they land where they are.

python missions/api/three_abreast.py [builtin|px4]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import sitl_bridge as sb

LINE = np.array([[0, 0, -5], [0, 4, -5], [0, 8, -5]], dtype=float)
SPEED = 1.0
"""m/s to the north."""


def main(**flown: Any) -> sb.TruthTable:
    """Fly, and return what was true; the arguments are those of ``sb.Sitl``."""
    with sb.Sitl(["iris"] * 3, names=["left", "lead", "right"], spacing=4, seed=3, **flown) as sitl:
        sitl.arm()
        sitl.take_off(5)
        begin = sitl.time

        def abreast(sitl: sb.Sitl) -> None:
            ahead = np.array([SPEED * (sitl.time - begin), 0, 0])
            sitl.follow(LINE + ahead, velocity=(SPEED, 0, 0), yaw=0.0)

        sitl.run(15, each=abreast)
        sitl["lead"].go_to(north=18, height=8)
        sitl.land()
        sitl.verdict().check()
        return sitl.truth


if __name__ == "__main__":
    truth = main(autopilot=(sys.argv[1:] or ["builtin"])[0])
    print("landed at", truth.position[-1].round(1).tolist())
