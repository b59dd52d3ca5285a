"""Start-up files for PX4: parameters handed over through the scripts that PX4 looks up on PATH.

PX4's start script sources ``px4-rc.params`` by PATH search, so a directory put first on PATH sets any
parameter without a change to PX4.  In a container the directory is mounted and put first on PATH there::

    sitl-bridge px4-files startup --airframe iris
    docker run -v ./startup:/startup:ro -e PATH=/startup:/opt/px4/bin:/usr/bin:/bin
        -e PX4_SYS_AUTOSTART=10016 -e PX4_SIM_MODEL=none_iris -e PX4_SIMULATOR=none ...
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from sitl_bridge.errors import UserError
from sitl_bridge.hil.ports import FURTHER_OFFBOARD_PORT
from sitl_bridge.px4.allocation import Parameters

AIRFRAME = 10016
"""PX4's none_iris, the generic quadcopter for an external simulator; parameters make it any multirotor."""
MODEL = "none_iris"
SELECTION = {"PX4_SYS_AUTOSTART": str(AIRFRAME), "PX4_SIM_MODEL": MODEL, "PX4_SIMULATOR": "none"}
"""Environment with which PX4 starts as that airframe and waits for a simulator that somebody else starts."""
SET_LATER = frozenset(
    {"EKF2_GPS_DELAY", "EKF2_MULTI_IMU", "SENS_IMU_MODE", "IMU_INTEG_RATE", "COM_MODE_ARM_CHK"}
)
"""px4-rc.simulator gives these defaults after px4-rc.params has run; a value set outright stands."""
_NAME = re.compile(r"[A-Z][A-Z0-9_]{1,15}")
_INTEGERS = 1 << 31
_SHARED_PORT = re.compile(r"^(\[ .* -gt 9 \] && udp_offboard_port_remote=)14549\b", re.MULTILINE)


def write_startup_files(directory: Path, parameters: Parameters) -> Path:
    """Write ``px4-rc.params`` into a directory that is to come first on PX4's PATH.

    Args:
        directory: made where it is missing; readable by every user, for containers.
        parameters: name to value, set in this order.

    Returns:
        the file.

    Raises:
        UserError: for a name or a value that cannot be a PX4 parameter's, or a directory that cannot be
            written.
    """
    lines = ["#!/bin/sh", "# Parameters that follow from the airframe; made for this run."]
    lines += [parameter_line(name, value) for name, value in parameters.items()]
    file = directory / "px4-rc.params"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o755)
        file.write_text("\n".join(lines) + "\n", encoding="ascii")
        file.chmod(0o644)
    except OSError as error:
        raise UserError(f"{file} cannot be written: {error.strerror}") from error
    return file


def write_links_file(directory: Path, etc: Path) -> bool:
    """Write ``px4-rc.mavlink``, PX4's own, by which instances from 10 on have an offboard port each.

    PX4 looks it up on PATH so that users can have their own.  All that is changed is the number of the port
    that those instances share.

    Args:
        directory: the one of ``write_startup_files``.
        etc: of the build.

    Returns:
        False where the build's script has no such line, so that nobody knows what it does.
    """
    script = etc / "init.d-posix" / "px4-rc.mavlink"
    text = script.read_text(encoding="utf-8") if script.is_file() else ""
    own, changes = _SHARED_PORT.subn(rf"\g<1>$(({FURTHER_OFFBOARD_PORT}+px4_instance))", text)
    if changes:
        (directory / script.name).write_text(own, encoding="utf-8")
    return changes > 0 or not text


def parameter_line(name: str, value: float) -> str:
    """Shell command that sets one parameter; nothing in it needs quoting.

    Raises:
        UserError: for a name or a value that cannot be a PX4 parameter's.
    """
    if not _NAME.fullmatch(name):
        raise UserError(f"{name!r} cannot be the name of a PX4 parameter: up to 16 of A-Z, 0-9 and _")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UserError(f"{name}: {value!r} is not a number")
    if isinstance(value, int) and not -_INTEGERS <= value < _INTEGERS:
        raise UserError(f"{name}: {value} does not fit PX4's 32-bit integers")
    command = "set" if name in SET_LATER else "set-default"
    return f"param {command} {name} {value if isinstance(value, int) else f'{value:.9g}'}"
