"""What differs between PX4 versions: which ones have been flown, and parameters that changed their name.

How parameters reach PX4 does not differ: ``px4-rc.simulator`` on PATH (startup.py) is read by every version
from v1.14 on.  What a build really has follows from its own list of parameters, and what PX4 has taken from
reading it back (read_back.py).
"""

from __future__ import annotations

import re
from collections.abc import Collection

from sitl_bridge.vehicle.control_effectiveness import Parameters

FLOWN = ("v1.14.4", "v1.15.4", "main of February 2025", "v1.16.0", "main of March 2026")
"""PX4 versions that the tests with real PX4 have flown."""

OLDEST, NEWEST = (1, 14), (1, 17)
"""Major and minor number of the oldest and the newest version in FLOWN; main of March 2026 calls itself
v1.17."""

RENAMED: dict[str, tuple[str, ...]] = {
    "EKF2_GPS_DELAY": ("SENS_GPS0_DELAY", "SENS_GPS1_DELAY"),
    "EKF2_GPS_POS_X": ("SENS_GPS0_OFFX", "SENS_GPS1_OFFX"),
    "EKF2_GPS_POS_Y": ("SENS_GPS0_OFFY", "SENS_GPS1_OFFY"),
    "EKF2_GPS_POS_Z": ("SENS_GPS0_OFFZ", "SENS_GPS1_OFFZ"),
}
"""Old name to the new ones that have the same meaning and unit (PX4 v1.18, one set for each receiver in place
of one for all; sensors/vehicle_gps_position/VehicleGPSPosition.cpp)."""

REPLACED = {"COM_RC_OVERRIDE": "MAN_OVERRIDE_SPD", "COM_OBC_LOSS_T": ""}
"""Names that PX4 v1.18 dropped, and what does their work in another unit; empty where nothing does
(docs/en/releases/1.18.md)."""

_TAG = re.compile(r"v(\d+)\.(\d+)\.(\d+)")


def release(version: str) -> tuple[int, int] | None:
    """Major and minor number of a version's tag; None where it has none."""
    found = _TAG.match(version)
    return (int(found[1]), int(found[2])) if found else None


def warning(version: str) -> str:
    """One sentence on a version that has not been flown; empty for the others.

    Args:
        version: as the build gives it, ``v1.16.0`` or ``v1.17.0-alpha1-12-g0123456``.
    """
    flown = f"sitl-bridge has been flown with {FLOWN[0]} to {FLOWN[-1]}"
    number = release(version)
    if number is None:
        return f"this PX4 does not give its version; {flown}"
    if number < OLDEST:
        return f"PX4 {version} is older than any that sitl-bridge supports; {flown}"
    if number > NEWEST:
        return f"PX4 {version} is newer than this sitl-bridge; {flown}"
    return ""


def named_for(parameters: Parameters, known: Collection[str] | None) -> Parameters:
    """The parameters by the names that a build has.

    Args:
        parameters: by their old or new names.
        known: names of the build's own list; None where it carries none: then those that were renamed are
            given by both names, of which PX4 takes the one it has.
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


def renamed() -> frozenset[str]:
    """Old and new names of the parameters that were renamed: a PX4 has one of each pair."""
    return frozenset(RENAMED).union(*RENAMED.values())


def hint(name: str) -> str:
    """What to say of a name that newer PX4 versions have dropped; empty for others."""
    if name not in REPLACED:
        return ""
    return f"; newer versions have {REPLACED[name]} in its place" if REPLACED[name] else "; it was removed"
