"""``sitl-bridge start``: vehicles that stay up, flown by a script that needs nothing but MAVSDK."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from support.background_process import background_process
from support.paths import MISSIONS

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system.port_holder import holder_of
from sitl_bridge.link.hil.ports import FIRST_PORT, offboard_port
from sitl_bridge.link.px4.px4_process import require_free_instance

SCRIPT = MISSIONS / "plain_mavsdk.py"
PROGRAM = [sys.executable, "-m", "sitl_bridge.cli.main"]
INSTANCE = 63
FLY_LIMIT = 240.0
"""s of wall time for the script; at real time it takes half a minute on an idle machine."""


def fly_started(options: list[str], instance: int, place: Path, wait_for: Callable[..., None]) -> str:
    """Start vehicles, fly one with the script, end by Ctrl-C; what was printed."""
    log = place / "start.log"
    command = [*PROGRAM, "start", *options, "--instance", str(INSTANCE), "--runs-dir", str(place / "runs")]
    with background_process(command, log) as started:
        url = f"udpin://0.0.0.0:{offboard_port(instance)}"
        wait_for(lambda: "ready to arm" in log.read_text(encoding="utf-8"), "vehicles to be ready", 240.0)
        subprocess.run([sys.executable, str(SCRIPT), url], check=True, timeout=FLY_LIMIT)
        assert started.poll() is None
        flight = f"a running flight (pid {started.pid}, started "
        assert holder_of(FIRST_PORT + INSTANCE).startswith(flight)
        with pytest.raises(UserError, match=re.escape(flight)) as refused:
            require_free_instance(INSTANCE)
        assert "kill" not in str(refused.value)
        below = psutil.Process(started.pid).children(recursive=True)
        assert below
        started.send_signal(signal.SIGINT)
        assert started.wait(60.0) == 128 + signal.SIGINT
        assert not psutil.wait_procs(below, timeout=5.0)[1]
    text = log.read_text(encoding="utf-8")
    assert f"instance {instance}, iris: {url}, system id {instance + 1}" in text
    assert "UDP port 14550" in text
    assert "Ctrl-C ends it" in text
    return text


def summary(place: Path) -> dict[str, object]:
    file = place / "runs" / "latest" / "summary.json"
    found: dict[str, object] = json.loads(file.read_text(encoding="utf-8"))
    return found


def test_vehicles_stay_up_until_ctrl_c_and_a_plain_script_flies_one_of_two(
    tmp_path: Path, wait_for: Callable[..., None]
) -> None:
    options = ["--autopilot", "builtin", "-n", "2", "--speed", "10"]
    text = fly_started(options, INSTANCE + 1, tmp_path, wait_for)
    assert "2 vehicles: succeeded" in text
    found = summary(tmp_path)
    assert found["succeeded"], found
    vehicles = found["vehicles"]
    assert isinstance(vehicles, dict)
    assert "flight" not in vehicles["0"] or vehicles["0"]["flight"]["air_time"] == 0
    assert vehicles["1"]["flight"]["distance"] > 20.0


def test_vehicles_that_nobody_flies_end_without_a_summary(
    tmp_path: Path, wait_for: Callable[..., None]
) -> None:
    log = tmp_path / "start.log"
    options = ["--autopilot", "builtin", "--instance", str(INSTANCE), "--runs-dir", str(tmp_path)]
    with background_process([*PROGRAM, "start", *options], log) as started:
        wait_for(lambda: "ready to arm" in log.read_text(encoding="utf-8"), "a vehicle to be ready", 240.0)
        assert f"iris: udpin://0.0.0.0:{offboard_port(INSTANCE)}" in log.read_text(encoding="utf-8")
        started.send_signal(signal.SIGINT)
        assert started.wait(60.0) == 128 + signal.SIGINT
    assert "failed" not in log.read_text(encoding="utf-8")
    assert "went wrong" not in log.read_text(encoding="utf-8")
    taken = {c.laddr.port for c in psutil.net_connections(kind="inet") if c.laddr and c.status != "TIME_WAIT"}
    assert not {FIRST_PORT + INSTANCE, offboard_port(INSTANCE)} & taken


def fly_plain_script(stack: str, place: Path) -> None:
    """Fly the script by ``fly``, which ends it as it ends its own missions."""
    url = f"udpin://0.0.0.0:{offboard_port(INSTANCE)}"
    options = ["--autopilot", stack, "--instance", str(INSTANCE), "--speed", "10", "--headless"]
    command = [*PROGRAM, "fly", SCRIPT.name, *options, "--runs-dir", str(place / "runs"), "--", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FLY_LIMIT, env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "flying 20 m north" in done.stdout
    # Heartbeats of MAVSDK come by wall time: at ten times real time, 10 s apart.
    console = (place / "runs" / "latest" / "console.log").read_text(encoding="utf-8")
    assert "ground control station lost" not in console
    assert summary(place)["succeeded"]


def test_fly_flies_a_script_that_needs_nothing_but_mavsdk(tmp_path: Path) -> None:
    assert "sitl_bridge" not in SCRIPT.read_text(encoding="utf-8")
    fly_plain_script("builtin", tmp_path)


def test_a_port_that_is_taken_is_named_before_anything_is_compiled_or_recorded(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", FIRST_PORT + INSTANCE))
        holder.listen()
        options = [
            "--autopilot",
            "builtin",
            "--instance",
            str(INSTANCE),
            "--runs-dir",
            str(tmp_path / "runs"),
        ]
        command = [*PROGRAM, "start", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=FLY_LIMIT, check=False)
    assert done.returncode == 2
    assert f"port {FIRST_PORT + INSTANCE} on 127.0.0.1 is taken by " in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.px4
def test_fly_flies_such_a_script_with_px4(tmp_path: Path) -> None:
    fly_plain_script("px4", tmp_path)


@pytest.mark.px4
def test_px4_stays_up_until_ctrl_c_and_a_plain_script_flies_it(
    tmp_path: Path, wait_for: Callable[..., None]
) -> None:
    text = fly_started(["--autopilot", "px4"], INSTANCE, tmp_path, wait_for)
    assert "flight stack: PX4" in text
    assert summary(tmp_path)["succeeded"]
