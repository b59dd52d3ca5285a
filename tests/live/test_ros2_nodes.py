"""The run as a ROS 2 graph with real nodes: rclpy on rmw_fastrtps_cpp, ROS 2's default middleware.

They run in an environment of their own, that of ROS2_PYTHON or .venv-ros2; ``scripts/test -m ros2`` makes it.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.background_process import background_process
from support.paths import MISSIONS, ROOT

from sitl_bridge.link.px4.find import find_px4
from sitl_bridge.live.ros2.types import type_hash

MESSAGES = int(os.environ.get("ROS2_MESSAGES", "1500"))
"""That a slow node takes."""
PYTHON = Path(os.environ.get("ROS2_PYTHON", ROOT / ".venv-ros2" / "bin" / "python"))
SUPPORT = ROOT / "tests" / "support"
DOMAIN = 120 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
ENVIRONMENT = os.environ | {"ROS_DOMAIN_ID": str(DOMAIN), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
INSTANCE = 96
"""Of the first flight stack, beyond those that other tests use."""
END = 600.0 + 0.05 * MESSAGES
"""s of wall time for a node's work, on a busy machine."""
pytestmark = [pytest.mark.ros2, pytest.mark.timeout(2.0 * END)]
BUFFER = 4_194_304
"""Bytes of a node's socket with missions/ros2/fastdds_buffers.xml."""
PLAYING, PAUSED = 1, 2
UNSUPPORTED, OK, NOT_FOUND, FAILED, ALREADY = 0, 1, 2, 4, 101
"""States and results of simulation_interfaces (SimulationState.msg, Result.msg, SetSimulationState.srv)."""


def _needs(package: str) -> None:
    """Skip the test where ROS has no such package; PyPI has no wheels of it."""
    done = subprocess.run([str(PYTHON), "-c", f"import {package}"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"the environment of {PYTHON} has no {package}; build it from its source")


def until(done: Callable[[], bool]) -> None:
    """Wait for what another process brings about."""
    end = time.monotonic() + END
    while not done():
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.fixture(autouse=True)
def _needs_ros() -> None:
    if not PYTHON.is_file():
        pytest.skip(
            f"no environment with rclpy at {PYTHON}; scripts/test -m ros2 makes it from PyPI (CPython 3.11)"
        )


def run_command(place: Path, *arguments: str) -> list[str]:
    """Runs the built-in stack with ROS 2."""
    command = [sys.executable, "-m", "sitl_bridge.cli.main", *arguments, "--autopilot", "builtin", "--ros2"]
    return [*command, "--instance", str(INSTANCE), "--runs-dir", str(place / "runs"), "--headless"]


@contextlib.contextmanager
def running(place: Path, *arguments: str) -> Iterator[Path]:
    """A run with ROS 2; its output's file."""
    with background_process(run_command(place, *arguments), place / "out", env=ENVIRONMENT):
        yield place / "out"


def node(program: Path, *arguments: object, **environment: str) -> list[Any]:
    """Run a node to its end; its output's lines, of JSON where they are."""
    done = subprocess.run(
        [str(PYTHON), str(program), *map(str, arguments)],
        env=ENVIRONMENT | environment,
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
        "/vehicle_0/estimate/odometry": "vehicle_0/odom",
        "/vehicle_0/fix": "vehicle_0/base_link/gps",
        "/vehicle_0/fix_velocity": "map",
        "/vehicle_0/imu": "vehicle_0/base_link/imu",
        "/vehicle_0/magnetic_field": "vehicle_0/base_link/magnetometer",
        "/vehicle_0/odometry": "map",
        "/vehicle_0/pressure": "vehicle_0/base_link/barometer",
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
    ("airframe", "end"),
    [
        ("iris_camera", "camera_0/cam0"),
        ("iris_camera", "camera_0/cam0/compressed"),
        ("iris_depth", "depth_camera_0/depth"),
        ("iris_lidar", "lidar_0/points"),
        ("iris_scanner", "scanner_0/scan"),
    ],
)
def test_pictures_clouds_and_scans_reach_a_best_effort_node(
    tmp_path: Path, airframe: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not end.endswith(("compressed", "scan")):  # of more than a socket holds by default
        most = int(Path("/proc/sys/net/core/rmem_max").read_text())
        if most < BUFFER:
            pytest.skip(f"net.core.rmem_max is {most}: sudo sysctl -w net.core.rmem_max={BUFFER}")
        profile = MISSIONS / "ros2" / "fastdds_buffers.xml"
        monkeypatch.setitem(ENVIRONMENT, "FASTDDS_DEFAULT_PROFILES_FILE", str(profile))
    with running(tmp_path, "start", "--airframe", airframe):
        (seen,) = node(SUPPORT / "ros_listener.py", 15, "best_effort", 5, end)
    found = seen["topics"][f"/vehicle_0/{end}"]
    assert found["count"] >= 0.9 * found["sent"], found


def test_pictures_are_looked_at(tmp_path: Path) -> None:
    look = [str(PYTHON), str(MISSIONS / "ros2" / "look.py")]
    for airframe, topic, shown in (
        ("iris_depth", "/vehicle_0/depth_camera_0/depth", "mean"),
        ("iris_scanner", "/vehicle_0/scanner_0/scan", "nearest"),
    ):
        with (
            running(tmp_path, "start", "--airframe", airframe),
            background_process([*look, topic], tmp_path / airframe, env=ENVIRONMENT),
        ):
            until(lambda: shown in (tmp_path / airframe).read_text())  # noqa: B023  (called at once)


def test_a_vehicle_follows_another_by_poses(tmp_path: Path) -> None:
    with running(tmp_path, "start", "-n", "2", "--speed", "3"):
        node(SUPPORT / "ros_take_off.py", "vehicle_0", "vehicle_1")
        assert node(MISSIONS / "ros2" / "follow.py") == ["followed vehicle_0"]


def test_the_simulation_is_paused_stepped_resumed_and_reset_by_services(tmp_path: Path) -> None:
    _needs("simulation_interfaces")
    services = [str(PYTHON), str(MISSIONS / "ros2" / "simulation.py"), *run_command(tmp_path, "start")]
    with background_process(services, tmp_path / "services", env=ENVIRONMENT):
        (found,) = node(SUPPORT / "ros_simulation_caller.py")
    assert found == {
        "features": True,
        "begun": [PLAYING, OK],
        "refused_step": FAILED,
        "pause": OK,
        "again": ALREADY,
        "paused": [PAUSED, OK],
        "step": [OK, 25],
        "moved": OK,
        "place": [3.0, 4.0],
        "unknown": NOT_FOUND,
        "stop": UNSUPPORTED,
        "resume": OK,
        "resumed": [PLAYING, OK],
        "part": UNSUPPORTED,
        "forward": True,
        "reset": OK,
        "anew": [0, 0],
        "again_paused": OK,
        "back": 1,
    }
    ended = (tmp_path / "runs").glob("*-start/summary.json")
    assert len(list(ended)) == 2  # both runs, by themselves


@pytest.mark.px4
@pytest.mark.parametrize("speed", ["1", "5"])
def test_px4_flies_in_offboard_by_its_own_topics(tmp_path: Path, speed: str) -> None:
    _needs("px4_msgs")
    agent = os.environ.get("MICROXRCE_AGENT") or shutil.which("MicroXRCEAgent")
    if agent is None:
        pytest.skip("no MicroXRCEAgent in PATH, and no MICROXRCE_AGENT names one")
    px4 = find_px4()
    if not (px4.root / "bin" / "px4-uxrce_dds_client").exists():
        pytest.skip(f"{px4.root} is built without its uXRCE-DDS client")
    command = [sys.executable, "-m", "sitl_bridge.cli.main", "start", "--px4", str(px4.root), "--headless"]
    command += ["--speed", speed, "--runs-dir", str(tmp_path / "runs")]
    with (
        background_process([agent, "udp4", "-p", "8888"], tmp_path / "agent"),
        background_process(command, tmp_path / "out"),
    ):
        flown = node(MISSIONS / "ros2" / "px4_offboard.py", ROS_DOMAIN_ID="0")
    assert flown[-1].startswith("held ")
    assert float(flown[-1].split()[1]) == pytest.approx(5.0, abs=0.3)
    assert sum("mode 14" in line and "armed True" in line for line in flown) == 1  # Offboard, never left


@pytest.mark.parametrize("name", ["teleoperate", "waypoints", "follow", "look"])
def test_a_node_of_a_papers_use_has_30_lines(name: str) -> None:
    text = (MISSIONS / "ros2" / f"{name}.py").read_text()
    docstring = ast.parse(text).body[0].end_lineno
    assert len([line for line in text.splitlines()[docstring:] if line.strip()]) <= 30


def test_a_node_takes_off_flies_by_twists_and_lands(tmp_path: Path) -> None:
    with running(tmp_path, "start", "--speed", "3"):
        answers = node(MISSIONS / "ros2" / "teleoperate.py")
    accepted = [answer["topic"].rpartition("/")[2] for answer in answers if answer["accepted"]]
    assert (accepted[0], accepted[-1]) == ("take_off", "land")
    assert "cmd_vel" in accepted


def test_commands_that_nodes_send_once_and_leave_are_answered(tmp_path: Path) -> None:
    with running(tmp_path, "start"):
        assert node(SUPPORT / "ros_once.py", 20) == [[20]]


def test_services_are_offered_by_a_node_and_poses_are_waypoints(tmp_path: Path) -> None:
    services = [str(PYTHON), str(MISSIONS / "ros2" / "services.py")]
    services += ["--ros-args", "-p", "use_sim_time:=true"]  # as from a launch file
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
    with running(tmp_path, "start", "--speed", "5", "--ros2-wait", "/slow") as out:
        (seen,) = node(SUPPORT / "ros_slow_node.py", MESSAGES)
        assert "has not answered" not in out.read_text()
    assert seen["missed"] == {"clock": 0, "imu": 0}
    assert seen["taken"]["clock"] == MESSAGES
