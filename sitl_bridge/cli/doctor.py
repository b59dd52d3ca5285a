"""``sitl-bridge doctor``: what is missing on this machine, and what to type."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Annotated, Literal

import typer
from packaging.requirements import Requirement
from rich.console import Console

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system.port_holder import Kind, taken_by
from sitl_bridge.cli.exit_codes import ExitCode
from sitl_bridge.cli.warm import PARTS

Grade = Literal["ok", "note", "taken", "missing"]
OTHER_INSTANCE = "fly beside it with --instance 1"
DOCKER_LIMIT = 10.0
"""s of wall time for docker's engine to answer."""


@dataclass(frozen=True)
class Finding:
    """Result of one check."""

    subject: str
    grade: Grade
    text: str


def check_python() -> Finding:
    """The version of Python."""
    return Finding("Python", "ok", f"{sys.version_info.major}.{sys.version_info.minor}")


def check_packages() -> Finding:
    """Whether every required package is installed in a suitable version."""
    required = [Requirement(text) for text in requires("sitl-bridge") or []]
    required = [
        package for package in required if package.marker is None or package.marker.evaluate({"extra": ""})
    ]
    wrong = []
    for package in required:
        try:
            found = version(package.name)
        except PackageNotFoundError:
            wrong.append(f"{package.name} is not installed")
            continue
        if not package.specifier.contains(found, prereleases=True):
            wrong.append(f"{package.name} {found} is installed, {package} is required")
    if wrong:
        return Finding("packages", "missing", f"{'; '.join(wrong)}; type: pip install sitl-bridge")
    return Finding("packages", "ok", f"all {len(required)}")


def check_kernels() -> Finding:
    """Report which parts of the compiled code of this version are cached."""
    from sitl_bridge.base.kernels.kernel_cache import root

    missing = [part.name for part in PARTS if not part.cached]
    if not missing:
        return Finding("compiled code", "ok", f"cached in {root()}")
    done = f"{len(PARTS) - len(missing)} of {len(PARTS)} parts are cached; not yet: {'; '.join(missing)}"
    return Finding("compiled code", "note", f"{done}; compiled at first use, or now by: sitl-bridge warm")


def check_px4() -> Finding:
    """Report the PX4 that flights use, if any."""
    from sitl_bridge.session.settings import BUILTIN, choose_autopilot

    try:
        autopilot = choose_autopilot()
    except UserError as error:
        return Finding("PX4", "missing", str(error))
    if autopilot.px4 is None:
        return Finding("PX4", "note", f"{BUILTIN} is used instead; {autopilot.reason}")
    place = f"{autopilot.px4.version} in {autopilot.px4.root}"
    if autopilot.warning:
        return Finding("PX4", "note", f"{place}; {autopilot.warning}")
    return Finding("PX4", "ok", place)


def check_instance() -> Finding:
    """Whether PX4 instance 0 is free."""
    from sitl_bridge.link.px4.px4_process import stale_processes, user_of_instance

    user, stale = user_of_instance(0), stale_processes(0)
    if user:
        return Finding("PX4's instance 0", "taken", f"in use by {user}; {OTHER_INSTANCE}")
    if stale:
        pids = " ".join(str(process.pid) for process in stale)
        text = f"by a PX4 that an earlier run has left; type: kill -9 {pids}"
        return Finding("PX4's instance 0", "taken", text)
    return Finding("PX4's instance 0", "ok", "free")


def check_ports() -> list[Finding]:
    """Whether the ports of instance 0 are free: the simulator's, and those of MAVLink links."""
    from sitl_bridge.link.hil.ports import FIRST_PORT, OFFBOARD_PORT, PAYLOAD_PORT, STACK_PORTS

    ports: tuple[tuple[Kind, int, str], ...] = (
        ("tcp", FIRST_PORT, ""),
        ("udp", OFFBOARD_PORT, ", needed by MAVSDK scripts"),
        ("udp", PAYLOAD_PORT, ", needed by the live line"),
        ("udp", STACK_PORTS["ground station"], ", needed by PX4's ground station link"),
    )
    findings = []
    for kind, port, purpose in ports:
        holder = taken_by(port, kind)
        text = f"in use by {holder}{purpose}; {OTHER_INSTANCE}" if holder else "free"
        findings.append(Finding(f"{kind.upper()} port {port}", "taken" if holder else "ok", text))
    return findings


def check_docker() -> Finding:
    """Whether docker's client reaches an engine."""
    if shutil.which("docker"):
        if _docker_answers():
            return Finding("docker", "ok", "client and engine")
        return Finding("docker", "note", "client found, its engine does not answer; only docker/ needs it")
    return Finding("docker", "note", "not found; only docker/ needs it")


def _docker_answers() -> bool:
    """Whether the client reaches an engine."""
    command = ["docker", "version", "--format", "{{.Server.Version}}"]
    try:
        return subprocess.run(command, capture_output=True, timeout=DOCKER_LIMIT, check=False).returncode == 0
    except (subprocess.TimeoutExpired, OSError):
        return False


def examine() -> list[Finding]:
    """Check everything that a flight needs."""
    checks = (check_python, check_packages, check_kernels, check_px4, check_instance)
    return [*(check() for check in checks), *check_ports(), check_docker()]


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Check everything that a flight needs, and print what is missing, or taken at instance 0.

    The exit code is 1 if something is missing or taken.
    """
    findings = examine()
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        console = Console()
        colours = {"ok": "green", "note": "yellow", "taken": "yellow", "missing": "red"}
        for finding in findings:
            console.print(f"[{colours[finding.grade]}]{finding.grade:8}[/] {finding.subject}: ", end="")
            console.print(finding.text, highlight=False, markup=False)
    if any(finding.grade in ("taken", "missing") for finding in findings):
        raise typer.Exit(ExitCode.FAILED)
