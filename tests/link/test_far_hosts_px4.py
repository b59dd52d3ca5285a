"""PX4 on another host than the simulation: delay, loss and cuts slow a flight and do not end it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.background_process import background_process
from support.far_hosts import NEAR, Line, available

from sitl_bridge.link.px4.find import find_px4
from sitl_bridge.record.truth_log import read_truth

pytestmark = [
    pytest.mark.px4,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(not available(), reason="makes network namespaces, which needs root"),
]
PROGRAM = [sys.executable, "-m", "sitl_bridge.cli.main"]


def text(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")


@pytest.mark.parametrize(
    ("delay", "loss", "cut"),
    [(0.0, 0.0, 0.0), (0.001, 0.0, 0.0), (0.02, 0.0, 0.0), (0.001, 0.01, 0.0), (0.001, 0.0, 5.0)],
    ids=["no delay", "1 ms", "20 ms", "1 % loss", "a cut of 5 s"],
)
def test_lockstep_holds_over_a_line_between_two_hosts(
    delay: float, loss: float, cut: float, tmp_path: Path, wait_for: Callable[..., None],
) -> None:  # fmt: skip
    build = find_px4()
    startup, rootfs = tmp_path / "startup", tmp_path / "rootfs"
    rootfs.mkdir()
    serve = [*PROGRAM, "serve", "--host", "0.0.0.0", "--speed", "max", "--on-stall", "wait"]
    serve += ["--px4-files", str(startup), "--runs-dir", str(tmp_path / "runs")]
    environment = {
        "HOME": str(tmp_path),
        "PATH": f"{startup}:{build.executable.parent}:{os.environ['PATH']}",
        "PX4_SIM_MODEL": "none_iris",
        "PX4_SIMULATOR": "none",
        "PX4_SIM_HOSTNAME": NEAR,
    }
    logs = {name: tmp_path / f"{name}.log" for name in ("bridge", "px4")}
    with ExitStack() as stack:
        line = stack.enter_context(Line(delay, loss))
        stack.enter_context(background_process(line.near.command(*serve), logs["bridge"]))
        wait_for(lambda: "waiting for" in text(logs["bridge"]), "the server", 300.0)
        px4 = line.far.command(str(build.executable), "-d", str(build.etc))
        stack.enter_context(background_process(px4, logs["px4"], cwd=rootfs, env=environment))
        wait_for(lambda: "Ready for takeoff" in text(logs["px4"]), "PX4 to be ready", 600.0)
        begun = time.monotonic()
        mission = [*PROGRAM, "mission", "hover.py", "--", "--seconds", "10"]
        flown = subprocess.Popen(
            line.far.command(*mission), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            if cut:
                wait_for(lambda: "Takeoff detected" in text(logs["px4"]), "the take-off", 300.0)
                line.cut = True
                time.sleep(cut)  # the length of the cut is what is tested
                line.cut = False
            said, _ = flown.communicate(timeout=600.0)
            took = time.monotonic() - begun
        finally:
            flown.kill()
    assert flown.returncode == 0, said + text(logs["px4"]) + text(logs["bridge"])
    (run,) = (path for path in (tmp_path / "runs").glob("*-serve-*") if not path.is_symlink())
    times = read_truth(run / "truth.npy")["time"]
    assert (times[1:] > times[:-1]).all()
    # PX4 reports a second without sensor data, and goes on waiting.
    assert ("poll timeout" in text(logs["px4"])) == bool(cut)
    assert (line.dropped > 0) == bool(loss or cut)
    simulated = (times[-1] - times[0]) * 1e-6
    print(
        f"\ndelay {delay * 1000:g} ms, loss {loss:.0%}, cut {cut:g} s: {simulated:.0f} s simulated,"
        f" {line.carried} packets carried, {line.dropped} lost; mission of {took:.0f} s of wall time"
    )
    print(text(logs["bridge"])[-400:])
