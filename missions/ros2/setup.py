"""The nodes as an ament package: ``colcon build``, ``ros2 launch sitl_bridge_nodes vehicle.launch.py``."""

from pathlib import Path

from setuptools import setup

NAME = "sitl_bridge_nodes"
setup(
    name=NAME,
    version="1.0.0",
    packages=[],
    scripts=sorted(file.name for file in Path().glob("*.py") if file.name != "setup.py"),
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        (f"share/{NAME}/launch", ["launch/vehicle.launch.py"]),
    ],
)
