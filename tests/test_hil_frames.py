"""The frame codec against pymavlink, byte for byte, and against everything a broken stream can hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymavlink.dialects.v20 import common as mavlink

from sitl_bridge.compiled import compiled
from sitl_bridge.dynamics.layout import STATE
from sitl_bridge.hil import frames
from sitl_bridge.hil.frames import LINK, MAX_STEP_BYTES, PAYLOADS, parse, sensor_slots, write_step
from sitl_bridge.sensors import layout
from sitl_bridge.sensors.layout import MAX_SENSORS, SENSOR, SENSOR_STATE
from sitl_bridge.world.world import World

TIME = 1_234_567_890


@compiled
def _write(
    out: Any, payloads: Any, raw: Any, states: Any, env: Any, sensors: Any, memories: Any, links: Any,
    slots: Any, time: int,
) -> int:  # fmt: skip
    return write_step(out, payloads, raw, states[0], env[0], sensors, memories, links[0], slots, time)


@compiled
def _parse(links: Any, buffer: Any, payload: Any, scratch: Any, raw: Any) -> None:
    parse(links[0], buffer, payload, scratch, raw)


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
    sender = mavlink.MAVLink(None, srcSystem=frames.SYSTEM_ID, srcComponent=frames.COMPONENT_ID)
    sender.seq = sequence
    data: bytes = message.pack(sender)
    return data


ordinary = st.floats(-1e6, 1e6, width=32)
zero_or = st.one_of(st.just(0.0), ordinary)


@settings(max_examples=60, deadline=None)
@given(st.lists(zero_or, min_size=7, max_size=7), st.integers(0, 2))
def test_inertial_frames_are_those_of_pymavlink(values: list[float], instance: int) -> None:
    encoder = Encoder()
    encoder.add(layout.IMU, values, instance)
    expected = mavlink.MAVLink_hil_sensor_message(
        TIME, *values[:6], 0, 0, 0, 0, 0, 0, values[6], 0x3F, instance
    )
    assert encoder.bytes() == packed(expected)


def test_one_frame_carries_all_that_is_fresh_in_the_link_s_units() -> None:
    encoder = Encoder()
    encoder.add(layout.IMU, [0.1, -0.2, -9.8, 0.01, 0.02, 0.03, 12.0])
    encoder.add(layout.MAGNETOMETER, [2.15e-5, 1.5e-6, 4.3e-5])
    encoder.add(layout.BAROMETER, [95598.28, 11.8, 488.0])
    encoder.add(layout.AIRSPEED, [61.25, 11.8])
    f = np.float32
    expected = mavlink.MAVLink_hil_sensor_message(
        TIME, f(0.1), f(-0.2), f(-9.8), f(0.01), f(0.02), f(0.03), f(0.215), f(0.015), f(0.43),
        f(955.9828), f(0.6125), f(488.0), f(11.8), 0x1FFF, 0,
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
        layout.GPS, [latitude, longitude, height, *velocity, 0.9, 1.8, 3, 10], instance, time=TIME - 120000
    )
    speed = math.hypot(velocity[0], velocity[1])
    course = math.degrees(math.atan2(velocity[1], velocity[0])) % 360.0
    expected = mavlink.MAVLink_hil_gps_message(
        TIME - 120000, 3, round(math.degrees(latitude) * 1e7), round(math.degrees(longitude) * 1e7),
        round(height * 1e3), 90, 180, round(speed * 100), *(_signed(v) for v in velocity),
        min(round(course * 100), 35999), 10, instance, 0,
    )  # fmt: skip
    assert encoder.bytes() == packed(expected)


def _signed(velocity: float) -> int:
    return int(np.rint(velocity * 100))


def test_truth_goes_out_at_the_rate_asked_for_with_accelerations_as_px4_logs_them() -> None:
    encoder = Encoder()
    encoder.states[0]["position"] = (10.0, 20.0, -30.0)
    encoder.states[0]["velocity"] = (1.0, -2.0, 0.5)
    encoder.states[0]["specific_force"] = (0.1, 0.2, -9.8)
    encoder.states[0]["angular_velocity"] = (0.01, 0.02, 0.03)
    assert encoder.bytes() == b"", "nobody has asked for truth yet"
    encoder.links[0]["truth_interval"] = 5000
    data = encoder.bytes()
    message = mavlink.MAVLink(None).parse_buffer(bytearray(data))[0]
    assert message.get_type() == "HIL_STATE_QUATERNION"
    assert (message.xacc, message.yacc, message.zacc) == (100, 200, -9800)
    assert (message.vx, message.vy, message.vz) == (100, -200, 50)
    latitude, longitude, height = encoder.world.geodetic(np.array([10.0, 20.0, -30.0]))
    assert message.lat == round(latitude * 1e7)
    assert message.lon == round(longitude * 1e7)
    assert message.alt == pytest.approx(height * 1e3, abs=1)
    assert data == packed(message)


@pytest.mark.parametrize("distance", [1.25, math.nan])
def test_range_and_flow_frames_are_those_of_pymavlink(distance: float) -> None:
    encoder = Encoder()
    encoder.add(layout.RANGE_FINDER, [distance, 0.2, 12.0, 4e-4])
    encoder.add(layout.OPTICAL_FLOW, [0.01, -0.02, 0.001, 0.002, 0.003, 0.02, math.nan, 255])
    seen = math.isfinite(distance)
    f = np.float32
    first = mavlink.MAVLink_distance_sensor_message(
        TIME // 1000, 20, 1200, 125 if seen else 1201, 0, 0, 25, 4, 0, 0, [0, 0, 0, 0], 100 if seen else 1
    )
    second = mavlink.MAVLink_hil_optical_flow_message(
        TIME, 0, 20000, f(0.01), f(-0.02), f(0.001), f(0.002), f(0.003), 0, 255, 0, -1.0
    )
    assert encoder.bytes() == packed(first) + packed(second, 1)


class Decoder:
    """The receiving end."""

    def __init__(self) -> None:
        self.links = np.zeros(1, LINK)
        self.links["sent_time"] = TIME
        self.buffer = np.zeros(8192, np.uint8)
        self.payload = np.zeros(255, np.uint8)
        self.scratch = np.zeros(1, np.float32)

    def feed(self, data: bytes) -> Any:
        have = int(self.links[0]["have"])
        self.buffer[have : have + len(data)] = np.frombuffer(data, np.uint8)
        self.links[0]["have"] = have + len(data)
        _parse(self.links, self.buffer, self.payload, self.scratch, self.scratch.view(np.uint8))
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
    assert link["answered"] == 1
    assert link["answers"] == 1
    np.testing.assert_array_equal(link["controls"], np.array(controls, np.float32))
    assert link["mode"] & 128


def test_an_answer_to_an_older_frame_is_no_answer_to_the_present_one() -> None:
    link = Decoder().feed(answer(GOOD, TIME - 4000))
    assert link["answers"] == 1
    assert link["answered"] == 0


def test_merged_frames_are_all_taken_and_the_last_one_counts() -> None:
    link = Decoder().feed(answer([0.1] * 16, TIME - 4000) + answer(GOOD))
    assert link["answers"] == 2
    np.testing.assert_array_equal(link["controls"], np.array(GOOD, np.float32))


def test_values_that_are_no_commands_are_mended_and_counted() -> None:
    link = Decoder().feed(answer([math.nan, math.inf, -math.inf, 7.0, -7.0, 0.5] + [0.0] * 10))
    np.testing.assert_array_equal(link["controls"][:6], np.array([0, 0, 0, 1, -1, 0.5], np.float32))
    assert link["bad_values"] == 5


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_the_stream_is_found_again_after_any_garbage(garbage: bytes) -> None:
    decoder = Decoder()
    decoder.feed(garbage)
    # A false start can claim up to a whole frame's length of what follows, so send until it is past.
    for _ in range(6):
        link = decoder.feed(answer(GOOD))
    assert link["answered"] == 1
    assert link["answers"] >= 2


def test_wrong_checksums_cut_frames_unknown_messages_and_mavlink_1_are_stepped_over() -> None:
    decoder = Decoder()
    broken = bytearray(answer(GOOD))
    broken[20] ^= 0xFF
    unknown = packed(mavlink.MAVLink_system_time_message(1, 2))
    old = mavlink.MAVLink_heartbeat_message(2, 12, 0, 0, 3, 3)
    old = old.pack(mavlink.MAVLink(None), force_mavlink1=True)
    link = decoder.feed(bytes(broken) + answer(GOOD)[:30] + unknown + old + answer(GOOD) + answer(GOOD))
    assert link["answered"] == 1
    assert link["bad_checksums"] >= 1
    assert link["unknown"] == 1
    assert link["mavlink1"] >= 1
    assert link["have"] == 0


def test_the_request_for_truth_is_understood() -> None:
    command = mavlink.MAVLink_command_long_message(0, 0, 511, 0, 115, 5000, 0, 0, 0, 0, 0)
    assert Decoder().feed(packed(command))["truth_interval"] == 5000
