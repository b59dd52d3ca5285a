"""Finds the flights of a validation in a directory, and reads them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from sitl_bridge.api.logs import VehicleLog, read_vehicle_log
from sitl_bridge.base.errors import UserError
from sitl_bridge.lab.flights.data_sets import BLACKBIRD_SPEEDS, read_table


def read_flights(
    place: Path, say: Callable[[str], None], say_digests: Callable[[str], None]
) -> dict[str, VehicleLog]:
    """Read the flights of a directory, by their names; a copy of another is left out.

    Args:
        place: with tables of known data sets (.csv) or ULogs (.ulg).
        say: takes a line about each flight that is left out.
        say_digests: takes a line with the SHA-256 of each file.

    Raises:
        UserError: where there are none.
    """
    blackbird = {str(f.parent.relative_to(place)): f for f in sorted(place.rglob(BLACKBIRD_SPEEDS))}
    files = blackbird or {f.stem: f for f in sorted(place.glob("*")) if f.suffix in (".csv", ".ulg")}
    hashes: dict[str, str] = {}
    for name, f in list(files.items()):
        first = hashes.setdefault(hashlib.sha256(f.read_bytes()).hexdigest(), name)
        if first != name:
            say(f"note: {name} is left out: it is a copy of {first}")
            del files[name]
    for digest, name in hashes.items():
        say_digests(f"{digest}  {name}")
    read = {
        name: read_table(f) if f.suffix == ".csv" else read_vehicle_log(f, 4, whole=True)
        for name, f in files.items()
    }
    found = {name: log for name, log in read.items() if log.airborne}
    for name in read.keys() - found.keys():
        say(f"note: {name} is left out: it never leaves the ground effect")
    if not found:
        raise UserError(f"{place}: has no flights, tables (.csv) or ULogs (.ulg)")
    return found
