"""Start-up files for PX4: parameters handed over through the scripts that PX4 looks up on PATH.

PX4's start script sources ``px4-rc.params`` by PATH search, so a directory put first on PATH sets any
parameter without a change to PX4, in a local process as well as in a container.
"""

from __future__ import annotations

import re
from pathlib import Path

from sitl_bridge.errors import UserError
from sitl_bridge.px4.parameters import Parameters

_NAME = re.compile(r"[A-Z][A-Z0-9_]{1,15}")
SET_LATER = frozenset(
    {"EKF2_GPS_DELAY", "EKF2_MULTI_IMU", "SENS_IMU_MODE", "IMU_INTEG_RATE", "COM_MODE_ARM_CHK"}
)
"""px4-rc.simulator gives these defaults after px4-rc.params has run; a value set outright stands."""


def write_startup_files(directory: Path, parameters: Parameters) -> Path:
    """Write ``px4-rc.params`` into a directory that is to come first on PX4's PATH.

    Args:
        directory: made where it is missing.
        parameters: name to value.

    Returns:
        the file.

    Raises:
        UserError: for a name that cannot be a PX4 parameter's.
    """
    lines = ["#!/bin/sh", "# Parameters that follow from the airframe; made for this run."]
    for name, value in parameters.items():
        if not _NAME.fullmatch(name):
            raise UserError(f"{name!r} cannot be the name of a PX4 parameter")
        command = "set" if name in SET_LATER else "set-default"
        text = str(value) if isinstance(value, int) else f"{value:.9g}"
        lines.append(f"param {command} {name} {text}")
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "px4-rc.params"
    file.write_text("\n".join(lines) + "\n", encoding="ascii")
    return file
