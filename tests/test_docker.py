"""The container files, as far as they can be checked without a container engine."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text(encoding="utf-8"))


def test_px4_meets_the_bridge_on_localhost_and_finds_its_parameters(compose: Any) -> None:
    px4 = compose["services"]["px4"]
    assert px4["network_mode"] == "service:bridge"
    assert px4["environment"]["PX4_SIM_MODEL"] == "none_iris"
    assert px4["environment"]["PX4_SIMULATOR"] == "none"
    assert px4["environment"]["PATH"].startswith("/startup:/opt/px4/bin:")
    assert "startup:/startup:ro" in px4["volumes"]
    assert px4["depends_on"]["bridge"]["condition"] == "service_healthy"
    assert "host.docker.internal:host-gateway" in compose["services"]["bridge"]["extra_hosts"]


def test_the_px4_image_is_pinned_and_can_be_changed(compose: Any) -> None:
    assert re.fullmatch(r"\$\{PX4_IMAGE:-px4io/px4-sitl:v[\w.\-]+\}", compose["services"]["px4"]["image"])


def test_every_service_runs_a_command_the_program_has(compose: Any) -> None:
    for name in ("parameters", "bridge"):
        words = [re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", word) for word in compose["services"][name]["command"]]
        options = [word.split("=")[0] for word in words if word.startswith("--")]
        command = [sys.executable, "-m", "sitl_bridge.cli.main", words[0], "--help"]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
        for option in options:
            assert option in result.stdout


def test_the_image_runs_without_privileges_and_has_a_health_check() -> None:
    steps = [line.split()[0] for line in DOCKERFILE.splitlines() if re.match(r"[A-Z]+ ", line)]
    assert steps[0] == "FROM"
    assert steps.index("USER") < steps.index("ENTRYPOINT")
    assert "USER bridge" in DOCKERFILE
    assert "HEALTHCHECK" in steps


def test_everything_the_image_copies_is_let_through_by_dockerignore() -> None:
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for line in re.findall(r"^COPY (.*) \S+$", DOCKERFILE, re.MULTILINE):
        for source in line.split():
            assert (ROOT / source).exists()
            assert f"!{source}" in ignore


def test_the_health_check_tells_a_listening_server_from_none() -> None:
    program = "import sys; from sitl_bridge.cli.warm import healthy; healthy(int(sys.argv[1]))"

    def status() -> int:
        command = [sys.executable, "-c", program, str(port)]
        return subprocess.run(command, timeout=60, check=False).returncode

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert (
            subprocess.run([sys.executable, "-c", program, str(port)], timeout=60, check=False).returncode
            == 0
        )
    assert subprocess.run([sys.executable, "-c", program, str(port)], timeout=60, check=False).returncode == 1


@pytest.mark.slow
def test_the_steps_of_the_image_work_in_an_empty_environment(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(ROOT)], check=True, timeout=600)
    for code in (
        "from sitl_bridge.cli.warm import warm; warm()",
        "from sitl_bridge.files.airframe_file import load_airframe; load_airframe('ar200')",
    ):
        subprocess.run([python, "-c", code], cwd=tmp_path, check=True, timeout=300)
