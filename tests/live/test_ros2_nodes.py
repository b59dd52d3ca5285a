"""The run as a ROS 2 graph with real nodes: rclpy on rmw_fastrtps_cpp, ROS 2's default middleware.

They run in an environment of their own, that of ROS2_PYTHON or .venv-ros2; ``scripts/test -m ros2`` makes it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.background_process import background_process
from support.paths import MISSIONS, ROOT

from sitl_bridge.live.ros2.types import type_hash

pytestmark = [pytest.mark.ros2, pytest.mark.timeout(1200)]
PYTHON = Path(os.environ.get("ROS2_PYTHON", ROOT / ".venv-ros2" / "bin" / "python"))
SUPPORT = ROOT / "tests" / "support"
DOMAIN = 120 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
ENVIRONMENT = os.environ | {"ROS_DOMAIN_ID": str(DOMAIN), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
INSTANCE = 96
"""Of the first flight stack, beyond those that other tests use."""
END = 600.0
"""s of wall time for a node's work, on a busy machine."""


@pytest.fixture(autouse=True)
def _needs_ros() -> None:
    if not PYTHON.is_file():
        pytest.skip(
            f"no environment with rclpy at {PYTHON}; scripts/test -m ros2 makes it from PyPI (CPython 3.11)"
        )


@contextlib.contextmanager
def running(place: Path, *arguments: str) -> Iterator[Path]:
    """The built-in stack with ROS 2; its output's file."""
    command = [sys.executable, "-m", "sitl_bridge.cli.main", *arguments, "--autopilot", "builtin", "--ros2"]
    command += ["--instance", str(INSTANCE), "--runs-dir", str(place / "runs"), "--headless"]
    with background_process(command, place / "out", env=ENVIRONMENT):
        yield place / "out"


def node(program: Path, *arguments: object) -> list[Any]:
    """Run a node to its end; its output's lines, of JSON where they are."""
    done = subprocess.run(
        [str(PYTHON), str(program), *map(str, arguments)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=END,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "failed to create" not in done.stderr  # a sample that cannot be understood
    return [json.loads(line) if line[:1] in ("{", "[") else line for line in done.stdout.splitlines()]


@pytest.mark.parametrize("reliability", ["best_effort", "reliable"])
def test_every_topic_reaches_a_node(tmp_path: Path, reliability: str) -> None:
    with running(tmp_path, "start", "--airframe", "iris_full"):
        (seen,) = node(SUPPORT / "ros_listener.py", 20, reliability, 5)
    assert "/sitl_bridge" in seen["nodes"]
    frames = {
        "/clock": None,
        "/vehicle_0/battery": "vehicle_0/base_link",
        "/vehicle_0/fix": "vehicle_0/base_link",
        "/vehicle_0/imu": "vehicle_0/base_link",
        "/vehicle_0/magnetic_field": "vehicle_0/base_link",
        "/vehicle_0/odometry": "map",
        "/vehicle_0/pressure": "vehicle_0/base_link",
        "/vehicle_0/rotors": "",
        "/vehicle_0/wind": "map",
    }
    topics = seen["topics"]
    for topic, frame in frames.items():
        found = topics[topic]
        assert (topic, found["count"] > 0, found.get("frame")) == (topic, True, frame)
        package, _, kind = found["type"].split("/")
        assert found["hash"] == type_hash(f"{package}/{kind}")
        assert found["back"] == 0
        assert found["qos"] == ["RELIABLE", "VOLATILE"]
    assert seen["missing"].keys() <= {"/tf", "/tf_static", "/vehicle_0/motor_commands"}  # no wheels of these


@pytest.mark.parametrize(
    ("airframe", "ends"),
    [
        ("iris_camera", ["camera_0/cam0"]),
        ("iris_depth", ["depth_camera_0/depth"]),
        ("iris_lidar", ["lidar_0/points"]),
        ("iris_scanner", ["scanner_0/scan"]),
    ],
)
def test_pictures_clouds_and_scans_reach_a_best_effort_node(
    tmp_path: Path, airframe: str, ends: list[str]
) -> None:
    with running(tmp_path, "start", "--airframe", airframe):
        (seen,) = node(SUPPORT / "ros_listener.py", 15, "best_effort", 5, ",".join(ends))
    for end in ends:
        found = seen["topics"][f"/vehicle_0/{end}"]
        assert found["count"] >= 0.9 * found["sent"], found


def test_a_node_takes_off_flies_by_twists_and_lands(tmp_path: Path) -> None:
    with running(tmp_path, "start", "--speed", "3"):
        answers = node(MISSIONS / "ros2" / "teleoperate.py")
    accepted = [answer["topic"].rpartition("/")[2] for answer in answers if answer["accepted"]]
    assert (accepted[0], accepted[-1]) == ("take_off", "land")
    assert "cmd_vel" in accepted


def test_services_are_offered_by_a_node_and_poses_are_waypoints(tmp_path: Path) -> None:
    services = [str(PYTHON), str(MISSIONS / "ros2" / "services.py")]
    with (
        running(tmp_path, "start", "--speed", "3"),
        background_process(services, tmp_path / "services", env=ENVIRONMENT, stop=signal.SIGKILL),
    ):
        (*_, flown) = node(SUPPORT / "ros_caller.py", "/vehicle_0/take_off!")
        reached = node(MISSIONS / "ros2" / "waypoints.py")
        (landed,) = node(SUPPORT / "ros_caller.py", "/vehicle_0/land")
    assert flown == ["/vehicle_0/take_off", True, ""]
    assert [line.split()[0] for line in reached] == ["reached"] * 3
    assert landed == ["/vehicle_0/land", True, ""]


def test_a_slow_node_that_time_waits_for_loses_nothing(tmp_path: Path) -> None:
    count = int(os.environ.get("ROS2_MESSAGES", "1500"))
    with running(tmp_path, "start", "--speed", "5", "--ros2-wait", "/slow") as out:
        (seen,) = node(SUPPORT / "ros_slow_node.py", count)
        assert "has not answered" not in out.read_text()
    assert seen["missed"] == {"clock": 0, "imu": 0}
    assert seen["taken"]["clock"] == count
