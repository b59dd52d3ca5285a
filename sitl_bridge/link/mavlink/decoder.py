"""Datagrams to frames, and frames to messages of the dialect.

A sender never splits a frame over two datagrams (MAVSDK, QGroundControl, pymavlink, PX4), so nothing is kept
from one datagram to the next.
"""

from __future__ import annotations

from collections.abc import Iterator

from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.message import MavlinkMessage

AUTOPILOT: int = mavlink.MAV_COMP_ID_AUTOPILOT1

MULTIROTORS = {
    3: mavlink.MAV_TYPE_TRICOPTER,
    4: mavlink.MAV_TYPE_QUADROTOR,
    6: mavlink.MAV_TYPE_HEXAROTOR,
    8: mavlink.MAV_TYPE_OCTOROTOR,
    10: mavlink.MAV_TYPE_DECAROTOR,
    12: mavlink.MAV_TYPE_DODECAROTOR,
}
"""MAV_TYPE by number of rotors."""

CHECKSUM = 2
"""Bytes of the checksum."""


def frames(datagram: bytes, *, checked: bool = True) -> Iterator[bytes]:
    """Frames of MAVLink 1 and 2 in a datagram; other bytes are skipped.

    Args:
        checked: skip frames with a wrong checksum and frames of unknown messages, whose checksum cannot be
            verified.  Without the check only the length of a frame has to fit: this is cheap, and
            :meth:`Decoder.message` makes up for it.
    """
    at, end = 0, len(datagram)
    while at < end:
        size = frame_size(datagram, at)
        if size and at + size <= end and (not checked or checksum_fits(datagram[at : at + size])):
            yield datagram[at : at + size]
            at += size
        else:
            at += 1


def frame_size(datagram: bytes, at: int) -> int:
    """Bytes of the frame that begins at an index; 0 if none begins there."""
    magic, left = datagram[at], len(datagram) - at
    if magic == mavlink.PROTOCOL_MARKER_V2 and left >= mavlink.HEADER_LEN_V2 + CHECKSUM:
        signed = datagram[at + 2] & mavlink.MAVLINK_IFLAG_SIGNED
        signature = mavlink.MAVLINK_SIGNATURE_BLOCK_LEN if signed else 0
        return int(mavlink.HEADER_LEN_V2 + datagram[at + 1] + CHECKSUM + signature)
    if magic == mavlink.PROTOCOL_MARKER_V1 and left >= mavlink.HEADER_LEN_V1 + CHECKSUM:
        return int(mavlink.HEADER_LEN_V1 + datagram[at + 1] + CHECKSUM)
    return 0


def _header_size(frame: bytes) -> int:
    return int(mavlink.HEADER_LEN_V2 if frame[0] == mavlink.PROTOCOL_MARKER_V2 else mavlink.HEADER_LEN_V1)


def checksum_fits(frame: bytes) -> bool:
    """Whether a frame is of a known message and has its checksum."""
    known = mavlink.mavlink_map.get(message_id(frame))
    if known is None:
        return False
    end = _header_size(frame) + frame[1]
    checksum = mavlink.x25crc(frame[1:end] + bytes([known.crc_extra])).crc
    return bool(checksum == int.from_bytes(frame[end : end + CHECKSUM], "little"))


def message_id(frame: bytes) -> int:
    """Message id of a frame."""
    if frame[0] == mavlink.PROTOCOL_MARKER_V2:
        return int.from_bytes(frame[7:10], "little")
    return frame[5]


def sender_ids(frame: bytes) -> tuple[int, int]:
    """System id and component id of a frame's sender."""
    at = 5 if frame[0] == mavlink.PROTOCOL_MARKER_V2 else 3
    return frame[at], frame[at + 1]


def message_name(frame: bytes) -> str:
    """Name and id of a known message, for log texts."""
    number = message_id(frame)
    return f"{mavlink.mavlink_map[number].msgname} ({number})"


class Decoder:
    """Decodes frames and datagrams."""

    def __init__(self) -> None:
        self._parser = mavlink.MAVLink(None)

    def message(self, frame: bytes) -> MavlinkMessage | None:
        """The message of one frame; None if its checksum does not fit or the dialect does not have it."""
        try:
            message = self._parser.decode(bytearray(frame))
        except mavlink.MAVError:
            return None
        return None if isinstance(message, mavlink.MAVLink_unknown) else message

    def messages(self, datagram: bytes) -> Iterator[MavlinkMessage]:
        """Messages of a datagram without damaged and unknown ones."""
        for frame in frames(datagram):
            message = self.message(frame)
            if message is not None:
                yield message


class ParameterValue(mavlink.MAVLink_param_value_message):  # type: ignore[misc] # the dialect is untyped
    """PARAM_VALUE whose value is given as the four bytes to send.

    MAVLink defines the field as a float; PX4 sends the four bytes of an INT32 there
    (MAV_PROTOCOL_CAPABILITY_PARAM_ENCODE_BYTEWISE).  A Python float would change the bytes of integers that
    have the bit pattern of a signalling NaN.

    Args:
        value: four bytes, little-endian.
        kind: MAV_PARAM_TYPE.
        index: of this one.
    """

    def __init__(self, name: str, value: bytes, kind: int, count: int, index: int) -> None:
        super().__init__(name.encode("ascii"), 0.0, kind, count, index)
        self._value = value

    def pack(self, mav: mavlink.MAVLink, force_mavlink1: bool = False) -> bytes:
        """The frame, with the ids and the sequence number of ``mav``."""
        fields = self.unpacker.pack(
            0.0, self.param_count, self.param_index, self._param_id_raw, self.param_type
        )
        frame: bytes = self._pack(
            mav, self.crc_extra, self._value + fields[4:], force_mavlink1=force_mavlink1
        )
        return frame


def parameter_bytes(message: MavlinkMessage) -> bytes:
    """The four bytes of the value in a decoded PARAM_VALUE or PARAM_SET, see :class:`ParameterValue`."""
    frame = bytes(message.get_msgbuf())
    start = _header_size(frame)
    payload = frame[start : start + frame[1]]  # zeros at its end are cut off
    return payload[:4].ljust(4, b"\0")
