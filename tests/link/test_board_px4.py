"""Hardware-in-the-loop with PX4's own code for it, where a build without lockstep is."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.cable import Cable
from support.px4_board import BUILD, Px4Board, board_build

from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.link.px4.find import find_px4

pytestmark = pytest.mark.px4


def fly(place: Path, airframe: str, line: Cable | None, limit: float = 250.0) -> tuple[dict[str, Any], str]:
    """The summary and the console log of a square that a board flies, behind a cable or by UDP."""
    root = find_px4().root
    build = board_build(root)
    if build is None:
        pytest.skip(f"{root} has no {BUILD}; make it with `make px4_sitl_nolockstep`")
    device = f"udp:127.0.0.1:{Px4Board.UDP}" if line is None else line.ports[1]
    command = [sys.executable, "-m", "sitl_bridge", "fly", "square.plan", "--airframe", airframe]
    options = ["--device", device, "--headless", "--runs-dir", str(place / "runs")]
    options += ["--time-limit", str(limit)]  # s; a vehicle that fell may never disarm
    with (
        contextlib.nullcontext() if line is None else contextlib.closing(line),
        contextlib.closing(Px4Board(build, place / "board", load_airframe(airframe), line)),
    ):
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=400, check=False)
    run = place / "runs" / "latest"
    assert (run / "summary.json").is_file(), done.stdout + done.stderr
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    return summary, (run / "console.log").read_text(encoding="utf-8")


@pytest.mark.parametrize("airframe", ["iris", "x500", "typhoon_h480"])
def test_px4_flies_a_plan_in_hardware_in_the_loop(tmp_path: Path, airframe: str) -> None:
    summary, console = fly(tmp_path, airframe, Cable())
    assert summary["succeeded"], console
    assert "commands/s" in console


def test_px4_flies_a_plan_over_a_network(tmp_path: Path) -> None:
    summary, console = fly(tmp_path, "iris", None)
    assert summary["succeeded"], console


def test_a_cable_that_bunches_samples_is_told_before_the_flight_fails(tmp_path: Path) -> None:
    summary, console = fly(tmp_path, "iris", Cable(batch=0.016), limit=90.0)
    assert not summary["succeeded"]
    assert "commands come in bursts" in console.partition("mission failed")[0]
    assert any("commands come in bursts" in note for note in summary["verdict"]["notes"])
