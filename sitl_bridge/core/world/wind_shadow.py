"""The lee of obstacles: where a big box or cylinder shadows the wind, and the air there.

Roeckle's diagnostic model of an isolated building (Bestimmung der Stroemungsverhaeltnisse im Bereich
komplexer Bebauungsstrukturen, TH Darmstadt 1990; Kaplan and Dinar, Atmospheric Environment 30, 1996), as
the programs QUIC-URB (Singh et al., Environmental Fluid Mechanics 8, 2008) and QES-Winds use it: a cavity of
reversed flow and a wake that recovers.  The model's other zones (upwind, roof, street canyon) and its second
step, which makes the field free of divergence, are left out.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.kernels.array_at import array_at
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.core.world.records import (
    BOX,
    CYLINDER,
    WIND_OBSTACLE,
    Environment,
    TurbulenceRecord,
    WindObstacle,
    WindRecord,
    WindState,
)
from sitl_bridge.core.world.wind import mean_wind, wind_velocity, with_gusts

UPRIGHT = math.cos(math.radians(1.0))
"""Least cosine of the angle between the vertical and an axis of what counts as upright."""
WAKE_END = 3.0
"""Cavity lengths from the lee wall, at which the published wake ends; there 19 % of the wind are missing."""
FADED = 4.0
"""Cavity lengths at which nothing is missing any more; linear from WAKE_END on, so that no vehicle meets a
step."""


def wind_obstacles(shapes: Records, least: float) -> Records:
    """(k,) WIND_OBSTACLE of the still, upright boxes and cylinders that are big.

    Args:
        shapes: (n,) SHAPE.
        least: m, of the height and of the greater horizontal side.
    """
    found = []
    for shape in shapes:
        upright = [axis for axis in range(3) if abs(shape["rotation"][2, axis]) >= UPRIGHT]
        solid = shape["kind"] == BOX or (shape["kind"] == CYLINDER and upright == [2])
        if shape["path"] or not solid or not upright:
            continue
        first, second = (axis for axis in range(3) if axis != upright[0])
        half = shape["half_size"]
        if 2.0 * half[upright[0]] < least or 2.0 * max(half[first], half[second]) < least:
            continue
        obstacle = np.zeros(1, WIND_OBSTACLE)[0]
        obstacle["place"] = shape["position"][:2]
        obstacle["base"] = shape["position"][2] + half[upright[0]]
        obstacle["height"] = 2.0 * half[upright[0]]
        obstacle["round"] = shape["kind"] == CYLINDER
        along = shape["rotation"][:2, first]
        obstacle["along"] = along / np.linalg.norm(along)
        obstacle["half"] = half[first], half[second]
        found.append(obstacle)
    return np.array(found, WIND_OBSTACLE).reshape(-1)


@compiled
def recirculation_length(width: float, height: float, length: float) -> float:
    """Length in m of the cavity behind a building, from its lee wall.

    L_R/H = 1.8 (W/H) / ((L/H)^0.3 (1 + 0.24 W/H)), Fackrell, Journal of Wind Engineering and Industrial
    Aerodynamics 16, 1984; measured for 0.3 < L/H < 3, and L/H is kept within these.

    Args:
        width: m, W, across the wind.
        height: m, H.
        length: m, L, along the wind.
    """
    slenderness = min(max(length / height, 0.3), 3.0)
    return 1.8 * width / (slenderness**0.3 * (1.0 + 0.24 * width / height))


@compiled
def _behind_wall(
    obstacle: WindObstacle, cosine: float, sine: float, across: float
) -> tuple[float, float, float]:
    """Distance in m of the lee wall from the obstacle's axis along the wind, width W and length L in m.

    Args:
        cosine, sine: of the angle from the obstacle's first axis to where the wind blows to.
        across: m from the obstacle's axis across the wind, less than half the width.
    """
    a = obstacle.half[0]
    b = obstacle.half[1]
    if obstacle.round == 1:
        return math.sqrt(max(a * a - across * across, 0.0)), 2.0 * a, 2.0 * a
    width = 2.0 * (a * abs(sine) + b * abs(cosine))
    length = 2.0 * (a * abs(cosine) + b * abs(sine))
    # (t cosine - across sine, t sine + across cosine) leaves the rectangle at the first of two walls.
    wall = 1e30
    if cosine != 0.0:
        wall = (a + across * sine * math.copysign(1.0, cosine)) / abs(cosine)
    if sine != 0.0:
        wall = min(wall, (b - across * cosine * math.copysign(1.0, sine)) / abs(sine))
    return wall, width, length


@compiled
def lee(
    obstacle: WindObstacle, toward_north: float, toward_east: float, north: float, east: float, down: float
) -> tuple[float, bool]:
    """What an obstacle leaves of the wind at a place.

    With x from the lee wall along the wind, y from the axis across it and z above the base,
    d = L_R sqrt((1 - (z/H)^2) (1 - (2y/W)^2)), it is -(1 - x/d)^2 of the wind at the obstacle's height in the
    cavity x < d, and 1 - (d/x)^1.5 of the wind at the place in the wake up to 3 d.

    Args:
        toward_north, toward_east: of the unit vector along which the wind blows.
        north, east, down: m.

    Returns:
        the factor, 1 outside, and whether it is that of the cavity.
    """
    z = obstacle.base - down
    if z < 0.0 or z >= obstacle.height:
        return 1.0, False
    dn = north - obstacle.place[0]
    de = east - obstacle.place[1]
    ahead = dn * toward_north + de * toward_east
    if ahead <= 0.0:
        return 1.0, False
    cosine = toward_north * obstacle.along[0] + toward_east * obstacle.along[1]
    sine = toward_east * obstacle.along[0] - toward_north * obstacle.along[1]
    across = de * toward_north - dn * toward_east
    wall, width, length = _behind_wall(obstacle, cosine, sine, across)
    x = ahead - wall
    if x < 0.0 or 2.0 * abs(across) >= width:
        return 1.0, False
    level = z / obstacle.height
    side = 2.0 * across / width
    d = recirculation_length(width, obstacle.height, length)
    d *= math.sqrt((1.0 - level * level) * (1.0 - side * side))
    if x < d:
        return -((1.0 - x / d) ** 2), True
    if x >= FADED * d:
        return 1.0, False
    deficit = (d / x) ** 1.5
    if x > WAKE_END * d:
        deficit *= FADED - x / d
    return 1.0 - deficit, False


@compiled
def is_uneven(environment: Environment, wind: WindRecord) -> bool:
    """Whether the air may move differently at places a vehicle's size apart."""
    varying = wind.dryden_speed_20ft + wind.log_speed_20ft
    return bool(varying > 0.0 or wind.gust_count + environment.wind_obstacle_count > 0 or wind.custom != 0)


@compiled
def air_velocity(
    environment: Environment,
    wind: WindRecord,
    field: TurbulenceRecord,
    memory: WindState,
    series: Floats,
    time: int,
    north: float,
    east: float,
    down: float,
    reach: float,
) -> tuple[float, float, float]:
    """Velocity of the air at a place, NED in m/s, with the lee of the world's obstacles, and its gradient.

    The obstacles change the horizontal part of the mean wind and its gusts along their common direction;
    where lees overlap, the least counts.  Turbulence is added unchanged.

    Args:
        memory: WIND_STATE record of who is there; with a reach, its ``gradient`` is written.
        series: (k, 4) recorded wind.
        time: us.
        north, east, down: m.
        reach: m, size over which the gradient holds; 0 for none.
    """
    vn, ve, vd = wind_velocity(wind, field, memory, series, time, north, east, down, reach)
    if reach > 0.0:
        _add_gradient(environment, wind, memory, series, time, north, east, down, reach)
    if environment.wind_obstacle_count == 0:
        return vn, ve, vd
    ln, le = _lee_of_all(environment, wind, series, time, north, east, down)
    return vn + ln, ve + le, vd


@on_demand
def _add_gradient(
    environment: Environment,
    wind: WindRecord,
    memory: WindState,
    series: Annotated[Floats, 2],
    time: int,
    north: float,
    east: float,
    down: float,
    reach: float,
) -> None:
    """Add the gradient of all but the turbulence, by differences over twice the reach."""
    gradient = memory.gradient
    if not wind.dryden_speed_20ft > 0.0:
        for i in range(3):
            for j in range(3):
                gradient[i, j] = 0.0
    for j in range(3):
        for k in range(2):
            side = reach - 2.0 * reach * k
            n, e, d = north + side * (j == 0), east + side * (j == 1), down + side * (j == 2)
            vn, ve, vd = mean_wind(wind, series, time, n, e, d)
            vn, ve, vd = with_gusts(wind, time, n, e, vn, ve, vd)
            if environment.wind_obstacle_count > 0:
                ln, le = _lee_of_all(environment, wind, series, time, n, e, d)
                vn += ln
                ve += le
            share = 0.5 * side / (reach * reach)
            gradient[0, j] += share * vn
            gradient[1, j] += share * ve
            gradient[2, j] += share * vd


@on_demand
def _lee_of_all(
    environment: Environment,
    wind: WindRecord,
    series: Annotated[Floats, 2],
    time: int,
    north: float,
    east: float,
    down: float,
) -> tuple[float, float]:
    """What the obstacles add to the wind at a place, NE in m/s; arguments as of ``air_velocity``."""
    mn, me, md = mean_wind(wind, series, time, north, east, down)
    un, ue, _ = with_gusts(wind, time, north, east, mn, me, md)
    speed = math.sqrt(un * un + ue * ue)
    if speed == 0.0:
        return 0.0, 0.0
    un /= speed
    ue /= speed
    least = speed
    obstacles = array_at(environment.wind_obstacles, environment.wind_obstacle_count, WIND_OBSTACLE)
    for k in range(obstacles.shape[0]):
        obstacle = obstacles[k]
        factor, cavity = lee(obstacle, un, ue, north, east, down)
        if cavity:
            top = obstacle.base - obstacle.height
            tn, te, td = mean_wind(wind, series, time, north, east, top)
            tn, te, _ = with_gusts(wind, time, north, east, tn, te, td)
            least = min(least, factor * (tn * un + te * ue))
        else:
            least = min(least, factor * speed)
    missing = least - speed
    return missing * un, missing * ue
