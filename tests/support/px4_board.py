"""PX4's own code for hardware-in-the-loop, compiled for this computer, behind a pseudo terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shutil
import subprocess
import threading
import time
import tty
from collections import deque
from pathlib import Path

from sitl_bridge.base.system.launch import schedule_in_real_time
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.link.px4.board_parameters import BOARD_OUTPUT, OUTPUT, board_parameters
from sitl_bridge.link.px4.startup import SELECTION

BUILD = Path("build", "px4_sitl_nolockstep")
"""Made by `make px4_sitl_nolockstep`."""


def board_build(px4: Path) -> Path | None:
    """The build without lockstep beside a build or in a checkout of PX4; None for none."""
    for place in (px4, px4.parent.parent):
        if (place / BUILD / "bin" / "px4").is_file():
            return place / BUILD
    return None


class Cable:
    """Joins two pseudo terminals, as a cable with its adapters does.

    Attributes:
        ports: paths of both ends.

    Args:
        delay: s that bytes take.
        batch: s for which an adapter collects bytes before it hands them on; 0 for none.
    """

    def __init__(self, delay: float = 0.0, batch: float = 0.0) -> None:
        pairs = [pty.openpty() for _ in range(2)]
        self._ends = [near for near, _ in pairs]
        self._far = [far for _, far in pairs]  # kept open: a closed one hangs up
        for near, far in pairs:
            tty.setraw(far)
            os.set_blocking(near, False)
        self.ports = [os.ttyname(far) for far in self._far]
        self._delay, self._batch = delay, batch
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        schedule_in_real_time(55)
        waiting: dict[int, deque[tuple[float, bytes]]] = {end: deque() for end in self._ends}
        first, second = self._ends
        while not self._stop.is_set():
            pause = 0.0005 if any(waiting.values()) else 0.05
            for end in select.select(self._ends, [], [], pause)[0]:
                due = time.monotonic() + self._delay
                if self._batch:
                    due = (due // self._batch + 1.0) * self._batch
                waiting[second if end == first else first].append((due, os.read(end, 65536)))
            for end, queue in waiting.items():
                while queue and queue[0][0] <= time.monotonic():
                    due, data = queue.popleft()
                    with contextlib.suppress(BlockingIOError):  # its reader is late
                        data = data[os.write(end, data) :]
                    if data:
                        queue.appendleft((due, data))
                        break

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        for end in (*self._ends, *self._far):
            os.close(end)


class Px4Board:
    """PX4 that flies in hardware-in-the-loop at the end of a cable.

    PX4's own start script runs; in place of two of the scripts that it calls it finds ours, by which modules
    start as the NuttX script starts them for SYS_HITL, and MAVLink runs on the serial port alone.

    Args:
        build: of ``board_build``.
        directory: its working directory.
        airframe: whose parameters it has.
        cable: to whose first port it is joined.
    """

    def __init__(self, build: Path, directory: Path, airframe: Airframe, cable: Cable) -> None:
        scripts = directory / "startup"
        scripts.mkdir(parents=True)
        parameters = board_parameters(airframe)
        # Builds for this computer name their outputs as the simulator link does.
        lines = [
            f"param set {name.replace(BOARD_OUTPUT, OUTPUT)} {value}" for name, value in parameters.items()
        ]
        for module, start in (("sensors", "-h"), ("commander", "-h"), ("pwm_out_sim", "-m hil")):
            lines.append(f'alias {module}="px4-{module} --instance $px4_instance start {start} #"')
        lines.append("alias battery_simulator=:")
        (scripts / "px4-rc.simulator").write_text("\n".join(lines) + "\n", encoding="utf-8")
        mavlink = f"mavlink start -x -f -d {cable.ports[0]} -b 921600 -r 100000 -m onboard\n"
        (scripts / "px4-rc.mavlink").write_text(mavlink, encoding="utf-8")
        path = f"{scripts}:{build / 'bin'}:{os.environ['PATH']}"
        self.console = directory / "console.log"
        command = [str(build / "bin" / "px4"), "-d", str(build / "etc")]
        priority = ["chrt", "-f", "40"] if shutil.which("chrt") and os.geteuid() == 0 else []
        with self.console.open("wb") as log:
            self._process = subprocess.Popen(
                [*priority, *command],
                cwd=directory,
                env={**os.environ, **SELECTION, "PATH": path},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
