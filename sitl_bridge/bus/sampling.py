"""From looks at a running simulation to messages, and to the events that lie between two looks."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pymap3d

from sitl_bridge.bus.client_link import Look
from sitl_bridge.bus.messages import (
    Clock,
    Event,
    EventKind,
    VehicleHealth,
    VehicleState,
    WorldState,
)

IMPACT = 0.5
"""m/s of a contact that is told as an impact: PX4 lands at 0.7 m/s at most by default (MPC_LAND_SPEED), and
touches down slower than that in ground effect."""

CHANGES: tuple[tuple[str, EventKind, EventKind, str, str], ...] = (
    ("connected", "connected", "disconnected", "a flight stack connected", "the flight stack is gone"),
    ("armed", "armed", "disarmed", "armed", "disarmed"),
    ("stalled", "stalled", "answering", "the flight stack does not answer", "the flight stack answers again"),
    ("on_ground", "touched", "left_ground", "touched the ground", "left the ground"),
)
"""Field of the health, kinds of event when it becomes true and false, and their texts."""


def clock(look: Look) -> Clock:
    """How time goes."""
    return Clock(time=look.time, **look.clock)


def world(look: Look) -> WorldState:
    """The place, and the wind's settings."""
    return WorldState(time=look.time, **look.world)


def states(look: Look) -> list[VehicleState]:
    """The motion of every vehicle."""
    position, origin = np.array(look.motion["position"]), look.world
    known = np.where(np.isfinite(position), position, 0.0)
    latitude, longitude, altitude = pymap3d.ned2geodetic(
        known[:, 0], known[:, 1], known[:, 2], origin["latitude"], origin["longitude"], origin["altitude"]
    )
    places = np.stack([latitude, longitude, altitude], axis=1)
    places[~np.isfinite(position).all(axis=1)] = math.nan
    return [
        VehicleState(
            time=look.time,
            latitude=place[0],
            longitude=place[1],
            altitude=place[2],
            rotor_speed=tuple(look.rotor_speed[i]),
            **{name: rows[i] for name, rows in look.motion.items()},
        )
        for i, place in enumerate(places.tolist())
    ]


def health(look: Look) -> list[VehicleHealth]:
    """The condition of every vehicle."""
    return [VehicleHealth(time=look.time, **fields) for fields in look.health]


def changes(before: VehicleHealth, after: VehicleHealth) -> Iterator[Event]:
    """What happened to a vehicle between two looks at its health."""
    for name, became, ceased, became_text, ceased_text in CHANGES:
        was, now = getattr(before, name), getattr(after, name)
        if now and not was:
            yield Event(time=after.time, kind=became, text=became_text)
        if was and not now:
            yield Event(time=after.time, kind=ceased, text=ceased_text)
    hardest, hard = before.impact_speed, after.impact_speed
    if hardest is not None and hard is not None and hard > max(hardest, IMPACT):
        yield Event(time=after.time, kind="impact", text=f"hit something at {hard:.1f} m/s")


def differs(before: VehicleHealth | None, after: VehicleHealth) -> bool:
    """Whether more than the counters and the battery's figures changed."""
    if before is None:
        return True
    names = ("connected", "armed", "lockstep", "stalled", "held", "rotor_health", "faults", "on_ground")
    return any(getattr(before, name) != getattr(after, name) for name in names)
