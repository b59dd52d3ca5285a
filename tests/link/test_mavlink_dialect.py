"""The dialect is pymavlink's with messages added; the decoder finds sound frames and nothing else."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymavlink.dialects.v20 import common as reference

from sitl_bridge.link.mavlink import common as dialect
from sitl_bridge.link.mavlink.decoder import Decoder, ParameterValue, frames, message_name, parameter_bytes

LATER = {
    "PROTOCOL_VERSION": 217,
    "EVENT": 160,
}
"""CRC_EXTRA by MAVLink's C headers of messages that pymavlink's own dialect does not have."""


FRAMES = (
    (
        "protocol_version",
        (200, 100, 300, list(range(1, 9)), list(range(11, 19))),
        "fd1600000007012c0100c80064002c0101020304050607080b0c0d0e0f1011128611",
    ),
    (
        "event",
        (0, 255, 0x01000042, 4321, 17, 0x65, [*range(1, 11), *[0] * 30]),
        "fd1700000007019a010042000001e1100000110000ff650102030405060708090ad561",
    ),
    (
        "mission_current",
        (3, 9, 4, 1, 0x11223344, 0x55667788, 0x99AABBCC),
        "fd1200000007012a00000300090004014433221188776655ccbbaa999ca5",
    ),
    ("mission_count", (1, 1, 12, 0, 0xCAFEF00D), "fd0900000007012c00000c000101000df0fecac4c5"),
    ("mission_ack", (255, 190, 0, 2, 0x01020304), "fd0800000007012f0000ffbe000204030201f6f3"),
)
"""Added messages: name, values, and the frame that pymavlink's generator makes of MAVLink's definitions."""


def test_the_dialect_is_pymavlinks_with_messages_added() -> None:
    assert dialect.mavlink_map is reference.mavlink_map
    assert dialect.MAV_CMD_NAV_TAKEOFF == reference.MAV_CMD_NAV_TAKEOFF
    added = {name.upper() for name, _, _ in FRAMES}
    ours = {m.msgname for m in dialect.mavlink_map.values() if m.__module__ != reference.__name__}
    assert ours == added
    with pytest.raises(AttributeError):
        _ = dialect.MAVLink_no_such_message


@pytest.mark.parametrize(("name", "values", "frame"), FRAMES)
def test_an_added_message_is_packed_and_read_byte_for_byte(
    name: str, values: tuple[Any, ...], frame: str
) -> None:
    sender = dialect.MAVLink(None, srcSystem=7, srcComponent=1)
    message = getattr(dialect, f"MAVLink_{name}_message")(*values)
    assert message.pack(sender).hex() == frame
    read = Decoder().message(bytes.fromhex(frame))
    assert read is not None
    assert read.to_dict() == message.to_dict()


def test_extension_fields_are_optional_and_others_are_not() -> None:
    count = dialect.MAVLink_mission_count_message(1, 1, 12)
    assert (count.mission_type, count.opaque_id) == (0, 0)
    with pytest.raises(TypeError, match="MISSION_COUNT has the fields target_system"):
        dialect.MAVLink_mission_count_message(1, 1)


def test_messages_that_pymavlink_lacks_have_the_checksum_seeds_of_the_c_headers() -> None:
    seeds = {message.msgname: message.crc_extra for message in dialect.mavlink_map.values()}
    assert {name: seeds[name] for name in LATER} == LATER


def heartbeat(version_1: bool = False) -> bytes:
    sender = reference.MAVLink(None, srcSystem=255, srcComponent=190)
    frame: bytes = reference.MAVLink_heartbeat_message(6, 8, 0, 0, 0, 3).pack(
        sender, force_mavlink1=version_1
    )
    return frame


def test_garbage_between_frames_hides_none_of_them() -> None:
    for noise in (b"", b"\xfd", b"\xfd\x20\x00\x00\x00\x01\x01\x99\x99\x00", b"\xfe\x09", bytes(300)):
        datagram = noise + heartbeat() + noise + heartbeat(version_1=True) + noise
        assert [m.get_type() for m in Decoder().messages(datagram)] == ["HEARTBEAT", "HEARTBEAT"]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 8 * len(heartbeat()) - 1), st.booleans())
def test_a_frame_with_any_bit_flipped_is_skipped_and_the_next_is_read(bit: int, version_1: bool) -> None:
    good = heartbeat(version_1)
    damaged = bytearray(good)
    damaged[bit // 8 % len(good)] ^= 1 << bit % 8
    datagram = bytes(damaged) + heartbeat()
    found = list(frames(datagram))
    assert found == [heartbeat()]
    assert Decoder().message(bytes(damaged)) is None
    assert [message.get_type() for message in Decoder().messages(datagram)] == ["HEARTBEAT"]


def test_without_the_check_frames_are_split_by_their_length_alone() -> None:
    damaged = bytearray(heartbeat())
    damaged[12] ^= 1
    datagram = bytes(damaged) + heartbeat()
    assert list(frames(datagram, checked=False)) == [bytes(damaged), heartbeat()]


def test_a_message_of_an_unknown_id_is_skipped() -> None:
    body = bytes([1, 0, 0, 7, 1, 1]) + (40_000).to_bytes(3, "little") + b"\x05"
    frame = b"\xfd" + body + int(reference.x25crc(body).crc).to_bytes(2, "little")
    assert list(frames(frame + heartbeat())) == [heartbeat()]
    assert Decoder().message(frame) is None
    assert message_name(heartbeat()) == "HEARTBEAT (0)"


@pytest.mark.parametrize("version_1", [False, True])
@pytest.mark.parametrize("value", [0, 1, -1, 1_000_000, 0x7F800001, 0x7FA00000, -(2**31)])
def test_a_parameter_keeps_the_four_bytes_of_an_integer(value: int, version_1: bool) -> None:
    packed = struct.pack("<i", value)  # 0x7F800001 is a signalling NaN as a float
    message = ParameterValue("COM_FLT_TIME_MAX", packed, dialect.MAV_PARAM_TYPE_INT32, 900, 3)
    frame = message.pack(dialect.MAVLink(None, srcSystem=1, srcComponent=1), force_mavlink1=version_1)
    read = Decoder().message(frame)
    assert read is not None
    assert (read.param_id, read.param_type, read.param_count) == ("COM_FLT_TIME_MAX", 6, 900)
    assert parameter_bytes(read) == packed
    known = reference.MAVLink(None).decode(bytearray(frame))
    assert (known.param_id, known.param_index) == ("COM_FLT_TIME_MAX", 3)
