"""From a running simulation to messages, and to the events that lie between two looks at it.

Looks never stop the simulation: the figures of one message may be a step apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pymap3d

from sitl_bridge.bus.messages import (
    Clock,
    Event,
    EventKind,
    FaultySensor,
    VehicleHealth,
    VehicleState,
    WorldState,
)
from sitl_bridge.bus.source import Source
from sitl_bridge.sensors.gps import JAMMING, SPOOF_DRIFT, SPOOF_OFFSET
from sitl_bridge.sensors.layout import FAULT_NONE, FAULT_OFF, GPS, KIND_NAMES, NONE

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


def clock(source: Source) -> Clock:
    """How time goes."""
    status = source.status()
    return Clock(
        time=status.time,
        steps=status.steps,
        real_time_factor=status.real_time_factor,
        speed=None if math.isinf(source.speed) else source.speed,
        paused=status.paused,
    )


def world(source: Source) -> WorldState:
    """The place, and the wind's settings as they are now."""
    place = source.simulation.world
    environment, wind = place.environment[0], place.wind[0]
    origin = place.specification.origin
    return WorldState(
        time=source.status().time,
        latitude=origin.latitude,
        longitude=origin.longitude,
        altitude=origin.altitude,
        gravity=float(environment["gravity"]),
        steady_wind=tuple(wind["steady"].tolist()),
        profile_speed=float(wind["log_speed_20ft"]),
        profile_direction=tuple(wind["log_direction"].tolist()),
        turbulence=float(wind["dryden_speed_20ft"]),
        gusts=int(wind["gust_count"]),
        recorded=len(place.wind_series) > 0,
    )


def states(source: Source) -> list[VehicleState]:
    """The motion of every vehicle."""
    simulation = source.simulation
    time = source.status().time
    rows = simulation.states
    origin = simulation.world.specification.origin
    position = rows["position"].copy()
    known = np.where(np.isfinite(position), position, 0.0)
    latitude, longitude, altitude = pymap3d.ned2geodetic(
        known[:, 0], known[:, 1], known[:, 2], origin.latitude, origin.longitude, origin.altitude
    )
    lost = ~np.isfinite(position).all(axis=1)
    places = np.stack([latitude, longitude, altitude], axis=1)
    places[lost] = math.nan
    return [
        VehicleState(
            time=time,
            position=tuple(position[i].tolist()),
            velocity=tuple(row["velocity"].tolist()),
            attitude=tuple(row["attitude"].tolist()),
            angular_velocity=tuple(row["angular_velocity"].tolist()),
            latitude=place[0],
            longitude=place[1],
            altitude=place[2],
            wind=tuple(row["wind"].tolist()),
            rotor_speed=tuple(row["rotor_speed"][:rotors].tolist()),
        )
        for i, (row, place, rotors) in enumerate(
            zip(rows, places.tolist(), simulation.vehicles["rotor_count"].tolist(), strict=True)
        )
    ]


def health(source: Source) -> list[VehicleHealth]:
    """The condition of every vehicle."""
    simulation, status = source.simulation, source.status()
    rotors = simulation.vehicles["rotor_count"].tolist()
    return [
        VehicleHealth(
            time=status.time,
            connected=link.connected,
            armed=link.armed,
            lockstep=link.lockstep,
            stalled=link.stalled,
            held=link.held,
            answers=link.answers,
            bad_frames=link.bad_frames,
            battery_voltage=float(status.battery[i, 0]),
            battery_current=float(status.battery[i, 1]),
            battery_left=float(status.battery[i, 2]),
            rotor_health=tuple(simulation.states[i]["rotor_health"][: rotors[i]].tolist()),
            faults=tuple(_faults(simulation.sensors[i], simulation.sensor_states[i])),
            on_ground=bool(simulation.states[i]["in_contact"]),
            impact_speed=float(simulation.states[i]["impact_speed"]),
        )
        for i, link in enumerate(status.links)
    ]


def _faults(sensors: Any, memories: Any) -> Iterator[FaultySensor]:
    for sensor, memory in zip(sensors, memories, strict=True):
        if sensor["kind"] == NONE:
            continue
        name, instance = KIND_NAMES[int(sensor["kind"])], int(sensor["instance"])
        if memory["fault"] != FAULT_NONE:
            off = memory["fault"] == FAULT_OFF
            yield FaultySensor(sensor=name, instance=instance, fault="off" if off else "stuck")
        if sensor["kind"] != GPS:
            continue
        if memory["memory"][JAMMING] > 0.0:
            yield FaultySensor(sensor=name, instance=instance, fault="jammed")
        drift = memory["memory"][SPOOF_DRIFT : SPOOF_DRIFT + 3]
        offset = memory["memory"][SPOOF_OFFSET : SPOOF_OFFSET + 3]
        if drift.any() or offset.any():
            yield FaultySensor(sensor=name, instance=instance, fault="spoofed")


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
