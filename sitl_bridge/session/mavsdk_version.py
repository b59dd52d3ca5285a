"""Recognises scripts of MAVSDK 3, whose interface MAVSDK 4 does not have.

Up to version 3, the package ``mavsdk`` is MAVSDK-Python: ``System()`` is constructed, plug-ins are modules
such as ``mavsdk.offboard``.  From version 4 on it is the native binding, and MAVSDK-Python is ``mavsdk_grpc``
(https://mavsdk.mavlink.io/main/en/python/migration.html).
"""

from __future__ import annotations

import ast
from pathlib import Path

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system.interpreter import THIS, package_version

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

REMEDY = """make an environment for it, and name its interpreter:
  python3 -m venv ~/mavsdk3
  ~/mavsdk3/bin/pip install 'mavsdk<4'
  sitl-bridge fly {script} --python ~/mavsdk3/bin/python
or write it for MAVSDK 4, as missions/plain_mavsdk.py is"""


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


def require_mavsdk(program: ast.AST, script: Path, python: Path | None) -> None:
    """Check that an interpreter has the MAVSDK that a script was written for.

    Args:
        program: the script, parsed.
        script: its file.
        python: the interpreter; None for this program's.

    Raises:
        UserError: for a script of MAVSDK 3 without it, with the commands that help.
    """
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
        + REMEDY.format(script=script)
        + renamed
    )
