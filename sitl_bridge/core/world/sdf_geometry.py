"""Geometry of SDF as objects of a scene: x east, y north, z up becomes north, east, down."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from sitl_bridge.base.arrays import Floats, Ints
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.quantities import SMALLEST
from sitl_bridge.base.rotations import matrix_from_euler, matrix_from_quaternion
from sitl_bridge.base.xml_file import XmlNode
from sitl_bridge.core.world.height_map_file import load_picture
from sitl_bridge.core.world.mesh_file import TO_NED
from sitl_bridge.core.world.scene_geometry import GeometryLoader
from sitl_bridge.core.world.scene_specification import (
    BoxObject,
    Color,
    CylinderObject,
    HeightGrid,
    HeightMapObject,
    MeshObject,
    PlaneObject,
    SceneObject,
    SphereObject,
    TextureSpecification,
    TriangleMesh,
)

Matrix = Floats
FARTHEST = 1e6
"""Greatest coordinate in m."""


def numbers(node: XmlNode, count: int) -> list[float]:
    """The numbers in an element.

    Raises:
        ConfigurationError: for another count, or for text that is not a number.
    """
    words = node.text.split()
    try:
        found = [float(word) for word in words]
    except ValueError:
        found = []
    if len(found) != count or not all(math.isfinite(x) and abs(x) <= FARTHEST for x in found):
        raise node.fault(f"<{node.tag}> needs {count} numbers up to {FARTHEST:g}, not {node.text[:60]!r}")
    return found


def pose_matrix(node: XmlNode | None) -> Matrix:
    """The matrix (4, 4) of a ``<pose>``; the identity if there is none.

    Raises:
        ConfigurationError: for text that is not a pose.
    """
    matrix = np.eye(4)
    if node is None or not node.text:
        return matrix
    if node.attributes.get("rotation_format") == "quat_xyzw":
        x, y, z, qx, qy, qz, qw = numbers(node, 7)
        quaternion = np.array([qw, qx, qy, qz])
        length = float(np.linalg.norm(quaternion))
        if length < 1e-6:
            raise node.fault("<pose> has a quaternion of length 0")
        matrix[:3, :3] = matrix_from_quaternion(quaternion / length)
    else:
        x, y, z, *angles = numbers(node, 6)
        if node.attributes.get("degrees", "").lower() in ("true", "1"):
            angles = [math.radians(angle) for angle in angles]
        matrix[:3, :3] = matrix_from_euler(*angles)
    matrix[:3, 3] = x, y, z
    return matrix


class Frames:
    """The named frames of a model or a world, in its own axes.

    Args:
        owner: the model or world.
        expand: returns the model of an ``<include>``; None if it cannot be read.
        moved: poses (4, 4) of members by name, in place of those that their elements give.
    """

    def __init__(
        self,
        owner: XmlNode,
        expand: Callable[[XmlNode], XmlNode | None],
        moved: Mapping[str, Matrix] | None = None,
    ) -> None:
        self.members: list[XmlNode] = []
        for node in owner.children:
            member = expand(node) if node.tag == "include" else node
            if member is not None and member.tag in ("link", "joint", "frame", "model"):
                self.members.append(member)
        # Before SDF 1.7 a joint could have the name of a link, and was no frame.
        by_rank = sorted(self.members, key=lambda node: node.tag != "joint")
        self._named = {node.name: node for node in by_rank if node.name}
        self._expand = expand
        self._moved = moved or {}

    def pose(self, node: XmlNode, default: str = "", seen: tuple[str, ...] = ()) -> Matrix:
        """Pose (4, 4) of an element in the axes of the model or world.

        Args:
            node: one of the members, or an element of one.
            default: frame to which it is relative without ``relative_to``; empty for the model or world.
            seen: names of the frames in the chain so far.

        Raises:
            ConfigurationError: for frames that do not exist or are relative to themselves.
        """
        if node.tag in ("link", "model") and node.name in self._moved:
            return self._moved[node.name]
        pose = node.find("pose")
        relative = "" if pose is None else pose.attributes.get("relative_to", "")
        if not relative and node.tag == "frame":
            relative = node.attributes.get("attached_to", "")
        if not relative and node.tag == "joint":
            relative = node.value("child")
        matrix = self._frame(relative or default, node, seen) @ pose_matrix(pose)
        placed = node.attributes.get("placement_frame", "") if node.tag == "model" else ""
        if placed:
            matrix = matrix @ np.linalg.inv(Frames(node, self._expand)._frame(placed, node, ()))
        return matrix

    def _frame(self, name: str, asking: XmlNode, seen: tuple[str, ...]) -> Matrix:
        if name in ("", "__model__", "world"):
            return np.eye(4)
        if name in seen:
            raise asking.fault(f"the frame {name!r} is relative to itself")
        first, _, rest = name.partition("::")
        member = self._named.get(name) or self._named.get(first) or self._merged_with(first)
        if member is None:
            raise asking.fault(f"<pose> is relative to the frame {name!r}, which does not exist")
        matrix = self.pose(member, seen=(*seen, name))
        inner = name if merges(member) and first not in self._named else rest
        if inner and member.tag == "model" and name not in self._named:
            matrix = matrix @ Frames(member, self._expand)._frame(inner, asking, ())
        return matrix

    def _merged_with(self, name: str) -> XmlNode | None:
        """The merged model that has a frame of this name; its names are those of its owner, too."""
        return next(
            (
                m
                for m in self.members
                if merges(m) and name in Frames(m, self._expand)._frame_names({m.source})
            ),
            None,
        )

    def _frame_names(self, files: set[Path]) -> set[str]:
        """Names of its frames, those of merged models among them, but of no file again."""
        merged = [m for m in self.members if merges(m) and m.source not in files]
        inner = (Frames(m, self._expand)._frame_names(files | {m.source}) for m in merged)
        return set(self._named).union(*inner)


def merges(model: XmlNode) -> bool:
    """Whether a model was included to be merged with its owner: ``<include merge="true">``."""
    return model.attributes.get("merge") == "true"


ENU_TO_NED: Floats = TO_NED["z_up"]
LEVEL = 0.01
"""Tolerance in m, and of a unit vector, within which a plane is the level ground at height 0."""
SHEET = 0.002
"""Thickness in m of a plane that is only a visual."""


@dataclass(frozen=True)
class Part:
    """A collision or visual."""

    node: XmlNode  # its element
    pose: Matrix  # (4, 4) in the world, x east, y north, z up
    name: str  # of the object
    color: Color  # of the object
    friction: float  # of the object
    find: Callable[[XmlNode], Path]  # returns the file of a URI
    loader: GeometryLoader  # of files


def is_ground(item: SceneObject) -> bool:
    """Whether a plane is the level ground at height 0."""
    if not isinstance(item, PlaneObject) or abs(item.position[2]) > LEVEL:
        return False
    roll, pitch, _ = np.radians(item.rotation)
    return bool(math.cos(roll) * math.cos(pitch) > 1.0 - LEVEL**2)


def _common(part: Part, pose: Matrix | None = None) -> JsonObject:
    """Common fields of all objects."""
    matrix = part.pose if pose is None else pose
    rotation = ENU_TO_NED @ matrix[:3, :3] @ ENU_TO_NED.T
    return {
        "name": part.name[:100],
        "position": tuple(float(x) + 0.0 for x in ENU_TO_NED @ matrix[:3, 3]),
        "rotation": euler_degrees(rotation),
        "color": part.color,
        "friction": part.friction,
    }


def euler_degrees(rotation: Floats) -> tuple[float, float, float]:
    """Roll, pitch and yaw (yaw first) in deg of a rotation (3, 3) of an object's axes to NED."""
    pitch = math.asin(min(max(-float(rotation[2, 0]), -1.0), 1.0))
    if abs(rotation[2, 0]) > 1.0 - 1e-12:
        # Pitch of 90 degrees: roll and yaw are about the same axis.
        roll = 0.0
        yaw = math.atan2(-float(rotation[0, 1]), float(rotation[1, 1]))
    else:
        roll = math.atan2(float(rotation[2, 1]), float(rotation[2, 2]))
        yaw = math.atan2(float(rotation[1, 0]), float(rotation[0, 0]))
    # Adding 0 turns -0 into 0.
    return math.degrees(roll) + 0.0, math.degrees(pitch) + 0.0, math.degrees(yaw) + 0.0


def _child(node: XmlNode, tag: str) -> XmlNode:
    found = node.find(tag)
    if found is None:
        raise node.fault(f"<{node.tag}> has no <{tag}>")
    return found


def _length(node: XmlNode, tag: str) -> float:
    return _lengths(node, tag, 1)[0]


def _lengths(node: XmlNode, tag: str, count: int) -> list[float]:
    found = _child(node, tag)
    values = numbers(found, count)
    if min(values) < SMALLEST:
        raise found.fault(f"<{tag}> has {min(values):g}; all must be at least {SMALLEST:g}")
    return values


def _box(part: Part, node: XmlNode) -> SceneObject:
    x, y, z = _lengths(node, "size", 3)
    return BoxObject(kind="box", size=(y, x, z), **_common(part))


def _cylinder(part: Part, node: XmlNode) -> SceneObject:
    return CylinderObject(
        kind="cylinder", radius=_length(node, "radius"), length=_length(node, "length"), **_common(part)
    )


def _sphere(part: Part, node: XmlNode) -> SceneObject:
    return SphereObject(kind="sphere", radius=_length(node, "radius"), **_common(part))


def _plane(part: Part, node: XmlNode) -> SceneObject:
    """A plane: endless as a collision, as in Gazebo; a thin sheet if it is only a visual."""
    normal = np.array([0.0, 0.0, 1.0])
    given = node.find("normal")
    if given is not None:
        normal = np.array(numbers(given, 3))
        if np.linalg.norm(normal) < 1e-6:
            raise given.fault("<normal> has length 0")
    turned = part.pose.copy()
    turned[:3, :3] = part.pose[:3, :3] @ _upright(normal / np.linalg.norm(normal))
    if part.node.tag == "collision":
        return PlaneObject(kind="plane", **_common(part, turned))
    x, y = _lengths(node, "size", 2)
    turned[:3, 3] -= 0.5 * SHEET * turned[:3, 2]
    return BoxObject(kind="box", size=(y, x, SHEET), texture=_picture(part, x), **_common(part, turned))


def _picture(part: Part, width: float) -> TextureSpecification | None:
    """The texture of a visual, over its width (m); None if it has none."""
    for metal in ("metal", "specular"):
        uri = part.node.find("material", "pbr", metal, "albedo_map")
        if uri is not None and uri.text:
            file = part.find(uri)
            try:
                return part.loader.texture(TextureSpecification(file=file, size=width))
            except UserError as error:
                raise uri.fault(str(error)) from error
    return None


def _upright(normal: Floats) -> Matrix:
    """The smallest rotation (3, 3) that takes z to a direction."""
    z = np.array([0.0, 0.0, 1.0])
    cosine = float(normal[2])
    if cosine < -1.0 + 1e-12:
        return np.diag([1.0, -1.0, -1.0])
    axis = np.cross(z, normal)
    cross = np.array([[0.0, -axis[2], axis[1]], [axis[2], 0.0, -axis[0]], [-axis[1], axis[0], 0.0]])
    return np.asarray(np.eye(3) + cross + cross @ cross / (1.0 + cosine))


def _mesh(part: Part, node: XmlNode) -> SceneObject:
    uri = _child(node, "uri")
    scale = node.find("scale")
    factors = (1.0, 1.0, 1.0)
    if scale is not None and scale.text:
        x, y, z = _lengths(node, "scale", 3)
        factors = (x, y, z)
    # Gazebo ignores the <up_axis> of a DAE file and that of glTF (gazebo-classic, issue 1305; gz-common, pull
    # request 543), and poses of models make up for that.
    item = MeshObject(kind="mesh", file=part.find(uri), scale=factors, axes="z_up", **_common(part))
    try:
        return part.loader.load(item)
    except UserError as error:
        raise uri.fault(str(error)) from error


def _polyline(part: Part, node: XmlNode) -> SceneObject:
    """A solid: an outline extruded along z."""
    height = _length(node, "height")
    points = np.array([numbers(point, 2) for point in node.all("point")]).reshape(-1, 2)
    try:
        solid = extrude(points, height)
    except UserError as error:
        raise node.fault(f"<polyline> {error}") from error
    return _solid(part, node, _to_ned(solid))


def _solid(part: Part, node: XmlNode, mesh: TriangleMesh) -> SceneObject:
    item = MeshObject(kind="mesh", file=node.source, axes="z_up", **_common(part))
    return item.with_geometry(mesh)


def _to_ned(mesh: TriangleMesh) -> TriangleMesh:
    return mesh._replace(vertices=mesh.vertices @ ENU_TO_NED.T)


@lru_cache(maxsize=256)
def _solid_of_revolution(make: Callable[..., TriangleMesh], *figures: float) -> TriangleMesh:
    """A solid of revolution; equal ones share their triangles."""
    return _to_ned(make(*figures))


def _capsule(part: Part, node: XmlNode) -> SceneObject:
    return _solid(part, node, _solid_of_revolution(capsule, _length(node, "radius"), _length(node, "length")))


def _cone(part: Part, node: XmlNode) -> SceneObject:
    return _solid(part, node, _solid_of_revolution(cone, _length(node, "radius"), _length(node, "length")))


def _ellipsoid(part: Part, node: XmlNode) -> SceneObject:
    return _solid(part, node, _solid_of_revolution(ellipsoid, *_lengths(node, "radii", 3)))


def _heightmap(part: Part, node: XmlNode) -> SceneObject:
    """Terrain about its centre; the brightest pixel is the height of <size>, as in Gazebo."""
    uri = _child(node, "uri")
    x, y, z = _lengths(node, "size", 3)
    file = part.find(uri)
    try:
        levels = load_picture(file)
    except UserError as error:
        raise uri.fault(str(error)) from error
    highest = float(levels.max())
    heights = levels * (z / highest if highest > 0.0 else 0.0)
    grid = square_grid(heights, y, x)
    place = part.pose.copy()
    shift = node.find("pos")
    if shift is not None and shift.text:
        place[:3, 3] = (place @ np.array([*numbers(shift, 3), 1.0]))[:3]
    place[:3, 3] = (place @ np.array([-0.5 * x, -0.5 * y, 0.0, 1.0]))[:3]
    item = HeightMapObject(
        kind="height_map", file=file, spacing=grid.spacing, height=z, **_common(part, place)
    )
    return item.with_geometry(grid)


def square_grid(heights: Floats, north: float, east: float) -> HeightGrid:
    """Heights over a rectangle (m), resampled to a grid with the same spacing along both sides."""
    rows, columns = heights.shape
    spacing = min(north / (rows - 1), east / (columns - 1))
    count_n, count_e = round(north / spacing) + 1, round(east / spacing) + 1
    if (count_n, count_e) != (rows, columns):
        from scipy.ndimage import map_coordinates

        at_n, at_e = np.linspace(0.0, rows - 1.0, count_n), np.linspace(0.0, columns - 1.0, count_e)
        heights = map_coordinates(heights, np.meshgrid(at_n, at_e, indexing="ij"), order=1, mode="nearest")
    return HeightGrid(np.ascontiguousarray(heights, np.float32), spacing)


KINDS: dict[str, Callable[[Part, XmlNode], SceneObject]] = {
    "box": _box,
    "capsule": _capsule,
    "cone": _cone,
    "cylinder": _cylinder,
    "ellipsoid": _ellipsoid,
    "sphere": _sphere,
    "plane": _plane,
    "mesh": _mesh,
    "polyline": _polyline,
    "heightmap": _heightmap,
}
"""Makes the object of a part with an element in <geometry>, by its name; a UserError for an invalid one."""


MAX_POINTS = 1000
"""Most points of an outline; the time of triangulation grows with their square."""


def extrude(points: Floats, height: float) -> TriangleMesh:
    """The solid between an outline and its copy at ``height`` along z.

    Args:
        points: (k, 2) m, x and y of the corners in order, either way around.
        height: m along z.

    Raises:
        UserError: for an outline that encloses no area or crosses itself.
    """
    if len(points) > 1 and np.array_equal(points[0], points[-1]):
        points = points[:-1]
    if not 3 <= len(points) <= MAX_POINTS:
        raise UserError(f"has {len(points)} corners; an outline has from 3 to {MAX_POINTS}")
    x, y = points.T
    if float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y)) < 0.0:  # twice its area, clockwise
        points = points[::-1]
    flat = triangulate(points)
    count = len(points)
    vertices = np.zeros((2 * count, 3))
    vertices[:count, :2] = vertices[count:, :2] = points
    vertices[count:, 2] = height
    this, following = np.arange(count), np.roll(np.arange(count), -1)
    sides = np.concatenate(
        [
            np.column_stack([this, following, following + count]),
            np.column_stack([this, following + count, this + count]),
        ]
    )
    faces = np.concatenate([flat[:, ::-1], flat + count, sides])
    return TriangleMesh(vertices, faces, None, True)


def triangulate(points: Floats) -> Ints:
    """Triangles (k - 2, 3) of a counter-clockwise outline, by cutting off ears.

    Raises:
        UserError: for an outline without ears: it encloses no area, or crosses itself.
    """
    left = list(range(len(points)))
    found: list[tuple[int, int, int]] = []
    while len(left) > 3:
        for i in range(len(left)):
            a, b, c = left[i - 1], left[i], left[(i + 1) % len(left)]
            if _is_ear(points, a, b, c, left):
                found.append((a, b, c))
                del left[i]
                break
        else:
            raise UserError("its outline encloses no area or crosses itself; correct its points")
    found.append((left[0], left[1], left[2]))
    return np.array(found, np.int64)


def _is_ear(points: Floats, a: int, b: int, c: int, left: list[int]) -> bool:
    """Whether a triangle of neighbours turns left and holds no other corner."""
    corner_a, corner_b, corner_c = points[a], points[b], points[c]
    if _double_area(corner_a, corner_b, corner_c) <= 0.0:
        return False
    others = points[[k for k in left if k not in (a, b, c)]]
    inside = (
        (_double_area(corner_a, corner_b, others) >= 0.0)
        & (_double_area(corner_b, corner_c, others) >= 0.0)
        & (_double_area(corner_c, corner_a, others) >= 0.0)
    )
    return not bool(np.any(inside))


def _double_area(a: Floats, b: Floats, c: Floats) -> Floats:
    """Twice the signed area of the triangles a, b, c."""
    return np.asarray((b[0] - a[0]) * (c[..., 1] - a[1]) - (b[1] - a[1]) * (c[..., 0] - a[0]))


SEGMENTS = 64
"""Around the axis.  With the corners on the surface, the faces lie within 0.12 % of the radius of it."""


def revolve(profile: Floats, scale: tuple[float, float, float] = (1.0, 1.0, 1.0)) -> TriangleMesh:
    """The solid that a profile makes about the z axis.

    Args:
        profile: (k, 2) distance from the axis and z in m, from the lowest point, on the axis, to the highest.
        scale: factors along x, y and z.
    """
    angle = 2.0 * np.pi * np.arange(SEGMENTS) / SEGMENTS
    around = np.stack([np.cos(angle), np.sin(angle), np.zeros(SEGMENTS)], axis=1)
    rings = [radius * around + [0.0, 0.0, z] for radius, z in profile[1:-1]]
    ends = np.array([[0.0, 0.0, profile[0, 1]], [0.0, 0.0, profile[-1, 1]]])
    k = np.arange(SEGMENTS)
    beside = (k + 1) % SEGMENTS
    bottom, top = len(rings) * SEGMENTS, len(rings) * SEGMENTS + 1
    last = (len(rings) - 1) * SEGMENTS
    faces = [np.stack([np.full(SEGMENTS, bottom), beside, k], axis=1)]
    for ring in range(len(rings) - 1):
        low, high = ring * SEGMENTS, (ring + 1) * SEGMENTS
        faces.append(np.stack([low + k, low + beside, high + beside], axis=1))
        faces.append(np.stack([low + k, high + beside, high + k], axis=1))
    faces.append(np.stack([last + k, last + beside, np.full(SEGMENTS, top)], axis=1))
    vertices = np.concatenate([*rings, ends]) * np.asarray(scale)
    return TriangleMesh(vertices, np.concatenate(faces), None, True)


def _arc(first: float, last: float) -> Floats:
    """Points (k, 2) of a unit circle between two latitudes in rad."""
    latitude = np.linspace(first, last, max(round(abs(last - first) / (2.0 * np.pi) * SEGMENTS), 2) + 1)
    return np.stack([np.cos(latitude), np.sin(latitude)], axis=1)


def cone(radius: float, length: float) -> TriangleMesh:
    """A cone about the origin, its tip at the top."""
    half = 0.5 * length
    return revolve(np.array([[0.0, -half], [radius, -half], [0.0, half]]))


def capsule(radius: float, length: float) -> TriangleMesh:
    """A cylinder of a length about the origin, closed by half spheres."""
    shift = np.array([0.0, 0.5 * length])
    quarter = 0.5 * np.pi
    return revolve(
        np.concatenate([radius * _arc(-quarter, 0.0) - shift, radius * _arc(0.0, quarter) + shift])
    )


def ellipsoid(x: float, y: float, z: float) -> TriangleMesh:
    """An ellipsoid about the origin of given half axes."""
    return revolve(_arc(-0.5 * np.pi, 0.5 * np.pi), (x, y, z))
