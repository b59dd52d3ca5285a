"""``sitl-bridge doctor``: what is missing on this machine, and what to type."""

from __future__ import annotations

import json
import shutil
import socket
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Literal

import typer
from rich.console import Console

from sitl_bridge.compiled import cache_directory
from sitl_bridge.errors import UserError
from sitl_bridge.hil.server import FIRST_PORT, holder_of
from sitl_bridge.px4.find import find_px4
from sitl_bridge.px4.process import stale_processes

Grade = Literal["ok", "note", "missing"]
PACKAGES = ("numpy", "scipy", "numba", "pymavlink", "mavsdk", "pydantic", "pyulog", "aiomqtt")
UDP_PORTS = {
    14540: "MAVSDK scripts listen there",
    14030: "the live line listens there",
    18570: "PX4's ground station link",
}


@dataclass(frozen=True)
class Finding:
    """One thing looked at."""

    subject: str
    grade: Grade
    words: str


def _python() -> Finding:
    return Finding("Python", "ok", f"{sys.version_info.major}.{sys.version_info.minor}")


def _packages() -> Finding:
    absent = []
    for name in PACKAGES:
        try:
            version(name)
        except PackageNotFoundError:
            absent.append(name)
    if absent:
        return Finding("packages", "missing", f"{', '.join(absent)}; type: pip install sitl-bridge")
    return Finding("packages", "ok", f"{len(PACKAGES)} of {len(PACKAGES)}")


def _kernels() -> Finding:
    directory = cache_directory()
    if any(directory.glob("**/*.nbi")):
        return Finding("compiled simulation", "ok", f"cached in {directory}")
    return Finding("compiled simulation", "note", "not compiled yet; the first run takes half a minute more")


def _px4() -> Finding:
    try:
        build = find_px4()
    except UserError as error:
        return Finding("PX4", "missing", str(error))
    return Finding("PX4", "ok", f"{build.version} in {build.root}")


def _stale() -> Finding:
    stale = stale_processes(0)
    if stale:
        pids = " ".join(str(process.pid) for process in stale)
        return Finding("PX4 processes", "missing", f"one holds instance 0; type: kill -9 {pids}")
    return Finding("PX4 processes", "ok", "none holds instance 0")


def _tcp_port() -> Finding:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", FIRST_PORT))
        except OSError:
            words = f"taken {holder_of(FIRST_PORT)}; stop it or use --instance 1"
            return Finding(f"TCP port {FIRST_PORT}", "missing", words)
    return Finding(f"TCP port {FIRST_PORT}", "ok", "free")


def _udp_ports() -> list[Finding]:
    findings = []
    for port, purpose in UDP_PORTS.items():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                words = f"taken, {purpose}; stop what holds it or use --instance 1"
                findings.append(Finding(f"UDP port {port}", "missing", words))
            else:
                findings.append(Finding(f"UDP port {port}", "ok", "free"))
    return findings


def _docker() -> Finding:
    if shutil.which("docker"):
        return Finding("docker", "ok", "client found; `docker compose up` in docker/ needs its engine")
    return Finding("docker", "note", "not found; only docker/ needs it")


def examine() -> list[Finding]:
    """Everything a flight needs, looked at once."""
    return [_python(), _packages(), _kernels(), _px4(), _stale(), _tcp_port(), *_udp_ports(), _docker()]


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="for machines")] = False,
) -> None:
    """Look at everything a flight needs.  Exit code 1 when something is missing."""
    findings = examine()
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        console = Console()
        colours = {"ok": "green", "note": "yellow", "missing": "red"}
        for finding in findings:
            console.print(f"[{colours[finding.grade]}]{finding.grade:8}[/] {finding.subject}: ", end="")
            console.print(finding.words, highlight=False, markup=False)
    if any(finding.grade == "missing" for finding in findings):
        raise typer.Exit(1)
