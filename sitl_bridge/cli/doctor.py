"""``sitl-bridge doctor``: what is missing on this machine, and what to type."""

from __future__ import annotations

import json
import shutil
import socket
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Annotated, Literal

import typer
from packaging.requirements import Requirement
from rich.console import Console

from sitl_bridge.errors import UserError
from sitl_bridge.hil.ports import FIRST_PORT
from sitl_bridge.kernels.compiled import cache_directory
from sitl_bridge.px4.px4_process import stale_processes
from sitl_bridge.run.autopilot_choice import BUILTIN, choose_autopilot
from sitl_bridge.system.port_holder import holder_of

Grade = Literal["ok", "note", "missing"]
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
    """Every package the project asks for, in a version it works with."""
    wanted = [Requirement(text) for text in requires("sitl-bridge") or []]
    wanted = [one for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    wrong = []
    for one in wanted:
        try:
            found = version(one.name)
        except PackageNotFoundError:
            wrong.append(f"{one.name} is not installed")
            continue
        if not one.specifier.contains(found, prereleases=True):
            wrong.append(f"{one.name} {found} is installed, {one} is wanted")
    if wrong:
        return Finding("packages", "missing", f"{'; '.join(wrong)}; type: pip install sitl-bridge")
    return Finding("packages", "ok", f"all {len(wanted)}")


def _kernels() -> Finding:
    """Whether the loop that serves a flight stack is in the cache of this version."""
    directory = cache_directory()
    if any(directory.glob("**/loop.run-*.nbi")):
        return Finding("compiled simulation", "ok", f"cached in {directory}")
    return Finding(
        "compiled simulation", "note", "not compiled yet; the first run takes up to half a minute more"
    )


def _px4() -> Finding:
    try:
        flown_by = choose_autopilot()
    except UserError as error:
        return Finding("PX4", "missing", str(error))
    if flown_by.px4 is None:
        return Finding("PX4", "note", f"{BUILTIN} flies without it; {flown_by.why}")
    place = f"{flown_by.px4.version} in {flown_by.px4.root}"
    if flown_by.warning:
        return Finding("PX4", "note", f"{place}; {flown_by.warning}")
    return Finding("PX4", "ok", place)


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
            words = f"taken by {holder_of(FIRST_PORT)}; stop it or use --instance 1"
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
