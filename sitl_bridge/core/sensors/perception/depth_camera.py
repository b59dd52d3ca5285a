"""Depth camera: the distance along its optical axis for every pixel."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from sitl_bridge.base.arrays import Floats, Mask, Singles, Words
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.normal_numbers import normal_numbers
from sitl_bridge.base.kernels.random_streams import normal_pair
from sitl_bridge.base.quantities import NonNegative, Positive
from sitl_bridge.core.sensors.perception.camera import CameraSpecification, Side
from sitl_bridge.core.sensors.perception.depth_buffer import Pinhole
from sitl_bridge.core.sensors.perception.obstacle_map import RangingSpecification, Returns, Sight
from sitl_bridge.core.sensors.perception.view import Arrays, Rate, View

PRESETS: dict[str, JsonObject] = {
    "kinect": {},
    "realsense_d435": {
        "width": 848,
        "height": 480,
        "field_of_view": 87.0,
        "minimum": 0.2,
        "maximum": 10.0,
        "baseline": 0.05,
        "quadratic_noise": 3.58e-3,
    },
}
"""Defaults of models, where they differ from the fields' own."""


@compiled
def read_depths(inverse: Singles, normal: Singles, figures: Floats) -> Singles:
    """Depths (h, w) in m as a camera reads them, float32; nan for none.

    Args:
        inverse: (h, w) float32, 1/m; 0 for nothing.
        normal: (h, w) float32, standard normal numbers.
        figures: (4,) least and greatest depth in m, constant noise in m, quadratic noise in 1/m.
    """
    depth = np.empty_like(inverse)
    least, most, constant, quadratic = figures[0], figures[1], figures[2], figures[3]
    for v in range(inverse.shape[0]):
        for u in range(inverse.shape[1]):
            depth[v, u] = math.nan
            if inverse[v, u] > 0.0:
                true = 1.0 / inverse[v, u]
                read = true + (constant + quadratic * true * true) * normal[v, u]
                if least <= read <= most:
                    depth[v, u] = read
    return depth


STEP = 0.05
"""Relative difference of depths that makes an edge."""
SHARE = np.float32(1.0 - STEP)
REACH = 2
"""Pixels from an edge within which it counts."""


@compiled
def cast_shadows(inverse: Singles, shift: float) -> None:
    """Remove what the second camera or the projector, on the side of +y, does not see.

    A surface at column u appears there at u - shift / depth, where a nearer one further to the right may
    hide it.

    Args:
        inverse: (h, w) float32, 1/m, changed; 0 for nothing.
        shift: focal length in pixels times baseline in m.
    """
    for v in range(inverse.shape[0]):
        least = 1e9
        for u in range(inverse.shape[1] - 1, -1, -1):
            if inverse[v, u] > 0.0:
                column = u - shift * inverse[v, u]
                if column >= least:
                    inverse[v, u] = 0.0
                else:
                    least = column


@compiled
def _spread(rows: tuple[Singles, ...], row: Singles, sign: np.float32, out: Singles) -> None:
    """Greatest values of a row and of those within reach of each pixel, times ``sign`` (1, or -1: least).

    Simple loops over whole rows, which compile to vector instructions.

    Args:
        rows: tuple of 2 REACH + 1 (w,) float32: the rows within reach.
        row: (w,) float32.
        sign: float32.
        out: (w,) float32, written.
    """
    width = row.shape[0]
    for k in range(2 * REACH + 1):
        other = rows[k]
        for u in range(width):
            value = sign * other[u]
            out[u] = value if k == 0 or value > out[u] else out[u]
    for k in range(1, REACH + 1):
        for ahead in range(2):
            shown, other = (out[: width - k], row[k:]) if ahead == 1 else (out[k:], row[: width - k])
            for u in range(shown.shape[0]):
                value = sign * other[u]
                shown[u] = value if value > shown[u] else shown[u]


@compiled
def _find_edges(inverse: Singles, v: int, most: Singles, least: Singles, edges: Mask) -> None:
    """Whether there is an edge within reach of each pixel of a row.

    Args:
        inverse: (h, w) float32.
        v: row.
        most, least: (w,) float32, scratch.
        edges: (w,) bool, written.
    """
    height, row = inverse.shape[0], inverse[v]
    rows = (
        inverse[max(v - 2, 0)],
        inverse[max(v - 1, 0)],
        row,
        inverse[min(v + 1, height - 1)],
        inverse[min(v + 2, height - 1)],
    )
    _spread(rows, row, np.float32(1.0), most)
    _spread(rows, row, np.float32(-1.0), least)
    for u in range(row.shape[0]):
        edges[u] = (SHARE * most[u] > row[u]) | (-least[u] < SHARE * row[u])


@compiled
def fray_edges(inverse: Singles, spread: float, mixed: bool, random: Words) -> Singles:
    """Let pixels near edges show what is a random distance beside them: (h, w) float32, 1/m.

    Args:
        inverse: (h, w) float32, 1/m; 0 for nothing.
        spread: pixels, standard deviation of the distance along rows and columns.
        mixed: whether a pixel between two columns shows a depth between theirs.
        random: (4,) uint64, advanced.
    """
    height, width = inverse.shape
    out = inverse.copy()
    most, least = np.empty(width, np.float32), np.empty(width, np.float32)
    edges = np.empty(width, np.bool_)
    for v in range(height):
        _find_edges(inverse, v, most, least, edges)
        for u in range(width):
            if not edges[u]:
                continue
            a, b = normal_pair(random)
            x = min(max(u + spread * a, 0.0), width - 1.0)
            row = int(min(max(v + spread * b, 0.0), height - 1.0) + 0.5)
            left = min(int(x), width - 2)
            near, far = inverse[row, left], inverse[row, left + 1]
            if mixed and near > 0.0 and far > 0.0:
                share = x - left
                out[v, u] = 1.0 / ((1.0 - share) / near + share / far)
            else:
                out[v, u] = inverse[row, int(x + 0.5)]
    return out


class DepthCameraSpecification(RangingSpecification):
    """A depth camera that looks along the sensor's x axis; columns run along y, rows along z.

    The noise grows with the square of the depth, as the disparity of structured light and stereo has a
    constant error: sigma_z = z^2 sigma_d / (f b).  ``model`` sets the defaults of all fields:

    - kinect: 1.43e-3 z^2 (Khoshelham and Elberink, Sensors 12(2), 2012), edges ragged by 0.8 pixels (Nguyen,
      Izadi and Lovell, 3DIMPVT 2012);
    - realsense_d435: 848 x 480 over 87 deg, baseline 0.05 m, a disparity error of 0.08 pixels (Intel, "Tuning
      depth cameras for best performance"), so 3.58e-3 z^2; the edges are the Kinect's.
    """

    kind: Literal["depth_camera"]
    rate: Rate = Field(30.0, description="Hz")
    width: Side = 640
    height: Side = 480
    field_of_view: float = Field(58.0, gt=1.0, lt=179.0, description="deg, horizontal")
    minimum: NonNegative = Field(0.4, description="m")
    maximum: Positive = Field(8.0, description="m")
    noise: NonNegative = Field(0.0, description="m, standard deviation of a depth near by")
    quadratic_noise: NonNegative = Field(1.43e-3, description="1/m, of a depth, times its square")
    model: Literal["kinect", "realsense_d435"] = Field(
        "kinect", description="sets the defaults of the others"
    )
    baseline: NonNegative = Field(
        0.075, description="m to the second camera or projector, at +y; objects cast a shadow; 0: none"
    )
    edge_noise: float = Field(
        0.8, ge=0.0, le=2.0, description="pixels, standard deviation at edges of objects"
    )
    mixed: bool = Field(
        False, description="pixels at edges show depths between, as of time-of-flight cameras"
    )
    color: bool = Field(False, description="a colour image with the same geometry as well (RGB-D)")

    @model_validator(mode="before")
    @classmethod
    def _take_defaults(cls, data: object) -> object:
        if not isinstance(data, dict) or (preset := PRESETS.get(data.get("model", "kinect"))) is None:
            return data
        # A file's lists count as tuples only until a validator has seen them.
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
        return {**preset, **given}

    @property
    def focal_length(self) -> float:
        """Pixels."""
        return 0.5 * self.width / math.tan(0.5 * math.radians(self.field_of_view))

    @property
    def camera(self) -> Pinhole:
        """Its geometry; pixel centres at whole numbers, the optical axis through the middle of the image."""
        cx, cy = 0.5 * (self.width - 1), 0.5 * (self.height - 1)
        return Pinhole(self.width, self.height, self.focal_length, cx, cy)

    def measure(self, view: View) -> Arrays:
        """``depth`` (height, width) in m as float32, along the optical axis; nan where there is none.

        With ``color`` also ``color`` (height, width, 3), uint8.
        """
        place, turn = self.pose(view)
        inverse = view.caster.draw(place, turn, 2.0 * self.maximum, self.camera).inverse
        if self.baseline > 0.0:
            cast_shadows(inverse, self.focal_length * self.baseline)
        if self.edge_noise > 0.0:
            random = view.random.integers(1, 1 << 63, 4, np.uint64)
            inverse = fray_edges(inverse, self.edge_noise, self.mixed, random)
        normal = normal_numbers(view.random, *inverse.shape)
        bounds = np.array([self.minimum, self.maximum, self.noise, self.quadratic_noise])
        arrays: Arrays = {"depth": read_depths(inverse, normal, bounds)}
        if self.color:
            arrays["color"] = self._color_camera.image(view)
        return arrays

    @cached_property
    def _color_camera(self) -> CameraSpecification:
        return CameraSpecification(
            kind="camera",
            rate=self.rate,
            position=self.position,
            rotation=self.rotation,
            width=self.width,
            height=self.height,
            field_of_view=self.field_of_view,
            color=True,
        )

    def sight(self, view: View, arrays: Arrays) -> Sight:
        """The rays of every k-th pixel, so that at the map's range two are half a cell apart.

        Pixels without a depth are left out: nothing in range, too near, or in a shadow.
        """
        camera, cell = self.camera, self.map_cell or 0.0
        k = max(1, math.floor(0.5 * cell * camera.focal / self.sight_range))
        depth = arrays["depth"][k // 2 :: k, k // 2 :: k].astype(float)
        rows, columns = np.indices(depth.shape) * k + k // 2
        y, z = (columns - camera.cx) / camera.focal, (rows - camera.cy) / camera.focal
        rays = np.stack([np.ones_like(y), y, z], axis=-1).reshape(-1, 3)
        length = np.linalg.norm(rays, axis=1)
        place, turn = self.pose(view)
        directions = (rays / length[:, None]) @ turn.T
        return Sight(place[None], directions, depth.ravel() * length, self.sight_range)

    def returns(self, view: View, arrays: Arrays) -> Returns:
        """Return the points where the pixels' rays met something."""
        camera, depth = self.camera, arrays["depth"].astype(float)
        rows, columns = np.nonzero(np.isfinite(depth))
        met = depth[rows, columns]
        y, z = (columns - camera.cx) / camera.focal * met, (rows - camera.cy) / camera.focal * met
        place, turn = self.pose(view)
        across = (np.arange(camera.width) - camera.cx) / camera.focal
        middle = np.stack([np.ones_like(across), across, np.zeros_like(across)], axis=1)
        return Returns(place + np.stack([met, y, z], axis=1) @ turn.T, self.sectors_of(middle))
