"""Figures of a world's scene for ``sitl-bridge check``."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.core.world.records import HEIGHT_MAP, MESH, PLANE, VOXELS
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.wind_shadow import wind_obstacles

MOST_NAMES = 12
"""Names of objects that are listed."""


def scene_facts(scene: Scene) -> dict[str, Any]:
    """Counts, extent, triangles and memory of a scene; empty for level ground alone."""
    if not scene:
        return {}
    shapes = scene.shapes
    kinds = Counter(item.kind for item in scene.specification.objects)
    names = [
        *scene.names[:MOST_NAMES],
        *([f"and {len(scene.names) - MOST_NAMES} more"] if len(scene.names) > MOST_NAMES else []),
    ]
    facts: dict[str, Any] = {
        "ground": "level at height 0" if scene.specification.ground else "none",
        "objects": [f"{count} x {kind}" for kind, count in kinds.items()],
        "names": ", ".join(names),
    }
    bounded = shapes[shapes["kind"] != PLANE]
    if len(bounded):
        low, high = bounded["low"].min(axis=0), bounded["high"].max(axis=0)
        facts["extent_m"] = [
            f"{axis} {low[i]:.1f} to {high[i]:.1f}" for i, axis in enumerate(("north", "east", "down"))
        ]
    moving = int(np.count_nonzero(shapes["path"]))
    if moving:
        facts["moving"] = moving
    for name, kind, count in (
        ("triangles", MESH, shapes["triangle_count"]),
        ("heights", HEIGHT_MAP, shapes["rows"] * shapes["columns"]),
        ("cells", VOXELS, shapes["rows"] * shapes["columns"] * shapes["layers"]),
    ):
        total = int(count[shapes["kind"] == kind].sum())
        if total:
            facts[name] = total
    facts["memory_mb"] = scene.memory / 1e6
    return facts


def wind_shadow_fact(shapes: NDArray[np.void], least: float | None) -> str:
    """How many obstacles shadow the wind.

    Args:
        shapes: (n,) SHAPE.
        least: m, of a world's ``wind_shadow``.
    """
    if least is None:
        return "none"
    count = len(wind_obstacles(shapes, least))
    if count == 0:
        return f"none: no upright, still box or cylinder is {least:g} m high and wide"
    return f"behind {count} of {len(shapes)} objects, those {least:g} m high and wide at least"
