"""MAVLink's messages: pymavlink's dialect ``common``, and what it lacks of common.xml.

Every name of ``pymavlink.dialects.v20.common`` is one of this module.  The messages below are added to it and
to its ``mavlink_map``, so that its decoder knows them; one that pymavlink has by now is left as it is.

Source: https://github.com/mavlink/mavlink, message_definitions/v1.0/common.xml and standard.xml, commit
de1e078a3a7c53c9262a95b7417959a0f8bf4150.  The order of fields on the wire and the seed of the checksum follow
https://mavlink.io/en/guide/serialization.html.
"""

from __future__ import annotations

import re
import struct
from typing import Any

from pymavlink.dialects.v20 import common as _pymavlink

from sitl_bridge.base.c_types import CODES

_MESSAGES = (
    (
        "MISSION_CURRENT",
        42,
        "uint16_t seq",
        "uint16_t total, uint8_t mission_state, uint8_t mission_mode, uint32_t mission_id, uint32_t fence_id,"
        " uint32_t rally_points_id",
    ),
    (
        "MISSION_COUNT",
        44,
        "uint8_t target_system, uint8_t target_component, uint16_t count",
        "uint8_t mission_type, uint32_t opaque_id",
    ),
    (
        "MISSION_ACK",
        47,
        "uint8_t target_system, uint8_t target_component, uint8_t type",
        "uint8_t mission_type, uint32_t opaque_id",
    ),
    (
        "PROTOCOL_VERSION",
        300,
        "uint16_t version, uint16_t min_version, uint16_t max_version, uint8_t[8] spec_version_hash,"
        " uint8_t[8] library_version_hash",
        "",
    ),
    (
        "EVENT",
        410,
        "uint8_t destination_component, uint8_t destination_system, uint32_t id, uint32_t event_time_boot_ms,"
        " uint16_t sequence, uint8_t log_levels, uint8_t[40] arguments",
        "",
    ),
)
"""Name, id, fields and extension fields, both in the order of the definition."""

_VALUES = {
    "MAV_PARAM_ERROR_TYPE_MISMATCH": 7,
    "MAV_RESULT_CANCELLED": 6,
    "MAV_RESULT_COMMAND_UNSUPPORTED_MAV_FRAME": 9,
}

FORCE_ARMING = 21196
"""Second parameter of MAV_CMD_COMPONENT_ARM_DISARM that skips the checks, by common.xml."""

_FIELD = re.compile(r"(\w+)(?:\[(\d+)\])? (\w+)")


def __getattr__(name: str) -> Any:
    """Names of pymavlink's dialect."""
    value = globals()[name] = getattr(_pymavlink, name)
    return value


class _AddedMessage(_pymavlink.MAVLink_message):  # type: ignore[misc]  # pymavlink is untyped
    """A message whose class attributes, those of pymavlink's generated classes, describe its fields.

    Args:
        values: of the fields in the order of the definition; extension fields are 0 where none is given.
        named: likewise by name.
    """

    required: int

    def __init__(self, *values: object, **named: object) -> None:
        _pymavlink.MAVLink_message.__init__(self, type(self).id, type(self).msgname)
        names = self._fieldnames = type(self).fieldnames
        given = dict(zip(names, values, strict=False)) | named
        if (
            len(values) > len(names)
            or given.keys() - set(names)
            or set(names[: self.required]) - given.keys()
        ):
            raise TypeError(f"{self.msgname} has the fields {', '.join(names)}")
        self._wire = {name: given.get(name, 0) for name in names}
        for name, value in self._wire.items():
            setattr(self, name, value)

    def pack(self, mav: _pymavlink.MAVLink, force_mavlink1: bool = False) -> bytes:
        """The frame, with the ids and the sequence number of ``mav``."""
        flat: list[Any] = []
        for name in self.ordered_fieldnames:
            value = self._wire[name]
            flat += value if isinstance(value, list | tuple) else [value]
        frame: bytes = self._pack(
            mav, self.crc_extra, self.unpacker.pack(*flat), force_mavlink1=force_mavlink1
        )
        return frame


def _message(name: str, number: int, base: str, extension: str) -> type[_AddedMessage]:
    needed, more = ([found.groups() for found in _FIELD.finditer(text)] for text in (base, extension))
    ordered = sorted(needed, key=lambda field: -struct.calcsize(CODES[field[0]]))  # arrays by their elements
    seed = _pymavlink.x25crc(f"{name} ".encode())
    for kind, length, field in ordered:
        seed.accumulate(f"{kind} {field} ".encode() + (bytes([int(length)]) if length else b""))
    ordered += more
    names, wire = [field for _, _, field in [*needed, *more]], [field for _, _, field in ordered]
    attributes = {
        "id": number,
        "msgname": name,
        "fieldnames": names,
        "ordered_fieldnames": wire,
        "fieldtypes": [kind for kind, _, _ in [*needed, *more]],
        "native_format": bytearray(("<" + "".join(CODES[kind] for kind, _, _ in ordered)).encode()),
        "orders": [wire.index(field) for field in names],
        "lengths": [int(length or 1) for _, length, _ in ordered],
        "array_lengths": [int(length or 0) for _, length, _ in ordered],
        "crc_extra": (seed.crc & 0xFF) ^ (seed.crc >> 8),
        "unpacker": struct.Struct(
            "<" + "".join(f"{length or ''}{CODES[kind]}" for kind, length, _ in ordered)
        ),
        "required": len(needed),
    }
    return type(f"MAVLink_{name.lower()}_message", (_AddedMessage,), attributes)


def _add_messages() -> None:
    for name, number, base, extension in _MESSAGES:
        there = _pymavlink.mavlink_map.get(number)
        added = _message(name, number, base, extension)
        if there is not None and not set(added.fieldnames) - set(there.fieldnames):
            continue
        _pymavlink.mavlink_map[number] = added
        globals()[added.__name__] = added
        globals()[f"MAVLINK_MSG_ID_{name}"] = number
    for name, value in _VALUES.items():
        globals().setdefault(name, getattr(_pymavlink, name, value))


_add_messages()
