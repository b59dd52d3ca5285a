"""Reads models in SDF, URDF, xacro and jinja as one tree of SDF."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sitl_bridge.base.errors import ConfigurationError, shortened
from sitl_bridge.base.extras import missing
from sitl_bridge.base.input_file import exists
from sitl_bridge.base.rotations import quaternion_from_matrix
from sitl_bridge.base.xml_file import MAX_BYTES, XmlNode, parse_xml, read_xml
from sitl_bridge.core.world.sdf_geometry import Matrix, pose_matrix
from sitl_bridge.core.world.sdf_world import search_path
from sitl_bridge.lab.importing import expansion_process

MARKERS = (".git", "package.xml", "model.config")
"""Files that the top of a tree has."""
WAIT = 60.0
"""s; the process stops itself after SECONDS of processor time."""


def tree_of(file: Path) -> Path:
    """The directory whose files a model may use: its repository, or that which holds its package or model."""
    parents = list(file.resolve().parents)
    for place in parents:
        if exists(place / ".git"):
            return place
    for place in parents:
        if any(exists(place / marker) for marker in MARKERS):
            return place.parent
    return parents[0]


def read_model_file(file: Path, arguments: Mapping[str, str]) -> XmlNode:
    """The root of a model's file as SDF.

    Raises:
        ConfigurationError: for a file that cannot be read, and with the fault of a template.
        UserError: if the package that expands the template is not installed.
    """
    name = file.name.lower()
    kind = "xacro" if ".xacro" in name else "jinja" if name.endswith((".jinja", ".j2")) else None
    root = read_xml(file) if kind is None else parse_xml(_expanded(file, kind, arguments), file)
    return sdf_of(root) if root.tag == "robot" else root


def _expanded(file: Path, kind: str, arguments: Mapping[str, str]) -> str:
    roots = [tree_of(file), *(place for place in search_path(file)[4:] if place.is_dir())]
    request = {
        "kind": kind, "file": str(file.resolve()), "roots": [str(r.resolve()) for r in roots],
        "arguments": dict(arguments),
    }  # fmt: skip
    command = [sys.executable, "-I", expansion_process.__file__]
    try:
        done = subprocess.run(
            command, input=json.dumps(request).encode(), capture_output=True, timeout=WAIT, check=False
        )
        answer = json.loads(done.stdout[: 2 * MAX_BYTES])
    except (subprocess.TimeoutExpired, ValueError) as error:
        fault = f"the {kind} template does not end within {expansion_process.SECONDS} s of processor time"
        raise ConfigurationError(str(file), [fault]) from error
    if "missing" in answer:
        raise missing(answer["missing"], f"{kind} templates", "import")
    if "error" in answer:
        raise ConfigurationError(str(file), [f"the {kind} template: {shortened(answer['error'], 300)}"])
    return str(answer["text"])


def sdf_of(robot: XmlNode) -> XmlNode:
    """A URDF's <robot> as the <sdf> that Gazebo makes of it: links in one frame, plug-ins and sensors placed.

    Raises:
        UserError: for joints that do not make a tree.
    """
    joints = {}
    for joint in robot.all("joint"):
        child, parent = joint.find("child"), joint.find("parent")
        if child is not None and parent is not None:
            joints[child.attributes.get("link", "")] = (parent.attributes.get("link", ""), joint)
    extra: defaultdict[str, list[XmlNode]] = defaultdict(list)
    for node in robot.all("gazebo"):
        extra[node.attributes.get("reference", "")] += node.children
    links = {link.name: link for link in robot.all("link")}
    model = XmlNode("model", robot.source, robot.line, {"name": robot.name})
    for name, link in links.items():
        pose = _pose_of(name, joints, link)
        children = [_pose(link, pose)]
        inertial = link.find("inertial")
        children.append(_inertial(link, inertial))
        for shape in link.all("collision", "visual"):
            children.append(_shape(shape))
        children += [child for child in extra[name] if child.tag == "sensor"]
        model.children.append(XmlNode("link", link.source, link.line, {"name": name}, children))
        model.children += [child for child in extra[name] if child.tag == "plugin"]
    for moved, (_, joint) in joints.items():
        inner = [_text(joint, "child", moved), *joint.all("axis")]
        kind = {"continuous": "revolute"}.get(
            joint.attributes.get("type", ""), joint.attributes.get("type", "")
        )
        model.children.append(
            XmlNode("joint", joint.source, joint.line, {"name": joint.name, "type": kind}, inner)
        )
    model.children += [child for child in extra[""] if child.tag == "plugin"]
    return XmlNode("sdf", robot.source, robot.line, {"version": "1.7"}, [model])


def _pose_of(name: str, joints: Mapping[str, tuple[str, XmlNode]], link: XmlNode) -> Matrix:
    """Pose (4, 4) of a link in the root link's axes."""
    pose: Matrix = np.eye(4)
    seen = {name}
    while name in joints:
        name, joint = joints[name]
        pose = _origin(joint) @ pose
        if name in seen:
            raise link.fault(f"the joints of {shortened(name)} make a ring")
        seen.add(name)
    return pose


def _origin(node: XmlNode) -> Matrix:
    """The <origin xyz rpy> of an element as a matrix (4, 4)."""
    origin = node.find("origin")
    if origin is None:
        return np.eye(4)
    words = f"{origin.attributes.get('xyz', '0 0 0')} {origin.attributes.get('rpy', '0 0 0')}"
    return pose_matrix(_text(origin, "pose", words))


def _text(place: XmlNode, tag: str, text: str) -> XmlNode:
    return XmlNode(tag, place.source, place.line, text=text)


def _pose(place: XmlNode, matrix: Matrix) -> XmlNode:
    """A <pose> of a matrix, as a quaternion."""
    w, x, y, z = quaternion_from_matrix(matrix[:3, :3])
    text = " ".join(repr(float(v)) for v in (*matrix[:3, 3], x, y, z, w))
    return XmlNode("pose", place.source, place.line, {"rotation_format": "quat_xyzw"}, text=text)


def _inertial(link: XmlNode, inertial: XmlNode | None) -> XmlNode:
    """The <inertial> of a link; no mass without one, as Gazebo reads URDF."""
    made = XmlNode("inertial", link.source, link.line)
    tensor = None if inertial is None else inertial.find("inertia")
    mass = None if inertial is None else inertial.find("mass")
    made.children.append(_text(link, "mass", "0" if mass is None else mass.attributes.get("value", "0")))
    names = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
    values = {n: "0" if tensor is None else tensor.attributes.get(n, "0") for n in names}
    made.children.append(
        XmlNode("inertia", link.source, link.line, children=[_text(link, n, v) for n, v in values.items()])
    )
    if inertial is not None:
        made.children.append(_pose(link, _origin(inertial)))
    return made


def _shape(shape: XmlNode) -> XmlNode:
    """A collision or visual, its geometry's attributes as elements."""
    geometry = shape.find("geometry")
    kinds = [] if geometry is None else geometry.children
    made = [
        XmlNode(
            kind.tag, kind.source, kind.line, children=[_text(kind, k, v) for k, v in kind.attributes.items()]
        )
        for kind in kinds
    ]
    inside = XmlNode("geometry", shape.source, shape.line, children=made)
    return XmlNode(
        shape.tag, shape.source, shape.line, {"name": shape.name}, [_pose(shape, _origin(shape)), inside]
    )
