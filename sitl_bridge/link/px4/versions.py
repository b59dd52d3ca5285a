"""Differences between PX4 versions: tested versions and renamed parameters.

Every version from v1.14 on reads parameters from ``px4-rc.simulator`` on PATH (startup.py).  A build's own
list gives the parameters that it has, and the read-back gives those that PX4 has set (read_back.py).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # else missions, which read the names of parameters, load the compiler and SciPy
    from sitl_bridge.core.vehicle.control_effectiveness import Parameters

PARAMETER_INTERVAL = 1.2
"""s of the vehicle's time after which a changed parameter is in effect.  PX4's modules read changed
parameters at most once a second (``_parameter_update_sub`` in src/modules/navigator/navigator.h)."""

FLOWN = (
    "v1.14.4", "v1.15.4", "main of February 2025", "v1.16.0", "main of March 2026", "v1.17.0-rc2",
    "v1.18.0-alpha1", "main of July 2026",
)  # fmt: skip
"""PX4 versions flown by the tests with real PX4."""

OLDEST, NEWEST = (1, 14), (1, 18)
"""Major and minor number of the oldest and the newest version in FLOWN; main of July 2026 reports v1.18."""

RENAMED: dict[str, tuple[str, ...]] = {
    "EKF2_GPS_DELAY": ("SENS_GPS0_DELAY", "SENS_GPS1_DELAY"),
    "EKF2_GPS_POS_X": ("SENS_GPS0_OFFX", "SENS_GPS1_OFFX"),
    "EKF2_GPS_POS_Y": ("SENS_GPS0_OFFY", "SENS_GPS1_OFFY"),
    "EKF2_GPS_POS_Z": ("SENS_GPS0_OFFZ", "SENS_GPS1_OFFZ"),
}
"""Old name to the new ones with the same meaning and unit (PX4 v1.18 has one set per receiver instead of one
for all; sensors/vehicle_gps_position/VehicleGPSPosition.cpp)."""

REPLACED = {
    row["name"]: row["instead"]
    for row in csv.DictReader(
        resources.files("sitl_bridge.link.px4")
        .joinpath("removed_parameters.csv")
        .read_text("utf-8")
        .splitlines()
    )
}
"""Names of v1.16 and v1.17 that a later PX4 removed, and what there is instead; empty for nothing
(removed_parameters.csv).

Found by comparing the builds' lists of parameters; reasons in docs/en/releases/1.18.md and in the history of
the files that defined them."""

NEW = ("MOTFAIL_C2T", "MOTFAIL_IDLE", "MOTFAIL_OFF", "MPC_YAWRAUTO_ACC", "SYS_HAS_NUM_ASPD")
"""Names that only newer versions have and for which no older name stands, of the parameters that are set: the
last two from v1.15 on."""

_TAG = re.compile(r"v(\d+)\.(\d+)\.(\d+)")


def release(version: str) -> tuple[int, int] | None:
    """Return major and minor number of a version's tag; None if it has none.

    A build from a checkout without tags reports v0.0.0 (PX4's src/lib/version/px_update_git_header.py).
    """
    found = _TAG.match(version)
    return (int(found[1]), int(found[2])) if found and found[0] != "v0.0.0" else None


def describe_untested(version: str) -> str:
    """Return a sentence about a version that is not tested; empty for tested ones.

    Args:
        version: as reported by the build, ``v1.16.0`` or ``v1.17.0-alpha1-12-g0123456``.
    """
    flown = f"sitl-bridge is tested with {FLOWN[0]} to {FLOWN[-1]}"
    number = release(version)
    if number is None:
        return f"this PX4 does not report its version (was it built without git tags?); {flown}"
    if number < OLDEST:
        return f"PX4 {version} is older than any that sitl-bridge supports; {flown}"
    if number > NEWEST:
        return f"PX4 {version} is newer than this sitl-bridge; {flown}"
    return ""


def rename_for(parameters: Parameters, known: Collection[str] | None) -> Parameters:
    """Return the parameters by the names that a build has.

    Args:
        parameters: by their old or new names.
        known: names of the build's own list; None if it has none: then renamed parameters are given by both
            names, of which PX4 uses the one it has.
    """
    older = {new: old for old, names in RENAMED.items() for new in names}
    found: Parameters = {}
    for name, value in parameters.items():
        if known is None:
            found |= dict.fromkeys((name, *RENAMED.get(name, ())), value)
        elif name not in known and any(new in known for new in RENAMED.get(name, ())):
            found |= {new: value for new in RENAMED[name] if new in known}
        elif name not in known and older.get(name) in known:
            found[older[name]] = value
        else:
            found[name] = value
    return found


def not_everywhere() -> frozenset[str]:
    """Return the names of this module: those that some versions have and others do not."""
    return frozenset((*RENAMED, *REPLACED, *NEW)).union(*RENAMED.values())


def hint(name: str) -> str:
    """Return a hint about a name that newer PX4 versions removed; empty for others."""
    if name not in REPLACED:
        return ""
    return f"; it was removed: {REPLACED[name]}" if REPLACED[name] else "; it was removed"
