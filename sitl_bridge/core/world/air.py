"""Computes the velocity of the air at a vehicle, and its gradient over the vehicle's size.

This is where a step asks for the air; ``wind`` and ``turbulence`` hold its parts.
"""

from __future__ import annotations

from typing import Annotated

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.core.world.records import TurbulenceRecord, WindRecord, WindState
from sitl_bridge.core.world.turbulence import turbulence
from sitl_bridge.core.world.wind import mean_wind, with_gusts


@compiled
def is_uneven(wind: WindRecord) -> bool:
    """Whether the air may move differently at places a vehicle's size apart."""
    varying = wind.dryden_speed_20ft + wind.log_speed_20ft
    return bool(varying > 0.0 or wind.gust_count > 0 or wind.custom != 0)


@compiled
def air_velocity(
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
    """Velocity of the air at a place, NED in m/s, and its gradient.

    Args:
        memory: WIND_STATE record of who is there; with a reach, its ``gradient`` is written.
        series: (k, 4) recorded wind.
        time: us.
        north, east, down: m.
        reach: m, size over which the gradient holds; 0 for none.
    """
    vn, ve, vd = mean_wind(wind, series, time, north, east, down)
    if wind.dryden_speed_20ft > 0.0:
        un, ue, ud = turbulence(field, memory, wind.dryden_speed_20ft, north, east, down, reach)
        vn += un
        ve += ue
        vd += ud
    vn, ve, vd = with_gusts(wind, time, north, east, vn, ve, vd)
    if reach > 0.0:
        _add_gradient(wind, memory, series, time, north, east, down, reach)
    return vn, ve, vd


@on_demand
def _add_gradient(
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
            share = 0.5 * side / (reach * reach)
            gradient[0, j] += share * vn
            gradient[1, j] += share * ve
            gradient[2, j] += share * vd
