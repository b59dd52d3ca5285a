"""SIGKILL of each process of a flight in turn: one sentence, logs that open, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pytest
from support.paths import ROOT
from support.vehicle_logs import read_flight
from support.waiting import is_gone

from sitl_bridge.link.hil.ports import FIRST_PORT, offboard_port
from sitl_bridge.link.px4.px4_process import require_free_instance
from sitl_bridge.record.truth_log import read_truth

# Flights wait for whoever else uses the machine.
pytestmark = pytest.mark.timeout(600)

INSTANCE = 85
"""Of the flight stack, beyond those that other tests use."""

MISSION = "missions/hover.py"
KEEPER = "keeper"


@dataclass(frozen=True)
class Victim:
    """A process of a flight.

    Attributes:
        word: of its command line.
        status: exit code of the flight without it.
        told: what the flight prints.
    """

    word: str
    status: int
    told: str


BRIDGE = Victim("sitl_bridge.cli.main", -signal.SIGKILL, "")
STACK = Victim("sitl_bridge.autopilot", 1, "the built-in flight stack was ended by SIGKILL")
PX4 = Victim("bin/px4", 1, "PX4 was ended by SIGKILL")
OTHERS = {
    "mission": Victim(MISSION, 1, "the mission was ended by SIGKILL"),
    "keeper": Victim(KEEPER, 1, "the mission was ended by SIGKILL"),
    "bus": Victim("sitl_bridge.live.bus.client", 0, "the bus was ended by SIGKILL"),
    "broker": Victim("sitl_bridge.live.bus.broker", 0, "the embedded broker was ended by SIGKILL"),
    "page": Victim("sitl_bridge.live.view.live_page", 0, "the live view was ended by SIGKILL"),
}


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
    if word == KEEPER:
        return keeps and "keep" in words
    starts = word == MISSION and "sitl_bridge.cli.main" in words
    return any(part.endswith(word) for part in words) and not keeps and not starts


def within(directory: Path) -> list[psutil.Process]:
    """Processes that work in a directory or below it."""
    found = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(directory):
                found.append(process)
        except psutil.Error:
            continue
    return found


def held_sockets() -> list[str]:
    """Sockets of the flight's instance that somebody has open."""
    ports = {FIRST_PORT + INSTANCE, offboard_port(INSTANCE)}
    open_now = [c for c in psutil.net_connections("inet") if c.status != psutil.CONN_TIME_WAIT]
    held = [str(c.laddr) for c in open_now if c.laddr and c.laddr.port in ports]
    return held + [
        str(c.laddr) for c in psutil.net_connections("unix") if str(c.laddr) == f"/tmp/px4-sock-{INSTANCE}"
    ]


def fly_and_kill(
    victim: Victim, stack: str, directory: Path, wait_for: Callable[..., None]
) -> tuple[str, Path]:
    """Kill a process of a hovering flight; returns what was printed, and the run directory."""
    command = [sys.executable, "-m", "sitl_bridge.cli.main", "fly", MISSION, "--headless"]
    options = ["--autopilot", stack, "--speed", "4", "--instance", str(INSTANCE), "--bus", "embedded"]
    options += ["--view", str(8080 + INSTANCE)]
    temporary = directory / "temporary"
    temporary.mkdir()
    log = directory / "out"
    with log.open("w") as out:
        flight = subprocess.Popen(
            [*command, *options, "--runs-dir", str(directory / "runs"), "--", "--seconds", "20"],
            cwd=ROOT,
            env=os.environ | {"TMPDIR": str(temporary)},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        bridge = psutil.Process(flight.pid)
        wait_for(lambda: "hovering for" in log.read_text(), "the hover", 300.0)
        # The bus and its broker have a low priority and start on their own time.
        wait_for(lambda: any(runs(process, victim.word) for process in family(bridge)), victim.word)
        processes = family(bridge)
        assert len(processes) >= 7, "bridge, stack, keeper, mission, bus, broker and page"
        (killed,) = (process for process in processes if runs(process, victim.word))
        killed.kill()
        assert flight.wait(300.0) == victim.status, log.read_text()
        wait_for(lambda: all(is_gone(process.pid) for process in processes), "everything to end")
        wait_for(lambda: not within(directory), "all in the run directory to end")
        wait_for(lambda: not held_sockets(), "the sockets to be closed")
        wait_for(lambda: not [*temporary.iterdir()], "the temporary files to be removed")
    finally:
        flight.kill()
        flight.wait()
    words = " ".join(log.read_text().split())
    assert "Traceback" not in words
    assert victim.told in words
    return words, (directory / "runs" / "latest").resolve()


def look_at_logs(run: Path, *, concluded: bool) -> None:
    """Every log opens and is whole up to its end."""
    truth = read_truth(run / "truth.npy")
    assert len(truth) > 2000
    assert np.all(np.diff(truth["time"]) == 4000)
    (ulog,) = (run / "autopilot" / "log").rglob("*.ulg")
    record = read_flight(ulog)
    assert not record.damaged
    assert record.max_height > 2.0
    assert (run / "console.log").read_text().endswith("\n")
    assert (run / "summary.json").is_file() == concluded


@pytest.mark.slow
@pytest.mark.parametrize("victim", [BRIDGE, STACK, *OTHERS.values()], ids=["bridge", "stack", *OTHERS])
def test_what_is_killed_is_named_and_leaves_nothing(
    victim: Victim, tmp_path: Path, wait_for: Callable[..., None]
) -> None:
    _, run = fly_and_kill(victim, "builtin", tmp_path, wait_for)
    look_at_logs(run, concluded=victim is not BRIDGE)


@pytest.mark.px4
@pytest.mark.parametrize("victim", [BRIDGE, PX4, *OTHERS.values()], ids=["bridge", "px4", *OTHERS])
def test_what_is_killed_of_a_flight_of_px4_is_named_and_leaves_nothing(
    victim: Victim, tmp_path: Path, wait_for: Callable[..., None]
) -> None:
    _, run = fly_and_kill(victim, "px4", tmp_path, wait_for)
    look_at_logs(run, concluded=victim is not BRIDGE)
    require_free_instance(INSTANCE)
