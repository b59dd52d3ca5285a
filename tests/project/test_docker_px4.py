"""The conversation of docker/compose.yaml with a local PX4 in the place of the official image.

What stands in for the containers: an empty environment but for the variables of the compose file, an empty
working directory, ``px4 -d -i N``, PX4's start-up files in a directory of their own, and a bridge that only
serves and is asked for its health.  What is not run here: a container engine and its network.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.background_process import background_process
from support.paths import MISSIONS, ROOT

from sitl_bridge.base.system.listening import is_listening
from sitl_bridge.link.hil.ports import offboard_port
from sitl_bridge.link.px4.find import find_px4

pytestmark = pytest.mark.px4
INSTANCE = 24
OFFBOARD_PORT = offboard_port(INSTANCE)
BRIDGE = [sys.executable, "-m", "sitl_bridge.cli.main"]


def bridge_command(compose: Any) -> list[str]:
    """The bridge's command line with the defaults of the compose file's variables."""
    words = []
    for word in compose["services"]["bridge"]["command"]:
        name, _, default = word.partition("${")
        words.append(name + default.partition(":-")[2].rstrip("}") if default else word)
    return [word for word in words if not word.startswith(("--speed", "--runs-dir", "--px4-files"))]


@pytest.mark.parametrize(
    ("host", "told"), [("127.0.0.1", {}), ("0.0.0.0", {"PX4_SIM_HOSTNAME": "localhost"})]
)
def test_a_px4_started_as_in_the_image_is_flown_by_a_script_of_the_host(
    host: str, told: dict[str, str], tmp_path: Path, wait_for: Callable[..., None]
) -> None:
    compose = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text(encoding="utf-8"))
    px4 = compose["services"]["px4"]
    speed = "--speed=4"
    build = find_px4()
    startup, empty = tmp_path / "startup", tmp_path / "rootfs"
    empty.mkdir()
    environment = {**px4["environment"], **told, "HOME": str(tmp_path)}
    environment["PATH"] = (
        environment["PATH"]
        .replace("/startup", str(startup))
        .replace("/opt/px4/bin", str(build.executable.parent))
    )
    serve = [*BRIDGE, *bridge_command(compose), speed, f"--host={host}", f"--instance={INSTANCE}"]
    serve.append(f"--px4-files={startup}")
    script = [sys.executable, str(MISSIONS / "hover.py"), f"udpin://127.0.0.1:{OFFBOARD_PORT}"]
    with ExitStack() as stack:
        bridge = stack.enter_context(
            background_process([*serve, f"--runs-dir={tmp_path / 'runs'}"], tmp_path / "bridge.log")
        )
        wait_for(lambda: is_listening(4560 + INSTANCE), "the bridge to be healthy")
        command = [str(build.executable), "-d", "-i", str(INSTANCE), str(build.etc)]
        stack.enter_context(
            background_process(command, tmp_path / "px4.log", stop=signal.SIGTERM, cwd=empty, env=environment)
        )
        flown = subprocess.run(
            [*script, "--seconds", "10", f"--system={INSTANCE + 1}"],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert bridge.poll() is None, (tmp_path / "bridge.log").read_text()
    console = (tmp_path / "px4.log").read_text(encoding="utf-8", errors="replace")
    assert flown.returncode == 0, f"{flown.stdout}{flown.stderr}\n{console}"
    assert "mission succeeded" in flown.stdout
    assert "Takeoff detected" in console
    assert list(empty.glob("log/**/*.ulg"))
