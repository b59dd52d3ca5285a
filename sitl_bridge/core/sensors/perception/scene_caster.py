"""Casts rays into a scene as it is at one time, and draws it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.arrays import Floats, Ints, Records
from sitl_bridge.core.sensors.perception.depth_buffer import Image, Pinhole, draw_scene
from sitl_bridge.core.world.ray_casting import cast_rays
from sitl_bridge.core.world.records import MESH_PAINT, SHAPE, SPHERE
from sitl_bridge.core.world.scene import Scene, place_moving_shapes


class Hits(NamedTuple):
    """Hits of n rays in the scene."""

    distance: Floats  # (n,) m; inf for nothing
    normal: Floats  # (n, 3) NED, out of the surface
    shape: Ints  # (n,) index into ``shapes`` of the caster, or GROUND or NOTHING (core/world/ray_casting.py)
    # (n,) int32 index of the mesh's triangle; -1 where it is not known or no mesh is met
    triangle: NDArray[np.int32]


class SceneCaster:
    """The scene at one time: its static shapes, the moving ones and the other vehicles where they were.

    Args:
        scene: static shapes are shared with it, the others copied.
        time: us of simulated time.
        spheres: (k, 4) m, centre NED and radius, of the other vehicles' bodies and rotors.

    Attributes:
        record: (1,) SCENE.
        shapes: (k,) SHAPE that ``Hits.shape`` counts; the spheres stand last.
        paints: (k,) MESH_PAINT of the shapes.
    """

    def __init__(self, scene: Scene, time: int, spheres: Floats) -> None:
        self._scene = scene  # keeps alive what the shapes point to
        self.record, count = scene.record.copy(), len(scene.shapes)
        # Not by ``concatenate``, which spends ten times as long on comparing the fields.
        self.shapes: Records = np.zeros(count + len(spheres), SHAPE)
        self.shapes[:count] = scene.shapes
        self.record[0]["shapes"] = self.shapes.ctypes.data
        place_moving_shapes(self.record[0], time * 1e-6)
        bodies = self.shapes[count:]
        bodies["kind"], bodies["object"], bodies["rotation"] = SPHERE, -1, np.eye(3)
        bodies["position"], bodies["half_size"] = spheres[:, :3], spheres[:, 3:]
        bodies["low"], bodies["high"] = spheres[:, :3] - spheres[:, 3:], spheres[:, :3] + spheres[:, 3:]
        bodies["color"] = 0.2
        self.paints: Records = np.zeros(len(self.shapes), MESH_PAINT)
        self.paints[:count] = scene.paints
        self.record[0]["shape_count"] = len(self.shapes)

    def cast(self, origins: Floats, directions: Floats, limit: float) -> Hits:
        """The nearest surface along each ray.

        Args:
            origins: (n, 3) m NED, or (1, 3) for all rays.
            directions: (n, 3) unit vectors NED.
            limit: m; what is further away is not seen.
        """
        n = len(directions)
        hits = Hits(np.empty(n), np.empty((n, 3)), np.empty(n, np.int64), np.full(n, -1, np.int32))
        cast_rays(
            self.record[0],
            np.ascontiguousarray(origins, float),
            np.ascontiguousarray(directions, float),
            limit,
            *hits[:3],
        )
        return hits

    def draw(self, place: Floats, turn: Floats, limit: float, camera: Pinhole) -> Image:
        """Draw the image of a pinhole camera, many times as fast as a ray for every pixel.

        Args:
            place: (3,) m NED.
            turn: (3, 3) camera axes to NED.
            limit: m of depth; what is further away is not seen.
            camera: focal length and size.
        """
        size = (camera.height, camera.width)
        image = Image(np.empty(size, np.float32), np.empty(size, np.int32), np.empty(size, np.int32))
        draw_scene(
            self.record[0],
            np.ascontiguousarray(place, float),
            np.ascontiguousarray(turn, float),
            limit,
            camera,
            image,
        )
        return image
