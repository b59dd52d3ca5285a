"""An airframe's figures from a model of Gazebo: mass, inertia, rotors, motors and contact points.

Forces are those of the motor plug-ins, which stem from RotorS (Furrer et al., 2016): T = k_F w^2 along the
rotor link's z axis, Q = k_M T against the rotation, drag -|w| lambda v_perp, hub moment -|w| mu v_perp, and a
first-order lag up and down.  Gazebo's axes are forward, left, up; an airframe's forward, right, down.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from sitl_bridge.api.models import air, point_mass
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.xml_file import XmlNode
from sitl_bridge.core.dynamics.rotor import UP
from sitl_bridge.core.world.sdf_geometry import numbers, pose_matrix
from sitl_bridge.core.world.world import World
from sitl_bridge.lab.importing.figures import Figures
from sitl_bridge.lab.importing.model_tree import ModelTree, Placed, elements

FRD: Floats = np.diag([1.0, -1.0, -1.0])
"""Of a vector in Gazebo's axes."""
LOSS_SPEED = 25.0
"""m/s of axial flow at which Gazebo classic's plug-in of PX4 has no thrust left (max_relative_airspeed_)."""


@dataclass(frozen=True)
class MotorPlugin:
    """A motor plug-in's default values and what it adds to RotorS's equations.

    gazebo_motor_model.h of RotorS and PX4-SITL_gazebo-classic, MulticopterMotorModel.cc of gz-sim.
    """

    name: str
    loses_thrust: bool  # with axial flow, see LOSS_SPEED
    released: bool  # the hub moment acts to the same side whatever the rotation


ROTORS = MotorPlugin("RotorS", loses_thrust=False, released=True)
CLASSIC = MotorPlugin("PX4's Gazebo classic", loses_thrust=True, released=False)
GZ = MotorPlugin("Gazebo (gz)", loses_thrust=False, released=True)
COEFFICIENTS = {
    # tag: field of rotor_model, default of the plug-ins
    "motorConstant": ("thrust_c2", 8.54858e-6),
    "momentConstant": ("torque_thrust_ratio", 0.016),
    "rotorDragCoefficient": ("drag", 1.0e-4),
    "rollingMomentCoefficient": ("rolling_moment", 1.0e-6),
}
TIMES = {"timeConstantUp": ("time_constant_up", 1 / 80), "timeConstantDown": ("time_constant_down", 1 / 40)}
MAX_SPEED = "maxRotVelocity", 838.0
SLOWDOWN = "rotorVelocitySlowdownSim", 10.0


@dataclass(frozen=True)
class RotorPart:
    """A rotor of the model."""

    plugin: XmlNode
    link: Placed
    number: int  # index in Gazebo's motor commands
    figures: dict[str, float]  # of COEFFICIENTS, by field


def number(node: XmlNode, tag: str, default: float) -> float:
    """A number in an element; the default without it.

    Raises:
        ConfigurationError: for text that is not a number.
    """
    child = node.find(tag)
    return default if child is None or not child.text else numbers(child, 1)[0]


def motor_plugin(node: XmlNode) -> MotorPlugin | None:
    """The kind of a motor plug-in; None for another plug-in."""
    file, kind = node.attributes.get("filename", ""), node.name
    if "multicopter-motor-model" in file or "MulticopterMotorModel" in kind:
        return GZ
    if "motor_model" not in file:
        return None
    return ROTORS if "rotors" in file else CLASSIC


def body(tree: ModelTree) -> tuple[float, Floats, Floats]:
    """Mass in kg, centre of gravity (3,) and inertia (3, 3) about it of all links, in Gazebo's axes."""
    masses, places, tensors = [], [], []
    for link in tree.links:
        inertial = link.node.find("inertial")
        pose = link.pose @ pose_matrix(None if inertial is None else inertial.find("pose"))
        mass = 1.0 if inertial is None else number(inertial, "mass", 1.0)
        tensor = None if inertial is None else inertial.find("inertia")
        elements = {
            name: float(name[1] == name[2])
            if tensor is None
            else number(tensor, name, float(name[1] == name[2]))
            for name in ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
        }
        local = np.array(
            [
                [elements["ixx"], elements["ixy"], elements["ixz"]],
                [elements["ixy"], elements["iyy"], elements["iyz"]],
                [elements["ixz"], elements["iyz"], elements["izz"]],
            ]
        )
        masses.append(mass)
        places.append(pose[:3, 3])
        tensors.append(pose[:3, :3] @ local @ pose[:3, :3].T)
    total = float(sum(masses))
    if total <= 0.0:
        raise UserError(f"{tree.source}: its links have no mass")
    centre: Floats = np.average(places, axis=0, weights=masses)
    about = sum(
        (t + point_mass(m, p - centre) for m, p, t in zip(masses, places, tensors, strict=True)),
        np.zeros((3, 3)),
    )
    return total, centre, np.asarray(about)


def rotor_parts(tree: ModelTree, figures: Figures) -> list[RotorPart]:
    """The rotors of the motor plug-ins, in the order of PX4's motors."""
    found: list[RotorPart] = []
    for plugin in tree.plugins:
        if motor_plugin(plugin.node) is None:
            continue
        kind = plugin.node.value("motorType") or "velocity"
        if kind != "velocity":
            figures.leave_out(f"the motor plug-in {plugin.node.name} of type {kind}")
            continue
        named = plugin.node.value("linkName")
        link = tree.link(named, plugin)
        if link is None:
            raise plugin.node.fault(f"<linkName> {named[:60]!r} is not a link of the model")
        index = number(plugin.node, "actuator_number", number(plugin.node, "motorNumber", len(found)))
        values = {f: number(plugin.node, tag, start) for tag, (f, start) in COEFFICIENTS.items()}
        found.append(RotorPart(plugin.node, link, int(index), values))
    channels = _channels(tree)
    found.sort(key=lambda part: channels.get(part.number, (part.number,))[0])
    return found


def _channels(tree: ModelTree) -> dict[int, tuple[int, float, float]]:
    """PX4's output, scaling and armed offset in rad/s by motor number, of PX4's Gazebo classic."""
    found = {}
    for plugin in tree.plugins:
        channels = plugin.node.find("control_channels")
        for i, channel in enumerate([] if channels is None else channels.all("channel")):
            scaling = number(channel, "input_scaling", 1.0)
            offset = scaling * number(channel, "input_offset", 0.0)
            armed = number(channel, "zero_position_armed", 0.0)
            found[i] = int(number(channel, "input_index", i)), scaling, armed + offset
    return found


def read_vehicle(tree: ModelTree, figures: Figures, *, as_gazebo: bool) -> None:
    """Give the figures of a model.

    Raises:
        UserError: for a model that is no multirotor, or whose numbers are wrong.
    """
    where = tree.source
    parts = rotor_parts(tree, figures)
    _refuse_others(tree, parts)
    figures.name = figures.name or tree.name
    figures.description = figures.description or f"{tree.name}, as {where} describes it"
    mass, centre, tensor = body(tree)
    turned = FRD @ tensor @ FRD
    figures.give("mass", float(f"{mass:.6g}"), f"{where}: masses of {len(tree.links)} links")
    names = (("xx", 0, 0), ("yy", 1, 1), ("zz", 2, 2), ("xy", 0, 1), ("xz", 0, 2), ("yz", 1, 2))
    inertia: dict[str, Any] = {name: _rounded(turned[i, j]) for name, i, j in names}
    least = 1e-6 * float(np.trace(turned))
    inertia = {name: x for name, x in inertia.items() if name in ("xx", "yy", "zz") or abs(x) > least}
    moments = np.linalg.eigvalsh(turned)
    if moments[0] + moments[1] < moments[2] * (1.0 - 1e-9):
        inertia["as_published"] = True
        figures.note("no rigid body has the model's moments of inertia; they are kept as published")
    figures.give("inertia", inertia, f"{where}: inertias of its links about their common centre of gravity")
    _moving_parts(tree, parts, figures)
    _give_rotors(tree, parts, centre, figures, as_gazebo=as_gazebo)
    _give_motors(tree, parts, figures)
    points = contact_points(tree, parts, centre)
    if points:
        figures.give("contact.points", points, f"{where}: corners of the collision shapes, rotor tips")
    area = _areas(tree, parts)
    if as_gazebo:
        density = float(air(World().environment[0], 0.0)[2])
        how = "the air at PX4's home: Gazebo's rotors know no density"
        figures.give("rotor_model.reference_density", _rounded(density), how)
        figures.give("drag.force", [0.0, 0.0, 0.0], f"{where}: Gazebo's body has no drag but the rotors'")
        figures.give("ground_effect", value=False, source="Gazebo has none")
    elif area is not None:
        drag = [_rounded(0.5 * 1.225 * a) for a in area]
        figures.estimate("drag.force", drag, "C_d 1.0 on the sides of the collision shapes, rho/2 C_d A")


def _refuse_others(tree: ModelTree, parts: list[RotorPart]) -> None:
    wings = [
        p
        for p in tree.plugins
        if "liftdrag" in p.node.attributes.get("filename", "").lower().replace("-", "")
    ]
    if wings and parts:
        raise UserError(
            f"{tree.source}: has wings ({len(wings)} LiftDrag plug-ins); only multirotors are read"
        )
    if wings:
        raise UserError(
            f"{tree.source}: its rotors are blades of {len(wings)} LiftDrag plug-ins, which are not read; a"
            " model with motor plug-ins is"
        )
    if len(parts) < 3:
        raise UserError(
            f"{tree.source}: has {len(parts)} rotors with a motor plug-in (libgazebo_motor_model,"
            " MulticopterMotorModel); a multirotor has at least 3"
        )


def _moving_parts(tree: ModelTree, parts: list[RotorPart], figures: Figures) -> None:
    rotors = {part.link.name for part in parts}
    for joint in tree.joints:
        child = joint.node.value("child")
        if joint.node.attributes.get("type") in ("fixed", None) or any(r.endswith(child) for r in rotors):
            continue
        figures.leave_out(f"the motion of the joint {joint.name} (its link is taken as fixed)")


def _rounded(value: float) -> float:
    return float(f"{float(value):.6g}") + 0.0


def _frd(point: Floats, centre: Floats) -> list[float]:
    return [round(float(x), 5) + 0.0 for x in FRD @ (point - centre)]


def _give_rotors(
    tree: ModelTree, parts: list[RotorPart], centre: Floats, figures: Figures, *, as_gazebo: bool
) -> None:
    where = tree.source
    shared = {
        name: Counter(part.figures[name] for part in parts).most_common(1)[0][0]
        for name, _ in COEFFICIENTS.values()
    }
    rotors = []
    for part in parts:
        turning = part.plugin.value("turningDirection").lower()
        if turning not in ("cw", "ccw"):
            raise part.plugin.fault("<turningDirection> must be cw or ccw")
        axis = FRD @ part.link.pose[:3, 2]
        own: dict[str, Any] = {"position": _frd(part.link.place, centre), "direction": turning}
        if np.linalg.norm(axis - UP) > 1e-4:
            own["axis"] = [round(float(x), 5) + 0.0 for x in axis]
        differs = {name: x for name, x in part.figures.items() if x != shared[name]}
        rotors.append(own | ({"model": differs} if differs else {}))
    figures.give("rotors", rotors, f"{where}: rotor links, turned from FLU to FRD, in PX4's order")
    kind = motor_plugin(parts[0].plugin) or CLASSIC
    for tag, (name, _) in COEFFICIENTS.items():
        figures.give(f"rotor_model.{name}", shared[name], f"{where}: motor plug-ins, {tag}")
    if kind.released and shared["rolling_moment"]:
        figures.give("rotor_model.rolling_moment_released", value=True, source=f"the code of {kind.name}")
    figures.give("rotor_model.inflow", "none", "the law of Gazebo's motor plug-ins")
    if kind.loses_thrust:
        figures.give("rotor_model.inflow_loss_speed", LOSS_SPEED, f"the code of {kind.name}: 25 m/s")
    radius = _radius(tree, parts)
    if radius is not None:
        figures.give("rotor_model.radius", _rounded(radius), f"{where}: shape of the rotor links")
    inertial = parts[0].link.node.find("inertial")
    if as_gazebo and inertial is not None:
        izz = number(inertial.find("inertia") or inertial, "izz", 1.0)
        slow = number(parts[0].plugin, *SLOWDOWN)
        how = f"{where}: izz of the rotor links over rotorVelocitySlowdownSim {slow:g}"
        figures.give("rotor_model.inertia", _rounded(izz / slow), how)
    elif inertial is not None and radius is not None:
        mass = number(inertial, "mass", 0.0)
        if mass > 0.0:
            rod = _rounded(mass * (2.0 * radius) ** 2 / 12.0)
            how = "a thin rod of the rotor's mass and diameter, m D^2/12; Gazebo's rotors turn slowed down"
            figures.estimate("rotor_model.inertia", rod, how)


def _give_motors(tree: ModelTree, parts: list[RotorPart], figures: Figures) -> None:
    where = tree.source
    figures.give("motor.kind", "first_order", where)
    for tag, (name, default) in TIMES.items():
        values = [number(part.plugin, tag, default) for part in parts]
        figures.give(f"motor.{name}", _rounded(float(np.mean(values))), f"{where}: motor plug-ins, {tag}")
        if len(set(values)) > 1:
            figures.note(f"the motors' {tag} differ; their mean is taken")
    top = [number(part.plugin, *MAX_SPEED) for part in parts]
    channels = _channels(tree)
    ranges = {channels[part.number][1:] for part in parts if part.number in channels}
    if len(ranges) > 1:
        figures.note("the motors' channels differ; the first one's speeds are taken")
    if ranges:
        span, idle = channels[parts[0].number][1:] if parts[0].number in channels else next(iter(ranges))
        how = f"{where}: input_scaling and zero_position_armed of the channels"
    else:
        span, idle = top[0], 0.0
        how = f"{where}: maxRotVelocity at full command; the range of commands is not in the file"
    give_speeds(figures, idle, span, min(top), how)


def give_speeds(figures: Figures, idle: float, span: float, top: float, how: str) -> None:
    """Give a motor's speeds in rad/s at command 0 and above it, cut at the plug-in's top speed."""
    if idle + span > top * (1.0 + 1e-9):
        figures.note(
            f"full command asks for {idle + span:g} rad/s, but maxRotVelocity is {top:g}: the speeds are"
            f" {idle:g} to {top:g} rad/s here, so a command turns the rotors slower than in Gazebo"
        )
        span, how = top - idle, f"{how}; ends at maxRotVelocity"
    figures.give("motor.idle_speed", _rounded(idle), how)
    figures.give("motor.speed_range", _rounded(span), how)


def max_speed(tree: ModelTree, figures: Figures) -> float:
    """Least maxRotVelocity of the motors in rad/s."""
    return min(number(part.plugin, *MAX_SPEED) for part in rotor_parts(tree, figures))


def _radius(tree: ModelTree, parts: list[RotorPart]) -> float | None:
    """Radius in m of the rotors' shapes; None without one."""
    names = {part.link.name for part in parts}
    for tag in ("collision", "visual"):
        found = []
        for link, shape in elements(tree, tag):
            points = corners(shape) if link.name in names else None
            if points is not None:
                local = (points - link.place) @ link.pose[:3, :3]
                found.append(float(np.abs(local[:, :2]).max()))
        if found:
            return max(found)
    return None


def corners(shape: Placed) -> Floats | None:
    """Corners (k, 3) of a collision or visual in the model's axes; None for a mesh and other shapes."""
    geometry = shape.node.find("geometry")
    kind = None if geometry is None else next((c for c in geometry.children), None)
    if kind is None:
        return None
    if kind.tag == "box":
        size = kind.find("size")
        half = 0.5 * np.array(numbers(size, 3)) if size is not None else np.zeros(3)
        signs = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
        local = signs * half
    elif kind.tag in ("cylinder", "sphere", "capsule"):
        radius = number(kind, "radius", 0.0)
        height = 0.5 * number(kind, "length", 0.0) if kind.tag != "sphere" else 0.0
        height += radius if kind.tag != "cylinder" else 0.0
        angles = np.arange(8) * math.pi / 4.0
        ring = np.column_stack([radius * np.cos(angles), radius * np.sin(angles)])
        local = np.concatenate([np.column_stack([ring, np.full(8, z)]) for z in (-height, height)])
    else:
        return None
    return np.asarray(local @ shape.pose[:3, :3].T + shape.place)


def _body_corners(tree: ModelTree, parts: list[RotorPart]) -> Floats:
    """Corners (k, 3) of the collision shapes that are not rotors'."""
    rotors = {part.link.name for part in parts}
    found = [corners(shape) for link, shape in elements(tree, "collision") if link.name not in rotors]
    return np.concatenate([np.empty((0, 3)), *(c for c in found if c is not None)])


def _areas(tree: ModelTree, parts: list[RotorPart]) -> Floats | None:
    """Areas (3,) in m^2 of the body's collision shapes along x, y and z: of the boxes about each."""
    rotors = {part.link.name for part in parts}
    shapes = [corners(shape) for link, shape in elements(tree, "collision") if link.name not in rotors]
    sizes = [np.ptp(points, axis=0) for points in shapes if points is not None]
    if not sizes:
        return None
    x, y, z = np.ptp(_body_corners(tree, parts), axis=0)
    each = np.sum([[b * c, a * c, a * b] for a, b, c in sizes], axis=0)
    return np.asarray(np.minimum(each, [y * z, x * z, x * y]))


def contact_points(tree: ModelTree, parts: list[RotorPart], centre: Floats) -> list[list[float]]:
    """Feet, rotor tips and top of a model in m FRD; empty without collision shapes to stand on."""
    found = (_body_corners(tree, parts) - centre) @ FRD
    if not len(found):
        return []
    lowest = found[found[:, 2] > found[:, 2].max() - 0.02]
    feet = {int(np.argmax(lowest @ [a, b, 0.0])) for a in (-1.0, 1.0) for b in (-1.0, 1.0)}
    points = [[round(float(x), 4) + 0.0 for x in lowest[i]] for i in sorted(feet)]
    spread = np.array(points)
    if (
        len(points) < 3
        or (spread[:, :2].min(axis=0) >= 0.0).any()
        or (spread[:, :2].max(axis=0) <= 0.0).any()
    ):
        return []
    top = found[np.argmin(found[:, 2])]
    return [*points, [0.0, 0.0, round(float(top[2]), 4)]]
