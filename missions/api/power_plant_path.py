"""Fly across the power plant along a planned path: the boiler house blocks the straight line.

python missions/api/power_plant_path.py
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

import sitl_bridge as sb
from sitl_bridge.api.planning import SceneObstacles

WORLD = Path(__file__).resolve().parent.parent / "worlds" / "power_plant.yaml"
START, GOAL = (0.0, -17.5, -5.0), (62.0, 5.0, -6.0)
"""m NED, on opposite sides of the boiler house."""
MARGIN = 2.5
"""m; the position that GPS and the estimator give is up to about 1 m off, and the vehicle lags in curves."""


def main(seed: int = 0) -> float:
    """Fly from start to goal; returns the least clearance in m of the true path from the scene."""
    path = sb.planning.plan_path(START, GOAL, world=WORLD, airframe="iris", margin=MARGIN, speed=4.0)
    world = sb.World.load(WORLD)
    obstacles = SceneObstacles(world.build().scene)
    flown = []
    with sb.Sitl("iris", positions=[START[:2]], world=world, seed=seed) as fleet:
        fleet.arm()
        fleet.take_off(-START[2])
        begin = fleet.time

        def follow(fleet: sb.Sitl) -> None:
            moment = path.at(fleet.time - begin)
            fleet.follow(moment.position, moment.velocity, moment.acceleration, float(moment.yaw))
            flown.append(fleet.position.copy())

        fleet.go_to(START)
        fleet.run(5.0)
        begin = fleet.time
        fleet.run(path.duration + 5.0, each=follow)
        missed = math.dist(fleet.position, GOAL)
        assert missed < 2.0, f"ended {missed:.1f} m from the goal"
        assert not fleet.on_ground, "touches something"
    clearance = float(obstacles.clearance(np.array(flown), 10.0).min())
    assert clearance > 0.35, f"came within {clearance:.2f} m of an object"
    return clearance


if __name__ == "__main__":
    try:
        print(f"arrived; the least distance from an object was {main():.2f} m")
    except (sb.UserError, AssertionError) as error:
        sys.exit(f"failed: {error}")
