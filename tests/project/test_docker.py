"""The container files, as far as they can be checked without a container engine."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from support.paths import DOCS, ROOT

from sitl_bridge.cli.main import build

DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")


FILES = ("docker/compose.yaml", "compose.ci.yaml")
MOSQUITTO = "docker/compose.mosquitto.yaml"
VARIABLE = re.compile(r"\$\{\w+:-([^}]*)\}")


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", FILES)
def test_px4_meets_the_bridge_on_localhost_and_finds_its_parameters(name: str) -> None:
    services = read(name)["services"]
    px4, bridge = services["px4"], services["bridge"]
    assert px4["network_mode"] == "service:bridge"
    assert px4["environment"]["PX4_SIM_MODEL"] == "none_iris"
    assert px4["environment"]["PX4_SIMULATOR"] == "none"
    assert px4["environment"]["PATH"].startswith("/startup:/opt/px4/bin:")
    assert "startup:/startup:ro" in px4["volumes"]
    assert "startup:/startup" in bridge["volumes"]
    assert "--px4-files=/startup" in bridge["command"]
    # Compose shows what a bridge says that refuses its options only if nothing waits for its health.
    assert px4["depends_on"] == ["bridge"]
    assert "runs:/runs" in px4["volumes"]
    assert "runs:/home/bridge/runs" in bridge["volumes"]


def test_px4_sends_to_the_host_for_people_and_to_the_mission_in_ci() -> None:
    assert "host.docker.internal:host-gateway" in read(FILES[0])["services"]["bridge"]["extra_hosts"]
    services = read("compose.ci.yaml")["services"]
    assert "extra_hosts" not in services["bridge"]
    assert services["mission"]["network_mode"] == "service:bridge"


@pytest.mark.parametrize("name", FILES)
def test_every_image_is_pinned_and_can_be_changed_by_one_variable(name: str) -> None:
    services = read(name)["services"]
    assert services["px4"]["image"] == "${PX4_IMAGE:-px4io/px4-sitl:v1.17.0}"
    assert services["bridge"]["image"] == "${BRIDGE_IMAGE:-sitl-bridge}"
    broker = read(MOSQUITTO)["services"]["mosquitto"]["image"]
    assert re.fullmatch(r"\$\{MOSQUITTO_IMAGE:-eclipse-mosquitto:2\.\d+\.\d+\}", broker)


@pytest.mark.parametrize("name", FILES)
def test_the_page_lists_every_variable_port_and_volume(name: str) -> None:
    page = (DOCS / "how-to" / "containers.md").read_text("utf-8")
    text = (ROOT / name).read_text("utf-8")
    for variable in {*re.findall(r"\$\{(\w+)", text), *read(name)["volumes"]}:
        assert f"`{variable}`" in page, variable


@pytest.mark.parametrize("name", FILES)
def test_every_service_runs_a_command_the_program_has(name: str) -> None:
    for service in read(name)["services"].values():
        if "sitl-bridge" not in service["image"]:
            continue
        words = [VARIABLE.sub(r"\1", word) for word in service["command"]]
        group: Any = typer.main.get_command(build(words[:1]))
        group.commands[words[0]].make_context(words[0], words[1:])  # fails for an unknown option or value


def test_compose_reads_the_files() -> None:
    """By compose v1 or v2, whichever is there; neither needs an engine for that."""
    program = next(
        (command for command in (["docker-compose"], ["docker", "compose"]) if _runs([*command, "version"])),
        None,
    )
    if program is None:
        pytest.skip("no docker compose on this machine")
    for names in ([FILES[0]], [FILES[0], MOSQUITTO], [FILES[1]]):
        chosen = [word for name in names for word in ("-f", str(ROOT / name))]
        done = subprocess.run(
            [*program, *chosen, "config", "-q"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def _runs(command: list[str]) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def instances(directory: Path, entry: Path, state: str, devices: str) -> str:
    """The script with files in place of the container's: state of port 4560, network devices, entry point."""
    script = (ROOT / "docker" / "px4-instances").read_text("utf-8")
    (directory / "tcp").write_text(f"  sl  local\n   0: 0100007F:11D0 00000000:0000 {state} 00000000\n")
    (directory / "dev").write_text(f"Inter\n  {devices}\n")
    for old, new in (
        ("/opt/px4/bin/px4-entrypoint.sh", entry),
        ("/proc/net/tcp", directory / "tcp"),
        ("/proc/net/dev", directory / "dev"),
        ("/runs/", directory / "runs/"),
    ):
        assert old in script
        script = script.replace(old, f"{new}/" if old == "/runs/" else str(new))
    return script


def test_the_instances_script_starts_each_px4_and_ends_with_the_first(tmp_path: Path) -> None:
    entry = tmp_path / "entry"
    entry.write_text(
        '#!/bin/sh\necho "$@" in "$PWD" >>"$HOME/started"\n[ "$3" = 1 ] || exec sleep 100\n'
        'until [ "$(wc -l <"$HOME/started")" -eq 3 ]; do sleep 0.05; done\n'
    )
    entry.chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", instances(tmp_path, entry, "0A", "eth0: 1")],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "VEHICLES": "3"},
        capture_output=True, text=True, timeout=60, check=False, start_new_session=True,
    )  # fmt: skip
    assert done.returncode != 0
    assert "PX4 instance 1 ended with status 0" in done.stderr
    started = sorted((tmp_path / "started").read_text("utf-8").splitlines())
    assert re.fullmatch(rf"-d -i 1 in {tmp_path}/runs/px4-[\d-]+/instance_1", started[1])


@pytest.mark.parametrize(("state", "devices"), [("06", "lo: 1"), ("0A", "lo: 1")])
def test_the_instances_script_ends_with_the_bridge(tmp_path: Path, state: str, devices: str) -> None:
    """A bridge that ended before it listened, and one that ends while PX4 runs."""
    entry = tmp_path / "entry"
    entry.write_text(f"#!/bin/sh\nrm {tmp_path}/tcp; touch {tmp_path}/tcp; exec sleep 100\n")
    entry.chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", instances(tmp_path, entry, state, devices)],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True, text=True, timeout=60, check=False, start_new_session=True,
    )  # fmt: skip
    assert "the bridge has ended" in done.stderr


def test_the_image_runs_without_privileges_and_has_a_health_check() -> None:
    steps = [line.split()[0] for line in DOCKERFILE.splitlines() if re.match(r"[A-Z]+ ", line)]
    assert steps[:2] == ["ARG", "FROM"]
    assert re.search(r"^ARG PYTHON_IMAGE=python:[\d.]+-slim-\w+$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(
        r"(#.*\n|[\w.-]+==[\w.]+\n)+", (ROOT / "docker" / "constraints.txt").read_text(encoding="utf-8")
    )
    assert steps.index("USER") < steps.index("ENTRYPOINT")
    assert "USER bridge" in DOCKERFILE
    assert "HEALTHCHECK" in steps


def test_everything_the_image_copies_is_let_through_by_dockerignore() -> None:
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for line in re.findall(r"^COPY ([^-].*) \S+$", DOCKERFILE, re.MULTILINE):
        for source in line.split():
            assert (ROOT / source).exists()
            assert f"!{source.split('/')[0]}" in ignore


def test_the_health_check_tells_a_listening_server_from_none() -> None:
    def status() -> int:
        command = [sys.executable, "-m", "sitl_bridge.base.system.listening", str(port)]
        return subprocess.run(command, cwd=ROOT, timeout=60, check=False).returncode

    assert '"sitl_bridge.base.system.listening", "4560"' in DOCKERFILE
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        assert status() == 1
        listener.listen()
        assert status() == 0
    assert status() == 1


def test_the_health_check_loads_nothing_slow() -> None:
    source = "import sys, sitl_bridge.base.system.listening; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not {"numpy", "numba", "psutil", "typer"} & set(done.stdout.split())
