"""A model of Gazebo with everything that it includes, its links and plug-ins placed in one frame.

SDF is read with the parser of worlds (core/world/sdf_world.py), URDF as the SDF that Gazebo makes of it.
Axes are the model's: forward, left, up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.xml_file import MAX_NODES, XmlNode
from sitl_bridge.core.world.sdf_geometry import Frames, Matrix, merges, numbers, pose_matrix
from sitl_bridge.core.world.sdf_world import DEEPEST, find_uri, model_file, placed_model

SEPARATOR = "::"


@dataclass(frozen=True)
class Placed:
    """An element of a model, with its pose in the whole model."""

    node: XmlNode
    pose: Matrix  # (4, 4)
    name: str  # with the names of the models that hold it: ``x500_base::rotor_0``

    @property
    def place(self) -> Floats:
        """(3,) m."""
        return self.pose[:3, 3]


@dataclass
class ModelTree:
    """The links of a model and those it includes, and its plug-ins with the names of their models."""

    name: str
    source: str  # the file, as ``sources`` name it
    links: list[Placed] = field(default_factory=list)
    plugins: list[Placed] = field(default_factory=list)
    joints: list[Placed] = field(default_factory=list)

    @cached_property
    def _names(self) -> dict[str, Placed]:
        return {link.name: link for link in self.links}

    @cached_property
    def _ends(self) -> dict[str, list[Placed]]:
        ends: dict[str, list[Placed]] = {}
        for link in self.links:
            ends.setdefault(link.name.rpartition(SEPARATOR)[2], []).append(link)
        return ends

    @cached_property
    def holding(self) -> dict[str, Placed]:
        """The joint that holds each link, by the link's name."""
        ends = ((self.link(joint.node.value("child"), joint), joint) for joint in self.joints)
        return {link.name: joint for link, joint in ends if link is not None}

    def link(self, name: str, beside: Placed) -> Placed | None:
        """The link that a plug-in or joint names: in its own model, the whole one, or of that last name."""
        scope = beside.name.rpartition(SEPARATOR)[0]
        own = self._names.get(f"{scope}{SEPARATOR}{name}" if scope else name)
        ends = self._ends.get(name.rpartition(SEPARATOR)[2].rpartition("/")[2], [])
        return own or self._names.get(name) or (ends[0] if len(ends) == 1 else None)

    def elements(self, tag: str) -> Iterator[tuple[Placed, Placed]]:
        """The links' elements of a name, such as ``sensor``, each with its link."""
        for link in self.links:
            for node in link.node.all(tag):
                yield link, Placed(node, link.pose @ pose_matrix(node.find("pose")), node.name)


def number(node: XmlNode | None, tag: str, default: float) -> float:
    """A number in an element of this one; the default without it.

    Raises:
        ConfigurationError: for text that is not a number.
    """
    child = None if node is None else node.find(tag)
    return default if child is None or not child.text else numbers(child, 1)[0]


def source_file(place: Path) -> Path:
    """The file of a model, or of the one template in its directory from which a build makes it.

    Raises:
        UserError: if there is none.
    """
    try:
        return model_file(place)
    except UserError:
        templates = list(place.glob("*.sdf.jinja"))
        if len(templates) != 1:
            raise
        return templates[0]


def read_tree(
    model: XmlNode, source: str, directories: list[Path], load: Callable[[Path], XmlNode],
    leave_out: Callable[[str], None],
) -> ModelTree:  # fmt: skip
    """The tree of a <model>.

    Args:
        model: the element.
        source: as ``sources`` are to name its file.
        directories: in which ``model://`` is searched.
        load: reads the SDF of an included file; expands templates.
        leave_out: receives what could not be read.

    Raises:
        UserError: for frames or numbers that are wrong, and for models nested without end.
    """
    count = 0

    def expand(node: XmlNode, depth: int) -> XmlNode:
        """A model without includes."""
        nonlocal count
        count += 1
        if depth > DEEPEST or count > MAX_NODES:
            raise node.fault(
                f"includes more than {MAX_NODES:,} models, or nests models deeper than {DEEPEST}"
            )
        inner = (include(child) if child.tag == "include" else child for child in node.children)
        children = [
            expand(child, depth + 1) if child.tag == "model" else child
            for child in inner
            if child is not None
        ]
        return replace(node, children=children)

    def include(include: XmlNode) -> XmlNode | None:
        """The model of an <include>; None, and noted, if it cannot be read."""
        uri = include.value("uri")
        try:
            file = find_uri(uri, include.source, directories)
            if not any(file.resolve().is_relative_to(d.resolve()) for d in directories):
                raise UserError("lies outside the directories of models")
            found = load(source_file(file)).find("model")
        except UserError as error:
            leave_out(f"the included model {uri}: {error}")
            return None
        return None if found is None else placed_model(include, found)

    tree = ModelTree(model.name or model.source.stem, source)

    def place(owner: XmlNode, pose: Matrix, prefix: str) -> None:
        frames = Frames(owner, lambda node: node)
        kinds = {"link": tree.links, "joint": tree.joints, "plugin": tree.plugins}
        for node in owner.children:
            name = prefix + node.name
            if node.tag in kinds:
                try:
                    at = pose if node.tag == "plugin" else pose @ frames.pose(node)
                except UserError as error:
                    if node.tag == "link":
                        raise
                    leave_out(f"the joint {name}: {error}")  # of a model that was not there
                    continue
                kinds[node.tag].append(Placed(node, at, name))
            elif node.tag == "model":
                place(node, pose @ frames.pose(node), prefix if merges(node) else name + SEPARATOR)

    place(expand(model, 0), np.eye(4), "")
    return tree


def sdf_of(robot: XmlNode) -> XmlNode:
    """A URDF's <robot> as <sdf>: links relative to their joints' parents, <gazebo>'s elements placed."""

    def made(like: XmlNode, tag: str, text: str = "", *children: XmlNode, **attributes: str) -> XmlNode:
        return XmlNode(tag, like.source, like.line, attributes, list(children), text)

    def convert(node: XmlNode) -> XmlNode:
        """An element with SDF's <pose> for URDF's <origin>, and elements for attributes."""
        given = node.attributes
        if node.tag == "origin":
            return made(node, "pose", f"{given.get('xyz', '0 0 0')} {given.get('rpy', '0 0 0')}")
        own = [made(node, key, text) for key, text in given.items() if key not in ("name", "value")]
        inner = [*own, *map(convert, node.children)]
        return made(node, node.tag, given.get("value", node.text), *inner, name=node.name)

    def end(joint: XmlNode, tag: str) -> str:
        node = joint.find(tag)
        return "" if node is None else node.attributes.get("link", "")

    joints = {end(joint, "child"): joint for joint in robot.all("joint")}
    model = made(robot, "model", name=robot.name)
    for link in robot.all("link"):
        children = [convert(child) for child in link.children]
        if link.find("inertial") is None:  # none in URDF; 1 kg in SDF
            children.append(made(link, "inertial", "", made(link, "mass", "0")))
        if (joint := joints.get(link.name)) is not None:
            pose = convert(joint.find("origin") or made(joint, "origin"))
            pose.attributes["relative_to"] = end(joint, "parent")
            children.append(pose)
            inner = [made(joint, tag, end(joint, tag)) for tag in ("parent", "child")]
            limits = [convert(limit) for limit in joint.all("limit")]
            inner += [made(axis, "axis", "", *convert(axis).children, *limits) for axis in joint.all("axis")]
            kind = joint.attributes.get("type", "")
            model.children.append(made(joint, "joint", "", *inner, name=joint.name, type=kind))
        model.children.append(made(link, "link", "", *children, name=link.name))
    links = {link.name: link for link in model.all("link")}
    for gazebo in robot.all("gazebo"):
        owner = links.get(gazebo.attributes.get("reference", ""))
        for node in gazebo.children:
            (owner if owner is not None and node.tag == "sensor" else model).children.append(node)
    return made(robot, "sdf", "", model, version="1.7")
