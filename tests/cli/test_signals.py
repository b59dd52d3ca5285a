"""Ctrl-C, SIGTERM and SIGHUP end the program at any moment with one sentence and the shell's exit code."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.paths import ROOT

from sitl_bridge.base.system import signals
from sitl_bridge.record.truth_log import read_truth

BOOT = """
import importlib.abc, os, runpy, sys

target, number = sys.argv.pop(1), int(sys.argv.pop(1))

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, module=None):
        if name == target:
            os.kill(os.getpid(), number)

sys.meta_path.insert(0, Finder())
runpy.run_module("sitl_bridge", run_name="__main__")
"""
"""Runs the program, and sends it a signal when it imports a module."""

FLY = ("fly", "missions/hover.py", "--headless", "--autopilot", "builtin", "--speed", "max")


@pytest.mark.parametrize(
    ("module", "number", "name"),
    [
        ("sitl_bridge.cli.main", signal.SIGINT, "Ctrl-C"),
        ("sitl_bridge.base.error_log", signal.SIGTERM, "SIGTERM"),
        ("typer", signal.SIGINT, "Ctrl-C"),
        ("rich.console", signal.SIGTERM, "SIGTERM"),
        ("numba", signal.SIGINT, "Ctrl-C"),
        ("sitl_bridge.session.session", signal.SIGHUP, "SIGHUP"),
    ],
)
def test_a_signal_while_modules_load_is_one_sentence(module: str, number: signal.Signals, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BOOT, module, str(int(number)), *FLY],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 128 + number
    assert done.stderr == f"sitl-bridge: interrupted by {name}\n"
    assert done.stdout == ""


def test_work_that_a_signal_interrupts_is_left_in_order_and_gives_the_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    left = []

    def work() -> int:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            left.append("in order")
        return 0

    assert signals.run(work) == 143
    assert left == ["in order"]
    assert capsys.readouterr().err == "sitl-bridge: interrupted by SIGTERM\n"
    assert signal.getsignal(signal.SIGTERM) == before
    assert signals.run(lambda: 5) == 5


class Swallower:
    """Interrupted where Python can raise nothing, as in a callback from C."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)


def test_a_signal_that_was_swallowed_is_sent_again() -> None:
    def work() -> int:
        swallower = Swallower()
        del swallower
        gc.collect()
        for _ in range(1000):
            time.sleep(0.01)
        return 0

    assert signals.run(work) == 130


def handles(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal; until then the interpreter itself starts."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    (caught,) = (int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
    return bool(caught >> (number - 1) & 1)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["fly", "serve"])
def test_no_moment_is_left_out(command: str, tmp_path: Path, wait_for: Callable[..., None]) -> None:
    """Signals at forty moments of a start; what was started is gone each time."""
    options = FLY if command == "fly" else ("serve", "--instance", "77")
    program = [sys.executable, "-m", "sitl_bridge.cli.main", *options, "--runs-dir", str(tmp_path)]
    for k in range(40):
        number = (signal.SIGINT, signal.SIGTERM)[k % 2]
        with subprocess.Popen(
            program, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            wait_for(lambda pid=process.pid: handles(pid, signal.SIGTERM), "the program's first line")
            time.sleep(0.15 * k)
            process.send_signal(number)
            said, _ = process.communicate(timeout=60)
        assert process.returncode == 128 + number, said
        assert "Traceback" not in said
        assert said.count("interrupted by") == 1, said


def test_the_flight_of_a_plan_ends_when_it_is_interrupted(tmp_path: Path) -> None:
    plan = ("fly", "missions/square.plan", "--runs-dir", str(tmp_path))
    options = ("--headless", "--autopilot", "builtin", "--speed", "10", "--instance", "79")
    with subprocess.Popen(
        [sys.executable, "-m", "sitl_bridge.cli.main", *plan, *options],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert any("item 1" in line for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    summary = json.loads((tmp_path / "latest" / "summary.json").read_text())
    flown = read_truth(tmp_path / "latest" / "truth.npy")["time"][-1] * 1e-6
    assert summary["verdict"]["word"] == "interrupted"
    assert flown < summary["simulated_seconds"] + 10.0
