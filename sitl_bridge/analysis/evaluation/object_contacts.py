"""What a vehicle hit in a flight: its contacts with objects of the scene, in words and as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sitl_bridge.base.arrays import Records
from sitl_bridge.base.json_data import JsonObject, ReadJson
from sitl_bridge.core.dynamics.contact_log import part_name

REPORTED = 5
"""Contacts of a vehicle that are listed one by one."""


class ObjectContact(NamedTuple):
    """A vehicle's contact with an object, other than standing on it."""

    time: float  # s of simulated time
    name: str  # of the object
    part: str  # of the vehicle
    speed: float  # m/s, closing speed
    position: tuple[float, float, float]  # m NED


def object_contacts(rows: Records, vehicle: int, names: Sequence[str]) -> tuple[ObjectContact, ...]:
    """Contacts of one vehicle.

    Args:
        rows: (k,) CONTACT of all vehicles.
        vehicle: index.
        names: of the scene's objects.
    """
    found = []
    for row in rows[rows["vehicle"] == vehicle]:
        what = part_name(int(row["part"]))
        north, east, down = (float(x) for x in row["position"])
        name = names[int(row["object"])]
        found.append(ObjectContact(row["time"] * 1e-6, name, what, float(row["speed"]), (north, east, down)))
    return tuple(found)


def contact_words(contacts: Sequence[ReadJson]) -> list[str]:
    """Contacts, as ``contact_values`` gives them, in words: the first few one by one."""
    words = [
        f"the {one['part']} hit {one['object']} at {one['closing_speed']:.1f} m/s, {one['time']:.1f} s"
        for one in contacts[:REPORTED]
    ]
    if len(contacts) > REPORTED:
        words.append(f"{len(contacts) - REPORTED} more contacts with objects, in the summary")
    return words


def contact_values(one: ObjectContact) -> JsonObject:
    """A contact as plain values."""
    return {
        "time": float(one.time),
        "object": one.name,
        "part": one.part,
        "closing_speed": one.speed,
        "position": list(one.position),
    }
