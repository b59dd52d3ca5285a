"""Compiled work on a sample's rays: turning them into the world, and what a lidar makes of their hits."""

from __future__ import annotations

import math

from sitl_bridge.base.arrays import Floats, Ints, Mask, Singles
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.rotations import product


@compiled
def place_rays(
    position: Floats,
    rotation: Floats,
    offset: Floats,
    mounting: Floats,
    directions: Floats,
    origins: Floats,
    turned: Floats,
) -> None:
    """Rays of a sensor on a vehicle that moves from one group of rays to the next.

    Args:
        position: (g, 3) m NED, of the vehicle.
        rotation: (g, 3, 3) body to NED.
        offset: (3,) m, of the sensor in the body.
        mounting: (3, 3) sensor axes to body.
        directions: (g * k, 3) unit vectors in the sensor's axes, group by group.
        origins: (1, 3) for g = 1, else (g * k, 3), written: m NED.
        turned: (g * k, 3), written: unit vectors NED.
    """
    groups = position.shape[0]
    each = directions.shape[0] // groups
    for g in range(groups):
        r = rotation[g] @ mounting
        x = position[g, 0] + rotation[g, 0, 0] * offset[0] + rotation[g, 0, 1] * offset[1]
        y = position[g, 1] + rotation[g, 1, 0] * offset[0] + rotation[g, 1, 1] * offset[1]
        z = position[g, 2] + rotation[g, 2, 0] * offset[0] + rotation[g, 2, 1] * offset[1]
        x += rotation[g, 0, 2] * offset[2]
        y += rotation[g, 1, 2] * offset[2]
        z += rotation[g, 2, 2] * offset[2]
        if groups == 1:
            origins[0, 0], origins[0, 1], origins[0, 2] = x, y, z
        for i in range(g * each, (g + 1) * each):
            u, v, w = directions[i, 0], directions[i, 1], directions[i, 2]
            turned[i, 0], turned[i, 1], turned[i, 2] = product(r, u, v, w)
            if groups > 1:
                origins[i, 0], origins[i, 1], origins[i, 2] = x, y, z


@compiled
def fill_returns(
    hits: tuple[Floats, Floats, Ints],
    rays: tuple[Floats, Floats],
    reflectivity: Floats,
    gauss: Singles,
    lost: Mask,
    limits: tuple[float, float, float, float],
    points: Singles,
    intensity: Singles,
) -> None:
    """Points and intensities of a lidar's beams.

    Args:
        hits: tuple of distance (n,), normal (n, 3) and shape (n,).
        rays: tuple of directions NED (n, 3) and directions in the sensor's axes (n, 3).
        reflectivity: (k + 2,) 0 to 1, of the shapes, then 0 and the ground's: NOTHING and GROUND count from
            the end.
        gauss: (n,) float32, standard normal.
        lost: (n,) bool, beams without a return.
        limits: tuple of least and greatest distance in m, standard deviation in m, and the distance in m from
            which on the intensity falls with its square; 0: it does not.
        points: (n, 3) float32, written: m, sensor axes; nan for no return.
        intensity: (n,) float32, written: 0 to 1; 0 for no return.
    """
    distance, normal, shape = hits
    world, own = rays
    least, greatest, deviation, reference = limits
    for i in range(distance.shape[0]):
        measured = distance[i] + deviation * gauss[i]
        if lost[i] or not least <= measured <= greatest:
            points[i, 0] = points[i, 1] = points[i, 2] = math.nan
            intensity[i] = 0.0
            continue
        for j in range(3):
            points[i, j] = measured * own[i, j]
        cosine = -(world[i, 0] * normal[i, 0] + world[i, 1] * normal[i, 1] + world[i, 2] * normal[i, 2])
        strength = reflectivity[shape[i]] * min(max(cosine, 0.0), 1.0)
        if reference > 0.0 and distance[i] > reference:
            strength *= (reference / distance[i]) ** 2
        intensity[i] = strength
