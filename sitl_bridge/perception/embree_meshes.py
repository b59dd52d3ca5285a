"""The static meshes of a scene in Embree, up to eight times as fast as the embedded caster; optional.

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

from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.pointer_call import call_with_pointers
from sitl_bridge.core.sensors.perception.view import Hits
from sitl_bridge.core.world.bounding_tree import build_tree
from sitl_bridge.core.world.records import MESH
from sitl_bridge.core.world.scene import Scene, world_triangles
from sitl_bridge.perception.embree_library import EmbreeTriangles

PACKET = 16
"""Rays that Embree follows together; neighbours take nearly the same way through its tree."""
# RTCRayHit16 (embree4/rtcore_ray.h) in rows of 16 words of 32 bits: origin, least distance, direction, time,
# greatest distance, mask, number, flags; normal, u, v, triangle, geometry, instances.
RAY_ROWS, MASK, FLAGS, TRIANGLE_NUMBER, GEOMETRY, INSTANCE = 21, 9, 11, 17, 18, 19
ALIGNMENT = 64
"""Bytes."""
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
        tracer: tuple of the addresses of rtcIntersect16, of the RTCScene and of the RTCIntersectArguments,
            its centre (3,) in m NED, which rays count (PACKET,) int32, and an RTCRayHit16 as float32 and as
            uint32 (RAY_ROWS, PACKET).
        mesh: tuple of the corners (t, 3, 3) in m NED; the shape (t,) that each is of; that shape's first
            triangle (t,); and solid (t,), 1: the normal points out of the solid; 0: against the ray.
        origins: (n, 3) or (1, 3) m NED.
        directions: (n, 3).
        limit: m.
        hits: ``Hits``, written where a triangle is nearer.
    """
    intersect, scene, arguments, center, valid, rays, words = tracer
    one, count = origins.shape[0] == 1, directions.shape[0]
    for begin in range(0, count, PACKET):
        size = min(PACKET, count - begin)
        for j in range(PACKET):
            valid[j] = -1 if j < size else 0
        for j in range(size):
            k = begin + j
            o, d = origins[0 if one else k], directions[k]
            for i in range(3):
                rays[i, j], rays[4 + i, j] = o[i] - center[i], d[i]
            # A ray ends where another shape is in its way; rounded up to single precision.
            rays[3, j], rays[7, j], rays[8, j] = 0.0, 0.0, min(hits.distance[k], limit) * (1.0 + 1e-6)
            words[MASK, j], words[FLAGS, j] = NONE, 0
            words[GEOMETRY, j], words[INSTANCE, j], words[INSTANCE + 1, j] = NONE, NONE, NONE
        call_with_pointers(intersect, valid.ctypes.data, scene, words.ctypes.data, arguments)
        for j in range(size):
            if words[GEOMETRY, j] != NONE:
                k = begin + j
                origin = origins[0 if one else k]
                _meet(mesh, words[TRIANGLE_NUMBER, j], k, origin, directions[k], limit, hits)


@compiled
def _meet(mesh: Any, t: int, k: int, o: Any, d: Any, limit: float, hits: Any) -> None:
    """Write where ray ``k``, from ``o`` along ``d``, meets triangle ``t``, if it is nearer than before."""
    corners, owner, first, solid = mesh
    p = corners[t]
    ux, uy, uz = p[1, 0] - p[0, 0], p[1, 1] - p[0, 1], p[1, 2] - p[0, 2]
    vx, vy, vz = p[2, 0] - p[0, 0], p[2, 1] - p[0, 1], p[2, 2] - p[0, 2]
    x, y, z = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
    sinking = x * d[0] + y * d[1] + z * d[2]
    if sinking == 0.0:
        return
    distance = (x * (p[0, 0] - o[0]) + y * (p[0, 1] - o[1]) + z * (p[0, 2] - o[2])) / sinking
    if not 0.0 <= distance <= limit or distance >= hits.distance[k]:
        return
    scale = 1.0 / math.sqrt(x * x + y * y + z * z)
    if solid[t] == 0 and sinking > 0.0:
        scale = -scale
    hits.distance[k] = distance
    hits.normal[k, 0], hits.normal[k, 1], hits.normal[k, 2] = x * scale, y * scale, z * scale
    hits.shape[k], hits.triangle[k] = owner[t], t - first[t]


def _aligned(rows: int, dtype: type) -> NDArray[Any]:
    """(rows, PACKET) zeros of 32 bits, aligned as Embree reads them."""
    size = rows * PACKET
    memory: NDArray[Any] = np.zeros(size + ALIGNMENT // 4, dtype)
    begin = (-memory.ctypes.data % ALIGNMENT) // 4
    return memory[begin : begin + size].reshape(rows, PACKET)


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
        rays, valid = _aligned(RAY_ROWS, np.float32), _aligned(1, np.int32)[0]
        triangles = self._triangles
        tracer = (
            triangles.intersect, triangles.scene, triangles.arguments, self._center, valid, rays,
            rays.view(np.uint32),
        )  # fmt: skip
        mesh = self._corners, self._owner, self._first, self._solid
        _meet_triangles(tracer, mesh, origins, directions, limit, hits)
