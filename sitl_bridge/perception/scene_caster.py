"""The embedded caster: every ray by compiled code of one's own, no extra package."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.sensors.perception.depth_buffer import Image, Pinhole, draw_scene
from sitl_bridge.sensors.perception.view import Hits
from sitl_bridge.world.ray_casting import cast_rays
from sitl_bridge.world.records import SHAPE, SPHERE
from sitl_bridge.world.scene import Scene, place_moving_shapes


class SceneCaster:
    """A scene at one time, with other vehicles in it.

    Args:
        scene: static shapes are shared with it, the others copied.
        time: us of simulated time.
        spheres: (k, 4) m, centre NED and radius, of the other vehicles' bodies and rotors.
    """

    def __init__(self, scene: Scene, time: int, spheres: NDArray[np.float64]) -> None:
        self._scene = scene
        self.record, shapes = scene.copy_of_shapes()
        place_moving_shapes(self.record[0], time * 1e-6)
        bodies = np.zeros(len(spheres), SHAPE)
        bodies["kind"], bodies["object"], bodies["rotation"] = SPHERE, -1, np.eye(3)
        bodies["position"], bodies["half_size"] = spheres[:, :3], spheres[:, 3:]
        bodies["low"], bodies["high"] = spheres[:, :3] - spheres[:, 3:], spheres[:, :3] + spheres[:, 3:]
        bodies["color"] = 0.2
        self.shapes: NDArray[np.void] = np.concatenate([shapes, bodies])
        self.record[0]["shape_count"] = len(self.shapes)
        self.record[0]["shapes"] = self.shapes.ctypes.data

    def cast(self, origins: NDArray[np.float64], directions: NDArray[np.float64], limit: float) -> Hits:
        """The nearest surface along each ray; see ``Caster``."""
        n = len(directions)
        hits = Hits(np.empty(n), np.empty((n, 3)), np.empty(n, np.int64))
        cast_rays(
            self.record[0],
            np.ascontiguousarray(origins, float),
            np.ascontiguousarray(directions, float),
            limit,
            *hits,
        )
        return hits

    def draw(
        self, place: NDArray[np.float64], turn: NDArray[np.float64], limit: float, camera: Pinhole
    ) -> Image:
        """What a pinhole camera sees; see ``Caster``."""
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
