"""The frame codec against pymavlink, byte for byte, and against everything a broken stream can hold."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymavlink.dialects.v20 import common as mavlink

from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.dynamics.records import STATE
from sitl_bridge.core.sensors.records import MAX_SENSORS, SENSOR, SENSOR_STATE
from sitl_bridge.core.sensors.registry import KINDS
from sitl_bridge.core.world.world import World
from sitl_bridge.link.hil.frame_parser import ParserScratch, parse
from sitl_bridge.link.hil.frame_writer import sensor_slots, write_frame, write_step
from sitl_bridge.link.hil.link_state import LINK, Answer
from sitl_bridge.link.hil.message_layout import (
    COMPONENT_ID,
    HIL_SENSOR,
    MAX_FRAME,
    MAX_STEP_BYTES,
    PAYLOADS,
    SYSTEM_ID,
)

TIME = 1_234_567_890


@compiled
def _write(
    out: Any, payloads: Any, raw: Any, states: Any, env: Any, sensors: Any, memories: Any, links: Any,
    slots: Any, time: int,
) -> int:  # fmt: skip
    return write_step(out, payloads, raw, states[0], env[0], sensors, memories, links[0], slots, time)


@compiled
def _parse(links: Any, buffer: Any, scratch: Any) -> None:
    parse(links[0], buffer, ParserScratch(*scratch))


class Encoder:
    """One vehicle's sensors and link, to be encoded."""

    def __init__(self) -> None:
        self.sensors = np.zeros(MAX_SENSORS, SENSOR)
        self.memories = np.zeros(MAX_SENSORS, SENSOR_STATE)
        self.states = np.zeros(1, STATE)
        self.states["attitude"] = (1.0, 0.0, 0.0, 0.0)
        self.links = np.zeros(1, LINK)
        self.world = World()
        self.count = 0

    def add(self, kind: int, values: list[float], instance: int = 0, time: int = TIME) -> None:
        self.sensors[self.count]["kind"] = kind
        self.sensors[self.count]["instance"] = instance
        self.sensors[self.count]["rotation"] = np.eye(3)
        self.memories[self.count]["fresh"] = 1
        self.memories[self.count]["time"] = time
        self.memories[self.count]["values"][: len(values)] = values
        self.count += 1

    def bytes(self) -> bytes:
        out = np.zeros(MAX_STEP_BYTES, np.uint8)
        payloads = np.zeros(1, PAYLOADS)
        raw = payloads.view(np.uint8)
        slots = sensor_slots(self.sensors)
        length = _write(
            out, payloads, raw, self.states, self.world.environment, self.sensors, self.memories,
            self.links, slots, TIME,
        )  # fmt: skip
        return out[:length].tobytes()


def packed(message: Any, sequence: int = 0) -> bytes:
    """The frame that pymavlink makes of a message."""
    sender = mavlink.MAVLink(None, srcSystem=SYSTEM_ID, srcComponent=COMPONENT_ID)
    sender.seq = sequence
    data: bytes = message.pack(sender)
    return data


def clock() -> Any:
    """The HIL_SENSOR with id 0 and no sample that moves PX4's clock."""
    return mavlink.MAVLink_hil_sensor_message(TIME, *[0.0] * 13, 0, 0)


SENSOR_FRAME = np.array([0, 65, HIL_SENSOR, 108])


@compiled
def _frame(out: Any, payload: Any, links: Any) -> int:
    return write_frame(out, 0, payload, SENSOR_FRAME, links[0])


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=65), st.integers(0, 300))
def test_any_payload_is_framed_and_truncated_as_by_pymavlink(head: bytes, sequence: int) -> None:
    payload = head.ljust(65, b"\0")
    links = np.zeros(1, LINK)
    links["sequence"] = sequence
    out = np.zeros(MAX_STEP_BYTES, np.uint8)
    length = _frame(out, np.frombuffer(payload, np.uint8), links)
    sender = mavlink.MAVLink(None, srcSystem=SYSTEM_ID, srcComponent=COMPONENT_ID)
    sender.seq = sequence % 256
    assert out[:length].tobytes() == clock()._pack(sender, 108, payload)
    assert links["sequence"] == sequence + 1


ordinary = st.floats(-1e6, 1e6, width=32)
zero_or = st.one_of(st.just(0.0), ordinary)


@settings(max_examples=60, deadline=None)
@given(st.lists(zero_or, min_size=7, max_size=7), st.integers(0, 2))
def test_inertial_frames_are_those_of_pymavlink(values: list[float], instance: int) -> None:
    encoder = Encoder()
    encoder.add(KINDS["imu"].code, values, instance)
    if instance == 0:  # what goes into 16 bits of 16 g and 2000 deg/s
        full = np.repeat([16.0 * 9.80665, math.radians(2000.0)], 3) * 32767.0 / 32768.0
        values = [*np.clip(values[:6], -full, full).tolist(), values[6]]
    expected = mavlink.MAVLink_hil_sensor_message(
        TIME, *values[:6], 0, 0, 0, 0, 0, 0, values[6], 0x3F, instance
    )
    if instance == 0:
        assert encoder.bytes() == packed(expected)
    else:
        assert encoder.bytes() == packed(clock()) + packed(expected, 1)


def test_all_sensors_are_as_warm_as_the_inertial_unit_on_their_board() -> None:
    encoder = Encoder()
    encoder.add(KINDS["imu"].code, [0.1, 0.2, -9.8, 0.0, 0.0, 0.0, 34.5])
    encoder.add(KINDS["barometer"].code, [95598.28, 11.8, 488.0])
    (message,) = mavlink.MAVLink(None).parse_buffer(bytearray(encoder.bytes()))
    assert message.temperature == pytest.approx(34.5)
    alone = Encoder()
    alone.add(KINDS["barometer"].code, [95598.28, 11.8, 488.0])
    (message,) = mavlink.MAVLink(None).parse_buffer(bytearray(alone.bytes()))
    assert message.temperature == pytest.approx(11.8)


def test_time_moves_on_where_no_inertial_sensor_works() -> None:
    encoder = Encoder()
    encoder.add(KINDS["imu"].code, [0.1] * 7)
    encoder.add(KINDS["imu"].code, [0.1] * 7, 1)
    encoder.memories["fresh"] = 0
    assert encoder.bytes() == packed(clock())


def test_an_instance_s_frame_carries_nothing_of_another_s() -> None:
    encoder = Encoder()
    encoder.add(KINDS["magnetometer"].code, [2.15e-5, 1.5e-6, 4.3e-5])
    encoder.add(KINDS["barometer"].code, [95598.28, 11.8, 488.0])
    encoder.add(KINDS["imu"].code, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 1)
    first, second = mavlink.MAVLink(None).parse_buffer(bytearray(encoder.bytes()))
    assert first.id == 0
    assert first.xacc == 0.0
    assert first.xmag > 0.0
    assert second.to_dict() == {
        **clock().to_dict(),
        **dict(zip(("xacc", "yacc", "zacc", "xgyro", "ygyro", "zgyro"), range(1, 7), strict=True)),
        "temperature": 7.0,
        "fields_updated": 0x3F,
        "id": 1,
    }


def test_one_frame_carries_all_that_is_fresh_in_the_link_s_units() -> None:
    encoder = Encoder()
    encoder.add(KINDS["imu"].code, [0.1, -0.2, -9.8, 0.01, 0.02, 0.03, 12.0])
    encoder.add(KINDS["magnetometer"].code, [2.15e-5, 1.5e-6, 4.3e-5])
    encoder.add(KINDS["barometer"].code, [95598.28, 11.8, 488.0])
    encoder.add(KINDS["airspeed"].code, [61.25, 11.8])
    f = np.float32
    expected = mavlink.MAVLink_hil_sensor_message(
        TIME, f(0.1), f(-0.2), f(-9.8), f(0.01), f(0.02), f(0.03), f(0.215), f(0.015), f(0.43),
        f(955.9828), f(0.6125), f(488.0), f(12.0), 0x1FFF, 0,
    )  # fmt: skip
    assert encoder.bytes() == packed(expected)


@settings(max_examples=60, deadline=None)
@given(
    st.floats(-1.57, 1.57),
    st.floats(-3.14, 3.14),
    st.floats(-400.0, 9000.0),
    st.lists(st.floats(-300.0, 300.0), min_size=3, max_size=3),
    st.integers(0, 1),
)
def test_position_frames_are_those_of_pymavlink(
    latitude: float, longitude: float, height: float, velocity: list[float], instance: int
) -> None:
    encoder = Encoder()
    encoder.add(
        KINDS["gps"].code,
        [latitude, longitude, height, *velocity, 0.9, 1.8, 3, 10],
        instance,
        time=TIME - 120000,
    )
    speed = math.hypot(velocity[0], velocity[1])
    course = math.degrees(math.atan2(velocity[1], velocity[0])) % 360.0
    utc = int(encoder.world.environment[0]["utc"])
    assert datetime.fromtimestamp(utc * 1e-6, UTC) == datetime(2025, 1, 1, tzinfo=UTC)
    first_fix = 3 if instance == 0 else mavlink.GPS_FIX_TYPE_NO_FIX
    expected = mavlink.MAVLink_hil_gps_message(
        utc + TIME - 120000, first_fix, round(math.degrees(latitude) * 1e7),
        round(math.degrees(longitude) * 1e7), round(height * 1e3), 90, 180, round(speed * 100),
        *(_signed(v) for v in velocity), min(round(course * 100), 35999), 10, instance, 0,
    )  # fmt: skip
    assert encoder.bytes() == packed(clock()) + packed(expected, 1)
    expected.fix_type = 3
    assert encoder.bytes() == packed(clock(), 2) + packed(expected, 3), (
        "the second message of each has its fix"
    )


def _signed(velocity: float) -> int:
    return int(np.rint(velocity * 100))


def truth_of(encoder: Encoder) -> Any:
    """The ground truth the encoder puts out, checked to be what pymavlink makes of it."""
    encoder.links[0]["truth_interval"] = 5000
    data = encoder.bytes()
    _, message = mavlink.MAVLink(None).parse_buffer(bytearray(data))
    assert message.get_type() == "HIL_STATE_QUATERNION"
    assert data == packed(clock()) + packed(message, 1)
    return message


def test_truth_is_sent_only_when_asked_for_and_right() -> None:
    encoder = Encoder()
    encoder.states[0]["position"] = (10.0, 20.0, -30.0)
    encoder.states[0]["velocity"] = (1.0, -2.0, 0.5)
    encoder.states[0]["angular_velocity"] = (0.01, 0.02, 0.03)
    assert encoder.bytes() == packed(clock()), "nobody has asked for truth yet"
    encoder.links["sequence"] = 0
    message = truth_of(encoder)
    assert (message.vx, message.vy, message.vz) == (100, -200, 50)
    assert message.rollspeed == pytest.approx(0.01)
    latitude, longitude, height = encoder.world.geodetic(np.array([10.0, 20.0, -30.0]))
    assert message.lat == round(latitude * 1e7)
    assert message.lon == round(longitude * 1e7)
    assert message.alt == pytest.approx(height * 1e3, abs=1)
    assert message.true_airspeed == round(100 * math.sqrt(1.0 + 4.0 + 0.25))
    # ISA at 488 + 30 m: 1.165229 kg/m^3, so 0.97529 of the true airspeed.
    assert message.ind_airspeed == pytest.approx(0.97529 * message.true_airspeed, abs=1)


@pytest.mark.parametrize(
    ("attitude", "force", "expected"),
    [
        # Standing: an accelerometer reads -g, the velocity does not change.
        ((1.0, 0.0, 0.0, 0.0), (0.0, 0.0, -9.80665), (0, 0, 0)),
        # Falling freely: the accelerometer reads nothing, the velocity grows by g downward.
        ((1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0, 0, 9807)),
        # Heading east, 2 m/s^2 forward: eastward in PX4's log.
        ((math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5)), (2.0, 0.0, -9.80665), (0, 2000, 0)),
        # On its right side, 1 m/s^2 up through its left side: to the ground is the body's y.
        ((math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0), (0.0, -10.80665, 0.0), (0, 0, -1000)),
    ],
)
def test_truth_carries_the_velocity_s_derivative_as_px4_logs_it(
    attitude: tuple[float, ...], force: tuple[float, ...], expected: tuple[int, ...]
) -> None:
    encoder = Encoder()
    encoder.world.environment["gravity"] = 9.80665
    encoder.states[0]["attitude"] = attitude
    encoder.states[0]["specific_force"] = force
    message = truth_of(encoder)
    # PX4 logs m/s^2 = field / 1000 (SimulatorMavlink.cpp); the field is in mm/s^2.
    assert (message.xacc, message.yacc, message.zacc) == pytest.approx(expected, abs=1)


@pytest.mark.parametrize(
    ("beam", "orientation"),
    [
        ((0, 0, 1), 25),
        ((0.3, 0, 0.95), 25),
        ((1, 0, 0), 0),
        ((-1, 0, 0), 4),
        ((0, 1, 0), 2),
        ((0, -1, 0.1), 6),
        ((0, 0, -1), 24),
    ],
)
def test_a_range_finder_reports_where_it_points(beam: tuple[float, ...], orientation: int) -> None:
    encoder = Encoder()
    encoder.add(KINDS["range_finder"].code, [1.0, 0.2, 12.0, 4e-4])
    encoder.sensors[0]["rotation"][2] = beam
    parser = mavlink.MAVLink(None)
    messages = parser.parse_buffer(bytearray(encoder.bytes()))
    assert messages[-1].orientation == orientation


@pytest.mark.parametrize("distance", [1.25, math.nan])
def test_range_and_flow_frames_are_those_of_pymavlink(distance: float) -> None:
    encoder = Encoder()
    encoder.add(KINDS["range_finder"].code, [distance, 0.2, 12.0, 4e-4])
    encoder.add(KINDS["optical_flow"].code, [0.01, -0.02, 0.001, 0.002, 0.003, 0.02, math.nan, 255])
    seen = math.isfinite(distance)
    f = np.float32
    first = mavlink.MAVLink_distance_sensor_message(
        TIME // 1000, 20, 1200, 125 if seen else 1201, 0, 0, 25, 4, 0, 0, [0, 0, 0, 0], 100 if seen else 1
    )
    second = mavlink.MAVLink_hil_optical_flow_message(
        TIME, 0, 20000, f(0.01), f(-0.02), f(0.001), f(0.002), f(0.003), 0, 255, 0, -1.0
    )
    assert encoder.bytes() == packed(clock()) + packed(first, 1) + packed(second, 2)


class Decoder:
    """The receiving end."""

    def __init__(self) -> None:
        self.links = np.zeros(1, LINK)
        self.links["sent_time"] = TIME
        self.buffer = np.zeros(8192, np.uint8)
        self.scratch = tuple(ParserScratch.empty())

    def feed(self, data: bytes) -> Any:
        have = int(self.links[0]["have"])
        self.buffer[have : have + len(data)] = np.frombuffer(data, np.uint8)
        self.links[0]["have"] = have + len(data)
        _parse(self.links, self.buffer, self.scratch)
        return self.links[0]


def answer(controls: list[float], time: int = TIME, mode: int = 129) -> bytes:
    return packed(mavlink.MAVLink_hil_actuator_controls_message(time, controls, mode, 1))


GOOD = [0.5, 0.25, 1.0, 0.0] + [0.0] * 12


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-1.0, 1.0, width=32), min_size=16, max_size=16), st.integers(1, 20))
def test_commands_arrive_exactly_however_the_stream_is_split(controls: list[float], piece: int) -> None:
    decoder = Decoder()
    data = answer(controls)
    for i in range(0, len(data), piece):
        link = decoder.feed(data[i : i + piece])
    assert link["answer"] == Answer.RECEIVED
    assert link["answers"] == 1
    np.testing.assert_array_equal(link["controls"], np.array(controls, np.float32))
    assert link["mode"] & 128


def test_an_answer_to_an_older_frame_is_no_answer_to_the_present_one() -> None:
    link = Decoder().feed(answer(GOOD, TIME - 4000))
    assert link["answers"] == 1
    assert link["answer"] == Answer.AWAITED


@pytest.mark.parametrize("ahead", [1, 4000, 1 << 60, (1 << 63) - TIME, (1 << 64) - 1 - TIME])
def test_an_answer_with_a_time_that_was_never_sent_is_no_answer(ahead: int) -> None:
    link = Decoder().feed(answer(GOOD, TIME + ahead))
    assert link["answer"] == Answer.AWAITED
    assert link["answers"] == 0
    assert link["ahead"] == 1
    np.testing.assert_array_equal(link["controls"], np.array(GOOD, np.float32))


def test_merged_frames_are_all_taken_and_the_last_one_counts() -> None:
    link = Decoder().feed(answer([0.1] * 16, TIME - 4000) + answer(GOOD))
    assert link["answers"] == 2
    np.testing.assert_array_equal(link["controls"], np.array(GOOD, np.float32))


def test_values_that_are_no_commands_are_mended_and_counted() -> None:
    link = Decoder().feed(answer([math.nan, math.inf, -math.inf, 7.0, -7.0, 0.5] + [0.0] * 10))
    np.testing.assert_array_equal(link["controls"][:6], np.array([0, 0, 0, 1, -1, 0.5], np.float32))
    assert link["not_finite"] == 3
    assert link["clamped"] == 2


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_the_first_frame_after_any_garbage_is_taken_at_once(garbage: bytes) -> None:
    decoder = Decoder()
    decoder.feed(garbage)
    link = decoder.feed(answer(GOOD))
    assert link["answer"] == Answer.RECEIVED
    assert link["have"] == 0


@pytest.mark.parametrize("length", [0, 30, 93, 255])
@pytest.mark.parametrize("message", [93, 2, 400])
def test_a_false_start_does_not_wait_for_what_it_claims(length: int, message: int) -> None:
    start = bytes([0xFD, length, 0, 0, 1, 1, 1, message & 0xFF, message >> 8, 0])
    assert Decoder().feed(start + answer(GOOD))["answer"] == Answer.RECEIVED


OLD = mavlink.MAVLink_heartbeat_message(2, 12, 0, 0, 3, 3).pack(mavlink.MAVLink(None), force_mavlink1=True)
UNKNOWN = packed(mavlink.MAVLink_system_time_message(1, 2))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from([answer(GOOD), OLD, UNKNOWN, answer(GOOD)[:40], b"\xfd", b"\xfe\xff"]),
            st.binary(max_size=60),
        ),
        max_size=12,
    ),
    st.lists(st.integers(1, 120), min_size=1, max_size=20),
)
def test_no_whole_frame_is_missed_whatever_is_around_it_and_wherever_the_stream_is_cut(
    parts: list[bytes], cuts: list[int]
) -> None:
    decoder = Decoder()
    data = b"".join(parts)
    at = k = 0
    while at < len(data):
        size = cuts[k % len(cuts)]
        decoder.feed(data[at : at + size])
        at, k = at + size, k + 1
    link = decoder.feed(b"")
    assert link["answers"] == sum(part == answer(GOOD) for part in parts)
    assert link["have"] < MAX_FRAME


TELEMETRY = st.sampled_from(
    [
        mavlink.MAVLink_statustext_message(6, bytes([0xFD, 0, 0, 0, 0xFD, 20, 0, 9, 9, 0xFD])),
        mavlink.MAVLink_tunnel_message(0, 0, 0, 128, [0xFD, 90, 0, 0] * 32),
        mavlink.MAVLink_attitude_message(0xFD00FDFD, 0, 0, 0, 0, 0, 0),
        mavlink.MAVLink_heartbeat_message(2, 12, 0, 0xFD00FDFD, 0xFD, 0xFD),
        mavlink.MAVLink_serial_control_message(0xFD, 0xFD, 0xFDFD, 0xFDFDFDFD, 70, [0xFD] * 70),
    ]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(TELEMETRY, min_size=1, max_size=20), st.lists(st.integers(1, 300), min_size=1, max_size=9))
def test_telemetry_on_the_link_is_no_garbage_whatever_it_says_and_wherever_the_stream_is_cut(
    messages: list[Any], cuts: list[int]
) -> None:
    decoder = Decoder()
    data = b"".join(packed(message) for message in messages)
    at = k = 0
    while at < len(data):
        size = cuts[k % len(cuts)]
        link = decoder.feed(data[at : at + size])
        at, k = at + size, k + 1
    assert link["garbage"] == link["bad_checksums"] == link["have"] == 0
    assert link["unknown"] + link["heartbeats"] == len(messages)


def test_wrong_checksums_cut_frames_unknown_messages_and_mavlink_1_are_stepped_over_and_counted() -> None:
    decoder = Decoder()
    broken = bytearray(answer(GOOD))
    broken[20] ^= 0xFF
    link = decoder.feed(bytes(broken) + answer(GOOD)[:30] + UNKNOWN + OLD + OLD + answer(GOOD) + answer(GOOD))
    assert link["answers"] == 2
    # The frame that is cut short runs into the next one and fails by its checksum, too.
    assert link["bad_checksums"] == 2
    assert link["unknown"] == 1
    assert link["mavlink1"] == 2
    assert link["have"] == 0


def test_a_signed_frame_is_taken_whole() -> None:
    sender = mavlink.MAVLink(None, srcSystem=1, srcComponent=1)
    sender.signing.secret_key = bytes(32)
    sender.signing.sign_outgoing = True
    data = mavlink.MAVLink_hil_actuator_controls_message(TIME, GOOD, 129, 1).pack(sender)
    link = Decoder().feed(data + answer(GOOD))
    assert link["answers"] == 2
    assert link["garbage"] == 0


def test_a_longer_frame_of_a_later_dialect_is_taken() -> None:
    message = mavlink.MAVLink_hil_actuator_controls_message(TIME, GOOD, 129, 1)
    sender = mavlink.MAVLink(None, srcSystem=1, srcComponent=1)
    payload = message.pack(sender)[10:-2].ljust(81, b"\0") + bytes(range(1, 120))
    link = Decoder().feed(bytes(message._pack(sender, 47, payload)))
    assert link["answer"] == Answer.RECEIVED
    np.testing.assert_array_equal(link["controls"], np.array(GOOD, np.float32))


def test_the_request_for_truth_is_understood() -> None:
    command = mavlink.MAVLink_command_long_message(0, 0, 511, 0, 115, 5000, 0, 0, 0, 0, 0)
    assert Decoder().feed(packed(command))["truth_interval"] == 5000


@pytest.mark.parametrize("interval", [-1.0, 0.0, math.nan, math.inf])
def test_truth_is_ended_by_an_interval_that_is_none(interval: float) -> None:
    decoder = Decoder()
    decoder.links["truth_interval"] = 5000
    command = mavlink.MAVLink_command_long_message(0, 0, 511, 0, 115, interval, 0, 0, 0, 0, 0)
    assert decoder.feed(packed(command))["truth_interval"] == 0


def test_requests_for_other_messages_change_nothing() -> None:
    decoder = Decoder()
    for command, message in ((511, 30), (512, 115)):
        decoder.feed(
            packed(mavlink.MAVLink_command_long_message(0, 0, command, 0, message, 5000, 0, 0, 0, 0, 0))
        )
    assert decoder.links["truth_interval"] == 0
