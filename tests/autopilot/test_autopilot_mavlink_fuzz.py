"""No message of any kind and content stops the MAVLink services, and every answer can be sent.

The frames are sound: their checksums fit, so nothing is sifted out before the handlers.
"""

from __future__ import annotations

import dataclasses
import re
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.autopilot_point import Point
from support.mavlink_vehicle import Station, source

from sitl_bridge.autopilot.mavlink.services import Services
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.decoder import frames

SYSTEM = 1
KINDS = tuple(sorted(mavlink.mavlink_map))
SERVED = tuple(
    number
    for number in KINDS
    if mavlink.mavlink_map[number].msgname.startswith(
        ("PARAM", "MISSION", "COMMAND", "LOG_", "FILE", "SET_", "MANUAL", "RC_", "TIMESYNC", "PING", "FOLLOW")
    )
)
FLOATS = struct.pack("<8f", float("nan"), float("inf"), -float("inf"), 3e38, 1e-45, -0.0, 1.0, 400.0)
PIECES = (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x01\x01\x01\x01", b"COM_", b"\x00\x00\xc0\x7f", b"\x00\x01")

payloads = st.one_of(
    st.binary(max_size=255),
    st.lists(
        st.one_of(st.sampled_from(PIECES), st.sampled_from([FLOATS[at : at + 4] for at in range(0, 32, 4)])),
        max_size=63,
    ).map(b"".join),
)


def frame(number: int, payload: bytes, aimed: bool) -> bytes:
    """A sound MAVLink 2 frame; ``aimed`` puts this vehicle's ids where the message has a target."""
    kind = mavlink.mavlink_map[number]
    data = bytearray(payload[: max(kind.unpacker.size, 1)] or b"\0")
    if aimed:
        at = 0
        codes = re.findall(r"\d*[a-zA-Z]", kind.unpacker.format)
        for name, code in zip(kind.ordered_fieldnames, codes, strict=True):
            if name in ("target_system", "target_component") and at < len(data):
                data[at] = 1
            at += struct.calcsize("<" + code)
    body = bytes([len(data), 0, 0, 7, 255, 190]) + number.to_bytes(3, "little") + bytes(data)
    checksum = mavlink.x25crc(body)
    checksum.accumulate(bytes([kind.crc_extra]))
    return b"\xfd" + body + int(checksum.crc).to_bytes(2, "little")


script = st.lists(
    st.tuples(
        st.one_of(st.sampled_from(SERVED), st.sampled_from(KINDS)), payloads, st.booleans(), st.booleans()
    ),
    min_size=1,
    max_size=12,
)


def hear_out(messages: list[tuple[int, bytes, bool, bool]], point: Point) -> None:
    vehicle = dataclasses.replace(
        source(SYSTEM), commander=point.commander, estimate=point.estimate, setpoint=point.setpoint
    )
    station = Station(Services(vehicle))
    now = point.now
    for number, payload, aimed, stepped in messages:
        data = frame(number, payload, aimed)
        assert list(frames(data)) == [data]
        message = station.decoder.message(data)
        assert message is not None
        station.take(station.services.handle(station.key, message, now, now))
        if stepped:
            point.step()
            now = point.now
            for _key, due in station.services.poll(now, now):
                station.take(due)
    for _ in range(3):
        point.step()
        for _key, due in station.services.poll(point.now, point.now):
            station.take(due)


@settings(max_examples=300, deadline=None)
@given(script)
def test_any_messages_are_answered_or_ignored(messages: list[tuple[int, bytes, bool, bool]]) -> None:
    hear_out(messages, Point())


@pytest.mark.slow
@settings(max_examples=20_000, deadline=None)
@given(script)
def test_twenty_thousand_series_of_messages_are_answered_or_ignored(
    messages: list[tuple[int, bytes, bool, bool]],
) -> None:
    hear_out(messages, Point())


@pytest.mark.parametrize("number", KINDS)
def test_every_kind_of_message_is_answered_or_ignored(number: int) -> None:
    size = mavlink.mavlink_map[number].unpacker.size
    point = Point()
    hear_out([(number, fill * size, True, True) for fill in (b"\0", b"\x01", b"\x7f", b"\xff")], point)
