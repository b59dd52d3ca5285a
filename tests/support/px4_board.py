"""PX4's own code for hardware-in-the-loop, compiled for this computer, behind a pseudo terminal or by UDP."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from sitl_bridge.base.system import launch
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.link.px4.board_parameters import BOARD_OUTPUT, OUTPUT, board_parameters
from sitl_bridge.link.px4.startup import SELECTION
from support.cable import Cable

BUILD = Path("build", "px4_sitl_nolockstep")
"""Made by `make px4_sitl_nolockstep`."""


def board_build(px4: Path) -> Path | None:
    """The build without lockstep beside a build or in a checkout of PX4; None for none."""
    for place in (px4, px4.parent.parent):
        if (place / BUILD / "bin" / "px4").is_file():
            return place / BUILD
    return None


class Px4Board:
    """PX4 that flies in hardware-in-the-loop at the end of a cable.

    PX4's own start script runs; in place of two of the scripts that it calls it finds ours, by which modules
    start as the NuttX script starts them for SYS_HITL, and MAVLink runs on the serial port alone.

    Args:
        build: of ``board_build``.
        directory: its working directory.
        airframe: whose parameters it has.
        cable: to whose first port it is joined; None for UDP, at port ``UDP`` of this computer.
    """

    UDP = 24550

    def __init__(self, build: Path, directory: Path, airframe: Airframe, cable: Cable | None) -> None:
        scripts = directory / "startup"
        scripts.mkdir(parents=True)
        parameters = board_parameters(airframe)
        # Builds for this computer name their outputs as the simulator link does.
        lines = [
            f"param set {name.replace(BOARD_OUTPUT, OUTPUT)} {value}" for name, value in parameters.items()
        ]
        for module, start in (("sensors", "-h"), ("commander", "-h"), ("pwm_out_sim", "-m hil")):
            lines.append(f'alias {module}="px4-{module} --instance $px4_instance start {start} #"')
        lines += ["alias battery_simulator=:", "alias replay=:"]  # a build may lack the latter
        (scripts / "px4-rc.simulator").write_text("\n".join(lines) + "\n", encoding="utf-8")
        port = f"-u {self.UDP}" if cable is None else f"-f -d {cable.ports[0]} -b 921600"
        mavlink = f"mavlink start -x {port} -r 100000 -m onboard\n"
        (scripts / "px4-rc.mavlink").write_text(mavlink, encoding="utf-8")
        path = f"{scripts}:{build / 'bin'}:{os.environ['PATH']}"
        self.console = directory / "console.log"
        command = [str(build / "bin" / "px4"), "-d", str(build / "etc")]
        priority = []
        if os.geteuid() == 0 and shutil.which("chrt") and shutil.which("unshare"):
            # A board's clock begins with it; PX4's estimator is late by 5 % of its time at the first sample.
            begun = f"--monotonic=-{int(time.monotonic())}"
            priority = ["unshare", "--time", begun, "--fork", "--kill-child", "chrt", "-f", "40"]
        with self.console.open("wb") as log:
            self._process = subprocess.Popen(
                launch.command("exec", [*priority, *command]),  # nobody stops it once pytest is killed
                cwd=directory,
                env={**os.environ, **SELECTION, "PATH": path},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
