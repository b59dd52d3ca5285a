"""Measures other simulators of PX4 beside the bridge: `scripts/bench peers`.

These are PX4's own SIH, which runs within PX4, and jMAVSim, where ``JMAVSIM_DIR`` names a checkout of it that
`ant create_run_jar copy_res` has built.  Simulated time is read from PX4's MAVLink messages.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from pymavlink.dialects.v20 import common as mavlink

from sitl_bridge.base.errors import UserError
from sitl_bridge.link.px4.find import Px4Build
from sitl_bridge.link.px4.px4_process import Px4Process

GROUND_STATION = 14550
"""UDP port to which PX4 sends by itself."""
SILENCE = 60.0
"""s of wall time without a message after which PX4 counts as failed."""


def sih_factor(build: Px4Build, directory: Path, seconds: float, settle: float) -> float:
    """Real-time factor of PX4's SIH with a quadrotor, disarmed.

    Raises:
        UserError: if this build has no SIH, or does not start.
    """
    if not (build.executable.parent / "px4-simulator_sih").exists():
        raise UserError(f"{build.root} was built without the module simulator_sih")
    directory.mkdir(parents=True)
    environment = {
        **os.environ,
        "PX4_SIM_MODEL": "sihsim_quadx",
        "PX4_SIM_SPEED_FACTOR": "1000",
        "PATH": f"{build.executable.parent}:{os.environ['PATH']}",
    }
    with _ground_station() as sock, (directory / "console.txt").open("w") as console:
        px4 = subprocess.Popen(
            [str(build.executable), "-d", str(build.etc)],
            cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=console, stderr=console,
        )  # fmt: skip
        try:
            return _factor(sock, seconds, settle)
        except TimeoutError as error:
            raise UserError(f"PX4 with SIH sends nothing; {_last_line(directory)}") from error
        finally:
            px4.kill()
            px4.wait()


def jmavsim_archive() -> Path | None:
    """The program of the jMAVSim in ``JMAVSIM_DIR``; None if the variable is not set.

    Raises:
        UserError: if that directory has no built jMAVSim, or Java is missing.
    """
    checkout = os.environ.get("JMAVSIM_DIR")
    if not checkout:
        return None
    archive = Path(checkout).expanduser().resolve() / "out" / "production" / "jmavsim_run.jar"
    if not archive.is_file():
        raise UserError(
            f"JMAVSIM_DIR: {archive} is missing; build it there with `ant create_run_jar copy_res`"
        )
    if shutil.which("java") is None:
        raise UserError(
            "JMAVSIM_DIR is set, but there is no java on PATH; on Debian: apt install default-jre"
        )
    return archive


def jmavsim_factor(
    archive: Path,
    port: int,
    start_px4: Callable[[], Px4Process],
    directory: Path,
    seconds: float,
    settle: float,
) -> float:
    """Real-time factor of jMAVSim's quadrotor at 250 Hz in lockstep, without a window, disarmed.

    Raises:
        UserError: if no PX4 answers.
    """
    directory.mkdir(parents=True)
    # As PX4's Tools/simulation/jmavsim/jmavsim_run.sh starts it.
    command = ["java", "-Djava.ext.dirs=", "-XX:GCTimeRatio=20", "-jar", str(archive)]
    command += ["-tcp", f"127.0.0.1:{port}", "-r", "250", "-lockstep", "-no-gui"]
    environment = {**os.environ, "PX4_SIM_SPEED_FACTOR": "100"}
    with _ground_station() as sock, (directory / "console.txt").open("w") as console:
        simulator = subprocess.Popen(
            command,
            cwd=archive.parent, env=environment, stdin=subprocess.DEVNULL, stdout=console, stderr=console,
        )  # fmt: skip
        try:
            px4 = start_px4()
            try:
                return _factor(sock, seconds, settle)
            finally:
                px4.stop()
        except TimeoutError as error:
            raise UserError(f"PX4 with jMAVSim sends nothing; {_last_line(directory)}") from error
        finally:
            simulator.kill()
            simulator.wait()


def _last_line(directory: Path) -> str:
    """The last line of a simulator's output."""
    lines = (directory / "console.txt").read_text(encoding="utf-8", errors="replace").split("\n")
    return "its last line: " + next((line for line in reversed(lines) if line.strip()), "none")


def _ground_station() -> socket.socket:
    """A listener on the port to which PX4 sends by itself."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", GROUND_STATION))
    sock.settimeout(SILENCE)
    return sock


def _factor(sock: socket.socket, seconds: float, settle: float) -> float:
    """Real-time factor over ``seconds``, after ``settle`` s, both in wall time."""
    _simulated(sock, settle)
    passed, took = _simulated(sock, seconds)
    return passed / took


def _simulated(sock: socket.socket, seconds: float) -> tuple[float, float]:
    """Simulated and wall time in s between the first and the last time stamp of a period of wall time."""
    parser = mavlink.MAVLink(None)
    parser.robust_parsing = True
    first: tuple[float, float] | None = None
    while True:
        for message in parser.parse_buffer(sock.recv(65536)) or []:
            stamp = getattr(message, "time_boot_ms", None)
            if not stamp:
                continue
            now = (stamp * 1e-3, time.monotonic())
            first = first or now
            if now[1] - first[1] > seconds:
                return now[0] - first[0], now[1] - first[1]
