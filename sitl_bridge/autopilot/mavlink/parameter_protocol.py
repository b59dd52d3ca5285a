"""The parameter protocol as in PX4: list all parameters, read one by name or index, set one.

Integers are sent as their four bytes in the float field.  ``_HASH_CHECK`` lets QGroundControl use its cached
list.
"""

from __future__ import annotations

import math
import struct
import zlib

from sitl_bridge.autopilot.parameters import ParameterInfo, Parameters
from sitl_bridge.base.errors import UserError
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.decoder import MULTIROTORS, ParameterValue, parameter_bytes
from sitl_bridge.link.mavlink.message import MavlinkMessage


def vehicle_type(rotors: int) -> ParameterInfo:
    """Return MAV_TYPE of a multirotor."""
    kind = MULTIROTORS.get(rotors, mavlink.MAV_TYPE_GENERIC)
    return ParameterInfo("MAV_TYPE", kind, kind, kind, "", "Vehicle type, a MAV_TYPE")


HASH = "_HASH_CHECK"
NO_INDEX = 0xFFFF
"""-1 in the unsigned field, as PX4 sends it with the hash."""

BURST = 20
"""Values of a list per poll, as in PX4 over UDP."""


def parameter_hash(parameters: Parameters) -> int:
    """Return the CRC-32 without inversion over names and values, for QGroundControl's cache."""
    crc = 0xFFFFFFFF
    for name, info in parameters.infos.items():
        crc = zlib.crc32(_pack(info, parameters.values[name]), zlib.crc32(name.encode(), crc))
    return crc ^ 0xFFFFFFFF


def _pack(info: ParameterInfo, value: float) -> bytes:
    return struct.pack("<i", int(value)) if info.is_integer else struct.pack("<f", value)


class ParameterProtocol:
    """Parameters on one link."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._names = list(parameters.infos)
        self._index = {name: index for index, name in enumerate(self._names)}
        self._next = len(self._names)  # next index of the list being sent
        self._version = parameters.version
        self._sent_values = dict(parameters.values)
        self._handlers = {
            "PARAM_REQUEST_LIST": self._list,
            "PARAM_REQUEST_READ": self._read,
            "PARAM_SET": self._set,
        }

    def handle(self, message: MavlinkMessage) -> list[MavlinkMessage]:
        """Answer a PARAM_* request for this vehicle; other messages get no answer."""
        handler = self._handlers.get(message.get_type())
        return handler(message) if handler is not None else []

    def poll(self) -> list[MavlinkMessage]:
        """Return the next values of a list and the values that changed."""
        due = []
        if self._parameters.version != self._version:
            self._version = self._parameters.version
            values = self._parameters.values
            due = [self._value(name) for name in self._names if values[name] != self._sent_values[name]]
            self._sent_values = dict(values)
        if self._next < len(self._names):
            due += [self._value(name) for name in self._names[self._next : self._next + BURST]]
            self._next += BURST
        return due

    def _list(self, _message: MavlinkMessage) -> list[MavlinkMessage]:
        self._next = 0
        return [self._hash()]

    def _read(self, message: MavlinkMessage) -> list[MavlinkMessage]:
        index = message.param_index
        name = message.param_id
        if index < 0:
            if name == HASH:
                return [self._hash()]
            if name in self._index:
                return [self._value(name)]
        elif index < len(self._names):
            return [self._value(self._names[index])]
        return [self._error(message, name if index < 0 else "", mavlink.MAV_PARAM_ERROR_DOES_NOT_EXIST)]

    def _set(self, message: MavlinkMessage) -> list[MavlinkMessage]:
        name = message.param_id
        if name == HASH:
            self._next = len(self._names)  # the peer already has the values
            return []
        info = self._parameters.infos.get(name)
        if info is None:
            return [self._error(message, name, mavlink.MAV_PARAM_ERROR_DOES_NOT_EXIST)]
        wanted = mavlink.MAV_PARAM_TYPE_INT32 if info.is_integer else mavlink.MAV_PARAM_TYPE_REAL32
        if message.param_type != wanted:
            return [self._error(message, name, mavlink.MAV_PARAM_ERROR_TYPE_MISMATCH), self._value(name)]
        value = struct.unpack("<i" if info.is_integer else "<f", parameter_bytes(message))[0]
        try:
            self._parameters.set(name, value if math.isfinite(value) else math.nan)
        except UserError:
            return [self._error(message, name, mavlink.MAV_PARAM_ERROR_VALUE_OUT_OF_RANGE), self._value(name)]
        self._sent_values[name] = self._parameters.values[name]
        return [self._value(name)]

    def _value(self, name: str) -> MavlinkMessage:
        info = self._parameters.infos[name]
        return ParameterValue(
            name,
            _pack(info, self._parameters.values[name]),
            mavlink.MAV_PARAM_TYPE_INT32 if info.is_integer else mavlink.MAV_PARAM_TYPE_REAL32,
            len(self._names),
            self._index[name],
        )

    def _hash(self) -> MavlinkMessage:
        return ParameterValue(
            HASH,
            parameter_hash(self._parameters).to_bytes(4, "little"),
            mavlink.MAV_PARAM_TYPE_UINT32,
            len(self._names),
            NO_INDEX,
        )

    def _error(self, message: MavlinkMessage, name: str, error: int) -> MavlinkMessage:
        return mavlink.MAVLink_param_error_message(
            target_system=message.get_srcSystem(),
            target_component=message.get_srcComponent(),
            param_id=name.encode("ascii", "replace"),
            param_index=getattr(message, "param_index", -1),
            error=error,
        )
