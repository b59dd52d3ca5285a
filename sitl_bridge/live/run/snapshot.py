"""Snapshots of a running simulation without stopping it: values of one snapshot may be a step apart."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.core.sensors.gps import GPS, JAMMING, SPOOF_DRIFT, SPOOF_OFFSET
from sitl_bridge.core.sensors.imu import ZERO_CELSIUS
from sitl_bridge.core.sensors.records import FAULT_NONE, FAULT_OFF, NONE
from sitl_bridge.core.sensors.registry import KIND_NAMES
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.core.world.atmosphere import air
from sitl_bridge.link.hil.run_clock import RunClock
from sitl_bridge.live.run.client_link import SimulationSnapshot

OF_LINK = ("connected", "armed", "lockstep", "stalled", "held", "answers", "bad_frames")
OF_BATTERY = ("battery_voltage", "battery_current", "battery_left")
"""Fields of ``VehicleHealth`` from ``LinkStatus``, and from the columns of ``ServerStatus.battery``."""


def take_snapshot(source: RunClock) -> SimulationSnapshot:
    """Take a snapshot of a simulation, from any thread."""
    simulation, status = source.simulation, source.status()
    states = simulation.states
    rotors = simulation.vehicles["rotor_count"].tolist()
    fields = ("position", "velocity", "attitude", "angular_velocity", "wind")
    clock = {
        "steps": status.steps,
        "real_time_factor": status.real_time_factor,
        "speed": None if math.isinf(source.speed) else source.speed,
        "paused": status.paused,
    }
    health = [
        {
            **{name: getattr(link, name) for name in OF_LINK},
            **dict(zip(OF_BATTERY, status.battery[i].tolist(), strict=True)),
            "rotor_health": states[i]["rotor_health"][: rotors[i]].tolist(),
            "faults": list(_faults(simulation.sensors[i], simulation.sensor_states[i])),
            "on_ground": bool(states[i]["in_contact"]),
            "impact_speed": float(states[i]["impact_speed"]),
        }
        for i, link in enumerate(status.links)
    ]
    return SimulationSnapshot(
        time=status.seconds,
        clock=clock,
        world=_world(source),
        motion={name: states[name].tolist() for name in fields},
        rotors={
            "rotor_speed": _of_rotors(states["rotor_speed"], rotors),
            "motor_current": _of_rotors(states["motor_current"], rotors),
            "esc_temperature": _of_rotors(_air_temperature(simulation) + states["esc_rise"], rotors),
        },
        health=health,
        contacts=listed_contacts(simulation),
    )


def listed_contacts(simulation: Simulation) -> list[tuple[int, float, str, str, float]]:
    """Return ``SimulationSnapshot.contacts``."""
    names = simulation.names
    return [
        (names.index(one.vehicle), one.time, one.part, one.object, one.speed)
        for one in simulation.named_contacts(simulation.start)
    ]


def _of_rotors(values: Floats, counts: list[int]) -> list[list[float]]:
    return [row[:count] for row, count in zip(values.tolist(), counts, strict=True)]


def _air_temperature(simulation: Simulation) -> Floats:
    """(n, 1) deg C."""
    environment = simulation.world.environment[0]
    downs = simulation.states["position"][:, 2]
    return np.array([[air(environment, float(down))[0] - ZERO_CELSIUS] for down in downs])


def _world(source: RunClock) -> JsonObject:
    place = source.simulation.world
    wind, origin = place.wind[0], place.specification.origin
    return {
        "latitude": origin.latitude,
        "longitude": origin.longitude,
        "altitude": origin.altitude,
        "gravity": float(place.environment[0]["gravity"]),
        "steady_wind": wind["steady"].tolist(),
        "profile_speed": float(wind["log_speed_20ft"]),
        "profile_direction": wind["log_direction"].tolist(),
        "turbulence": float(wind["dryden_speed_20ft"]),
        "gusts": int(wind["gust_count"]),
        "recorded": len(place.wind_series) > 0,
    }


def _faults(sensors: Records, memories: Records) -> Iterator[JsonObject]:
    for sensor, memory in zip(sensors, memories, strict=True):
        if sensor["kind"] == NONE:
            continue
        faulty = {"sensor": KIND_NAMES[int(sensor["kind"])], "instance": int(sensor["instance"])}
        if memory["fault"] != FAULT_NONE:
            yield {**faulty, "fault": "off" if memory["fault"] == FAULT_OFF else "stuck"}
        if sensor["kind"] != GPS:
            continue
        if memory["memory"][JAMMING] > 0.0:
            yield {**faulty, "fault": "jammed"}
        drift = memory["memory"][SPOOF_DRIFT : SPOOF_DRIFT + 3]
        offset = memory["memory"][SPOOF_OFFSET : SPOOF_OFFSET + 3]
        if drift.any() or offset.any():
            yield {**faulty, "fault": "spoofed"}
