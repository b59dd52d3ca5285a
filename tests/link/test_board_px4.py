"""Hardware-in-the-loop with PX4's own code for it, where a build without lockstep is."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.px4_board import BUILD, Cable, Px4Board, board_build

from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.link.px4.find import find_px4

pytestmark = pytest.mark.px4


@contextlib.contextmanager
def board(place: Path, airframe: str, **cable: float) -> Iterator[str]:
    """The serial port of a board that flies an airframe."""
    root = find_px4().root
    build = board_build(root)
    if build is None:
        pytest.skip(f"{root} has no {BUILD}; make it with `make px4_sitl_nolockstep`")
    with (
        contextlib.closing(Cable(**cable)) as line,
        contextlib.closing(Px4Board(build, place / "board", load_airframe(airframe), line)),
    ):
        yield line.ports[1]


@pytest.mark.parametrize("airframe", ["iris", "x500", "typhoon_h480"])
def test_px4_flies_a_plan_in_hardware_in_the_loop(tmp_path: Path, airframe: str) -> None:
    with board(tmp_path, airframe) as port:
        command = [sys.executable, "-m", "sitl_bridge", "fly", "square.plan", "--airframe", airframe]
        options = ["--device", port, "--headless", "--runs-dir", str(tmp_path / "runs")]
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    run = tmp_path / "runs" / "latest"
    assert json.loads((run / "summary.json").read_text(encoding="utf-8"))["succeeded"]
    assert "commands/s" in (run / "console.log").read_text(encoding="utf-8")
