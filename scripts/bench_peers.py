"""Measures other simulators of PX4 beside the bridge: `scripts/bench peers`.

Today that is PX4's own SIH, which runs within PX4.  Its clock is read from its MAVLink messages.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

from pymavlink.dialects.v20 import common as mavlink

from sitl_bridge.errors import UserError
from sitl_bridge.px4.find import Px4Build

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
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
        (directory / "console.txt").open("w") as console,
    ):
        sock.bind(("127.0.0.1", GROUND_STATION))
        sock.settimeout(SILENCE)
        px4 = subprocess.Popen(
            [str(build.executable), "-d", str(build.etc)],
            cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=console, stderr=console,
        )  # fmt: skip
        try:
            _simulated(sock, settle)
            passed, took = _simulated(sock, seconds)
        except TimeoutError as error:
            raise UserError(f"PX4 with SIH sends nothing; see {directory / 'console.txt'}") from error
        finally:
            px4.kill()
            px4.wait()
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
