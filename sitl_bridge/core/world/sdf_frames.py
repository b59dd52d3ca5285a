"""Poses of SDF: nested frames, and ``relative_to``, as matrices of x east, y north, z up."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.rotations import matrix_from_euler, matrix_from_quaternion
from sitl_bridge.base.xml_file import XmlNode

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
        matrix[:3, :3] = _of_quaternion(node, np.array([qw, qx, qy, qz]))
    else:
        x, y, z, *angles = numbers(node, 6)
        if node.attributes.get("degrees", "").lower() in ("true", "1"):
            angles = [math.radians(angle) for angle in angles]
        matrix[:3, :3] = matrix_from_euler(*angles)
    matrix[:3, 3] = x, y, z
    return matrix


def _of_quaternion(node: XmlNode, quaternion: Floats) -> Matrix:
    length = float(np.linalg.norm(quaternion))
    if length < 1e-6:
        raise node.fault("<pose> has a quaternion of length 0")
    return matrix_from_quaternion(quaternion / length)


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
        member = self._named.get(name) or self._named.get(first)
        if member is None:
            raise asking.fault(f"<pose> is relative to the frame {name!r}, which does not exist")
        matrix = self.pose(member, seen=(*seen, name))
        if rest and member.tag == "model" and name not in self._named:
            matrix = matrix @ Frames(member, self._expand)._frame(rest, asking, ())
        return matrix
