"""The pytest plug-in with real PX4: warm starts, side by side, failing tests, Ctrl-C and SIGKILL."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import sitl_bridge

pytestmark = pytest.mark.px4

ROOT = Path(sitl_bridge.__file__).parent.parent
PROGRAM = """
import pytest

@pytest.mark.parametrize("north", [6, 7, 8])
def test_leg(sitl, north):
    sitl.arm()
    sitl.take_off(4)
    sitl.go_to((north, 0, -4), within=1.0)
    assert sitl.reached((north, 0, -4), within=2.0)
    sitl.land()
    assert sitl.landed_within(2.5, of=(north, 0))

@pytest.mark.faults({"at": 14.0, "kind": "motor_loss", "motor": 1})
def test_motor(sitl):
    sitl.arm()
    sitl.take_off(10)
    sitl.run_until(lambda flight: not flight.armed, limit=60)
    assert sitl.landed_within(0.01)
"""


def command(place: Path, *options: str) -> list[str]:
    (place / "test_legs.py").write_text(PROGRAM, encoding="utf-8")
    plugin = ["-p", "sitl_bridge.testing.pytest_plugin", "-p", "no:cacheprovider", "--sitl-autopilot", "px4"]
    return [
        sys.executable,
        "-m",
        "pytest",
        *plugin,
        "--basetemp",
        str(place / "temp"),
        *options,
        "test_legs.py",
    ]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}


def px4s_of(place: Path) -> list[int]:
    """Processes of PX4 that work below a directory."""
    found = []
    for process in psutil.process_iter(["name", "status"]):
        try:
            if process.info["name"] == "px4" and str(place) in process.cwd():
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize("workers", ["0", "2"])
def test_flights_succeed_fail_and_leave_nothing_running(tmp_path: Path, workers: str) -> None:
    run = subprocess.run(
        command(tmp_path, "-n", workers, "-p", "xdist"),
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 3 passed" in run.stdout, run.stdout + run.stderr
    assert "flown by PX4" in run.stdout
    assert "summary.json" in run.stdout
    assert "report.html" in run.stdout
    assert px4s_of(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_session_that_is_ended_takes_its_px4s_along(
    tmp_path: Path, number: signal.Signals, wait_for: Callable[..., None]
) -> None:
    """One PX4 flies and one waits, when Ctrl-C or SIGKILL comes."""
    process = subprocess.Popen(command(tmp_path), cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: len(px4s_of(tmp_path)) >= 2, "two PX4s", 240.0)
        process.send_signal(number)
        process.wait(60.0)
    finally:
        process.kill()
    wait_for(lambda: px4s_of(tmp_path) == [], "the PX4s to end", 30.0)


def test_a_px4_that_has_settled_is_the_one_that_flies(tmp_path: Path) -> None:
    from sitl_bridge.api.pool import FlightPool
    from sitl_bridge.link.px4.find import find_px4
    from sitl_bridge.testing.flights import flight_of

    px4 = find_px4().root
    chosen = flight_of(
        ["iris"], None, None, (), {}, px4, alone=True, name="warm", runs=tmp_path, speed=math.inf
    )
    pool = FlightPool(warm=1, notify=pytest.fail)
    try:
        pool.prepare(chosen.settings)
        [waiting] = pool.waiting
        assert waiting.settled.wait(240.0)
        [settled] = px4s_of(tmp_path)
        flight = chosen.open(pool, linked=True)
        assert settled in px4s_of(tmp_path)
        flight.arm()
        flight.take_off(3.0)
        assert flight.within(1.0, of=(0, 0, -3))
        assert settled in px4s_of(tmp_path)
        flight.disarm(force=True)
        flight.close()
    finally:
        pool.close()
    assert px4s_of(tmp_path) == []
