"""Draws the map and the 3-D view of a report: tracks, plan, fence, outlines of the world's objects.

All positions are m NED in the world frame.
"""

from __future__ import annotations

import math

import numpy as np
from pydantic import ValidationError

from sitl_bridge.analysis.evaluation.run_record import RecordedVehicle, RunRecord
from sitl_bridge.analysis.report.scene_outline import footprints
from sitl_bridge.analysis.report.time_lines import shown_window
from sitl_bridge.base.arrays import AnyArray, Floats
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_geometry import GeometryLoader
from sitl_bridge.core.world.scene_specification import SceneSpecification
from sitl_bridge.core.world.world import Origin
from sitl_bridge.plan.recorded_plan import PlanPlaces


def track(vehicle: RecordedVehicle, points: int) -> JsonObject | None:
    """The flown track, the reference and the times of a vehicle; None without positions.

    Args:
        points: at most.
    """
    window = shown_window(vehicle)
    if window is None:
        return None
    record = vehicle.record
    if vehicle.rows is not None and len(vehicle.rows):
        time, position, kind = vehicle.time, vehicle.true("position", "north", "east", "down"), "true"
    elif record is not None and len(record.time):
        time, position, kind = record.time, record.estimate + vehicle.to_world, "estimated"
    else:
        return None
    chosen = np.flatnonzero((time >= window[0]) & (time <= window[1]))
    chosen = chosen[:: max(1, math.ceil(len(chosen) / points))]
    reference = np.zeros((0, 3)) if record is None else record.reference + vehicle.to_world
    return {
        "name": vehicle.name,
        "kind": kind,
        "time": round_numbers(time[chosen], 2),
        "points": round_numbers(position[chosen], 2),
        "reference": round_numbers(_thin_out(reference, points), 2),
    }


def fewer(track: JsonObject, points: int) -> JsonObject:
    """A track with at most so many points."""
    every = max(1, math.ceil(len(track["time"]) / points))
    return track | {key: track[key][::every] for key in ("time", "points")}


def tracks_of_arrays(run: RunRecord, points: int) -> list[JsonObject]:
    """Tracks of a formation or of avoidance that was simulated without a truth log."""
    arrays = run.tracks
    if arrays is None or "position" not in arrays or "time" not in arrays:
        return []
    time, position = np.asarray(arrays["time"], np.float64), np.asarray(arrays["position"], np.float64)
    every = max(1, math.ceil(len(time) / points))
    slots = arrays.get("slot", arrays.get("reference"))
    found = []
    for i in range(position.shape[1]):
        reference = np.zeros((0, 3)) if slots is None else np.asarray(slots, np.float64)[::every, i]
        found.append(
            {
                "name": track_name(run, i),
                "kind": "simulated",
                "time": round_numbers(time[::every], 2),
                "points": round_numbers(position[::every, i], 2),
                "reference": round_numbers(reference, 2),
            }
        )
    return found


def track_name(run: RunRecord, number: int) -> str:
    """Name of a vehicle of a simulated formation or of avoidance."""
    names = None if run.tracks is None else run.tracks.get("names")
    return str(names[number]) if names is not None and number < len(names) else str(number)


def _thin_out(points: Floats, most: int) -> Floats:
    """Points without repeated ones; at most about ``most``."""
    if len(points) < 3:
        return points
    moved = np.ones(len(points), bool)
    moved[1:] = ~(np.abs(np.diff(points, axis=0)).max(axis=1) < 0.01)
    moved[-1] = True
    points = points[moved]
    return points[:: max(1, len(points) // most)]


def plan_outline(run: RunRecord) -> JsonObject:
    """Waypoints, other places and fence of the plan in the world frame; empty without a plan or an origin."""
    origin = _origin(run)
    plan = run.plan
    if plan is None or origin is None:
        return {}
    world = PlanPlaces(origin)

    # Numbered from 1, as the terminal and QGroundControl do.
    waypoints, places = [], []
    for number, item in enumerate(plan.items, 1):
        if not (item.has_position or item.aims):
            continue
        place = round_numbers(world.of_item(item), 2)
        if item.aims:
            places.append({"kind": "region of interest", "name": f"ROI {number}", "place": place})
        else:
            waypoints.append({"number": number, "what": item.where, "place": place})
    for number, (*point, height) in enumerate(plan.rally_points, 1):
        place = round_numbers(world.over_home((point[0], point[1]), height), 2)
        places.append({"kind": "rally point", "name": f"R{number}", "place": place})
    fence = [
        {"inclusion": area.inclusion, "points": round_numbers(world.of_area(area), 1)} for area in plan.areas
    ]
    return {"waypoints": waypoints, "places": places, "fence": fence}


def _origin(run: RunRecord) -> Origin | None:
    world = run.run.get("world")
    try:
        return Origin.model_validate(world["origin"]) if isinstance(world, dict) else None
    except (KeyError, ValidationError):
        return None


def scene_outline(run: RunRecord) -> list[JsonObject]:
    """Outlines of the objects of the run's world; what cannot be read again is noted and left out."""
    world = run.run.get("world")
    described = world.get("scene") if isinstance(world, dict) else None
    if not isinstance(described, dict) or not described.get("objects"):
        return []
    try:
        specification = SceneSpecification.model_validate(described)
    except ValidationError:
        run.notes.append("the scene is not shown: this version does not read its description in run.json")
        return []
    loader = GeometryLoader(run.path, _origin(run) or Origin())
    return footprints(Scene(loader.load_shown(specification, run.notes)))


def round_numbers(values: AnyArray, digits: int) -> list[object]:
    """Nested lists of numbers with few digits; null for what is not finite."""
    array = np.round(np.asarray(values, np.float64), digits)
    flat: list[object] = [
        None if not math.isfinite(v) else int(v) if v == int(v) else v for v in array.ravel().tolist()
    ]
    if array.ndim == 1:
        return flat
    width = array.shape[1]
    return [flat[i : i + width] for i in range(0, len(flat), width)]
