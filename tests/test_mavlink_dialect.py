"""The generated dialect has pymavlink's messages, and the decoder finds sound frames and nothing else."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymavlink.dialects.v20 import common as reference

from sitl_bridge.mavlink import common as dialect
from sitl_bridge.mavlink.decoder import Decoder, ParameterValue, frames, message_name, parameter_bytes

LATER = {
    "PROTOCOL_VERSION": 217,
    "COMPONENT_METADATA": 182,
    "EVENT": 160,
    "CURRENT_EVENT_SEQUENCE": 106,
    "REQUEST_EVENT": 33,
    "RESPONSE_EVENT_ERROR": 77,
    "AVAILABLE_MODES": 134,
    "CURRENT_MODE": 193,
}
"""CRC_EXTRA by MAVLink's C headers of messages that pymavlink's own dialect does not have."""


def codes(message: Any) -> list[str]:
    """Wire format of each field, in wire order."""
    return re.findall(r"\d*[a-zA-Z]", message.unpacker.format)


def test_every_message_of_pymavlink_is_there_with_the_same_id_checksum_seed_and_fields() -> None:
    assert len(reference.mavlink_map) > 200
    for number, known in reference.mavlink_map.items():
        ours = dialect.mavlink_map[number]
        assert (ours.msgname, ours.crc_extra) == (known.msgname, known.crc_extra)
        # Extension fields may have been added since; they follow the others.
        count = len(known.ordered_fieldnames)
        assert ours.ordered_fieldnames[:count] == known.ordered_fieldnames, known.msgname
        assert codes(ours)[:count] == codes(known), known.msgname


def test_messages_that_pymavlink_lacks_have_the_checksum_seeds_of_the_c_headers() -> None:
    seeds = {message.msgname: message.crc_extra for message in dialect.mavlink_map.values()}
    assert {name: seeds[name] for name in LATER} == LATER
    known = {message.msgname for message in reference.mavlink_map.values()}
    assert known.isdisjoint(LATER), "pymavlink has it now: the other test compares it"


def test_the_generated_file_names_the_upstream_commit_of_its_script_and_its_licence() -> None:
    header = Path(dialect.__file__).read_text(encoding="utf-8")[:3000]
    script = (Path(__file__).parent.parent / "scripts/mavlink-dialect").read_text(encoding="utf-8")
    commit = re.search(r"^commit=([0-9a-f]{40})$", script, re.MULTILINE)
    assert commit is not None
    assert f"commit {commit[1]}" in header
    assert "Licence of this file: MIT" in header


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
