"""The memory of the world: one environment record for all vehicles, the wind's settings and its states."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from sitl_bridge.base.arrays import Floats, Ints, Singles
from sitl_bridge.base.kernels.record import Record

START = 0
"""us of simulated time at which a run begins, as in other simulators.  PX4 takes the time of its first
inertial sample for the interval before it (VehicleIMU.cpp); an estimator that is handed that sample averages
over it (imu_down_sampler.cpp), and with a large one puts out nothing for many seconds."""
MAX_GUSTS = 8

# Kinds of shapes.
BOX = 1
SPHERE = 2
CYLINDER = 3
PLANE = 4
MESH = 5
HEIGHT_MAP = 6
VOXELS = 7

# Kinds of textures.
CHECKER = 1
STRIPES = 2
NOISE = 3
IMAGE = 4


class TextureRecord(Record):
    """Texture of a surface, over the two of the shape's axes beside the largest part of the normal.

    Columns, and stripes, follow each other along y where the normal is along z or x, and along x where it is
    along y.  Rows go from north to south (along -x) on level faces and downwards (along z) on upright ones.
    The shape's origin is the centre of an image, and a corner of a square.
    """

    kind: int  # 0: none given
    # m: side of a square of a checker or of noise, width of a stripe, width of an image.
    size: float
    color: Annotated[Floats, 3]  # of every second square or stripe, and of what noise fades to
    cells: int  # address of (rows * columns * 3,) uint8, an image from its upper left, row by row
    rows: int
    columns: int
    face: int  # 0: an image repeats on all faces; 1: it stands once, on the face towards -z


TEXTURE = TextureRecord.dtype


class Shape(Record):
    """A solid of a scene."""

    kind: int
    object: int  # index of the scene's object that it belongs to
    position: Annotated[Floats, 3]  # m NED, of the shape's origin
    rotation: Annotated[Floats, 3, 3]  # shape axes to NED, row-wise
    velocity: Annotated[Floats, 3]  # m/s NED
    # Half lengths of a box; radius of a sphere; radius (0, 1) and half length (2, along z) of a cylinder.
    # A plane is the solid half-space on the side of its z axis.
    half_size: Annotated[Floats, 3]
    low: Annotated[Floats, 3]  # m NED, corner of the box that holds it, at its present place
    high: Annotated[Floats, 3]
    friction: float  # factor on the vehicle's coefficient
    color: Annotated[Floats, 3]  # red, green, blue, 0 to 1
    texture: TextureRecord
    # A mesh: triangles and tree nodes of its own, in shape axes.  Solid: closed, with an inside.
    triangles: int  # address of (triangle_count,) TRIANGLE
    triangle_count: int
    nodes: int  # address of (node_count,) NODE
    node_count: int
    solid: int
    # A height map: heights (rows, columns) above the shape's origin, at rows * spacing along x and
    # columns * spacing along y.  Voxels: a bit each, z fastest, (rows, columns, layers) from the origin.
    cells: int  # address of (rows * columns,) float32, or of ((bits + 63) // 64,) uint64
    rows: int
    columns: int
    layers: int
    spacing: float  # m
    # A path: moving shapes stand last in the list.
    path: int  # address of (path_count, 4) float64, s and m NED; 0 for none
    path_count: int
    path_period: float  # s after which it begins again; 0: the last point holds


SHAPE = Shape.dtype


class Triangle(Record, align=False):
    """A triangle of a mesh; counter-clockwise from outside."""

    corner: Annotated[Singles, 3]  # m
    edge: Annotated[Singles, 2, 3]  # m, from it to the second and third corner
    color: Annotated[Singles, 3]  # 0 to 1


TRIANGLE_PAINT = np.dtype([("uv", "f4", (3, 2)), ("picture", "i4")])
"""Texture coordinates of a triangle's corners, and the index of its picture; -1 for none."""


class Picture(Record):
    """A picture."""

    cells: int  # address of (rows * columns * 3,) uint8, from the upper left, row by row
    rows: int
    columns: int


PICTURE = Picture.dtype


class MeshPaint(Record):
    """Pictures on a mesh; ``scene.py`` keeps alive what it points to."""

    triangles: int  # address of (a mesh's triangle_count,) TRIANGLE_PAINT; 0: no pictures
    pictures: int  # address of (picture_count,) PICTURE
    picture_count: int


MESH_PAINT = MeshPaint.dtype


class Node(Record, align=False):
    """Node of a bounding tree.

    A leaf holds ``count`` items from ``first`` on; with 0, its children are ``first`` and ``first + 1``.
    """

    low: Annotated[Singles, 3]
    first: Annotated[int, "i4"]
    high: Annotated[Singles, 3]
    count: Annotated[int, "i4"]


TRIANGLE, NODE = Triangle.dtype, Node.dtype


class SceneRecord(Record):
    """The scene of a world; ``scene.py`` keeps alive what it points to."""

    shape_count: int
    bounded_count: int  # the first of them, which the tree holds: neither planes nor moving ones
    moving_first: int  # index of the first that moves
    shapes: int  # address of (shape_count,) SHAPE
    nodes: int  # address of (node_count,) NODE
    node_count: int
    groundless: int  # 1: the plane down = 0 is no solid ground; terrain takes its place
    ground_color: Annotated[Floats, 3]  # red, green, blue, 0 to 1
    ground_texture: TextureRecord  # as on a face with its origin at that of the world


SCENE = SceneRecord.dtype


class Environment(Record):
    """Quantities of the world that are the same for all vehicles."""

    latitude: float  # rad, WGS-84, of the NED origin
    longitude: float  # rad
    height: float  # m AMSL (taken as height above the ellipsoid: PX4 makes no difference here)
    gravity: float  # m/s^2 at the origin
    gravity_slope: Annotated[Floats, 2]  # m/s^2 per m to the north and per m down
    earth_rate: Annotated[Floats, 2]  # rad/s, rotation of the Earth, north and down at the origin
    sea_level_temperature: float  # K, ISA 288.15
    sea_level_pressure: float  # Pa, ISA 101325
    magnetic_field: Annotated[Floats, 3]  # T, NED at the origin
    magnetic_slope: Annotated[Floats, 3, 3]  # T/m, of each part per m to the north, to the east and down
    utc: int  # us since 1970 at the simulated time 0, a whole hour
    curvature: Annotated[Floats, 2]  # 1/m, of the ellipsoid along the meridian and across it at the origin
    origin_ecef: Annotated[Floats, 3]  # m
    ned_to_ecef: Annotated[Floats, 3, 3]
    scene: SceneRecord  # what stands in the world


ENVIRONMENT = Environment.dtype


class WindRecord(Record):
    """Settings of the wind."""

    steady: Annotated[Floats, 3]  # m/s NED, direction the air moves to
    log_speed_20ft: float  # m/s, W20 of the logarithmic profile, 0 = none
    log_direction: Annotated[Floats, 2]  # unit vector N, E the air moves to
    log_roughness: float  # m, z0
    dryden_speed_20ft: float  # m/s, W20 that sets the turbulence intensity, 0 = none
    gust_count: int
    gust_start: Annotated[Ints, MAX_GUSTS]  # us, when its front passes the origin
    gust_velocity: Annotated[Floats, MAX_GUSTS, 3]  # m/s NED, V_m along its direction
    gust_length: Annotated[Floats, MAX_GUSTS]  # m, d_m
    gust_speed: Annotated[Floats, MAX_GUSTS]  # m/s with which the gust's front moves over ground
    gust_heading: Annotated[Floats, MAX_GUSTS, 2]  # unit vector N, E that its front moves to
    gust_hold: Annotated[Floats, MAX_GUSTS]  # s at full strength before it fades again; inf = stays
    series_start: int  # us of the series' time 0, and of a user's own wind's
    series_period: int  # us after which the series repeats, 0 = its last value holds
    custom: int  # address of a user's own wind in this process, 0 = none


WIND = WindRecord.dtype

WAVES = 128
"""Plane waves of the turbulence, a power of two."""


class WindState(Record):
    """Air of a vehicle in the field of turbulence."""

    # m north and east: where in the field of turbulence the vehicle's air is, beside its own place; 0 but
    # in later episodes.
    shift: Annotated[Floats, 2]
    carried: Annotated[Floats, 2]  # m north and east that the wind has carried the field, the same for all
    work: Annotated[Floats, 3, WAVES]
    gradient: Annotated[Floats, 3, 3]  # 1/s, of the air's velocity NED, by north, east and down


WIND_STATE = WindState.dtype

HEIGHTS = 78


class TurbulenceRecord(Record):
    """A field of turbulence, for all vehicles of a simulation."""

    # 0-2 wave vector NED in turns per m, 3 phase in turns, 4-6 unit vector of the velocity NED, 7 square of
    # the wave number in (rad/m)^2.
    wave: Annotated[Floats, 8, WAVES]
    # Amplitudes per W20 at HEIGHTS heights: 0 of the horizontal velocity, 1 of the vertical one.
    amplitude: Annotated[Floats, HEIGHTS, 2, WAVES]


TURBULENCE = TurbulenceRecord.dtype
