"""The static meshes of a scene in Embree, some four times as fast as the embedded caster; optional.

Embree computes in single precision.  It only chooses the triangle here: distance and normal are computed from
the triangle in double precision, as the embedded caster does.
"""

from __future__ import annotations

import importlib.util
import math
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.kernels.compiled import compiled
from sitl_bridge.kernels.pointer_call import call_with_pointers
from sitl_bridge.perception.embree_library import EmbreeTriangles
from sitl_bridge.sensors.perception.view import Hits
from sitl_bridge.world.bounding_tree import build_tree
from sitl_bridge.world.records import MESH
from sitl_bridge.world.scene import Scene, world_triangles

# RTCRayHit (embree4/rtcore_ray.h) in words of 32 bits: origin, least distance, direction, time, greatest
# distance, mask, number, flags; normal, u, v, triangle, geometry, instances.
RAY_WORDS, MASK, FLAGS, TRIANGLE_NUMBER, GEOMETRY, INSTANCE = 24, 9, 11, 17, 18, 19
NONE = np.uint32(0xFFFFFFFF)
WORTHWHILE = 1000
"""Triangles from which on Embree is used."""
_built: WeakKeyDictionary[Scene, EmbreeMeshes | None] = WeakKeyDictionary()


def meshes_of(scene: Scene) -> EmbreeMeshes | None:
    """The scene's static meshes in Embree; None without embreex, or with few triangles."""
    if scene not in _built:
        _built[scene] = None
        triangles = int(scene.shapes["triangle_count"].sum())
        if triangles >= WORTHWHILE and importlib.util.find_spec("embreex") is not None:
            made = EmbreeMeshes(scene)
            _built[scene] = made if made else None
    return _built[scene]


@compiled
def _meet_triangles(tracer: Any, mesh: Any, origins: Any, directions: Any, limit: float, hits: Any) -> None:
    """Distances and normals of rays at the nearest triangles, where they are nearer than what is there.

    Args:
        tracer: tuple of the addresses of rtcIntersect1 and of the RTCScene, its centre (3,) in m NED, and an
            RTCRayHit as float32 and as uint32 (RAY_WORDS,).
        mesh: tuple of the corners (t, 3, 3) in m NED; the shape (t,) that each is of; that shape's first
            triangle (t,); and solid (t,), 1: the normal points out of the solid; 0: against the ray.
        origins: (n, 3) or (1, 3) m NED.
        directions: (n, 3).
        limit: m.
        hits: ``Hits``, written where a triangle is nearer.
    """
    intersect, scene, center, ray, words = tracer
    corners, owner, first, solid = mesh
    one = origins.shape[0] == 1
    for k in range(directions.shape[0]):
        o, d = origins[0 if one else k], directions[k]
        for i in range(3):
            ray[i], ray[4 + i] = o[i] - center[i], d[i]
        # A ray ends where another shape is in its way; rounded up to single precision.
        ray[3], ray[7], ray[8] = 0.0, 0.0, min(hits.distance[k], limit) * (1.0 + 1e-6)
        words[MASK], words[FLAGS] = NONE, 0
        words[GEOMETRY], words[INSTANCE], words[INSTANCE + 1] = NONE, NONE, NONE
        call_with_pointers(intersect, scene, words.ctypes.data, 0)
        if words[GEOMETRY] == NONE:
            continue
        t = words[TRIANGLE_NUMBER]
        p = corners[t]
        ux, uy, uz = p[1, 0] - p[0, 0], p[1, 1] - p[0, 1], p[1, 2] - p[0, 2]
        vx, vy, vz = p[2, 0] - p[0, 0], p[2, 1] - p[0, 1], p[2, 2] - p[0, 2]
        x, y, z = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
        sinking = x * d[0] + y * d[1] + z * d[2]
        if sinking == 0.0:
            continue
        distance = (x * (p[0, 0] - o[0]) + y * (p[0, 1] - o[1]) + z * (p[0, 2] - o[2])) / sinking
        if not 0.0 <= distance <= limit or distance >= hits.distance[k]:
            continue
        scale = 1.0 / math.sqrt(x * x + y * y + z * z)
        if solid[t] == 0 and sinking > 0.0:
            scale = -scale
        hits.distance[k] = distance
        hits.normal[k, 0], hits.normal[k, 1], hits.normal[k, 2] = x * scale, y * scale, z * scale
        hits.shape[k], hits.triangle[k] = owner[t], t - first[t]


class EmbreeMeshes:
    """The static meshes of a scene.

    Attributes:
        rest: (k,) indices of the scene's shapes that are not in here.
        record: (1,) SCENE for those; its shapes are the caller's.

    Args:
        scene: whose meshes they are.

    Raises:
        ImportError: without embreex.
    """

    def __init__(self, scene: Scene) -> None:
        shapes = scene.shapes
        static = np.arange(len(shapes)) < int(scene.record[0]["bounded_count"])
        own = np.flatnonzero(static & (shapes["kind"] == MESH))
        parts = [world_triangles(shapes[i]) for i in own]
        self._corners = np.concatenate([np.zeros((0, 3, 3)), *parts])
        counts = [len(part) for part in parts]
        self._owner = np.repeat(own, counts).astype(np.int64)
        self._first = np.repeat(np.cumsum([0, *counts[:-1]])[: len(counts)], counts)
        self._solid = np.repeat(shapes["solid"][own], counts)
        self._center = self._corners.reshape(-1, 3).mean(axis=0) if len(self._corners) else np.zeros(3)
        self._triangles = EmbreeTriangles((self._corners.reshape(-1, 3) - self._center).astype(np.float32))
        kept = np.flatnonzero(static & (shapes["kind"] != MESH))
        self._nodes, order = build_tree(shapes["low"][kept], shapes["high"][kept])
        self.rest = np.concatenate([kept[order], np.flatnonzero(~static)])
        self.record = scene.record.copy()
        record = self.record[0]
        record["shape_count"], record["bounded_count"] = len(self.rest), len(kept)
        record["moving_first"] = len(self.rest) - (len(shapes) - int(scene.record[0]["moving_first"]))
        record["nodes"], record["node_count"] = self._nodes.ctypes.data, len(self._nodes)

    def __bool__(self) -> bool:
        """Whether there is a mesh."""
        return len(self._corners) > 0

    def cast(
        self, origins: NDArray[np.float64], directions: NDArray[np.float64], limit: float, hits: Hits
    ) -> None:
        """Write into ``hits`` where a mesh is nearer than what is there.

        Args:
            origins: (n, 3) or (1, 3) m NED.
            directions: (n, 3).
            limit: m.
            hits: (n,) of other shapes.
        """
        if not self:
            return
        # Aligned to 16 bytes, as Embree reads it.
        memory = np.zeros(RAY_WORDS + 4, np.float32)
        begin = (-memory.ctypes.data % 16) // 4
        ray = memory[begin : begin + RAY_WORDS]
        tracer = (
            self._triangles.intersect, self._triangles.scene, self._center, ray, ray.view(np.uint32)
        )  # fmt: skip
        mesh = self._corners, self._owner, self._first, self._solid
        _meet_triangles(tracer, mesh, origins, directions, limit, hits)
