"""A scene from above as a picture: colours, terrain, paths of what moves, and the world's origin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sitl_bridge.analysis.report.scene_outline import outline_of, solid_points
from sitl_bridge.base.output_file import write_figure
from sitl_bridge.core.world.records import PLANE
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import HeightMapObject, MeshObject, OctreeObject

MARGIN = 0.06
"""Share of the extent around the objects."""


def plot_scene(scene: Scene, path: Path, title: str = "") -> Path:
    """Write the picture as a PNG file.

    Args:
        scene: to be shown.
        path: of the file.
        title: above the picture.

    Raises:
        UserError: when it cannot be written.
    """
    figure = Figure(figsize=(6.4, 6.0), dpi=90, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_facecolor("#e8e8e4")
    shapes = [shape for _, shape in scene.objects() if int(shape["kind"]) != PLANE]
    # What is higher is drawn over what is lower.
    for rank, shape in enumerate(sorted(shapes, key=lambda s: -float(s["low"][2]))):
        _draw(axes, scene, shape, rank)
    for thing in scene.specification.objects:
        if thing.path is not None:
            points = np.array([*thing.path.points, *thing.path.points[: thing.path.end == "loop"]])
            axes.plot(
                points[:, 1], points[:, 0], "--", color="#c02020", linewidth=1.0, zorder=len(shapes) + 1
            )
    axes.plot(0.0, 0.0, "+", color="#2050d0", markersize=12, markeredgewidth=2, zorder=len(shapes) + 2)
    low, high = _extent(shapes)
    axes.set(xlim=(low[1], high[1]), ylim=(low[0], high[0]), xlabel="east, m", ylabel="north, m", title=title)
    axes.set_aspect("equal")
    return write_figure(path, figure)


def _extent(shapes: list[NDArray[np.void]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Corners north, east of what is shown."""
    low, high = np.full(2, -5.0), np.full(2, 5.0)
    for shape in shapes:
        low, high = np.minimum(low, shape["low"][:2]), np.maximum(high, shape["high"][:2])
    margin = MARGIN * float((high - low).max())
    return low - margin, high + margin


def _draw(axes: Axes, scene: Scene, shape: NDArray[np.void], rank: int) -> None:
    thing = scene.specification.objects[int(shape["object"])]
    match thing:
        case HeightMapObject() if thing.geometry is not None:
            _draw_heights(axes, shape, thing.geometry.heights, thing.geometry.spacing, rank)
        case MeshObject() if thing.geometry is not None:
            mesh = thing.geometry
            corners = mesh.vertices[mesh.faces] @ shape["rotation"].T + shape["position"]
            colors = np.tile(np.array(thing.color), (len(corners), 1)) if mesh.colors is None else mesh.colors
            order = np.argsort(-corners[:, :, 2].min(axis=1))
            _add(axes, list(corners[order][:, :, [1, 0]]), np.asarray(colors)[order], "none", rank)
        case OctreeObject() if thing.geometry is not None:
            cells = np.argwhere(thing.geometry.occupied.any(axis=2))
            height = 0.5 * thing.geometry.occupied.shape[2]
            centres = np.column_stack([cells + 0.5, np.full(len(cells), height)]) * thing.geometry.size
            places = centres @ shape["rotation"].T + shape["position"]
            half = 0.5 * thing.geometry.size * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
            _add(axes, list(places[:, None, [1, 0]] + half), np.array([thing.color]), "none", rank)
        case _:
            outline = outline_of(solid_points(shape))
            _add(axes, [outline[:, [1, 0]]], np.array([shape["color"]]), "#404040", rank)


def _add(axes: Axes, polygons: list[Any], colors: NDArray[Any], edge: str, rank: int) -> None:
    made = PolyCollection(polygons, facecolors=colors, edgecolors=edge, linewidths=0.4, zorder=rank)
    axes.add_collection(made)


def _draw_heights(
    axes: Axes, shape: NDArray[np.void], heights: NDArray[np.float32], spacing: float, rank: int
) -> None:
    """Terrain in colours of height."""
    rows, columns = heights.shape
    turn = shape["rotation"]
    north, east = np.meshgrid(np.arange(rows) * spacing, np.arange(columns) * spacing, indexing="ij")
    at_north = shape["position"][0] + turn[0, 0] * north + turn[0, 1] * east
    at_east = shape["position"][1] + turn[1, 0] * north + turn[1, 1] * east
    above = heights - shape["position"][2]
    image = axes.contourf(at_east, at_north, above, levels=24, cmap="terrain", zorder=rank)
    assert axes.figure is not None
    axes.figure.colorbar(image, ax=axes, label="height, m", shrink=0.8)
