"""Small vehicles in the formats that Gazebo and ROS read, written for the tests."""

from __future__ import annotations

from pathlib import Path

MOTOR = """<plugin name='{name}' filename='{file}'><jointName>rotor_{k}_joint</jointName>
<linkName>{link}</linkName><turningDirection>{turn}</turningDirection><timeConstantUp>0.02</timeConstantUp>
<timeConstantDown>0.04</timeConstantDown><maxRotVelocity>1000</maxRotVelocity>
<motorConstant>8.0e-06</motorConstant><momentConstant>0.016</momentConstant><motorNumber>{k}</motorNumber>
<rotorDragCoefficient>8.0e-05</rotorDragCoefficient><rollingMomentCoefficient>1e-06</rollingMomentCoefficient>
<rotorVelocitySlowdownSim>10</rotorVelocitySlowdownSim><motorType>velocity</motorType></plugin>"""
INERTIA = "<inertial><mass>{m}</mass><inertia><ixx>{x}</ixx><iyy>{y}</iyy><izz>{z}</izz></inertia></inertial>"
PLACES = ((0.2, -0.15), (-0.2, 0.15), (0.2, 0.15), (-0.2, -0.15))
"""m, forward and left of each rotor."""
TURNS = ("ccw", "ccw", "cw", "cw")
CLASSIC, GZ = "libgazebo_motor_model.so", "gz-sim-multicopter-motor-model-system"
BASE = (
    f"<link name='base'>{INERTIA.format(m=1.4, x=0.015, y=0.02, z=0.03)}"
    "<collision name='b'><geometry><box><size>0.2 0.2 0.1</size></box></geometry></collision>"
    "<collision name='feet'><pose>0 0 -0.15 0 0 0</pose><geometry><box><size>0.24 0.24 0.01</size></box>"
    "</geometry></collision></link>"
)
CHANNEL = """<channel name='{k}'><input_index>{index}</input_index><input_offset>0</input_offset>
<input_scaling>800</input_scaling><zero_position_armed>100</zero_position_armed></channel>"""


def rotor_links() -> str:
    """Four rotor links and their joints."""
    return "".join(
        f"<link name='rotor_{k}'><pose>{x} {y} 0.05 0 0 0</pose>"
        f"{INERTIA.format(m=0.01, x=1e-6, y=2e-5, z=2e-5)}<collision name='c'><geometry><cylinder>"
        "<radius>0.12</radius><length>0.01</length></cylinder></geometry></collision></link>"
        f"<joint name='rotor_{k}_joint' type='revolute'><parent>base</parent><child>rotor_{k}</child></joint>"
        for k, (x, y) in enumerate(PLACES)
    )


def motors(file: str, prefix: str = "") -> str:
    """The motor plug-ins."""
    return "".join(
        MOTOR.format(name=f"motor_{k}", file=file, link=f"{prefix}rotor_{k}", turn=turn, k=k)
        for k, turn in enumerate(TURNS)
    )


def write_sdf(directory: Path, plugins: str, body: str | None = None, name: str = "quad") -> Path:
    """A model's file with a name."""
    content = BASE + rotor_links() if body is None else body
    text = f"<sdf version='1.9'><model name='{name}'>{content}{plugins}</model></sdf>"
    path = directory / name / "model.sdf"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def channels(order: tuple[int, ...] = (0, 1, 2, 3)) -> str:
    """PX4's channels of Gazebo classic: the output of each motor."""
    inner = "".join(CHANNEL.format(k=k, index=index) for k, index in enumerate(order))
    return (
        "<plugin name='mavlink_interface' filename='libgazebo_mavlink_interface.so'>"
        f"<control_channels>{inner}</control_channels></plugin>"
    )
