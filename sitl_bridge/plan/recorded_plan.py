"""Plans of recorded runs, and their places in the world: what reports, exports and the page draw."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.core.world.geography import Projection
from sitl_bridge.core.world.world import Origin
from sitl_bridge.plan import commands
from sitl_bridge.plan.plan import FenceCircle, Item, Plan, Point, Polygon, with_fence_of
from sitl_bridge.plan.plan_file import load_plan, parse_plan

AROUND = np.linspace(0.0, 2.0 * np.pi, 49)


def recorded_plan(run: JsonObject, vehicle: JsonObject, notes: list[str]) -> Plan | None:
    """The plan of a vehicle, with the geofence that all vehicles got in place of its own; None without both.

    It is that in run.json, else the named file as it is now.

    Args:
        run: content of run.json.
        vehicle: its entry in it.
        notes: takes what cannot be shown, and why.
    """
    plan, kept = None, vehicle.get("plan")
    named = Path(str(vehicle.get("mission") or ""))
    file = Path(str(run.get("directory") or "")) / named
    try:
        if named.suffix == ".plan" and kept is not None:
            plan = parse_plan(json.dumps(kept), str(named))
        elif named.suffix == ".plan" and file.is_file():
            plan = load_plan(file)
            notes.append(f"the plan is {named} as it is now: the run has no copy of it")
    except UserError as error:
        notes.append(f"the plan is not shown: {error}")
    if run.get("fence") is None:
        return plan
    try:
        fence = parse_plan(json.dumps(run["fence"]), "fence of run.json", fence=True)
    except UserError as error:
        notes.append(f"the geofence is not shown: {error}")
        return plan
    return fence if plan is None else with_fence_of(plan, fence)


class PlanPlaces:
    """The places of a plan in a world.

    Args:
        origin: of the world, where home is.
    """

    def __init__(self, origin: Origin) -> None:
        self._altitude = origin.altitude
        self._projection = Projection.from_degrees(origin.latitude, origin.longitude, origin.altitude)

    def of_item(self, item: Item) -> Floats:
        """(3,) m NED of an item with a position; nan for a height that the plan leaves open."""
        height = item.params[6]
        relative = item.frame in commands.RELATIVE_FRAMES
        return self.over_home(item.point, height if relative else height - self._altitude)

    def over_home(self, point: Point, height: float) -> Floats:
        """(3,) m NED of a point at a height over home in m."""
        return np.array([*self._projection.local(*point), -height])

    def of_area(self, area: FenceCircle | Polygon) -> Floats:
        """(k, 2) m north and east along the edge of an area of the geofence, the first again as the last."""
        if isinstance(area, FenceCircle):
            centre = np.array(self._projection.local(*area.centre))
            return np.asarray(centre + area.radius * np.stack([np.cos(AROUND), np.sin(AROUND)], axis=-1))
        return np.array([self._projection.local(*vertex) for vertex in (*area.vertices, area.vertices[0])])
