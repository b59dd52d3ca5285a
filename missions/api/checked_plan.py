"""Fly a plan of QGroundControl with the built-in flight stack, and check how.

python missions/api/checked_plan.py
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

import sitl_bridge as sb

PLAN = Path(__file__).resolve().parent.parent / "square.plan"


def main(runs: str | Path = "runs", instance: int = 0) -> sb.FlightResult:
    """Fly the plan as fast as it goes; returns the result once every check has passed."""
    result = sb.fly(
        PLAN, world=sb.World(wind="4@270"), autopilot="builtin", speed=math.inf, runs=runs, instance=instance
    )
    result.check()
    truth = result.truth
    landed = truth.position[-1, 0, :2] - truth.position[0, 0, :2]
    assert np.linalg.norm(landed) < 2.0, f"landed {np.linalg.norm(landed):.1f} m off its start"
    assert np.abs(truth.velocity).max() < 12.0, "flew faster than 12 m/s"
    return result


if __name__ == "__main__":
    try:
        print(f"all checks passed; logs in {main().directory}")
    except (sb.UserError, AssertionError) as error:
        sys.exit(f"failed: {error}")
