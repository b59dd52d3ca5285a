"""Measures rays and images: what ``scripts/bench perception`` prints."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.core.sensors.perception.depth_buffer import Pinhole
from sitl_bridge.core.sensors.perception.depth_camera import DepthCameraSpecification
from sitl_bridge.core.sensors.perception.lidar import LidarSpecification
from sitl_bridge.core.sensors.perception.scene_caster import SceneCaster
from sitl_bridge.core.sensors.perception.view import Poses, View
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import (
    MeshObject,
    OctreeObject,
    SceneSpecification,
    TriangleMesh,
    VoxelGrid,
)
from sitl_bridge.core.world.world_file import load_world

WORLDS = Path(__file__).resolve().parent.parent / "missions" / "worlds"
PLACE = np.array([[0.05, 0.03, -3.0]])
LIMIT = 100.0
CAMERA = Pinhole(640, 480, 577.3, 319.5, 239.5)
"""58 deg across."""
NOBODY = np.zeros((0, 4))


def lidar(rings: int = 64, columns: int = 1024) -> NDArray[np.float64]:
    """Directions of a turn (rings * columns, 3), -25 to 15 deg."""
    azimuth = np.linspace(-np.pi, np.pi, columns, endpoint=False)
    a, e = np.meshgrid(azimuth, np.radians(np.linspace(-15.0, 25.0, rings)))
    return np.stack([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)], axis=-1).reshape(-1, 3)


def image_rays(camera: Pinhole) -> NDArray[np.float64]:
    """Directions of a camera's pixels (n, 3)."""
    u, v = np.meshgrid(np.arange(camera.width), np.arange(camera.height))
    rays = np.stack(
        [np.ones(u.shape), (u - camera.cx) / camera.focal, (v - camera.cy) / camera.focal], axis=-1
    )
    return (rays / np.linalg.norm(rays, axis=-1, keepdims=True)).reshape(-1, 3)


def mesh_scene(triangles: int = 100_000) -> Scene:
    """Tetrahedra of 0.4 to 3 m in a hall of 80 by 80 by 8 m, none within 4 m of the sensor."""
    random = np.random.default_rng(0)
    centers = random.uniform([-40, -40, -8], [40, 40, 0], (triangles, 1, 3))
    centers = centers[np.linalg.norm(centers[:, 0] - PLACE, axis=1) > 4.0][: triangles // 4]
    corners = centers + random.uniform(-1.0, 1.0, (len(centers), 4, 3)) * random.uniform(
        0.2, 1.5, (len(centers), 1, 1)
    )
    faces = 4 * np.arange(len(centers))[:, None, None] + np.array(
        [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
    )
    thing = MeshObject.model_validate({"kind": "mesh", "file": "clutter.stl"})
    mesh = TriangleMesh(corners.reshape(-1, 3), faces.reshape(-1, 3), None, False)
    return Scene(SceneSpecification(objects=(thing.with_geometry(mesh),)))


def voxel_scene() -> Scene:
    """A million voxels of 0.2 m, of which 6 % are occupied."""
    random = np.random.default_rng(0)
    occupied = random.random((200, 200, 25)) < 0.06
    occupied[90:110, 90:110] = False
    thing = OctreeObject.model_validate({"kind": "octree", "file": "map.bt"})
    cells = VoxelGrid(occupied, np.array([-20.0, -20.0, -5.0]), 0.2)
    return Scene(SceneSpecification(objects=(thing.with_geometry(cells),)))


def processor_time(action: Callable[[], object], repeats: int) -> float:
    """Median ms of processor time of this thread, after one call that does not count."""
    action()
    times = []
    for _ in range(repeats):
        begin = time.thread_time()
        action()
        times.append(time.thread_time() - begin)
    return statistics.median(times) * 1e3


def sensors_in_worlds(measure: Callable[[str, Callable[[], object]], None]) -> None:
    """A sample of a depth camera and a turn of a lidar, 2 m above the origin of every shipped world."""
    camera = DepthCameraSpecification(kind="depth_camera", rate=15.0)
    laser = LidarSpecification(kind="lidar", columns=1024)
    poses = Poses(np.array([0]), np.array([[0.0, 0.0, -2.0]]), np.array([[1.0, 0.0, 0.0, 0.0]]))
    scenes = {"level ground": Scene(SceneSpecification())}
    scenes |= {file.stem: Scene(load_world(file).scene) for file in sorted(WORLDS.glob("*.yaml"))}
    for name, scene in scenes.items():
        if name != "level ground" and not scene:
            continue
        caster = SceneCaster(scene, 0, NOBODY)
        view = View(caster, poses, 0, np.random.default_rng(1))
        measure(f"{name}: 640 x 480 depth camera, a sample", lambda view=view: camera.measure(view))
        measure(f"{name}: 16 x 1024 lidar, a turn", lambda view=view: laser.measure(view))


def perception(repeats: int, say: Callable[[str], None]) -> dict[str, float]:
    """Processor time of one thread in ms: rays and images of meshes and voxels, sensors in worlds."""
    figures: dict[str, float] = {}

    def measure(name: str, action: Callable[[], object]) -> None:
        figures[name] = processor_time(action, repeats)
        say(f"  {name:52} {figures[name]:8.1f} ms")

    turn, rays = lidar(), image_rays(CAMERA)
    meshes, voxels = mesh_scene(), voxel_scene()
    own = SceneCaster(meshes, 0, NOBODY)
    measure("100,000 triangles, lidar", lambda: own.cast(PLACE, turn, LIMIT))
    measure("100,000 triangles, depth, ray by ray", lambda: own.cast(PLACE, rays, LIMIT))
    measure("100,000 triangles, depth image", lambda: own.draw(PLACE[0], np.eye(3), LIMIT, CAMERA))
    cells = SceneCaster(voxels, 0, NOBODY)
    measure("1,000,000 voxels, lidar", lambda: cells.cast(PLACE, turn, LIMIT))
    measure("1,000,000 voxels, depth image", lambda: cells.draw(PLACE[0], np.eye(3), LIMIT, CAMERA))
    sensors_in_worlds(measure)
    return figures
