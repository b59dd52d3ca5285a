"""SIGKILL of each process of a flight in turn: one sentence, logs that open, and nothing left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest
from pyulog import ULog

from sitl_bridge.record.truth_log import read_truth

# Flights wait for whoever else uses the machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parent.parent
INSTANCE = "85"
"""Of the flight stack, beyond those that other tests use."""

MISSION = "missions/hover.py"

KILLED = {
    "bridge": ("sitl_bridge.cli.main", -signal.SIGKILL, ""),
    "stack": ("sitl_bridge.autopilot", 1, "the built-in flight stack was ended by SIGKILL"),
    "mission": (MISSION, 1, "the mission was ended by SIGKILL"),
    "bus": ("sitl_bridge.bus.client", 1, "the bus was ended by SIGKILL"),
}
"""A word of the process's command line, the flight's exit code, and what is said of it."""


def family(bridge: psutil.Process) -> list[psutil.Process]:
    """The flight's processes."""
    return [bridge, *bridge.children(recursive=True)]


def runs(process: psutil.Process, word: str) -> bool:
    """Whether a process runs that itself, and does not only start or keep what does."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    keeps = any(part.endswith("launch.py") for part in words)
    starts = word == MISSION and "sitl_bridge.cli.main" in words
    return word in words and not keeps and not starts


def gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("victim", KILLED)
def test_what_is_killed_is_named_and_leaves_nothing(
    victim: str, tmp_path: Path, wait_for: Callable[..., None]
) -> None:
    word, status, said = KILLED[victim]
    command = [sys.executable, "-m", "sitl_bridge.cli.main", "fly", MISSION, "--headless"]
    options = ["--autopilot", "builtin", "--speed", "4", "--instance", INSTANCE, "--bus", "embedded"]
    log = tmp_path / "out"
    with log.open("w") as out:
        flight = subprocess.Popen(
            [*command, *options, "--runs-dir", str(tmp_path / "runs"), "--", "--seconds", "20"],
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        bridge = psutil.Process(flight.pid)
        wait_for(lambda: "hovering for" in log.read_text(), "the hover", 300.0)
        processes = family(bridge)
        assert len(processes) >= 6, "bridge, stack, keeper, mission, bus and broker"
        (killed,) = (process for process in processes if runs(process, word))
        killed.kill()
        assert flight.wait(300.0) == status
        wait_for(lambda: all(gone(process) for process in processes), "everything to end")
    finally:
        flight.kill()
        flight.wait()
    words = " ".join(log.read_text().split())
    assert "Traceback" not in words
    assert said in words
    run = (tmp_path / "runs" / "latest").resolve()
    truth = read_truth(run / "truth.npy")
    assert len(truth) > 2000
    assert np.all(np.diff(truth["time"]) == 4000)
    assert len(ULog(str(run / "autopilot" / "log" / "flight.ulg")).data_list) > 5
    assert (run / "console.log").read_text().endswith("\n")
    assert (run / "summary.json").is_file() == (victim != "bridge")
