"""The memory of the world: one environment record for all vehicles, the wind's settings and its states."""

from __future__ import annotations

import numpy as np

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

TEXTURE = np.dtype(
    [
        ("kind", "i8"),  # 0: none given
        # m: side of a square of a checker or of noise, width of a stripe, width of an image.
        ("size", "f8"),
        ("color", "f8", 3),  # of every second square or stripe, and of what noise fades to
        ("cells", "i8"),  # address of (rows * columns * 3,) uint8, an image from its upper left, row by row
        ("rows", "i8"),
        ("columns", "i8"),
        ("face", "i8"),  # 0: an image repeats on all faces; 1: it stands once, on the face towards -z
    ],
    align=True,
)
"""What is painted on a surface, over the two of the shape's axes beside the largest part of the normal.

Columns, and stripes, follow each other along y where the normal is along z or x, and along x where it is
along y.  Rows go from north to south (along -x) on level faces and downwards (along z) on upright ones.  The
shape's origin is the centre of an image, and a corner of a square.
"""

SHAPE = np.dtype(
    [
        ("kind", "i8"),
        ("object", "i8"),  # index of the scene's object that it belongs to
        ("position", "f8", 3),  # m NED, of the shape's origin
        ("rotation", "f8", (3, 3)),  # shape axes to NED, row-wise
        ("velocity", "f8", 3),  # m/s NED
        # Half lengths of a box; radius of a sphere; radius (0, 1) and half length (2, along z) of a cylinder.
        # A plane is the solid half-space on the side of its z axis.
        ("half_size", "f8", 3),
        ("low", "f8", 3),  # m NED, corner of the box that holds it, at its present place
        ("high", "f8", 3),
        ("friction", "f8"),  # factor on the vehicle's coefficient
        ("color", "f8", 3),  # red, green, blue, 0 to 1
        ("texture", TEXTURE),
        # A mesh: triangles and tree nodes of its own, in shape axes.  Solid: closed, with an inside.
        ("triangles", "i8"),  # address of (triangle_count,) TRIANGLE
        ("triangle_count", "i8"),
        ("nodes", "i8"),  # address of (node_count,) NODE
        ("node_count", "i8"),
        ("solid", "i8"),
        # A height map: heights (rows, columns) above the shape's origin, at rows * spacing along x and
        # columns * spacing along y.  Voxels: a bit each, z fastest, (rows, columns, layers) from the origin.
        ("cells", "i8"),  # address of (rows * columns,) float32, or of ((bits + 63) // 64,) uint64
        ("rows", "i8"),
        ("columns", "i8"),
        ("layers", "i8"),
        ("spacing", "f8"),  # m
        # A path: moving shapes stand last in the list.
        ("path", "i8"),  # address of (path_count, 4) float64, s and m NED; 0 for none
        ("path_count", "i8"),
        ("path_period", "f8"),  # s after which it begins again; 0: the last point holds
    ],
    align=True,
)
TRIANGLE = np.dtype([("corner", "f4", 3), ("edge", "f4", (2, 3)), ("color", "f4", 3)])
"""Corner, and the edges from it to the second and third corner, in m; counter-clockwise from outside.  Colour
0 to 1."""
NODE = np.dtype([("low", "f4", 3), ("first", "i4"), ("high", "f4", 3), ("count", "i4")])
"""Node of a bounding tree.  A leaf holds ``count`` items from ``first`` on; with count 0, ``first`` and
``first + 1`` are its children."""
SCENE = np.dtype(
    [
        ("shape_count", "i8"),
        ("bounded_count", "i8"),  # the first of them, which the tree holds: neither planes nor moving ones
        ("moving_first", "i8"),  # index of the first that moves
        ("shapes", "i8"),  # address of (shape_count,) SHAPE
        ("nodes", "i8"),  # address of (node_count,) NODE
        ("node_count", "i8"),
        ("groundless", "i8"),  # 1: the plane down = 0 is no solid ground; terrain takes its place
        ("ground_color", "f8", 3),  # red, green, blue, 0 to 1
        ("ground_texture", TEXTURE),  # as on a face with its origin at that of the world
    ],
    align=True,
)
"""The scene of a world; ``scene.py`` keeps alive what it points to."""

ENVIRONMENT = np.dtype(
    [
        ("latitude", "f8"),  # rad, WGS-84, of the NED origin
        ("longitude", "f8"),  # rad
        ("height", "f8"),  # m AMSL (taken as height above the ellipsoid: PX4 makes no difference here)
        ("gravity", "f8"),  # m/s^2 at the origin
        ("gravity_slope", "f8", 2),  # m/s^2 per m to the north and per m down
        ("sea_level_temperature", "f8"),  # K, ISA 288.15
        ("sea_level_pressure", "f8"),  # Pa, ISA 101325
        ("magnetic_field", "f8", 3),  # T, NED at the origin
        ("magnetic_slope", "f8", (3, 3)),  # T/m, of each part per m to the north, to the east and down
        ("utc", "i8"),  # us since 1970 at the simulated time 0, a whole hour
        ("curvature", "f8", 2),  # 1/m, of the ellipsoid along the meridian and across it at the origin
        ("origin_ecef", "f8", 3),  # m
        ("ned_to_ecef", "f8", (3, 3)),
        ("scene", SCENE),  # what stands in the world
        ("wind_obstacles", "i8"),  # address of (wind_obstacle_count,) WIND_OBSTACLE
        ("wind_obstacle_count", "i8"),
    ],
    align=True,
)

WIND_OBSTACLE = np.dtype(
    [
        ("place", "f8", 2),  # m N, E of its vertical axis
        ("base", "f8"),  # m down, of its lower end
        ("height", "f8"),  # m
        ("round", "i8"),  # 1: a cylinder, of radius half[0]
        (
            "along",
            "f8",
            2,
        ),  # unit vector N, E of a box's first horizontal axis; the second is a right angle on
        ("half", "f8", 2),  # m, half lengths along the two
    ],
    align=True,
)
"""A static upright box or cylinder in whose lee there is less wind."""

WIND = np.dtype(
    [
        ("steady", "f8", 3),  # m/s NED, direction the air moves to
        ("log_speed_20ft", "f8"),  # m/s, W20 of the logarithmic profile, 0 = none
        ("log_direction", "f8", 2),  # unit vector N, E the air moves to
        ("log_roughness", "f8"),  # m, z0
        ("dryden_speed_20ft", "f8"),  # m/s, W20 that sets the turbulence intensity, 0 = none
        ("gust_count", "i8"),
        ("gust_start", "i8", MAX_GUSTS),  # us, when its front passes the origin
        ("gust_velocity", "f8", (MAX_GUSTS, 3)),  # m/s NED, V_m along its direction
        ("gust_length", "f8", MAX_GUSTS),  # m, d_m
        ("gust_speed", "f8", MAX_GUSTS),  # m/s with which the gust's front moves over ground
        ("gust_heading", "f8", (MAX_GUSTS, 2)),  # unit vector N, E that its front moves to
        ("gust_hold", "f8", MAX_GUSTS),  # s at full strength before it fades again; inf = stays
        ("series_start", "i8"),  # us of the series' time 0, and of a user's own wind's
        ("series_period", "i8"),  # us after which the series repeats, 0 = its last value holds
        ("custom", "i8"),  # address of a user's own wind in this process, 0 = none
    ],
    align=True,
)

WAVES = 128
"""Plane waves of the turbulence, a power of two."""
WIND_STATE = np.dtype(
    [
        # m north and east: where in the field of turbulence the vehicle's air is, beside its own place; 0 but
        # in later episodes.
        ("shift", "f8", 2),
        ("carried", "f8", 2),  # m north and east that the wind has carried the field, the same for all
        ("work", "f8", (3, WAVES)),
    ],
    align=True,
)

HEIGHTS = 48
TURBULENCE = np.dtype(
    [
        # 0-2 wave vector NED in turns per m, 3 phase in turns, 4-6 unit vector of the velocity NED.
        ("wave", "f8", (7, WAVES)),
        # Amplitudes per W20 at HEIGHTS heights: 0 of the horizontal velocity, 1 of the vertical one.
        ("amplitude", "f8", (HEIGHTS, 2, WAVES)),
    ],
    align=True,
)
"""A field of turbulence, for all vehicles of a simulation."""
