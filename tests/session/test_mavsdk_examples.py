"""MAVSDK-Python's own examples, unchanged, on the built-in stack and on real PX4.

They are not part of this repository.  ``MAVSDK_EXAMPLES`` names the directory ``examples`` of a checkout of
https://github.com/mavlink/MAVSDK-Python, ``MAVSDK3_PYTHON`` the interpreter of an environment with
``mavsdk<4`` (and ``anyio``), ``MAVSDK4_EXAMPLES`` the directory ``py/mavsdk/examples`` of a checkout of
https://github.com/mavlink/MAVSDK, whose examples run in this environment.  They fly at real time, for they
sleep by the wall's clock.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.paths import ROOT

from sitl_bridge.link.px4.find import find_px4
from sitl_bridge.link.px4.versions import NEWEST, release

ENDS, RUNS_ON = "ends", "runs on"


@dataclass(frozen=True)
class Example:
    """An example that suits a multirotor, and what comes of it on both stacks.

    Attributes:
        path: in the directory of examples.
        end: ENDS by itself with exit code 0, or RUNS_ON until it is stopped.
        says: lines it prints, in this order.
        flies: whether the vehicle takes off.
        limit: s of simulated time after which it is stopped.
        arguments: handed to it.
        refused: why PX4 main of February and March 2026 (v1.17 alpha) refuses it; empty if it does not.
    """

    path: str
    end: str
    says: tuple[str, ...]
    flies: bool = False
    limit: int = 60
    arguments: tuple[str, ...] = ()
    refused: str = ""


SUITABLE = (
    Example("all_params.py", ENDS, ("MPC_XY_CRUISE: 5.0",)),
    Example(
        "do_orbit.py",
        ENDS,
        ("Do orbit at 10m height", "--- Landing"),
        True,
        150,
        refused="MAVSDK sends the orbit in MAV_FRAME_GLOBAL (PX4 pull request 26408)",
    ),
    Example(
        "failure_injection.py",
        ENDS,
        ("-- Injecting GPS failure", "-- Disabling failure injection"),
        True,
        100,
    ),
    Example("firmware_version.py", ENDS, ("Version: [",)),
    Example("follow_me_example.py", ENDS, ("-- Following Target", "-- Landing"), True, 80),
    Example("geofence.py", ENDS, ("Geofence uploaded!",)),
    Example("goto.py", RUNS_ON, ("-- Taking off", "Staying connected"), True, 50),
    Example("highres_imu.py", RUNS_ON, ("HIGHRES_IMU (105)",), limit=20),
    Example("logfile_download.py", ENDS, ("Downloading: log ",), limit=150),
    Example("manual_control.py", RUNS_ON, ("-- Taking off", "-- Starting manual control"), True, 40),
    Example("mission.py", ENDS, ("-- Starting mission", "Mission progress: 3/3"), True, 200),
    Example("mission_import.py", ENDS, ("5 mission items and2 rally items imported.", "Mission uploaded")),
    Example("mission_raw.py", ENDS, ("-- Uploading mission", "-- Done")),
    Example("offboard_attitude.py", ENDS, ("-- Go up at 70% thrust", "-- Stopping offboard"), True, 80),
    Example("offboard_from_csv/offboard_from_csv.py", ENDS, ("-- Starting offboard",), True, 220),
    Example("offboard_position_ned.py", ENDS, ("-- Starting offboard", "-- Stopping offboard"), True, 100),
    Example("offboard_position_velocity_ned.py", ENDS, ("-- Starting offboard",), True, 100),
    Example("offboard_velocity_body.py", ENDS, ("-- Starting offboard", "-- Stopping offboard"), True, 120),
    Example("offboard_velocity_ned.py", ENDS, ("-- Starting offboard", "-- Stopping offboard"), True, 100),
    Example("send_status_message.py", ENDS, ("Connected to drone!",)),
    Example("takeoff_and_land.py", ENDS, ("-- Taking off", "-- Landing"), True),
    Example("telemetry.py", RUNS_ON, ("Battery: ", "GPS info: "), limit=20),
    Example("telemetry_flight_mode.py", RUNS_ON, ("FlightMode: ",), limit=20),
    Example("telemetry_is_armed_is_in_air.py", RUNS_ON, ("Is_armed: False",), limit=20),
    Example("telemetry_takeoff_and_land.py", ENDS, ("-- Taking off", "-- Landing"), True, 80),
)
"""Those with the same outcome on both stacks."""

URL = "udpin://0.0.0.0:14540"
MAVSDK_4 = (
    Example("mission.py", ENDS, ("Creating and uploading mission",), True, 150, (URL,)),
    Example("takeoff_and_land.py", ENDS, ("Taking off...", "Mission complete!"), True),
)
"""Of MAVSDK 4; the others need a camera, calibrate, or list what these use anyway."""

UNSUITABLE = {
    "calibration.py": "PX4 wants the vehicle turned by hand; the built-in stack has nothing to calibrate",
    "camera.py": "needs a camera",
    "camera_params.py": "needs a camera",
    "ftp_download_file.py": "is written for a serial port",
    "ftp_list_dir.py": "is written for a serial port and a server of its own",
    "gimbal.py": "needs a gimbal",
    "gripper.py": "needs a gripper",
    "mavlink_direct_receive.py": "waits for a message the vehicle does not send by itself",
    "mavlink_direct_send.py": "sends to the ground what no vehicle answers",
    "px4_ev_automation.py": "waits for keys or for a motion-capture system",
    "px4_ev_automation_keyboard.py": "is steered by a keyboard",
    "rtcm.py": "needs a base station",
    "rtk_base_ublox.py": "needs a base station",
    "shell.py": "is typed into; the built-in stack has no shell",
    "show_debug_output.py": "connects to nothing, on purpose",
    "telemetry_status_text.py": "prints only what the vehicle happens to say",
    "transponder.py": "needs other aircraft",
    "tune.py": "needs a buzzer",
    "upload_params.py": "needs a file of parameters",
    "winch.py": "needs a winch",
}
"""Those left out, and why."""


def directory(variable: str) -> Path:
    """What a variable names; skips where it names nothing."""
    named = os.environ.get(variable)
    if not named or not Path(named).exists():
        pytest.skip(f"{variable} names no checkout of MAVSDK's examples")
    return Path(named)


def interpreter() -> str:
    named = os.environ.get("MAVSDK3_PYTHON")
    if not named or not os.access(named, os.X_OK):
        pytest.skip("MAVSDK3_PYTHON names no interpreter of an environment with mavsdk<4")
    return named


def fly(example: Example, examples: Path, tmp_path: Path, *options: str) -> None:
    """Fly a copy of an example from its own directory, which it reads and writes, and judge it."""
    copied = tmp_path / "examples"
    shutil.copytree(examples, copied)
    script = copied / example.path
    command = [sys.executable, "-m", "sitl_bridge.cli.main", "fly", script.name, "--headless"]
    command += ["--time-limit", str(example.limit), "--runs-dir", str(tmp_path / "runs"), *options]
    command += ["--", *example.arguments]
    done = subprocess.run(
        command,
        cwd=script.parent,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=example.limit * 4 + 200,
        check=False,
    )
    output = done.stdout + done.stderr
    at = 0
    for line in example.says:
        assert line in output[at:], output
        at = output.index(line, at)
    ended = "the time limit of" not in output
    assert ended == (example.end == ENDS), output
    if ended:
        assert done.returncode == 0, output
    assert ("it never left the ground" not in output) == example.flies, output


@pytest.mark.slow
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("example", SUITABLE, ids=lambda example: example.path)
def test_an_example_of_mavsdk_3_flies_on_the_built_in_stack(example: Example, tmp_path: Path) -> None:
    python = interpreter()
    fly(example, directory("MAVSDK_EXAMPLES"), tmp_path, "--python", python, "--autopilot", "builtin")


@pytest.mark.px4
@pytest.mark.slow
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("example", SUITABLE, ids=lambda example: example.path)
def test_an_example_of_mavsdk_3_flies_on_real_px4(example: Example, tmp_path: Path) -> None:
    python = interpreter()
    version = find_px4().version
    if example.refused and (release(version) or NEWEST) > (1, 16):
        pytest.skip(f"PX4 {version}: {example.refused}")
    fly(example, directory("MAVSDK_EXAMPLES"), tmp_path, "--python", python, "--autopilot", "px4")


@pytest.mark.slow
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("example", MAVSDK_4, ids=lambda example: example.path)
def test_an_example_of_mavsdk_4_flies_on_the_built_in_stack(example: Example, tmp_path: Path) -> None:
    fly(example, directory("MAVSDK4_EXAMPLES"), tmp_path, "--autopilot", "builtin")


@pytest.mark.slow
def test_every_example_is_in_a_table() -> None:
    examples = directory("MAVSDK_EXAMPLES")
    found = {str(path.relative_to(examples)) for path in examples.rglob("*.py")}
    assert found == {example.path for example in SUITABLE} | set(UNSUITABLE)
