"""A vehicle as URDF for RViz's RobotModel: its arms and rotors, and the frames of its sensors.

Format: wiki.ros.org/urdf/XML.  The link ``NAME/base_link`` is the centre of gravity, x forward, y left, z up.
Frames of sensors move with ``/tf_static``; links without a shape hold their names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import quoteattr

import numpy as np

from sitl_bridge.analysis.export.ros_topics import (
    RosMessages,
    base_link,
    begin_messages,
    frame,
    ros_name,
    to_flu,
)
from sitl_bridge.base.arrays import Floats

ARM, DISC = 0.02, 0.005
"""Share of a rotor's distance that an arm is thick, and m that a rotor is."""
FRONT, REST = "0.8 0.2 0.2 0.8", "0.3 0.3 0.3 0.8"
"""Colours of rotors before and behind the centre of gravity: red, green, blue, opacity."""


def description_topic(name: str) -> str:
    """Topic of a vehicle's URDF."""
    return f"/{ros_name(name)}/robot_description"


def description_message(name: str, vehicle: np.void, sensors: Sequence[str]) -> RosMessages:
    """The URDF as a message.

    Args:
        name: of the vehicle.
        vehicle: () VEHICLE.
        sensors: names of its sensors.
    """
    text = urdf(name, vehicle, sensors)
    made, _ = begin_messages(
        description_topic(name), "std_msgs/String", np.zeros(1, np.int64), {"data": text}
    )
    return made


def urdf(name: str, vehicle: np.void, sensors: Sequence[str]) -> str:
    """The URDF of a vehicle; arguments as of ``description_message``."""
    count, base = int(vehicle["rotor_count"]), base_link(name)
    shapes = []
    for place, radius in zip(
        to_flu(vehicle["rotor_position"][:count]), vehicle["rotor_radius"][:count], strict=True
    ):
        length, front = float(np.linalg.norm(place)), FRONT if place[0] > 0.0 else REST
        # A cylinder's axis is z; turned about y by the angle from z, then about z.
        tilt, yaw = math.atan2(math.hypot(*place[:2]), place[2]), math.atan2(place[1], place[0])
        shapes.append(_cylinder(place / 2.0, (0.0, tilt, yaw), length * ARM, length, REST))
        shapes.append(_cylinder(place, (0.0, 0.0, 0.0), float(radius), DISC, front))
    lines = [
        f"<robot name={quoteattr(ros_name(name))}>",
        f"<link name={quoteattr(frame(base))}>",
        *shapes,
        "</link>",
    ]
    for sensor in sensors:
        child = quoteattr(frame(f"{base}/{sensor}"))
        lines.append(f"<link name={child}/>")
        lines.append(
            f'<joint name={quoteattr(sensor)} type="floating"><parent link={quoteattr(frame(base))}/>'
            f"<child link={child}/></joint>"
        )
    return "\n".join([*lines, "</robot>"])


def _cylinder(
    place: Floats, turn: tuple[float, float, float], radius: float, length: float, color: str
) -> str:
    x, y, z = place
    return (
        f'<visual><origin xyz="{x:.4f} {y:.4f} {z:.4f}" rpy="{turn[0]:.4f} {turn[1]:.4f} {turn[2]:.4f}"/>'
        f'<geometry><cylinder radius="{radius:.4f}" length="{length:.4f}"/></geometry>'
        f'<material name="{color}"><color rgba="{color}"/></material></visual>'
    )
