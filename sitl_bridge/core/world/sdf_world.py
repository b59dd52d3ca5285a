"""Gazebo worlds (SDF): their objects, origin and wind.

It reads world > model > link > collision (or visual, if a link has no collision), included models, nested
frames and colours.  All objects are static.  Elements that are not read are listed in notes.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np

from sitl_bridge.base.errors import ConfigurationError, UserError, shorten
from sitl_bridge.base.input_file import exists, is_file
from sitl_bridge.base.xml_file import XmlNode, read_xml
from sitl_bridge.core.world.earth import gravity
from sitl_bridge.core.world.scene_geometry import GeometryLoader
from sitl_bridge.core.world.scene_specification import (
    MAX_OBJECTS,
    Color,
    HeightMapObject,
    MeshObject,
    PlaneObject,
    SceneObject,
)
from sitl_bridge.core.world.sdf_geometry import (
    KINDS,
    Frames,
    Matrix,
    Part,
    is_ground,
    numbers,
    pose_matrix,
)
from sitl_bridge.core.world.wind import SteadyWind, WindSpecification
from sitl_bridge.core.world.world import Origin

SUFFIXES = (".sdf", ".world")
DEEPEST = 10
"""Greatest nesting of models."""
MAX_INCLUDES = 20_000
"""Models that a file may include, those that they include among them."""
MAX_NAMED = 6
"""Names of one kind that a note lists."""
GRAVITY_DIFFERENCE = 0.05
"""m/s^2 between a world's gravity and that of its origin, beyond which a note is made."""
_UNREAD = ("plugin", "actor", "light", "joint", "sensor", "gripper", "population", "road")
_GREY = (0.7, 0.7, 0.7)


class NotFoundError(UserError):
    """A model or mesh that is not there.

    Attributes:
        uri: as in the SDF.
    """

    def __init__(self, message: str, uri: str) -> None:
        super().__init__(message)
        self.uri = uri


@dataclass(frozen=True)
class SdfWorld:
    """Content of an SDF file."""

    objects: tuple[SceneObject, ...]  # with their geometry
    ground: bool  # whether there is level ground at height 0
    ground_color: Color | None  # None if the file has no ground
    wind: WindSpecification | None  # None if the file has none
    notes: tuple[str, ...]  # elements that were not read, or are read differently from Gazebo


def _top(path: Path) -> XmlNode:
    """The world of a file; its root if it has only a model."""
    root = read_xml(path)
    if root.tag != "sdf":
        raise root.fault(f"is not an SDF file: it begins with <{shorten(root.tag, 40)}>, not with <sdf>")
    return root.find("world") or root


def _origin(world: XmlNode) -> tuple[Origin | None, str]:
    """The origin of a world, None where it has none, and a note on it."""
    place = world.find("spherical_coordinates")
    if place is None:
        return None, ""
    found = {}
    for field, tag in (
        ("latitude", "latitude_deg"),
        ("longitude", "longitude_deg"),
        ("altitude", "elevation"),
    ):
        node = place.find(tag)
        found[field] = 0.0 if node is None else numbers(node, 1)[0]
    if not found["latitude"] and not found["longitude"]:
        # As PX4's plugins do (PX4-SITL_gazebo-classic, include/common.h, checkWorldHomePosition).
        return None, "its origin, 0 N 0 E, is what Gazebo classic saves for none, and counts as not given"
    try:
        return Origin(**found), ""
    except ValueError as error:
        raise place.fault("<spherical_coordinates> is not a position on the Earth") from error


class SdfReader:
    """Reads an SDF file with a world or a single model.

    Attributes:
        origin: of the world; None if the file has none.

    Args:
        path: of the file.
        leave_out: whether models and meshes that are not there are left out instead of refused.

    Raises:
        ConfigurationError: for a file that cannot be read, or whose origin is not on the Earth.
    """

    def __init__(self, path: Path, *, leave_out: bool = False) -> None:
        self._path, self._leave_out = path, leave_out
        self._world = _top(path)
        self.origin, self._origin_note = _origin(self._world)
        self._missing: dict[str, tuple[str, int]] = {}
        """Things that were not found, each with its first place and how often it is named."""
        self._directories = search_path(path)
        self._objects: list[SceneObject] = []
        self._ground_color: Color | None = None
        self._faults: dict[str, None] = {}
        self._unread: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._moving: list[str] = []
        self._models: dict[str, XmlNode | None] = {}
        self._includes = 0

    def read(self, loader: GeometryLoader) -> SdfWorld:
        """Read the content of the world.

        Raises:
            ConfigurationError: with every fault of the file and of the models that it includes.
        """
        world, self._loader = self._world, loader
        wind, notes = _wind(world), _notes_on_ignored(world, self.origin or Origin())
        notes += [self._origin_note] if self._origin_note else []
        self._note_unread(world)
        state = world.find("state")
        if state is not None:
            notes.append("models are where its <state> puts them, as in Gazebo classic")
            for node in state.all("model"):
                if set(node.value("scale").split()) - {"1"}:
                    self._unread["scale in <state> of"][node.name] = None
        self._members(world, np.eye(4), "", 0, state)
        if self._missing and not self._leave_out:
            self._report_missing()
        if self._faults:
            raise ConfigurationError(str(self._path), tuple(self._faults))
        if self._missing:
            notes.append(f"left out, as not there: {', '.join(self._missing)}")
        if next(world.all("model", "include"), None) is None:
            raise world.fault(f"<{world.tag}> contains no model")
        ground = self._ground_color is not None
        if not ground and not any(
            isinstance(t, PlaneObject | MeshObject | HeightMapObject) for t in self._objects
        ):
            ground = True
            notes.append("it has no ground; level ground at height 0 is used")
        if self._unread:
            parts = (f"{what} {_list_names(list(names))}" for what, names in self._unread.items())
            notes.append(f"not read: {'; '.join(parts)}")
        if self._moving:
            notes.append(f"not static in the file, but static here: {_list_names(self._moving)}")
        return SdfWorld(tuple(self._objects), ground, self._ground_color, wind, tuple(notes))

    def _members(
        self, owner: XmlNode, pose: Matrix, name: str, depth: int, state: XmlNode | None = None
    ) -> None:
        """Links and models of a world or model at a pose (4, 4).

        Args:
            owner: the world or model.
            pose: in the world.
            name: by which its objects are called.
            depth: of its nesting.
            state: its saved state, with poses in the world; None for none.
        """
        if depth > DEEPEST:
            self._fault(owner.fault(f"models are nested deeper than {DEEPEST}"))
            return
        states = {} if state is None else {node.name: node for node in state.all("model", "link")}
        try:
            to_owner = np.linalg.inv(pose)
            moved = {
                inner: to_owner @ pose_matrix(node.find("pose"))
                for inner, node in states.items()
                if node.value("pose")
            }
        except UserError as error:
            self._fault(error)
            return
        frames = Frames(owner, self._load_include, moved)
        for member in frames.members:
            if member.tag not in ("link", "model"):
                continue
            try:
                place = pose @ frames.pose(member)
            except UserError as error:
                self._fault(error)
                continue
            inner = "/".join(word for word in (name, member.name) if word)
            self._note_unread(member)
            if member.tag == "link":
                self._link(member, frames, pose, inner)
                continue
            if depth == 0 and member.value("static").lower() not in ("true", "1"):
                self._moving.append(member.name or "model")
            self._members(member, place, inner, depth + 1, states.get(member.name))

    def _link(self, link: XmlNode, frames: Frames, pose: Matrix, name: str) -> None:
        """Read the collisions of a link, or its visuals if no collision can be read."""
        visuals = list(link.all("visual"))
        for parts in (list(link.all("collision")), visuals):
            if sum([self._part(part, link, visuals, frames, pose, name) for part in parts]):
                return

    def _part(
        self, node: XmlNode, link: XmlNode, visuals: list[XmlNode], frames: Frames, pose: Matrix, name: str
    ) -> bool:
        """Read a collision or visual; returns whether it was read or refused with a fault."""
        geometry = node.find("geometry")
        shape = None if geometry is None else next((c for c in geometry.children if c.tag != "empty"), None)
        if shape is None:
            return False
        try:
            part = Part(
                node,
                pose @ frames.pose(node, default=link.name),
                name,
                _color(node, shape.tag, visuals),
                _friction(node),
                self._file,
                self._loader,
            )
            item = KINDS[shape.tag](part, shape) if shape.tag in KINDS else None
        except NotFoundError as error:
            self._miss(error)
            return True
        except UserError as error:
            self._fault(error)
            return True
        if item is None:
            self._unread[f"geometry <{shape.tag}> of"][name] = None
            return False
        if shape.find("submesh") is not None:
            self._unread["<submesh> (the whole mesh is taken) of"][name] = None
        if geometry is not None and len(list(geometry.all("polyline"))) > 1:
            self._unread["<polyline> behind the first, such as a hole, of"][name] = None
        if is_ground(item):
            self._ground_color = item.color
        elif len(self._objects) < MAX_OBJECTS:
            self._objects.append(item)
        else:
            self._fault(node.fault(f"a world can have {MAX_OBJECTS:,} objects; leave some models out"))
        return True

    def _load_include(self, include: XmlNode) -> XmlNode | None:
        """The model of an <include>, with the name and pose of the include; None after a fault."""
        self._includes += 1
        if self._includes > MAX_INCLUDES:
            self._fault(include.fault(f"models are included more than {MAX_INCLUDES:,} times"))
            return None
        uri = include.find("uri")
        try:
            if uri is None or not uri.text:
                raise include.fault("<include> has no <uri>")
            if uri.text in self._missing:
                first, count = self._missing[uri.text]
                self._missing[uri.text] = first, count + 1
            if uri.text not in self._models:
                self._models[uri.text] = None
                self._models[uri.text] = self._model(uri)
        except NotFoundError as error:
            # Gazebo's own; lights are not read.
            if error.uri.strip("/") == "model://ground_plane":
                self._models[error.uri] = _ground_plane(include)
            elif error.uri.strip("/") != "model://sun":
                self._miss(error)
        except UserError as error:
            self._fault(error)
            return None
        model = self._models[uri.text] if uri is not None else None
        return None if model is None else placed_model(include, model)

    def _model(self, uri: XmlNode) -> XmlNode | None:
        """The model of a file; None for a file with an actor or a light."""
        place = self._file(uri)
        try:
            root = read_xml(model_file(place))
        except ConfigurationError:
            raise
        except UserError as error:
            raise uri.fault(str(error)) from error
        model = root.find("model")
        if model is None:
            for node in root.children:
                self._unread[f"<{node.tag}>"][node.name or place.name] = None
        return model

    def _file(self, uri: XmlNode) -> Path:
        """The file of a <uri>."""
        try:
            return find_uri(uri.text, uri.source, self._directories).absolute()
        except NotFoundError as error:
            raise NotFoundError(str(uri.fault(str(error))), uri.text) from error
        except UserError as error:
            raise uri.fault(str(error)) from error

    def _miss(self, error: NotFoundError) -> None:
        """Note that a file is not there."""
        first, count = self._missing.get(error.uri, (str(error), 0))
        self._missing[error.uri] = first, count + 1

    def _report_missing(self) -> None:
        for first, count in self._missing.values():
            more = f" (named {count} times)" if count > 1 else ""
            self._faults[first.removeprefix(f"{self._path}: ") + more] = None
        places = ", ".join(str(place) for place in self._directories)
        self._faults[
            f"what is not there was searched in {places}; put the directory of its models into"
            f" {PATH_VARIABLES[0]}, or leave it out by a world file of `scene: {{sdf: {self._path.name},"
            " missing: leave_out}`"
        ] = None

    def _note_unread(self, owner: XmlNode) -> None:
        for node in owner.all(*_UNREAD):
            name = node.attributes.get("filename", "") if node.tag == "plugin" else node.name
            self._unread[node.tag][name or owner.name or "without a name"] = None

    def _fault(self, error: UserError) -> None:
        for line in str(error).splitlines():
            self._faults[line.removeprefix(f"{self._path}: ")] = None


def placed_model(include: XmlNode, model: XmlNode) -> XmlNode:
    """The model of an <include>, with the name, pose, frame and plug-ins that the include gives it."""
    overridden = [child for child in include.children if child.tag in ("pose", "static")]
    tags = {child.tag for child in overridden}
    attributes = {**model.attributes, "name": include.value("name") or model.name}
    if placed := include.value("placement_frame"):
        attributes["placement_frame"] = placed
    if include.attributes.get("merge", "").lower() in ("true", "1"):
        attributes["merge"] = "true"
    return replace(
        model,
        attributes=attributes,
        children=[*overridden, *(c for c in model.children if c.tag not in tags), *include.all("plugin")],
    )


def _ground_plane(include: XmlNode) -> XmlNode:
    """Gazebo's model of that name."""

    def node(tag: str, *children: XmlNode, text: str = "") -> XmlNode:
        return XmlNode(tag, include.source, include.line, {"name": tag}, list(children), text)

    plane = node("plane", node("normal", text="0 0 1"), node("size", text="100 100"))
    return node(
        "model", node("link", node("collision", node("geometry", plane))), node("static", text="true")
    )


def _list_names(names: list[str]) -> str:
    shown = ", ".join(shorten(name, 60) for name in names[:MAX_NAMED])
    return shown if len(names) <= MAX_NAMED else f"{shown} and {len(names) - MAX_NAMED} more"


def _wind(world: XmlNode) -> WindSpecification | None:
    node = world.find("wind", "linear_velocity")
    if node is None or not node.text:
        return None
    east, north, up = numbers(node, 3)
    if not any((east, north, up)):
        return None
    direction = math.degrees(math.atan2(-east, -north)) % 360.0
    try:
        steady = SteadyWind(speed=math.hypot(north, east), direction=direction, upward=up)
    except ValueError as error:
        raise node.fault(f"<linear_velocity> {node.text} is too fast for a wind in m/s") from error
    return WindSpecification(steady=steady)


def _notes_on_ignored(world: XmlNode, origin: Origin) -> list[str]:
    """Notes on settings of a world that differ from those of its place on the Earth."""
    notes = []
    node = world.find("gravity")
    own = gravity(math.radians(origin.latitude), origin.altitude)
    if node is not None and node.text:
        vector = numbers(node, 3)
        if math.dist(vector, (0.0, 0.0, -own)) > GRAVITY_DIFFERENCE:
            notes.append(f"gravity {node.text} is ignored; it is {own:.3f} m/s^2 at the world's origin")
    heading = world.find("spherical_coordinates", "heading_deg")
    if heading is not None and heading.text and numbers(heading, 1)[0] != 0.0:
        notes.append(f"heading_deg {heading.text} is ignored; x is east")
    return notes


def _color(node: XmlNode, shape: str, visuals: list[XmlNode]) -> Color:
    """Diffuse colour of a visual; for a collision, of a visual of its link, preferably of the same shape."""
    same = [visual for visual in visuals if visual.find("geometry", shape) is not None]
    for visual in (node, *same, *visuals):
        for tag in ("diffuse", "ambient"):
            given = visual.find("material", tag)
            if given is not None and given.text:
                count = len(given.text.split())
                red, green, blue = numbers(given, count if count in (3, 4) else 4)[:3]
                return (min(max(red, 0.0), 1.0), min(max(green, 0.0), 1.0), min(max(blue, 0.0), 1.0))
    return _GREY


def _friction(node: XmlNode) -> float:
    """Factor on a vehicle's friction.  Gazebo uses the lesser of two coefficients, 1 by default."""
    given = node.find("surface", "friction", "ode", "mu")
    if given is None or not given.text:
        return 1.0
    return min(max(numbers(given, 1)[0], 0.0), 1.0)


PATH_VARIABLES = (
    "GZ_SIM_RESOURCE_PATH",
    "IGN_GAZEBO_RESOURCE_PATH",
    "SDF_PATH",
    "GAZEBO_MODEL_PATH",
    "GAZEBO_RESOURCE_PATH",
    "ROS_PACKAGE_PATH",
)
"""Environment variables with directories of models, separated by colons."""
PX4_MODELS = (
    Path("Tools/simulation/gz/models"),
    Path("Tools/simulation/gazebo-classic/sitl_gazebo-classic/models"),
)
"""Models in PX4's source tree, PX4_DIR."""


def search_path(world: Path) -> list[Path]:
    """Directories in which models are searched, in order.

    Args:
        world: the SDF file.
    """
    found = [world.parent / "models", world.parent.parent / "models", world.parent, world.parent.parent]
    for variable in PATH_VARIABLES:
        found += [Path(part) for part in os.environ.get(variable, "").split(os.pathsep) if part]
    px4 = os.environ.get("PX4_DIR")
    source = Path(px4) if px4 else Path.home() / "PX4-Autopilot"
    found += [source / models for models in PX4_MODELS]
    return list(dict.fromkeys(found))


def find_uri(uri: str, beside: Path, directories: list[Path]) -> Path:
    """The file or directory of a URI.

    Args:
        uri: as in the SDF.
        beside: the SDF file.
        directories: of models.

    Raises:
        UserError: for one that is not there, and for other kinds of addresses.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator:
        scheme, rest = "", uri
    if scheme in ("http", "https"):
        return _find_in_cache(uri)
    rest = unquote(rest)
    if scheme in ("model", "package"):
        rest = rest.lstrip("/")
        # The model's own directory first, whatever its parent is called.
        own = [parent.parent for parent in beside.parents if parent.name == rest.split("/", 1)[0]]
        tried = [place / rest for place in (*own, *directories)]
    elif scheme == "file" and rest.startswith("/"):
        tried = [Path(rest)]
    elif scheme in ("", "file"):
        tried = [place / rest for place in (beside.parent, *directories)]
    else:
        raise UserError(f"{shorten(uri)}: only model://, package://, file:// and file names are supported")
    for place in tried:
        if rest.strip("/") and exists(place):
            return place
    raise NotFoundError(f"{shorten(uri)}: was not found", uri)


def _find_in_cache(uri: str) -> Path:
    """Directory of a model that Fuel's client has downloaded: HOST/OWNER/models/NAME/VERSION."""
    parts = urlsplit(uri)
    home = os.environ.get("GZ_FUEL_CACHE_PATH")
    cache = Path(home) if home else Path.home() / ".gz" / "fuel"
    words = [unquote(word).lower() for word in parts.path.split("/") if word]
    if words and words[0][:1].isdigit():  # the interface's version
        words = words[1:]
    place = cache.joinpath(parts.netloc.lower(), *words)
    if len(words) >= 3 and exists(place):
        versions = sorted((p for p in place.iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
        if versions:
            return versions[-1]
    raise NotFoundError(
        f"{shorten(uri, 200)}: is on the network, and sitl-bridge downloads nothing; download it with"
        f" `gz fuel download -u '{shorten(uri, 200)}'`, which puts it into {place}",
        uri,
    )


def _version(node: XmlNode) -> tuple[int, ...]:
    """The attribute ``version``; the greatest of a model.config is read, as in Gazebo."""
    return tuple(int(word) for word in node.attributes.get("version", "").split(".") if word.isdigit())


def model_file(place: Path) -> Path:
    """The SDF file of a model: the file itself, or the one in the model.config of a directory.

    Raises:
        UserError: if there is none.
    """
    if is_file(place):
        return place
    config = place / "model.config"
    names = ["model.sdf"]
    if is_file(config):
        given = sorted(read_xml(config).all("sdf"), key=_version, reverse=True)
        names = [node.text for node in given if node.text] or names
    for name in names:
        if is_file(place / name):
            return place / name
    raise UserError(f"{place}: is not a model: it has no {' or '.join(names)}")
