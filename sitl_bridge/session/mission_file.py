"""Missions that a user names: own files by path, shipped ones also by their name below ``missions/``.

Everything about them that can be checked is checked before anything starts.  Scripts of MAVSDK 3 are
recognised by their ``System()``: up to version 3, the package ``mavsdk`` is MAVSDK-Python.  From version 4 on
it is the native binding, and MAVSDK-Python is ``mavsdk_grpc``
(https://mavsdk.mavlink.io/main/en/python/migration.html).
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


def old_mavsdk(program: ast.AST) -> tuple[int, str] | None:
    """The first line that needs MAVSDK-Python, and its package, ``mavsdk-grpc`` or ``mavsdk<4``."""
    system, calls, lines = {"mavsdk.System"}, [], []
    for node in ast.walk(program):
        if isinstance(node, ast.Call):
            calls.append(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            of = node.module if isinstance(node, ast.ImportFrom) else None
            imported = [of or alias.name for alias in node.names]
            lines += [node.lineno for name in imported if name.partition(".")[0] == "mavsdk_grpc"]
            if of in ("mavsdk", "mavsdk.system"):
                system |= {alias.asname or alias.name for alias in node.names if alias.name == "System"}
    if lines:
        return min(lines), "mavsdk-grpc"
    lines = [call.lineno for call in calls if ast.unparse(call.func) in system]
    return (min(lines), "mavsdk<4") if lines else None


def require_mavsdk(program: ast.AST, script: Path, python: Path | None) -> None:
    """Check that an interpreter has the MAVSDK that a script was written for.

    Args:
        program: the script, parsed.
        python: the interpreter; None for this program's.

    Raises:
        UserError: for a script of MAVSDK-Python without it, with the commands that help.
    """
    needed = old_mavsdk(program)
    if needed is None:
        return
    line, package = needed
    name, _, below = package.partition("<")
    found = package_version(python or THIS, name)
    if found is None or (below and int(found.partition(".")[0]) >= int(below)):
        has = f"no {name}" if found is None else f"{name} {found}"
        raise UserError(
            f"{script}: line {line} needs {package}, and {python or 'this program'} has {has}; "
            + REMEDY.format(script=script, package=repr(package))
        )
