"""The compose files on a container engine: one vehicle, three of another airframe, a broker, a mission in CI.

The images have to be there: `sitl-bridge`, those of the compose files, and in ``PX4_IMAGES`` (separated by
spaces) further images of PX4.  The address of the engine is in ``DOCKER_HOST``.  Ports 14540 and 14550 of
this machine have to be free.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pymavlink.dialects.v20 import common as mavlink
from support.paths import ROOT

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1500)]
PX4_IMAGES = os.environ.get("PX4_IMAGES", "px4io/px4-sitl:v1.17.0").split()
COMPOSE = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]


class Project:
    """Services of compose files, under a project name of their own."""

    def __init__(self, *files: str, **variables: str) -> None:
        self.command = [*COMPOSE, "-p", f"sitl-test-{os.getpid()}"]
        for file in files:
            self.command += ["-f", str(ROOT / file)]
        self.environment = {**os.environ, **variables}

    def run(self, *words: str, timeout: float = 300.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.command, *words],
            env=self.environment, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip

    def logs(self) -> str:
        return self.run("logs", "--no-color").stdout

    def container(self, service: str) -> str:
        return self.run("ps", "-q", service).stdout.strip()


@contextmanager
def running(*files: str, **variables: str) -> Iterator[Project]:
    """Services in the background; removed with their volumes at the end."""
    project = Project(*files, **variables)
    try:
        started = project.run("up", "-d", "--no-build")
        assert started.returncode == 0, started.stderr
        yield project
    finally:
        project.run("down", "-v", "-t", "5")


def systems(sock: socket.socket, seen: set[int]) -> None:
    """Add the system ids of the MAVLink messages that have arrived."""
    parser = mavlink.MAVLink(None)
    parser.robust_parsing = True
    sock.settimeout(1.0)
    try:
        for _ in range(200):
            data = sock.recv(4096)
            seen |= {message.get_srcSystem() for message in parser.parse_buffer(data) or []}
    except TimeoutError:
        return


def ground_station() -> socket.socket:
    """A listener on QGroundControl's port."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("0.0.0.0", 14550))
    return sock


def mission(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A mission that runs on this machine."""
    program = [sys.executable, "-m", "sitl_bridge.cli.main", "mission", name]
    return subprocess.run(
        [*program, "--url", "udpin://0.0.0.0:14540", *words],
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("image", PX4_IMAGES)
def test_a_mission_of_the_host_flies_one_vehicle_that_a_ground_station_finds(
    image: str, wait_for: Callable[..., None]
) -> None:
    with running("docker/compose.yaml", PX4_IMAGE=image) as project, ground_station() as sock:
        seen: set[int] = set()

        def found() -> bool:
            systems(sock, seen)
            return 1 in seen

        wait_for(found, "a heartbeat on port 14550", 300.0)
        flown = mission("hover.py", "--", "--seconds", "5")
        assert flown.returncode == 0, flown.stdout + flown.stderr + project.logs()
        assert "mission succeeded" in flown.stdout
        (facts,) = json.loads(
            subprocess.run(
                ["docker", "inspect", project.container("bridge")],
                env=project.environment, capture_output=True, text=True, check=True,
            ).stdout
        )  # fmt: skip
        assert facts["Config"]["User"] == "bridge"
        assert facts["State"]["Health"]["Status"] == "healthy"
        project.run("stop")
        stopped = project.logs()
    assert "Traceback" not in stopped


@pytest.mark.parametrize("image", PX4_IMAGES)
def test_three_vehicles_of_another_airframe_by_one_variable(
    image: str, wait_for: Callable[..., None]
) -> None:
    with (
        running("docker/compose.yaml", PX4_IMAGE=image, VEHICLES="3", AIRFRAME="firefly") as project,
        ground_station() as sock,
    ):
        seen: set[int] = set()

        def found() -> bool:
            systems(sock, seen)
            return {1, 2, 3} <= seen

        wait_for(found, "heartbeats of three vehicles", 300.0)
        wait_for(
            lambda: project.logs().count("Ready for takeoff!") >= 3, "three vehicles that can take off", 300.0
        )


def test_the_bus_is_on_mosquitto(wait_for: Callable[..., None]) -> None:
    with running("docker/compose.yaml", "docker/compose.mosquitto.yaml") as project:

        def published() -> bool:
            words = ("exec", "-T", "mosquitto", "mosquitto_sub", "-t", "#", "-C", "1", "-W", "5")
            done = project.run(*words)
            return done.returncode == 0 and bool(done.stdout.strip())

        wait_for(published, "a message on the broker", 300.0)


@pytest.mark.parametrize("image", PX4_IMAGES)
@pytest.mark.parametrize(("name", "succeeds"), [("square.plan", True), ("/missions/failing.py", False)])
def test_in_ci_the_exit_code_is_that_of_the_mission(
    image: str, name: str, succeeds: bool, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "failing.py").write_text("raise SystemExit(3)\n", encoding="utf-8")
    project = Project("compose.ci.yaml", PX4_IMAGE=image, MISSION=name, MISSIONS=str(tmp_path))
    try:
        done = project.run("up", "--no-build", "--exit-code-from", "mission", timeout=1200.0)
        assert (done.returncode == 0) == succeeds, done.stdout + done.stderr
    finally:
        project.run("down", "-v", "-t", "5")


def test_the_message_about_a_wrong_option_is_on_the_screen_of_up() -> None:
    for file in ("docker/compose.yaml", "compose.ci.yaml"):
        project = Project(file, AIRFRAME="x5000")
        try:
            done = project.run("up", "--no-build")
            assert "no airframe is called 'x5000', did you mean 'x500'?" in done.stdout + done.stderr
        finally:
            project.run("down", "-v", "-t", "5")


def test_up_ends_with_the_bridge_and_the_logs_are_in_the_volume(wait_for: Callable[..., None]) -> None:
    with running("docker/compose.yaml") as project:
        wait_for(lambda: "Ready for takeoff!" in project.logs(), "PX4", 300.0)
        found = project.run("exec", "-T", "bridge", "find", "/home/bridge/runs", "-name", "*.ulg")
        assert found.stdout.strip()
        project.run("kill", "bridge")
        wait_for(lambda: "the bridge has ended" in project.logs(), "PX4 to end", 60.0)
