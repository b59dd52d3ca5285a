"""Missions that a user names: own files by path, shipped ones also by their name below ``missions/``.

Everything about them that can be checked is checked before anything starts.  Scripts of MAVSDK 3 are
recognised: up to version 3, the package ``mavsdk`` is MAVSDK-Python, with ``System()`` and plug-ins that are
modules, such as ``mavsdk.offboard``.  From version 4 on it is the native binding, and MAVSDK-Python is
``mavsdk_grpc`` (https://mavsdk.mavlink.io/main/en/python/migration.html).
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from sitl_bridge.base.errors import UserError, did_you_mean, shorten
from sitl_bridge.base.input_file import MAX_PROGRAM_BYTES, exists, is_file, read_bytes
from sitl_bridge.base.shipped_files import shipped_directories
from sitl_bridge.base.system.interpreter import THIS, check_interpreter, package_version
from sitl_bridge.core.world.world import Origin
from sitl_bridge.plan.plan import Plan, distance_on_sphere
from sitl_bridge.plan.plan_file import MAX_LEG, load_plan

_FOLDER = "missions"
_KINDS = ("*.plan", "*.py", "*.yaml")

MAVSDK_3_MODULES = frozenset(
    (
        "action", "action_server", "arm_authorizer_server", "calibration", "camera", "camera_server",
        "component_metadata", "component_metadata_server", "core", "events", "failure", "follow_me", "ftp",
        "ftp_server", "geofence", "gimbal", "gripper", "info", "log_files", "log_streaming", "manual_control",
        "mavlink_direct", "mission", "mission_raw", "mission_raw_server", "mocap", "offboard", "param",
        "param_server", "rtk", "server_utility", "shell", "telemetry", "telemetry_server", "tracking_server",
        "transponder", "tune", "winch",
    )
)  # fmt: skip
"""Modules that ``mavsdk`` has in version 3 alone (``_GRPC_PLUGINS`` in mavsdk/_legacy.py of version 4)."""
REMEDY = (
    "make an environment for it, and name its interpreter: python3 -m venv ~/mavsdk3 &&"
    " ~/mavsdk3/bin/pip install {package} && sitl-bridge fly {script} --python ~/mavsdk3/bin/python; or"
    " write it for MAVSDK 4, as missions/plain_mavsdk.py is"
)
"""One line: the faults of a flight are printed a line each."""


def shipped_missions() -> list[Path]:
    """Plans, scripts and scenarios that are shipped, in the order of their names."""
    for directory in shipped_directories(_FOLDER):
        found = sorted(path for kind in _KINDS for path in directory.glob(kind))
        if found:
            return found
    return []


def find_mission(mission: Path) -> Path:
    """The file of a mission given by path, or by the name of a shipped one: ``square.plan``.

    Raises:
        UserError: if there is neither; with the name that was probably meant, or all shipped names.
    """
    if exists(mission):
        return mission
    shipped = _find_shipped(mission)
    if shipped is not None:
        return shipped
    names = [path.name for path in shipped_missions()]
    near = did_you_mean(mission.name, names)
    hint = near or f"; shipped missions: {', '.join(names) or 'none'}"
    raise UserError(f"{shorten(str(mission))}: no such mission file{hint}")


def mission_of_scenario(scenario: Path, mission: Path) -> Path:
    """The file of a mission that a scenario names: relative to the scenario, else a shipped one."""
    beside = scenario.parent / mission
    return beside if exists(beside) else _find_shipped(mission) or beside


def _find_shipped(mission: Path) -> Path | None:
    parts = mission.parts[1:] if mission.parts[:1] == (_FOLDER,) else mission.parts
    if not parts or mission.is_absolute() or ".." in parts:
        return None
    candidates = (directory.joinpath(*parts) for directory in shipped_directories(_FOLDER))
    return next((candidate for candidate in candidates if is_file(candidate)), None)


def check_mission(
    path: Path, arguments: Sequence[str], origin: Origin, python: Path | None = None
) -> Plan | None:
    """Check everything about a mission that can be checked before the start.

    Args:
        path: a ``.plan`` of QGroundControl or a ``.py``.
        arguments: for a script.
        python: interpreter of a script; None for this program's.

    Returns:
        the plan; None for a script.

    Raises:
        UserError: for a mission that cannot be flown; ConfigurationError for the faults of a plan.
    """
    plan = check_mission_file(path, arguments, python)
    if plan is not None:
        away = distance_on_sphere((origin.latitude, origin.longitude), plan.legs[0].point)
        if away > MAX_LEG:
            raise UserError(
                f"{path}: begins {away / 1000:.1f} km from the world's origin ({origin.latitude:.5f}, "
                f"{origin.longitude:.5f}); give the plan's home: --home "
                f"{plan.home[0]:.7g},{plan.home[1]:.7g},{plan.home[2]:.5g}"
            )
    return plan


def check_mission_file(path: Path, arguments: Sequence[str], python: Path | None = None) -> Plan | None:
    """Check a mission as far as that needs no world; see ``check_mission``."""
    if not exists(path):
        raise UserError(f"{path}: no such mission file")
    if path.suffix == ".plan":
        plan = load_plan(path)
        if arguments:
            raise UserError(f"{path}: a plan takes no arguments ({' '.join(arguments)})")
        if python is not None:
            raise UserError(f"{path}: sitl-bridge itself flies plans; leave out --python")
        return plan
    if path.suffix == ".py":
        if python is not None:
            check_interpreter(python, path)
        try:
            program = ast.parse(read_bytes(path, MAX_PROGRAM_BYTES), str(path))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            if python is not None:
                return None  # a later Python than this one may have written it
            raise UserError(f"{path}: is not a Python program: {error}") from error
        require_mavsdk(program, path, python)
        return None
    raise UserError(f"{path}: a mission is a .plan of QGroundControl or a .py that uses MAVSDK")


def takes_turns(mission: Path, python: Path | None = None) -> bool:
    """Whether a checked mission uses the time gate, and so can take turns: a plan, or a script that imports
    ``sitl_bridge.api.mavsdk``."""
    if mission.suffix == ".plan":
        return True
    if python is not None:
        return False
    program = ast.parse(read_bytes(mission, MAX_PROGRAM_BYTES), str(mission))
    return any(
        isinstance(node, ast.ImportFrom) and node.module == "sitl_bridge.api.mavsdk"
        for node in ast.walk(program)
    )


def mavsdk_3_line(program: ast.AST) -> int | None:
    """Number of the first line that needs MAVSDK 3; None if there is none."""
    system = {"mavsdk.System"}
    lines, calls = [], []
    for node in ast.walk(program):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            modules = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            system |= {
                a.asname or a.name
                for a in node.names
                if a.name == "System" and node.module in ("mavsdk", "mavsdk.system")
            }
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            calls += [node] if isinstance(node, ast.Call) else []
            continue
        inside = [module.split(".")[1] for module in modules if module.startswith("mavsdk.")]
        lines += [node.lineno] if MAVSDK_3_MODULES & set(inside) else []
    lines += [call.lineno for call in calls if ast.unparse(call.func) in system]
    return min(lines, default=None)


def mavsdk_grpc_line(program: ast.AST) -> int | None:
    """Number of the first line that imports ``mavsdk_grpc``; None if there is none."""
    lines = []
    for node in ast.walk(program):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported = [alias.name for alias in node.names]
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else imported
            lines += [node.lineno for name in names if name.partition(".")[0] == "mavsdk_grpc"]
    return min(lines, default=None)


def require_mavsdk(program: ast.AST, script: Path, python: Path | None) -> None:
    """Check that an interpreter has the MAVSDK that a script was written for.

    Args:
        program: the script, parsed.
        python: the interpreter; None for this program's.

    Raises:
        UserError: for a script of MAVSDK 3 or of mavsdk_grpc without it, with the commands that help.
    """
    line = mavsdk_grpc_line(program)
    if line is not None and package_version(python or THIS, "mavsdk-grpc") is None:
        raise UserError(
            f"{script}: line {line} needs the package mavsdk-grpc, which {python or 'this program'} does not"
            f" have; {REMEDY.format(script=script, package='mavsdk-grpc')}"
        )
    line = mavsdk_3_line(program)
    if line is None:
        return
    found = package_version(python or THIS, "mavsdk")
    if found is not None and int(found.partition(".")[0]) < 4:
        return
    has = "no mavsdk" if found is None else f"mavsdk {found}"
    renamed = "" if package_version(python or THIS, "mavsdk-grpc") is None else (
        ", or import mavsdk_grpc in place of mavsdk, which that interpreter has"
    )  # fmt: skip
    raise UserError(
        f"{script}: line {line} needs MAVSDK 3, and {python or 'this program'} has {has}; "
        + REMEDY.format(script=script, package="'mavsdk<4'")
        + renamed
    )
