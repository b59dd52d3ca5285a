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
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.xml_file import XmlNode
from sitl_bridge.core.dynamics.rotor import UP
from sitl_bridge.core.world.sdf_geometry import numbers, pose_matrix
from sitl_bridge.core.world.world import World
from sitl_bridge.lab.importing.figures import Figures
from sitl_bridge.lab.importing.model_tree import ModelTree, Placed, number

FRD: Floats = np.diag([1.0, -1.0, -1.0])
"""Of a vector in Gazebo's axes."""
LOSS_SPEED = 25.0
"""m/s of axial flow at which Gazebo classic's plug-in of PX4 has no thrust left (max_relative_airspeed_)."""


@dataclass(frozen=True)
class MotorPlugin:
    """Terms that a motor plug-in adds to RotorS's equations.

    gazebo_motor_model.cpp of RotorS and PX4-SITL_gazebo-classic, MulticopterMotorModel.cc of gz-sim.
    """

    name: str
    loses_thrust: bool  # with axial flow, see LOSS_SPEED
    released: bool  # the hub moment acts to the same side whatever the rotation
    scripts: str = ""  # beginning of the names of PX4's airframe scripts for it


ROTORS = MotorPlugin("RotorS", loses_thrust=False, released=True)
CLASSIC = MotorPlugin("PX4's Gazebo classic", loses_thrust=True, released=False, scripts="gazebo-classic_")
GZ = MotorPlugin("Gazebo (gz)", loses_thrust=False, released=True, scripts="gz_")
COEFFICIENTS = {
    # tag: field of rotor_model, default of the plug-ins
    "motorConstant": ("thrust_c2", 8.54858e-6),
    "momentConstant": ("torque_thrust_ratio", 0.016),
    "rotorDragCoefficient": ("drag", 1.0e-4),
    "rollingMomentCoefficient": ("rolling_moment", 1.0e-6),
}
TIMES = {"timeConstantUp": ("time_constant_up", 1 / 80), "timeConstantDown": ("time_constant_down", 1 / 40)}
MOST_LIFT = 20.0
"""Full thrust in weights that a vehicle can have: racing quadrotors have 10 to 15."""
FIXED = "the motion of the joint {} (its link is taken as fixed)"
MOTORS = "libgazebo_motor_model, MulticopterMotorModel"
MAX_SPEED = "maxRotVelocity", 838.0
SLOWDOWN = "rotorVelocitySlowdownSim", 10.0
TENSOR = {"xx": (0, 0), "yy": (1, 1), "zz": (2, 2), "xy": (0, 1), "xz": (0, 2), "yz": (1, 2)}


@dataclass(frozen=True)
class RotorPart:
    """A rotor of the model."""

    plugin: XmlNode
    link: Placed
    number: int  # index in Gazebo's motor commands
    figures: dict[str, float]  # of COEFFICIENTS, by field


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
        mass = number(inertial, "mass", 1.0)
        if inertial is not None and mass < 0.0:
            raise inertial.fault("<mass> is below 0")
        if mass == 0.0:
            continue
        pose = link.pose @ pose_matrix(None if inertial is None else inertial.find("pose"))
        given, local = None if inertial is None else inertial.find("inertia"), np.empty((3, 3))
        for name, (i, j) in TENSOR.items():
            local[i, j] = local[j, i] = number(given, f"i{name}", float(i == j))
        masses.append(mass)
        places.append(pose[:3, 3])
        tensors.append(pose[:3, :3] @ local @ pose[:3, :3].T)
    if not masses:
        raise UserError(f"{tree.source}: its links have no mass")
    centre: Floats = np.average(places, axis=0, weights=masses)
    about = [t + point_mass(m, p - centre) for m, p, t in zip(masses, places, tensors, strict=True)]
    return float(sum(masses)), centre, np.sum(about, axis=0)


def rotor_parts(tree: ModelTree, figures: Figures) -> list[RotorPart]:
    """The rotors of the motor plug-ins, in the order of PX4's motors."""
    found: list[RotorPart] = []
    for plugin in tree.plugins:
        node = plugin.node
        if motor_plugin(node) is None:
            continue
        kind = node.value("motorType") or "velocity"
        if kind != "velocity":
            figures.leave_out(f"the motor plug-in {node.name} of type {kind}")
            continue
        named = node.value("linkName")
        link = tree.link(named, plugin)
        if link is None:
            raise node.fault(f"<linkName> {named[:60]!r} is not a link of the model")
        index = number(node, "actuator_number", number(node, "motorNumber", len(found)))
        values = {name: number(node, tag, start) for tag, (name, start) in COEFFICIENTS.items()}
        found.append(RotorPart(node, link, int(index), values))
    channels = _channels(tree)
    return sorted(found, key=lambda part: channels.get(part.number, (part.number,))[0])


def _channels(tree: ModelTree) -> dict[int, tuple[int, float, float]]:
    """PX4's output, speed range and armed speed in rad/s by motor number, of PX4's Gazebo classic."""
    found = {}
    for plugin in tree.plugins:
        channels = plugin.node.find("control_channels")
        for i, channel in enumerate([] if channels is None else channels.all("channel")):
            scaling = number(channel, "input_scaling", 1.0)
            idle = scaling * number(channel, "input_offset", 0.0) + number(
                channel, "zero_position_armed", 0.0
            )
            found[i] = int(number(channel, "input_index", i)), scaling, idle
    return found


def read_vehicle(tree: ModelTree, figures: Figures, *, as_gazebo: bool, alone: bool) -> None:
    """Give the figures of a model; ``alone``: no other file can have the rotors.

    Raises:
        UserError: for a model that is no multirotor, or whose numbers are wrong.
    """
    where = tree.source
    parts = rotor_parts(tree, figures)
    _refuse_others(tree, parts, alone=alone)
    figures.name = figures.name or tree.name
    figures.description = figures.description or f"{tree.name}, as {where} describes it"
    mass, centre, tensor = body(tree)
    turned = FRD @ tensor @ FRD
    figures.give("mass", mass, f"{where}: masses of {len(tree.links)} links")
    least = 1e-6 * float(np.trace(turned))
    inertia: dict[str, Any] = {
        name: float(turned[at]) for name, at in TENSOR.items() if at[0] == at[1] or abs(turned[at]) > least
    }
    moments = np.linalg.eigvalsh(turned)
    if moments[0] + moments[1] < moments[2] * (1.0 - 1e-9):
        inertia["as_published"] = True
        figures.note("no rigid body has the model's moments of inertia; they are kept as published")
    figures.give("inertia", inertia, f"{where}: inertias of its links about their common centre of gravity")
    if parts:
        _give_rotors(tree, parts, centre, figures)
        _give_rotor_size(tree, parts, figures, as_gazebo=as_gazebo)
        _give_motors(tree, parts, figures)
    rotors = {part.link.name for part in parts}
    for child, joint in tree.holding.items():
        if child not in rotors and moves(joint):
            figures.leave_out(FIXED.format(joint.name))
    placed = (corners(shape) for link, shape in tree.elements("collision") if link.name not in rotors)
    shapes = [points for points in placed if points is not None]
    points = contact_points(shapes, centre)
    if points:
        figures.give("contact.points", points, f"{where}: corners of the collision shapes, rotor tips")
    if as_gazebo:
        density = float(air(World().environment[0], 0.0)[2])
        how = "the air at PX4's home: Gazebo's rotors know no density"
        figures.give("rotor_model.reference_density", density, how)
        figures.give("drag.force", [0.0, 0.0, 0.0], f"{where}: Gazebo's body has no drag but the rotors'")
        figures.give("ground_effect", value=False, source="Gazebo has none")
    elif shapes:
        sizes = np.array([np.ptp(points, axis=0) for points in shapes])
        whole = np.ptp(np.concatenate(shapes), axis=0)
        sides = sum(_sides(size) for size in sizes)
        drag = (0.5 * 1.225 * np.minimum(sides, _sides(whole))).tolist()
        figures.give("drag.force", drag, "derived: C_d 1.0 on the sides of the collision shapes, rho/2 C_d A")


def moves(joint: Placed) -> bool:
    """Whether a joint lets its link turn or slide."""
    ends = [joint.node.value("axis", "limit", end) for end in ("lower", "upper")]
    return joint.node.attributes.get("type", "fixed") != "fixed" and (ends[0] != ends[1] or not ends[0])


def _sides(size: Floats) -> Floats:
    """Areas (3,) of a box along x, y and z."""
    return np.array([size[1] * size[2], size[0] * size[2], size[0] * size[1]])


def _refuse_others(tree: ModelTree, parts: list[RotorPart], *, alone: bool) -> None:
    files = [plugin.node.attributes.get("filename", "").lower().replace("-", "") for plugin in tree.plugins]
    wings = sum("liftdrag" in file for file in files)
    if wings and parts:
        fault = f"has wings ({wings} LiftDrag plug-ins); only multirotors are read"
    elif wings:
        fault = f"its rotors are blades of {wings} LiftDrag plug-ins, which are not read; motor plug-ins are"
    elif len(parts) < 3 and (parts or alone):
        fault = f"has {len(parts)} rotors with a motor plug-in ({MOTORS}); a multirotor has at least 3"
    else:
        return
    raise UserError(f"{tree.source}: {fault}")


def frd(point: Floats, centre: Floats) -> list[float]:
    """A place in Gazebo's axes from the centre of gravity, m FRD."""
    return [round(float(x), 5) + 0.0 for x in FRD @ (point - centre)]


def _give_rotors(tree: ModelTree, parts: list[RotorPart], centre: Floats, figures: Figures) -> None:
    where = tree.source
    shared = {name: Counter(p.figures[name] for p in parts).most_common(1)[0][0] for name in parts[0].figures}
    rotors = []
    for part in parts:
        turning = part.plugin.value("turningDirection").lower()
        if turning not in ("cw", "ccw"):
            raise part.plugin.fault("<turningDirection> must be cw or ccw")
        own: dict[str, Any] = {"position": frd(part.link.place, centre), "direction": turning}
        axis = FRD @ part.link.pose[:3, 2]
        if np.linalg.norm(axis - UP) > 1e-4:
            own["axis"] = [round(float(x), 5) + 0.0 for x in axis]
        differs = {name: x for name, x in part.figures.items() if x != shared[name]}
        rotors.append(own | ({"model": differs} if differs else {}))
    figures.give("rotors", rotors, f"{where}: rotor links, turned from FLU to FRD, in PX4's order")
    for tag, (name, _) in COEFFICIENTS.items():
        figures.give(f"rotor_model.{name}", shared[name], f"{where}: motor plug-ins, {tag}")
    kind = motor_plugin(parts[0].plugin) or CLASSIC
    if kind.released and shared["rolling_moment"]:
        figures.give("rotor_model.rolling_moment_released", value=True, source=f"the code of {kind.name}")
    figures.give("rotor_model.inflow", "none", "the law of Gazebo's motor plug-ins")
    if kind.loses_thrust:
        figures.give("rotor_model.inflow_loss_speed", LOSS_SPEED, f"the code of {kind.name}: 25 m/s")


def _give_rotor_size(tree: ModelTree, parts: list[RotorPart], figures: Figures, *, as_gazebo: bool) -> None:
    """The rotors' radius by their shapes, and their inertia."""
    names, inertial = {part.link.name for part in parts}, parts[0].link.node.find("inertial")
    radius = next((r for tag in ("collision", "visual") if (r := _radius(tree, names, tag)) > 0.0), None)
    if radius is not None:
        figures.give("rotor_model.radius", radius, f"{tree.source}: shape of the rotor links")
    if inertial is None:
        return
    if as_gazebo:
        slow = number(parts[0].plugin, *SLOWDOWN)
        how = f"{tree.source}: izz of the rotor links over rotorVelocitySlowdownSim {slow:g}"
        figures.give("rotor_model.inertia", number(inertial.find("inertia"), "izz", 1.0) / slow, how)
    elif radius is not None and (mass := number(inertial, "mass", 0.0)) > 0.0:
        how = (
            "derived: a thin rod of the rotor's mass and diameter, m D^2/12; Gazebo's rotors turn slowed down"
        )
        figures.give("rotor_model.inertia", mass * (2.0 * radius) ** 2 / 12.0, how)


def _give_motors(tree: ModelTree, parts: list[RotorPart], figures: Figures) -> None:
    where = tree.source
    figures.give("motor.kind", "first_order", where)
    for tag, (name, default) in TIMES.items():
        values = [number(part.plugin, tag, default) for part in parts]
        figures.give(f"motor.{name}", float(np.mean(values)), f"{where}: motor plug-ins, {tag}")
        if len(set(values)) > 1:
            figures.note(f"the motors' {tag} differ; their mean is taken")
    top = min(number(part.plugin, *MAX_SPEED) for part in parts)
    channels = _channels(tree)
    ranges = [channels[part.number][1:] for part in parts if part.number in channels]
    if len(set(ranges)) > 1:
        figures.note("the motors' channels differ; the first one's speeds are taken")
    if ranges:
        (span, idle), how = ranges[0], f"{where}: input_scaling and zero_position_armed of the channels"
    else:
        span, idle = top, 0.0
        how = f"{where}: maxRotVelocity at full command; the range of commands is not in the file"
        lift = (
            figures.get("rotor_model.thrust_c2")
            * top**2
            * len(parts)
            / figures.get("mass")
            / STANDARD_GRAVITY
        )
        if lift > MOST_LIFT:
            figures.note(
                f"maxRotVelocity {top:g} rad/s would lift {lift:.0f} times the weight, which no motor does:"
                " the speeds are estimated"
            )
            return
    give_speeds(figures, idle, span, top, how)


def give_speeds(figures: Figures, idle: float, span: float, top: float, how: str) -> None:
    """Give a motor's speeds in rad/s at command 0 and above it, cut at the plug-in's top speed."""
    if idle + span > top * (1.0 + 1e-9):
        figures.note(
            f"full command asks for {idle + span:g} rad/s, but maxRotVelocity is {top:g}: the speeds are"
            f" {idle:g} to {top:g} rad/s here, so a command turns the rotors slower than in Gazebo"
        )
        span, how = top - idle, f"{how}; ends at maxRotVelocity"
    figures.give("motor.idle_speed", float(idle), how)
    figures.give("motor.speed_range", float(span), how)


def _radius(tree: ModelTree, names: set[str], tag: str) -> float:
    """Radius in m of the shapes of the rotors' links; 0 without one."""
    found = [0.0]
    for link, shape in tree.elements(tag):
        if link.name in names and (points := corners(shape)) is not None:
            found.append(float(np.abs(((points - link.place) @ link.pose[:3, :3])[:, :2]).max()))
    return max(found)


def corners(shape: Placed) -> Floats | None:
    """Corners (k, 3) of a collision or visual in the model's axes; None for a mesh and other shapes."""
    geometry = shape.node.find("geometry")
    kind = None if geometry is None else next(geometry.all("box", "cylinder", "sphere", "capsule"), None)
    if kind is None:
        return None
    if kind.tag == "box":
        size = kind.find("size")
        half = 0.5 * np.array(numbers(size, 3)) if size is not None else np.zeros(3)
        local = half * np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    else:
        radius = number(kind, "radius", 0.0)
        height = 0.5 * number(kind, "length", 0.0) + (0.0 if kind.tag == "cylinder" else radius)
        angles = np.arange(8) * math.pi / 4.0
        ring = np.column_stack([radius * np.cos(angles), radius * np.sin(angles)])
        local = np.concatenate([np.column_stack([ring, np.full(8, z)]) for z in (-height, height)])
    return np.asarray(local @ shape.pose[:3, :3].T + shape.place)


def contact_points(shapes: list[Floats], centre: Floats) -> list[list[float]]:
    """Feet and top of shapes (k, 3) in Gazebo's axes, m FRD; none where the feet are not about the centre."""
    if not shapes:
        return []
    found = (np.concatenate(shapes) - centre) @ FRD
    lowest = found[found[:, 2] > found[:, 2].max() - 0.02]
    feet = lowest[sorted({int(np.argmax(lowest @ [a, b, 0.0])) for a in (-1.0, 1.0) for b in (-1.0, 1.0)})]
    if len(feet) < 3 or (feet[:, :2].min(axis=0) >= 0.0).any() or (feet[:, :2].max(axis=0) <= 0.0).any():
        return []
    top = float(found[:, 2].min())
    return [[round(float(x), 4) + 0.0 for x in foot] for foot in (*feet, (0.0, 0.0, top))]
