"""A model of Gazebo with everything that it includes, its links and plug-ins placed in one frame.

SDF is read with the parser of worlds (core/world/sdf_world.py).  Axes are the model's: forward, left, up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.xml_file import MAX_NODES, XmlNode, read_xml
from sitl_bridge.core.world.sdf_geometry import Frames, Matrix, merges, pose_matrix
from sitl_bridge.core.world.sdf_world import DEEPEST, find_uri, model_file, placed_model
from sitl_bridge.lab.importing.figures import Figures

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

    def link(self, name: str, beside: Placed) -> Placed | None:
        """The link that a plug-in names: in its own model, in the whole one, or of that last name."""
        scope = beside.name.rpartition(SEPARATOR)[0]
        names = {link.name: link for link in self.links}
        own = f"{scope}{SEPARATOR}{name}" if scope else name
        last = name.rpartition(SEPARATOR)[2].rpartition("/")[2]
        ends = [link for link in self.links if link.name.rpartition(SEPARATOR)[2] == last]
        return names.get(own) or names.get(name) or (ends[0] if len(ends) == 1 else None)


class TreeReader:
    """Expands a model's includes, and places its links.

    Args:
        directories: in which ``model://`` is searched.
        figures: receives what could not be read.
        load: reads the SDF of an included file; expands templates.
    """

    def __init__(
        self, directories: list[Path], figures: Figures, load: Callable[[Path], XmlNode] = read_xml
    ) -> None:
        self._directories = directories
        self._figures = figures
        self._load = load
        self._nodes = 0

    def read(self, model: XmlNode, source: str) -> ModelTree:
        """The tree of a <model>.

        Raises:
            UserError: for frames or numbers that are wrong, and for models nested without end.
        """
        whole = self._expanded(model, 0)
        tree = ModelTree(model.name or model.source.stem, source)
        self._place(whole, np.eye(4), "", tree)
        return tree

    def _expanded(self, node: XmlNode, depth: int) -> XmlNode:
        """An element without includes."""
        self._nodes += 1
        if depth > DEEPEST or self._nodes > MAX_NODES:
            raise node.fault(
                f"includes more than {MAX_NODES:,} elements, or nests models deeper than {DEEPEST}"
            )
        children: list[XmlNode] = []
        for child in node.children:
            if child.tag == "include":
                model = self._included(child)
                if model is not None:
                    children.append(self._expanded(model, depth + 1))
            elif child.tag == "model":
                children.append(self._expanded(child, depth + 1))
            else:
                children.append(child)
        return replace(node, children=children)

    def _included(self, include: XmlNode) -> XmlNode | None:
        """The model of an <include>; None, and noted, if it cannot be read."""
        uri = include.value("uri")
        try:
            file = find_uri(uri, include.source, self._directories)
            if not any(file.resolve().is_relative_to(d.resolve()) for d in self._directories):
                raise UserError("lies outside the directories of models")
            model = self._load(model_file(file)).find("model")
        except UserError as error:
            self._figures.leave_out(f"the included model {uri}: {error}")
            return None
        return None if model is None else placed_model(include, model)

    def _place(self, model: XmlNode, pose: Matrix, prefix: str, tree: ModelTree) -> None:
        frames = Frames(model, lambda node: node)
        for node in model.children:
            name = prefix + node.name
            if node.tag == "plugin":
                tree.plugins.append(Placed(node, pose, name))
            elif node.tag in ("link", "joint", "model"):
                placed = Placed(node, pose @ frames.pose(node), name)
                if node.tag == "link":
                    tree.links.append(placed)
                elif node.tag == "joint":
                    tree.joints.append(placed)
                else:
                    self._place(node, placed.pose, prefix if merges(node) else name + SEPARATOR, tree)


def elements(tree: ModelTree, tag: str) -> Iterator[tuple[Placed, Placed]]:
    """The links' elements of a name, such as ``sensor``, each with its link."""
    for link in tree.links:
        for node in link.node.all(tag):
            relative = node.find("pose")
            yield link, Placed(node, link.pose @ pose_matrix(relative), node.name)
