"""``sitl-bridge serve``: quick to start, and clean to end at any moment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sitl_bridge.cli.main import build
from sitl_bridge.hil.server import LockstepServer
from sitl_bridge.record.truth_log import read_truth


def test_serving_loads_nothing_that_only_flying_needs() -> None:
    source = "import sys, sitl_bridge.cli.serve; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout
    assert not {"matplotlib", "scipy.linalg", "scipy.optimize", "mavsdk", "pyulog"} & set(loaded.split())


def test_an_interrupt_while_the_server_starts_leaves_a_whole_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_port: Callable[[], int]
) -> None:
    port = free_port()
    monkeypatch.setattr("sitl_bridge.cli.serve.FIRST_PORT", port)
    started: list[LockstepServer] = []
    start = LockstepServer.start

    def interrupted(server: LockstepServer) -> None:
        start(server)
        started.append(server)
        server._log["time"][0] = 1
        server._loop[0]["rows"] = 1
        raise KeyboardInterrupt

    monkeypatch.setattr(LockstepServer, "start", interrupted)
    arguments = ["serve", "--runs-dir", str(tmp_path)]
    build(arguments)(arguments, standalone_mode=False)
    assert not started[0].running
    assert started[0].failure is None
    (log,) = (path for path in tmp_path.glob("*/truth.npy") if not path.parent.is_symlink())
    np.testing.assert_array_equal(read_truth(log)["time"], [1])
