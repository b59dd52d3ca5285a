"""Datagrams to messages, and the messages of MAVLink's common set that pymavlink's dialect lacks.

Messages of the dialect are pymavlink's own; the others are here, as name and fields of common.xml, and look
the same from outside: attributes by field name, ``get_type()``, ``get_msgId()`` and ``pack(sender)``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from pymavlink.dialects.v20 import common as mavlink
from pymavlink.mavutil import x25crc

AUTOPILOT: int = mavlink.MAV_COMP_ID_AUTOPILOT1
MAGIC_1, MAGIC_2 = 0xFE, 0xFD
HEADER_1, HEADER_2, CHECKSUM, SIGNATURE = 6, 10, 2, 13
SIGNED = 1
"""MAVLINK_IFLAG_SIGNED."""

FORMATS = {
    "uint8_t": "B",
    "int8_t": "b",
    "char": "s",
    "uint16_t": "H",
    "int16_t": "h",
    "uint32_t": "I",
    "int32_t": "i",
    "float": "f",
    "uint64_t": "Q",
    "int64_t": "q",
}


class Field(NamedTuple):
    """A field of a message: its type, its name and, for arrays, its length."""

    kind: str
    name: str
    length: int = 0


class Definition:
    """A message of common.xml.

    Args:
        number: message id.
        name: in capitals.
        fields: in the order of the XML file; ``type name`` or ``type[n] name``.
        extensions: fields after ``<extensions/>``.
        crc_extra: seed of the checksum where a field is read as another type than it is defined as.
    """

    def __init__(
        self,
        number: int,
        name: str,
        fields: tuple[str, ...],
        extensions: tuple[str, ...] = (),
        crc_extra: int | None = None,
    ) -> None:
        self.number = number
        self.name = name
        declared = [_field(text) for text in fields]
        # Wire order: larger types first (MAVLink guide, "Field reordering"); extensions stay as they are.
        base = sorted(declared, key=lambda field: -struct.calcsize("<" + FORMATS[field.kind]))
        self.fields = (*base, *(_field(text) for text in extensions))
        self.crc_extra = _crc_extra(name, base) if crc_extra is None else crc_extra
        self.layout = struct.Struct("<" + "".join(_format(field) for field in self.fields))

    def __call__(self, **values: Any) -> Message:
        """A message with these fields; the others are zero."""
        return Message(self, values)

    def unpack(self, payload: bytes) -> Message:
        """A message from its payload, which may be cut short or have fields that came later."""
        size = self.layout.size
        flat = iter(self.layout.unpack(payload[:size].ljust(size, b"\0")))
        values: dict[str, Any] = {}
        for field in self.fields:
            if field.length and field.kind != "char":
                values[field.name] = [next(flat) for _ in range(field.length)]
            else:
                value = next(flat)
                values[field.name] = value.rstrip(b"\0").decode("ascii", "replace") if field.length else value
        return Message(self, values)


class Message:
    """A message of a :class:`Definition`; its fields are attributes."""

    def __init__(self, definition: Definition, values: dict[str, Any]) -> None:
        self._definition = definition
        self._values = values
        self._source = (0, 0)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(name) from None

    def get_type(self) -> str:
        """Name in capitals."""
        return self._definition.name

    def get_msgId(self) -> int:  # noqa: N802 (as in pymavlink)
        """Message id."""
        return self._definition.number

    def get_srcSystem(self) -> int:  # noqa: N802
        """System it came from."""
        return self._source[0]

    def get_srcComponent(self) -> int:  # noqa: N802
        """Component it came from."""
        return self._source[1]

    def payload(self) -> bytes:
        """All fields in wire order."""
        flat: list[Any] = []
        for field in self._definition.fields:
            value = self._values.get(field.name, 0)
            if field.kind == "char" and field.length:
                flat.append((value or "").encode("ascii", "replace"))
            elif field.length:
                items = list(value or ())
                flat += items + [0] * (field.length - len(items))
            else:
                flat.append(value)
        return self._definition.layout.pack(*flat)

    def pack(self, sender: Any) -> bytes:
        """The frame, sent by ``sender`` (a pymavlink MAVLink object: its ids and sequence number)."""
        payload = self.payload().rstrip(b"\0") or b"\0"
        number = self._definition.number
        head = bytes([len(payload), 0, 0, sender.seq, sender.srcSystem, sender.srcComponent])
        body = head + number.to_bytes(3, "little") + payload
        return bytes([MAGIC_2]) + body + _checksum(body, self._definition.crc_extra)


def _field(text: str) -> Field:
    kind, name = text.split()
    if "[" in kind:
        kind, length = kind.rstrip("]").split("[")
        return Field(kind, name, int(length))
    return Field(kind, name)


def _format(field: Field) -> str:
    return f"{field.length or ''}{FORMATS[field.kind]}"


def _crc_extra(name: str, fields: list[Field]) -> int:
    """Seed of the checksum (MAVLink guide, "CRC_EXTRA Calculation")."""
    crc = x25crc(f"{name} ".encode())
    for field in fields:
        crc.accumulate(f"{field.kind} {field.name} ".encode())
        if field.length:
            crc.accumulate(bytes([field.length]))
    return int(crc.crc & 0xFF ^ crc.crc >> 8)


def _checksum(body: bytes, crc_extra: int) -> bytes:
    crc = x25crc(body)
    crc.accumulate(bytes([crc_extra]))
    return int(crc.crc).to_bytes(2, "little")


PROTOCOL_VERSION = Definition(
    300,
    "PROTOCOL_VERSION",
    (
        "uint16_t version",
        "uint16_t min_version",
        "uint16_t max_version",
        "uint8_t[8] spec_version_hash",
        "uint8_t[8] library_version_hash",
    ),
)
PARAM_ERROR = Definition(
    345,
    "PARAM_ERROR",
    (
        "uint8_t target_system",
        "uint8_t target_component",
        "char[16] param_id",
        "int16_t param_index",
        "uint8_t error",
    ),
)
# Parameters are defined as float, and carry the four bytes of an int32 as well ("bytewise encoding"); a float
# of Python's would not keep those that spell a signalling nan.
PARAM_VALUE = Definition(
    22,
    "PARAM_VALUE",
    (
        "char[16] param_id",
        "uint32_t param_value",
        "uint8_t param_type",
        "uint16_t param_count",
        "uint16_t param_index",
    ),
    crc_extra=mavlink.MAVLink_param_value_message.crc_extra,
)
PARAM_SET = Definition(
    23,
    "PARAM_SET",
    (
        "uint8_t target_system",
        "uint8_t target_component",
        "char[16] param_id",
        "uint32_t param_value",
        "uint8_t param_type",
    ),
    crc_extra=mavlink.MAVLink_param_set_message.crc_extra,
)
MISSION_COUNT = Definition(
    44,
    "MISSION_COUNT",
    ("uint8_t target_system", "uint8_t target_component", "uint16_t count"),
    ("uint8_t mission_type", "uint32_t opaque_id"),
)
MISSION_ACK = Definition(
    47,
    "MISSION_ACK",
    ("uint8_t target_system", "uint8_t target_component", "uint8_t type"),
    ("uint8_t mission_type", "uint32_t opaque_id"),
)
MISSION_CURRENT = Definition(
    42,
    "MISSION_CURRENT",
    ("uint16_t seq",),
    (
        "uint16_t total",
        "uint8_t mission_state",
        "uint8_t mission_mode",
        "uint32_t mission_id",
        "uint32_t fence_id",
        "uint32_t rally_points_id",
    ),
)

COMPONENT_METADATA = Definition(
    397, "COMPONENT_METADATA", ("uint32_t time_boot_ms", "uint32_t file_crc", "char[100] uri")
)
EVENT = Definition(
    410,
    "EVENT",
    (
        "uint8_t destination_component",
        "uint8_t destination_system",
        "uint32_t id",
        "uint32_t event_time_boot_ms",
        "uint16_t sequence",
        "uint8_t log_levels",
        "uint8_t[40] arguments",
    ),
)
CURRENT_EVENT_SEQUENCE = Definition(411, "CURRENT_EVENT_SEQUENCE", ("uint16_t sequence", "uint8_t flags"))
REQUEST_EVENT = Definition(
    412,
    "REQUEST_EVENT",
    (
        "uint8_t target_system",
        "uint8_t target_component",
        "uint16_t first_sequence",
        "uint16_t last_sequence",
    ),
)
RESPONSE_EVENT_ERROR = Definition(
    413,
    "RESPONSE_EVENT_ERROR",
    (
        "uint8_t target_system",
        "uint8_t target_component",
        "uint16_t sequence",
        "uint16_t sequence_oldest_available",
        "uint8_t reason",
    ),
)

AVAILABLE_MODES = Definition(
    435,
    "AVAILABLE_MODES",
    (
        "uint8_t number_modes",
        "uint8_t mode_index",
        "uint8_t standard_mode",
        "uint32_t custom_mode",
        "uint32_t properties",
        "char[35] mode_name",
    ),
)
CURRENT_MODE = Definition(
    436,
    "CURRENT_MODE",
    ("uint8_t standard_mode", "uint32_t custom_mode", "uint32_t intended_custom_mode"),
)

READ = {definition.number: definition for definition in (PARAM_SET, REQUEST_EVENT)}
"""Messages that are read by their definition here."""


def frames(datagram: bytes) -> Iterator[bytes]:
    """Frames of MAVLink 1 and 2 in a datagram; what belongs to none is stepped over.

    A frame is never split over datagrams by MAVSDK, QGroundControl, pymavlink or PX4, so nothing is kept.
    """
    at, end = 0, len(datagram)
    while at < end:
        magic = datagram[at]
        size = 0
        if magic == MAGIC_2 and end - at >= HEADER_2 + CHECKSUM:
            signature = SIGNATURE if datagram[at + 2] & SIGNED else 0
            size = HEADER_2 + datagram[at + 1] + CHECKSUM + signature
        elif magic == MAGIC_1 and end - at >= HEADER_1 + CHECKSUM:
            size = HEADER_1 + datagram[at + 1] + CHECKSUM
        if size and at + size <= end and _is_sound(datagram[at : at + size]):
            yield datagram[at : at + size]
            at += size
        else:
            at += 1


def _is_sound(frame: bytes) -> bool:
    """Whether the checksum fits.  That of an unknown kind cannot be verified: such frames are no use."""
    header = HEADER_2 if frame[0] == MAGIC_2 else HEADER_1
    number = message_id(frame)
    known = READ.get(number) or mavlink.mavlink_map.get(number)
    if known is None:
        return False
    end = header + frame[1]
    return _checksum(frame[1:end], known.crc_extra) == frame[end : end + CHECKSUM]


def message_name(frame: bytes) -> str:
    """Name and id of a frame from :func:`frames`, for people."""
    number = message_id(frame)
    known = READ.get(number)
    name = known.name if known is not None else mavlink.mavlink_map[number].msgname
    return f"{name} ({number})"


def message_id(frame: bytes) -> int:
    """Message id of a frame."""
    return int.from_bytes(frame[7:10], "little") if frame[0] == MAGIC_2 else frame[5]


class Reader:
    """Messages of frames and datagrams."""

    def __init__(self) -> None:
        self._parser = mavlink.MAVLink(None)

    def message(self, frame: bytes) -> Any:
        """The message of a frame from :func:`frames`."""
        number = message_id(frame)
        if number not in READ:
            return self._parser.decode(bytearray(frame))
        header, source = (HEADER_2, 5) if frame[0] == MAGIC_2 else (HEADER_1, 3)
        message = READ[number].unpack(frame[header : header + frame[1]])
        message._source = (frame[source], frame[source + 1])
        return message

    def messages(self, datagram: bytes) -> Iterator[Any]:
        """Messages in a datagram; damaged ones and those of unknown kinds are left out."""
        for frame in frames(datagram):
            yield self.message(frame)
