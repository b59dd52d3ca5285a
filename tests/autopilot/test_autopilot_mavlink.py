"""The MAVLink services of the built-in stack: who it says it is, telemetry, commands, streams, setpoints."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymavlink.dialects.v20 import common as mavlink
from support.mavlink_vehicle import ZURICH, Station, source

from sitl_bridge import __version__
from sitl_bridge.autopilot import records
from sitl_bridge.autopilot.mavlink.services import Services
from sitl_bridge.autopilot.mavlink.streams import NORMAL, ONBOARD, Streams
from sitl_bridge.autopilot.modes import flight_modes
from sitl_bridge.core.world.geography import Projection
from sitl_bridge.link.mavlink import common as dialect

NAN = math.nan
SECOND = 1_000_000


@pytest.fixture
def station() -> Station:
    return Station(Services(source()))


def command(number: int, *params: float, confirmation: int = 0, target: tuple[int, int] = (1, 1)) -> Any:
    values = (*params, *(0.0,) * (7 - len(params)))
    return mavlink.MAVLink_command_long_message(*target, number, confirmation, *values)


def run(station: Station, seconds: float, start: int = 0, step: int = 50_000) -> None:
    """Poll for a while; simulated and wall time are the same."""
    for now in range(start, start + round(seconds * SECOND), step):
        for key, messages in station.services.poll(now, now):
            if key == station.key:
                station.take(messages)


# ------------------------------------------------------------------ who it is


def test_the_heartbeat_is_that_of_px4_with_its_mode_and_the_vehicle_type_of_its_rotors(
    station: Station,
) -> None:
    station.commander.armed = True
    run(station, 0.05)
    beat = station.of("HEARTBEAT")[0]
    assert (beat.type, beat.autopilot) == (mavlink.MAV_TYPE_QUADROTOR, mavlink.MAV_AUTOPILOT_PX4)
    assert beat.custom_mode == 4 << 16 | 3 << 24  # AUTO, LOITER of px4_custom_mode.h
    assert beat.base_mode & mavlink.MAV_MODE_FLAG_SAFETY_ARMED
    assert beat.base_mode & mavlink.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED
    assert beat.system_status == mavlink.MAV_STATE_ACTIVE


@pytest.mark.parametrize(("rotors", "kind"), [(3, 15), (4, 2), (6, 13), (8, 14), (12, 29), (5, 43)])
def test_vehicle_types_follow_the_number_of_rotors(rotors: int, kind: int) -> None:
    vehicle = source()
    vehicle.rotor_count = rotors
    station = Station(Services(vehicle))
    run(station, 0.05)
    assert station.of("HEARTBEAT")[0].type == kind


def test_it_says_that_it_is_not_px4_in_its_version_and_in_words(station: Station) -> None:
    version = station.ask(command(512, 148), "AUTOPILOT_VERSION")
    major, minor, patch = (int(part) for part in __version__.split("."))
    # QGroundControl and MAVSDK: three bytes of the vendor's version, then the beginning of a hash.
    assert list(version.flight_custom_version[:3]) == [patch, minor, major]
    assert bytes(version.flight_custom_version[3:]) == b"built"
    assert version.middleware_sw_version == major << 24 | minor << 16 | patch << 8
    assert version.flight_sw_version >> 24 == 1  # below 1.4 QGroundControl warns at each connection
    assert version.capabilities & mavlink.MAV_PROTOCOL_CAPABILITY_MISSION_FENCE
    run(station, 3.0)
    name = f"sitl-bridge {__version__}: built-in flight stack, not PX4"
    assert name in [m.text for m in station.of("STATUSTEXT")]


# ------------------------------------------------------------------ telemetry


def test_every_message_can_be_asked_for_and_read_back_by_pymavlink(station: Station) -> None:
    for number in sorted(NORMAL | ONBOARD):
        name = dialect.mavlink_map[number].msgname
        answer = station.ask(command(512, number), name)
        if name in ("DISTANCE_SENSOR", "ORBIT_EXECUTION_STATUS"):
            assert answer is None  # no range finder, no circle
            assert station.of("COMMAND_ACK")[0].result == mavlink.MAV_RESULT_DENIED
        else:
            assert answer is not None, name
            assert station.of("COMMAND_ACK")[0].result == mavlink.MAV_RESULT_ACCEPTED


def test_telemetry_carries_the_estimate_in_mavlink_units(station: Station) -> None:
    local = station.ask(command(512, 32), "LOCAL_POSITION_NED", now=7_000_000)
    assert (local.x, local.y, local.z, local.vx, local.vy, local.vz) == (3, 4, -10, 1, -2, 0.5)
    assert local.time_boot_ms == 7000
    place = station.ask(command(512, 33), "GLOBAL_POSITION_INT")
    assert place.relative_alt == 10_000
    assert place.alt == 498_000
    assert (place.vx, place.vy, place.vz) == (100, -200, 50)
    assert place.hdg == round(math.degrees(0.5) * 100)
    # 111.2 km per degree of latitude there: 3 m is 2.70e-5 deg, 4 m east 5.31e-5 deg
    assert place.lat - ZURICH[0] * 1e7 == pytest.approx(270, abs=1)
    assert place.lon - ZURICH[1] * 1e7 == pytest.approx(531, abs=2)
    attitude = station.ask(command(512, 30), "ATTITUDE")
    assert attitude.yaw == pytest.approx(0.5, abs=1e-6)
    battery = station.ask(command(512, 147), "BATTERY_STATUS")
    assert (battery.voltages[0], battery.current_battery, battery.battery_remaining) == (16200, 1150, 83)
    servo = station.ask(command(512, 36), "SERVO_OUTPUT_RAW")
    assert [servo.servo1_raw, servo.servo4_raw, servo.servo5_raw] == [1500, 1530, 0]
    home = station.ask(command(512, 242), "HOME_POSITION")
    assert (home.latitude, home.longitude, home.altitude) == (473977420, 85455940, 488000)
    target = station.ask(command(512, 85), "POSITION_TARGET_LOCAL_NED")
    # of position only down, of velocity only north and east, all of acceleration, yaw rate
    assert target.type_mask == 1 << 2 | 0b11 << 3 | 0b111 << 6 | 1 << 11
    imu = station.ask(command(512, 105), "HIGHRES_IMU")
    assert imu.xmag == pytest.approx(0.21)  # gauss
    assert imu.pressure_alt == pytest.approx(489.0, abs=2.0)  # ISA table: 95.6 kPa


def test_the_circle_that_is_flown_is_told(station: Station) -> None:
    station.commander.mode = flight_modes.ORBIT
    circle = station.ask(command(512, 360), "ORBIT_EXECUTION_STATUS")
    assert circle.radius == -20.0  # to the left
    assert circle.x - ZURICH[0] * 1e7 == pytest.approx(270, abs=1)
    assert circle.z == 498.0


def test_what_the_estimator_does_not_know_is_not_sent(station: Station) -> None:
    station.services.source.estimate["valid"] = records.ATTITUDE | records.HEIGHT
    for number, name in [(32, "LOCAL_POSITION_NED"), (33, "GLOBAL_POSITION_INT"), (49, "GPS_GLOBAL_ORIGIN")]:
        assert station.ask(command(512, number), name) is None
        assert station.of("COMMAND_ACK")[0].result == mavlink.MAV_RESULT_DENIED
    flags = station.ask(command(512, 230), "ESTIMATOR_STATUS").flags
    assert flags & mavlink.ESTIMATOR_ATTITUDE
    assert not flags & mavlink.ESTIMATOR_POS_HORIZ_ABS


def test_arming_problems_clear_the_prearm_bit_that_mavsdk_calls_armable(station: Station) -> None:
    assert station.ask(command(512, 1), "SYS_STATUS").onboard_control_sensors_health & 1 << 28
    station.commander.arming_problems = ("GPS fix too low",)
    station.services.poll(2 * SECOND, 2 * SECOND)
    status = station.ask(command(512, 1), "SYS_STATUS")
    assert not status.onboard_control_sensors_health & 1 << 28
    assert status.onboard_control_sensors_health & mavlink.MAV_SYS_STATUS_SENSOR_GPS


@given(st.tuples(st.floats(-2000, 2000), st.floats(-2000, 2000), st.floats(-500, 500)))
def test_local_and_global_positions_are_each_others_inverse(position: tuple[float, float, float]) -> None:
    projection = Projection.from_degrees(*ZURICH)
    assert projection.position(projection.place(position)) == pytest.approx(position, abs=1e-6)


# ------------------------------------------------------------------ streams


def test_streams_keep_px4s_rates_in_simulated_time_up_to_the_rate_of_polls() -> None:
    streams = Streams(ONBOARD)
    counts = dict.fromkeys(ONBOARD, 0)
    for now in range(0, 100 * SECOND, 10_000):
        for number in streams.due(now):
            counts[number] += 1
    for number, rate in ONBOARD.items():
        assert counts[number] == pytest.approx(rate * 100, abs=1 + 0.01 * rate * 100), number


def test_an_interval_that_is_no_multiple_of_the_poll_is_kept_on_average() -> None:
    streams = Streams({})
    streams.set_interval(30, 50_000)
    assert sum(len(list(streams.due(now))) for now in range(0, 100 * SECOND, 8_000)) == pytest.approx(
        2000, abs=2
    )


def test_an_interval_below_a_microsecond_is_one_microsecond() -> None:
    streams = Streams({})
    assert streams.set_interval(30, 1e-45)
    assert streams.interval(30) == 1
    assert [number for now in (0, 8_000) for number in streams.due(now)] == [30, 30]


def test_between_updates_only_a_new_peer_is_told_the_state(station: Station) -> None:
    def told(now: int, wall: int, *, ticked: bool) -> set[str]:
        due = station.services.poll(now, wall, ticked=ticked)
        return {message.get_type() for _, messages in due for message in messages}

    assert "LOCAL_POSITION_NED" in told(0, 0, ticked=False)  # it has never been sent
    station.commander.armed = not station.commander.armed
    station.services.links[next(iter(station.services.links))].streams.set_interval(30, 20_000)
    assert not told(40_000, SECOND // 2, ticked=False)
    # By wall time, with nothing new: it is alive, and its name.
    assert told(40_000, 2 * SECOND, ticked=False) == {"HEARTBEAT", "STATUSTEXT"}
    assert told(48_000, 2 * SECOND, ticked=True) >= {"LOCAL_POSITION_NED", "ATTITUDE", "HEARTBEAT"}


def test_message_intervals_are_set_read_reset_and_refused(station: Station) -> None:
    def result(message: Any) -> int:
        return int(station.ask(message, "COMMAND_ACK").result)

    assert station.ask(command(510, 30), "MESSAGE_INTERVAL").interval_us == 20_000  # 50 Hz, px4-rc.mavlink
    assert result(command(511, 30, 100_000)) == mavlink.MAV_RESULT_ACCEPTED
    assert station.ask(command(510, 30), "MESSAGE_INTERVAL").interval_us == 100_000
    assert result(command(511, 30, -1)) == mavlink.MAV_RESULT_ACCEPTED
    assert station.ask(command(510, 30), "MESSAGE_INTERVAL").interval_us == -1
    run(station, 1.0)
    assert not station.of("ATTITUDE")
    assert result(command(511, 30, 0)) == mavlink.MAV_RESULT_ACCEPTED
    assert station.ask(command(510, 30), "MESSAGE_INTERVAL").interval_us == 20_000
    assert result(command(511, 60000, 1000)) == mavlink.MAV_RESULT_FAILED
    assert station.ask(command(510, 60000), "MESSAGE_INTERVAL").interval_us == 0
    assert result(command(511, NAN, NAN)) == mavlink.MAV_RESULT_FAILED


def test_two_stations_have_intervals_of_their_own() -> None:
    services = Services(source())
    one, two = Station(services, 50001, 255), Station(services, 50002, 254)
    one.send(command(511, 30, -1), 0, 0)
    for now in range(0, SECOND, 50_000):
        for key, messages in services.poll(now, now):
            (one if key == one.key else two).take(messages)
    assert not one.of("ATTITUDE")
    assert len(two.of("ATTITUDE")) == 20


def test_the_heartbeat_comes_once_a_second_of_simulated_time_and_of_wall_time_when_that_is_shorter() -> None:
    station = Station(Services(source()))
    for k in range(1000):  # a tenth of real time
        station.take([m for _, messages in station.services.poll(k * 1000, k * 10_000) for m in messages])
    assert len(station.of("HEARTBEAT")) == 10
    fast = Station(Services(source()))
    for k in range(200):  # a hundred times real time
        fast.take([m for _, messages in fast.services.poll(k * 50_000, k * 500) for m in messages])
    assert len(fast.of("HEARTBEAT")) == 10


# ------------------------------------------------------------------ commands


def test_commands_that_steer_go_to_the_commander_and_its_result_comes_back(station: Station) -> None:
    ack = station.ask(command(400, 1.0), "COMMAND_ACK")
    assert (ack.command, ack.result, ack.target_system, ack.target_component) == (400, 0, 255, 190)
    assert station.commander.armed
    for result in (1, 2, 4, 5):
        station.commander.refuse[22] = result
        assert station.ask(command(22), "COMMAND_ACK").result == result
    assert station.ask(command(31999), "COMMAND_ACK").result == mavlink.MAV_RESULT_UNSUPPORTED


def test_command_int_brings_degrees_and_nan_for_what_is_not_given(station: Station) -> None:
    def send(x: int, y: int) -> int:
        message = mavlink.MAVLink_command_int_message(1, 1, 6, 192, 0, 0, 1.0, 2.0, 3.0, NAN, x, y, 25.0)
        return int(station.ask(message, "COMMAND_ACK").result)

    send(473977420, -85455940)
    number, params = station.commander.commands[-1]
    assert number == 192
    assert params[4:] == pytest.approx((47.397742, -8.545594, 25.0))
    assert math.isnan(params[3])
    send(2**31 - 1, 2**31 - 1)
    assert all(math.isnan(value) for value in station.commander.commands[-1][1][4:6])
    assert send(0x7FF80000, 0x7FF80000) == mavlink.MAV_RESULT_DENIED
    assert len(station.commander.commands) == 2


def test_commands_for_others_are_neither_done_nor_answered(station: Station) -> None:
    for target in [(2, 1), (1, 100), (0, 0)]:
        assert station.ask(command(400, 1.0, target=target), "COMMAND_ACK") is None
    assert not station.commander.commands
    assert station.ask(command(512, 0, target=(0, 0)), "HEARTBEAT") is not None  # as PX4 answers everybody


def test_a_command_that_comes_again_is_answered_again_and_not_done_twice(station: Station) -> None:
    station.commander.refuse[22] = mavlink.MAV_RESULT_TEMPORARILY_REJECTED
    for confirmation in (0, 1, 2):
        ack = station.ask(command(22, 0.0, NAN, confirmation=confirmation), "COMMAND_ACK")
        assert ack.result == mavlink.MAV_RESULT_TEMPORARILY_REJECTED
    assert len(station.commander.commands) == 1
    station.ask(command(22, 0.0, NAN, confirmation=0), "COMMAND_ACK")
    station.ask(command(22, 0.0, 1.0, confirmation=1), "COMMAND_ACK")  # another command
    assert len(station.commander.commands) == 3
    station.ask(command(22, 0.0, NAN, confirmation=1), "COMMAND_ACK", wall=60 * SECOND)  # long after
    assert len(station.commander.commands) == 4


def test_legacy_requests_and_set_mode_are_understood(station: Station) -> None:
    assert station.ask(command(520, 1), "AUTOPILOT_VERSION") is not None
    assert station.ask(command(410), "HOME_POSITION") is not None
    assert station.ask(command(519, 1), "PROTOCOL_VERSION").max_version == 200
    station.send(mavlink.MAVLink_set_mode_message(1, 1, 4 << 16 | 5 << 24), 0, 0)
    assert station.commander.mode is flight_modes.AUTO_RTL


def test_an_unknown_message_is_refused_as_unsupported(station: Station) -> None:
    for number in (395.0, 65535.0, NAN, -5.0):
        assert station.ask(command(512, number), "COMMAND_ACK").result == mavlink.MAV_RESULT_UNSUPPORTED
    assert station.ask(command(512, math.inf), "COMMAND_ACK").result == mavlink.MAV_RESULT_DENIED


# ------------------------------------------------------------------ setpoints and sticks


TARGET_FIELDS = ("x", "y", "z", "vx", "vy", "vz", "afx", "afy", "afz", "yaw", "yaw_rate")


def local_target(mask: int, frame: int = 1, **values: float) -> Any:
    fields = dict.fromkeys(TARGET_FIELDS, 0.0) | values
    return mavlink.MAVLink_set_position_target_local_ned_message(0, 1, 1, frame, mask, **fields)


def test_position_setpoints_reach_the_commander_with_nan_for_what_is_masked(station: Station) -> None:
    station.send(local_target(0b1001_1111_1000, x=1, y=2, z=-3, yaw=0.5), 0, 0)
    target = station.commander.targets[-1]
    assert target.position == (1.0, 2.0, -3.0)
    assert np.isnan([*target.velocity, *target.acceleration, target.yaw_rate]).all()
    assert target.yaw == 0.5


def test_body_velocities_are_marked_as_such(station: Station) -> None:
    station.send(local_target(0b0101_1100_0111, frame=8, vx=1, vy=2, vz=3, x=9, yaw_rate=0.1), 0, 0)
    target = station.commander.targets[-1]
    assert target.body_frame
    assert target.velocity == (1.0, 2.0, 3.0)
    assert np.isnan(target.position).all()


def test_malformed_setpoints_are_refused_in_words_now_and_then(station: Station) -> None:
    for now in range(0, 4 * SECOND, 100_000):
        station.send(local_target(0, frame=11), now, now)  # frame
        station.send(local_target(0xDFF), now, now)  # nothing asked for
        station.send(local_target(0x200), now, now)  # force
        station.send(local_target(0, x=math.inf), now, now)
    run(station, 0.05, start=4 * SECOND)
    assert not station.commander.targets
    assert len({m.id for m in station.of("STATUSTEXT")}) == 2
    assert "frame 11 is not supported" in "".join(m.text for m in station.of("STATUSTEXT"))


def test_global_setpoints_become_local_ones(station: Station) -> None:
    def send(frame: int, alt: float) -> Any:
        message = mavlink.MAVLink_set_position_target_global_int_message(
            0, 1, 1, frame, 0xDF8, 473977690, 85456471, alt, *(0.0,) * 8
        )
        station.send(message, 0, 0)
        return station.commander.targets[-1].position

    assert send(6, 10.0) == pytest.approx((3.0, 4.0, -10.0), abs=0.02)
    assert send(5, 498.0) == pytest.approx((3.0, 4.0, -10.0), abs=0.02)
    station.services.source.estimate["valid"] = records.ATTITUDE
    sent = len(station.commander.targets)
    station.send(
        mavlink.MAVLink_set_position_target_global_int_message(0, 1, 1, 5, 0xDF8, 1, 1, 1, *(0.0,) * 8), 0, 0
    )
    assert len(station.commander.targets) == sent


def test_attitude_and_rate_setpoints_reach_the_commander(station: Station) -> None:
    def send(mask: int, q: list[float], thrust: float = 0.6) -> None:
        station.send(
            mavlink.MAVLink_set_attitude_target_message(0, 1, 1, mask, q, 0.1, 0.2, 0.3, thrust), 0, 0
        )

    send(7, [0.0, 0.0, 0.0, 0.0])
    assert not station.commander.targets
    send(7, [1.0, 0.0, 0.0, 0.0])
    target = station.commander.targets[-1]
    assert target.attitude == (1.0, 0.0, 0.0, 0.0)
    assert target.angular_velocity is None
    assert target.thrust == pytest.approx(0.6)
    send(128, [NAN] * 4, 1.5)
    target = station.commander.targets[-1]
    assert target.attitude is None
    assert target.angular_velocity == pytest.approx((0.1, 0.2, 0.3))
    assert target.thrust == 1.0
    send(128, [0.0] * 4, NAN)
    send(0, [0.0] * 4)
    assert len(station.commander.targets) == 2


def test_sticks_of_this_vehicle_come_by_manual_control(station: Station) -> None:
    station.send(mavlink.MAVLink_manual_control_message(1, 500, -250, 750, 1000, 0), 0, 0)
    assert station.commander.sticks[-1] == (0.5, -0.25, 0.75, 1.0)
    station.send(mavlink.MAVLink_manual_control_message(2, 0, 0, 0, 0, 0), 0, 0)
    assert len(station.commander.sticks) == 1


def test_the_battery_comes_from_the_vehicles_own_system_only(station: Station) -> None:
    def sample(cells: int) -> Any:
        voltages = [4000] * cells + [0xFFFF] * (10 - cells)
        return mavlink.MAVLink_battery_status_message(0, 0, 1, 0x7FFF, voltages, 950, 10, -1, 64)

    station.send(sample(3), 0, 0)  # of system 255
    assert station.commander.battery_state.voltage == 16.2
    own = Station(station.services, 50009, system=1)
    own.send(sample(3), 5, 5)
    state = station.commander.battery_state
    assert (state.voltage, state.current, state.remaining, state.time) == pytest.approx((12.0, 9.5, 0.64, 5))


def test_only_ground_stations_count_as_seen(station: Station) -> None:
    station.send(mavlink.MAVLink_heartbeat_message(6, 8, 0, 0, 0, 3), 0, 0)
    station.send(mavlink.MAVLink_heartbeat_message(18, 8, 0, 0, 0, 3), 0, 0)  # an onboard computer
    assert station.commander.stations == 1


# ------------------------------------------------------------------ words, time


def test_long_texts_come_in_chunks_that_join_to_the_whole(station: Station) -> None:
    texts = ["short", "x" * 50, "y" * 100, "Geofence refused: " + "z" * 90]
    station.commander.texts.extend((4, text) for text in texts)
    run(station, 0.05)
    whole: dict[int, str] = {}
    singles = []
    for message in station.of("STATUSTEXT"):
        assert message.severity == 4
        if message.id:
            whole[message.id] = whole.get(message.id, "") + message.text
        else:
            singles.append(message.text)
    assert singles + list(whole.values()) == texts
    assert len({m.id for m in station.of("STATUSTEXT")}) == 3
    last = {m.id: m for m in station.of("STATUSTEXT") if m.id}
    assert all(len(m.text) < 50 for m in last.values())


def test_ping_and_timesync_are_answered(station: Station) -> None:
    ping = station.ask(mavlink.MAVLink_ping_message(123456, 7, 0, 0), "PING")
    assert (ping.time_usec, ping.seq, ping.target_system, ping.target_component) == (123456, 7, 255, 190)
    sync = station.ask(mavlink.MAVLink_timesync_message(0, 99), "TIMESYNC", now=2_000_000)
    assert (sync.tc1, sync.ts1) == (2_000_000_000, 99)
    assert station.ask(mavlink.MAVLink_timesync_message(5, 99), "TIMESYNC") is None


# ------------------------------------------------------------------ anything at all


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(mavlink.mavlink_map)), st.binary(max_size=255), st.booleans())
def test_any_message_with_any_content_is_survived(number: int, payload: bytes, aimed: bool) -> None:
    """Well-formed frames of every known kind with random content, most of it aimed at this vehicle."""
    station = Station(Services(source()))
    kind = mavlink.mavlink_map[number]
    body = bytearray(payload[: kind.unpacker.size].ljust(kind.unpacker.size, b"\0"))
    at = 0
    for name, code, length in zip(
        kind.ordered_fieldnames, kind.native_format.decode()[1:], kind.array_lengths, strict=True
    ):
        if aimed and name in ("target_system", "target_component", "target"):
            body[at] = 1
        at += struct.calcsize("<" + code) * max(length, 1)
    frame = _frame(number, bytes(body), kind.crc_extra)
    for message in station.decoder.messages(frame):
        station.take(station.services.handle(station.key, message, SECOND, SECOND))
    run(station, 0.2, start=SECOND)


def _frame(number: int, payload: bytes, crc_extra: int) -> bytes:
    from pymavlink.mavutil import x25crc

    head = bytes([len(payload), 0, 0, 0, 255, 190]) + number.to_bytes(3, "little")
    crc = x25crc(head + payload + bytes([crc_extra])).crc
    return b"\xfd" + head + payload + int(crc).to_bytes(2, "little")
