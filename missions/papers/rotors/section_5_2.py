"""Section 5.2: across the power plant, along the straight line and along a planned path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from comparison import Row, new_figure, save
from numpy.typing import NDArray

import sitl_bridge as sb
from sitl_bridge.api.planning import SceneObstacles

Array = NDArray[np.float64]

WORLD = Path(__file__).resolve().parents[2] / "worlds" / "power_plant.yaml"
START, GOAL = np.array([0.0, -17.5, -5.0]), np.array([62.0, 5.0, -6.0])
"""m NED, on opposite sides of the boiler house."""
SPEED, MARGIN = 3.0, 2.5
"""m/s, and m from obstacles beyond the vehicle's radius."""
SETTLE = 5.0
"""s before and after the way."""


@dataclass(frozen=True)
class Flown:
    """True places (k, 3) m NED, the distance from the goal at the end, m, and whether it hit something."""

    place: Array
    missed: float
    crashed: bool


def fly(reference: Callable[[float], Array], seconds: float, seed: int) -> Flown:
    """Follow m NED over s with the Firefly, until the goal or the first contact."""
    with sb.Sitl("firefly", world=WORLD, positions=[START[:2]], seed=seed) as sitl:
        drone = sitl.vehicle
        drone.arm()
        drone.take_off(-START[2])
        drone.go_to(START)
        drone.run(SETTLE)
        begun = drone.time
        places = []
        while drone.time < begun + seconds + SETTLE and not drone.contacts:
            drone.follow(reference(drone.time - begun))
            drone.step(10)
            places.append(drone.position)
        return Flown(np.array(places), float(np.linalg.norm(drone.position - GOAL)), bool(drone.contacts))


def straight(seconds: float) -> Array:
    """Place at s on the straight line."""
    share = SPEED * seconds / float(np.linalg.norm(GOAL - START))
    return START + min(max(share, 0.0), 1.0) * (GOAL - START)


def reproduce(picture: Path, quick: bool) -> list[Row]:
    """Fly both ways, draw them from above, with what stands at the height of the way."""
    planned = sb.planning.plan_path(START, GOAL, world=WORLD, airframe="firefly", margin=MARGIN, speed=SPEED)
    obstacles = SceneObstacles(sb.World.load(WORLD).build().scene)
    seeds = (1,) if quick else range(1, 6)
    length = float(np.linalg.norm(GOAL - START)) / SPEED
    crashes = [fly(straight, length, seed) for seed in seeds]
    ways = [fly(lambda t: planned.at(t).position, planned.duration, seed) for seed in seeds]
    least = min(float(obstacles.clearance(way.place, 10.0).min()) for way in ways)
    figure = new_figure(7.0, 6.0)
    above, beside = figure.subplots(2, 1, height_ratios=(1.6, 1.0), sharex=True)
    way = ways[0].place
    north, east = np.meshgrid(np.arange(-5.0, 70.0, 0.5), np.arange(-30.0, 15.0, 0.5))
    level = np.stack([north, east, np.full_like(north, START[2])], axis=-1)
    ahead, height = np.meshgrid(north[0], np.arange(0.25, 35.0, 0.5))
    upright = np.stack([ahead, np.interp(ahead, way[:, 0], way[:, 1]), -height], axis=-1)
    for axes, across, points in ((above, east, level), (beside, height, upright)):
        clear = obstacles.clearance(points.reshape(-1, 3), 1.0).reshape(across.shape)
        axes.contourf(north[0], across[:, 0], clear <= 0.0, levels=(0.5, 1.5), colors="0.75")
    for flown, colour, label in ((crashes[0], "tab:red", "straight line"), (ways[0], "tab:blue", "planned")):
        for axes, values in ((above, flown.place[:, 1]), (beside, -flown.place[:, 2])):
            axes.plot(flown.place[:, 0], values, color=colour, lw=1.2, label=label)
            if flown.crashed:
                axes.plot(flown.place[-1, 0], values[-1], "x", color=colour, ms=9, mew=2)
    above.set(
        ylabel="east [m]", ylim=(15.0, -30.0), title="grey: what stands 5 m up, and below the planned way"
    )
    beside.set(xlabel="north [m]", ylabel="height [m]")
    above.legend(fontsize="small")
    save(figure, picture)
    hit = [100.0 * float(np.mean([flown.crashed for flown in flights])) for flights in (crashes, ways)]
    missed = max(flown.missed for flown in ways)
    return [
        Row("straight line: flights that hit the plant", "%", "100", hit[0]),
        Row("planned path: flights that hit something", "%", "", hit[1], digits=0),
        Row("... least distance of the vehicle's centre from the plant", "m", "", least, digits=2),
        Row("... distance from the goal at the end, largest", "m", "", missed, digits=2),
    ]
