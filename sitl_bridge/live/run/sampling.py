"""Conversion of snapshots to messages and to events between two snapshots."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sitl_bridge.core.world.earth import geodetic_of
from sitl_bridge.live.run.client_link import SimulationSnapshot
from sitl_bridge.live.run.messages import Event, EventKind, VehicleHealth, VehicleState

IMPACT = 0.5
"""Contact speed of a reported impact, m/s: PX4 lands at 0.7 m/s at most by default (MPC_LAND_SPEED), and
touches down more slowly in ground effect."""

CHANGES: tuple[tuple[str, EventKind, EventKind, str, str], ...] = (
    ("connected", "connected", "disconnected", "flight stack connected", "flight stack disconnected"),
    ("armed", "armed", "disarmed", "armed", "disarmed"),
    ("stalled", "stalled", "answering", "flight stack does not answer", "flight stack answers again"),
    ("on_ground", "touched", "left_ground", "touched the ground", "left the ground"),
)
"""Field of the health, event kinds when it becomes true and false, and their texts."""


def states(snapshot: SimulationSnapshot) -> list[VehicleState]:
    """Return the motion of every vehicle."""
    position, origin = np.array(snapshot.motion["position"]), snapshot.world
    known = np.where(np.isfinite(position), position, 0.0)
    place = origin["latitude"], origin["longitude"], origin["altitude"]
    latitude, longitude, altitude = geodetic_of(known[:, 0], known[:, 1], known[:, 2], place)
    places = np.stack([latitude, longitude, altitude], axis=1)
    places[~np.isfinite(position).all(axis=1)] = math.nan
    return [
        VehicleState(
            time=snapshot.time,
            latitude=place[0],
            longitude=place[1],
            altitude=place[2],
            **{name: tuple(rows[i]) for name, rows in snapshot.rotors.items()},
            **{name: rows[i] for name, rows in snapshot.motion.items()},
        )
        for i, place in enumerate(places.tolist())
    ]


def health(snapshot: SimulationSnapshot) -> list[VehicleHealth]:
    """Return the condition of every vehicle."""
    return [VehicleHealth(time=snapshot.time, **fields) for fields in snapshot.health]


def changes(before: VehicleHealth, after: VehicleHealth) -> Iterator[Event]:
    """Yield the events of a vehicle between two health messages."""
    for name, became, ceased, became_text, ceased_text in CHANGES:
        was, now = getattr(before, name), getattr(after, name)
        if now and not was:
            yield Event(time=after.time, kind=became, text=became_text)
        if was and not now:
            yield Event(time=after.time, kind=ceased, text=ceased_text)
    hardest, hard = before.impact_speed, after.impact_speed
    if hardest is not None and hard is not None and hard > max(hardest, IMPACT):
        yield Event(time=after.time, kind="impact", text=f"impact at {hard:.1f} m/s")


def contacts(snapshot: SimulationSnapshot, known: int) -> Iterator[tuple[int, Event]]:
    """Yield vehicle number and event of every contact with an object after the first ``known``."""
    for vehicle, time, part, thing, speed in snapshot.contacts[known:]:
        text = f"{part} hit {thing} at {speed:.1f} m/s"
        yield vehicle, Event(time=time, kind="contact", text=text, object=thing, speed=speed)


def differs(before: VehicleHealth | None, after: VehicleHealth) -> bool:
    """Return whether fields other than counters and battery values changed."""
    if before is None:
        return True
    names = ("connected", "armed", "lockstep", "stalled", "held", "rotor_health", "faults", "on_ground")
    return any(getattr(before, name) != getattr(after, name) for name in names)
