"""Metadata for ground stations: the parameters and the event texts of the arming checks.

Files of MAVLink's component metadata (https://mavlink.io/en/services/component_information.html), built when
the vehicle starts and served by ``file_protocol.py``.  ``px4.event_catalogue.EventCatalogue`` reads the same
format from a PX4 build.
"""

from __future__ import annotations

import json
import math
import zlib
from typing import Any

from sitl_bridge.autopilot.modes import flight_modes
from sitl_bridge.autopilot.parameters import Parameters
from sitl_bridge.link.mavlink.decoder import AUTOPILOT

GENERAL = "general.json"
PARAMETERS = "parameters.json"
EVENTS = "events.json"

PARAMETER_METADATA, EVENTS_METADATA = 1, 4
"""COMP_METADATA_TYPE."""

# --- health components: index of their bit (PX4's events, health_component_t)
NONE, PRESSURE, GPS, FLOW, DISTANCE, REMOTE, MOTORS, BATTERY = 0, 1, 3, 4, 6, 7, 8, 11
ATTITUDE, POSITION, MISSION, SYSTEM, GLOBAL, MAGNETOMETER, ACCELEROMETER, GYROSCOPE = (
    *(16, 17, 18, 20, 24, 27, 28, 29),
)

COMPONENTS = {
    NONE: ("none", "None"),
    PRESSURE: ("absolute_pressure", "Absolute pressure"),
    GPS: ("gps", "GPS"),
    FLOW: ("optical_flow", "Optical flow"),
    DISTANCE: ("distance_sensor", "Distance sensor"),
    REMOTE: ("remote_control", "Remote Control (RC or Joystick)"),
    MOTORS: ("motors_escs", "Motors/ESCs"),
    BATTERY: ("battery", "Battery"),
    ATTITUDE: ("attitude_estimate", "Attitude estimate"),
    POSITION: ("local_position_estimate", "Local position estimate"),
    MISSION: ("mission", "Mission"),
    SYSTEM: ("system", "System"),
    GLOBAL: ("global_position_estimate", "Global position estimate"),
    MAGNETOMETER: ("magnetometer", "Magnetometer"),
    ACCELEROMETER: ("accel", "Accelerometer"),
    GYROSCOPE: ("gyro", "Gyroscope"),
}

PROBLEMS = (
    ("Another check failed; see the messages", SYSTEM),
    ("Waiting for estimator to initialize", ATTITUDE),
    ("No valid attitude estimate", ATTITUDE),
    ("Navigation error: No valid position estimate", POSITION),
    ("Navigation error: No valid global position estimate", GLOBAL),
    ("Navigation error: No valid altitude estimate", POSITION),
    ("No valid mission available", MISSION),
    ("No offboard signal", SYSTEM),
    ("Home position not set", GLOBAL),
    ("No manual control input", REMOTE),
    ("Mode not suitable for arming", SYSTEM),
    ("Heading estimate not stable", ATTITUDE),
    ("Low battery", BATTERY),
    ("Critical battery", BATTERY),
    ("Emergency battery level", BATTERY),
    ("Gyroscope failure", GYROSCOPE),
    ("Accelerometer failure", ACCELEROMETER),
    ("Magnetometer failure", MAGNETOMETER),
    ("Barometer failure", PRESSURE),
    ("Gps failure", GPS),
    ("Optical flow failure", FLOW),
    ("Range finder failure", DISTANCE),
    ("Motor failure", MOTORS),
    ("Battery failure", BATTERY),
    ("Geofence violation", SYSTEM),
    ("Geofence RTL requires valid home", GLOBAL),
    ("Attitude failure detected", ATTITUDE),
)
"""Texts of the arming checks and their components.  Events carry numbers, so the texts must be known in
advance; the first entry stands for unknown texts."""

ARMING_SUMMARY, HEALTH_SUMMARY, FIRST_PROBLEM = 1, 2, 16
"""Event numbers, without the component's byte."""


def event_id(number: int) -> int:
    """Return EVENT.id, with the component in the highest byte."""
    return AUTOPILOT << 24 | number


def problem_number(text: str) -> int:
    """Return the index in ``PROBLEMS`` of an arming check's text, ignoring words after the known ones."""
    for index, (known, _) in enumerate(PROBLEMS):
        if text.startswith(known):
            return index
    return 0


CHUNK = ("chunk_idx", "uint8_t")
BITS, GROUPS = "px4::health_component_t", "px4::navigation_mode_group_t"
"""Name and type of a summary's first argument; types of the others."""


def event_catalogue() -> dict[str, Any]:
    """Return the definitions of all events (MAVLink's component events metadata, version 2)."""
    return {
        "version": 2,
        "components": {
            str(AUTOPILOT): {
                "namespace": "px4",
                "supported_protocols": ["health_and_arming_check"],
                "enums": {
                    "health_component_t": _bitfield(
                        {bit: COMPONENTS[bit] for bit in COMPONENTS}, "Subsystems and components"
                    ),
                    "navigation_mode_group_t": _bitfield(
                        {m.nav_state: (m.name.lower(), m.name) for m in flight_modes.MODES}, "Flight modes"
                    ),
                },
                "navigation_mode_groups": {
                    "groups": {str(mode.nav_state): [mode.custom_mode] for mode in flight_modes.MODES}
                },
                "event_groups": {
                    "arming_check": {"events": _arming_events()},
                    "health": {
                        "events": {
                            str(HEALTH_SUMMARY): _event(
                                "commander_health_summary",
                                "Health report summary event",
                                [CHUNK, ("is_present", BITS), ("error", BITS), ("warning", BITS)],
                                kind="summary",
                            )
                        }
                    },
                },
            }
        },
    }


def _arming_events() -> dict[str, Any]:
    summary = _event(
        "commander_arming_check_summary",
        "Arming check summary event",
        [CHUNK, ("error", BITS), ("warning", BITS), ("can_arm", GROUPS), ("can_run", GROUPS)],
        kind="summary",
    )
    problems = {
        str(FIRST_PROBLEM + index): _event(
            f"check_{index}", text, [("modes", GROUPS), ("health_component_index", "uint8_t")]
        )
        for index, (text, _) in enumerate(PROBLEMS)
    }
    return {str(ARMING_SUMMARY): summary, **problems}


def _bitfield(bits: dict[int, tuple[str, str]], text: str) -> dict[str, Any]:
    entries = {str(1 << bit): {"name": name, "description": words} for bit, (name, words) in bits.items()}
    return {"type": "uint32_t", "is_bitfield": True, "description": text, "entries": entries}


def _event(name: str, message: str, arguments: list[tuple[str, str]], kind: str = "") -> dict[str, Any]:
    shown = [{"name": argument, "type": type_} for argument, type_ in arguments]
    event: dict[str, Any] = {"name": name, "message": message, "arguments": shown}
    return event | {"type": kind} if kind else event


def parameter_catalogue(parameters: Parameters) -> dict[str, Any]:
    """Return the metadata of all parameters (MAVLink's component parameter metadata, version 1)."""
    rows = []
    for info in parameters.infos.values():
        row: dict[str, Any] = {
            "name": info.name,
            "type": "Int32" if info.is_integer else "Float",
            "default": info.default,
            "shortDesc": info.text,
            "group": info.name.split("_")[0],
            "category": "Standard",
        }
        for key, value in (("min", info.minimum), ("max", info.maximum)):
            if math.isfinite(value) and abs(value) < 1e30:
                row[key] = int(value) if info.is_integer else value
        if info.unit:
            row["units"] = info.unit
        rows.append(row)
    return {"version": 1, "parameters": rows}


def checksum(data: bytes) -> int:
    """Return the CRC-32 without inversion that MAVLink's file transfer and metadata use."""
    return zlib.crc32(data, 0xFFFFFFFF) ^ 0xFFFFFFFF


def files(parameters: Parameters) -> dict[str, bytes]:
    """Return all metadata files by name."""
    made = {
        PARAMETERS: json.dumps(parameter_catalogue(parameters), separators=(",", ":")).encode(),
        EVENTS: json.dumps(event_catalogue(), separators=(",", ":")).encode(),
    }
    kinds = {PARAMETER_METADATA: PARAMETERS, EVENTS_METADATA: EVENTS}
    listed = [
        {"type": kind, "uri": f"mftp://{name}", "fileCrc": checksum(made[name])}
        for kind, name in kinds.items()
    ]
    made[GENERAL] = json.dumps({"version": 1, "metadataTypes": listed}).encode()
    return made
