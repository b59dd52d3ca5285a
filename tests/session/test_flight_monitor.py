"""The monitor on the payload link: what it hears, what it says PX4 waits for, and the battery it sends."""

from __future__ import annotations

import json
import math
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymavlink.dialects.v20 import common as mavlink
from pymavlink.mavutil import x25crc
from support.waiting import wait_until

from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.base.errors import UserError
from sitl_bridge.link.px4.event_catalogue import EventCatalogue
from sitl_bridge.link.px4.vehicle_status import (
    BatterySample,
    battery_message,
    battery_temperature,
    mode_name,
)
from sitl_bridge.session.monitor import CONFIRMATION, Monitor, MonitorThread

INSTANCE = 97
HOLD_MODE = 4 << 16 | 3 << 24

CATALOGUE = {
    "version": 2,
    "components": {
        "1": {
            "namespace": "px4",
            "enums": {
                "groups_t": {"type": "uint32_t", "is_bitfield": True, "entries": {}},
                "action_t": {"type": "uint8_t", "entries": {"6": {"name": "rtl", "description": "Return"}}},
            },
            "navigation_mode_groups": {"groups": {"4": [HOLD_MODE]}},
            "event_groups": {
                "arming_check": {
                    "events": {
                        "1": {
                            "name": "summary",
                            "type": "summary",
                            "message": "",
                            "arguments": [
                                {"name": "chunk", "type": "uint8_t"},
                                {"name": "error", "type": "px4::groups_t"},
                                {"name": "warning", "type": "px4::groups_t"},
                                {"name": "can_arm", "type": "px4::groups_t"},
                                {"name": "can_run", "type": "px4::groups_t"},
                            ],
                        },
                        "2": {
                            "name": "no_gps",
                            "message": "GPS fix too low",
                            "arguments": [
                                {"name": "modes", "type": "px4::groups_t"},
                                {"name": "component", "type": "uint8_t"},
                            ],
                        },
                    }
                },
                "health": {
                    "events": {
                        "3": {"name": "health", "type": "summary", "message": "", "arguments": []},
                    }
                },
                "default": {
                    "events": {
                        "4": {
                            "name": "failsafe",
                            "message": "<b>Failsafe</b>: {1} in {2:.1m_v}",
                            "arguments": [
                                {"name": "action", "type": "action_t"},
                                {"name": "height", "type": "float"},
                            ],
                        }
                    }
                },
            },
        }
    },
}


class FakePx4:
    """Sends what PX4 sends to the monitor, and keeps what the monitor sends back."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(2.0)
        self.to = ("127.0.0.1", port)
        self.mavlink = mavlink.MAVLink(None, srcSystem=INSTANCE + 1, srcComponent=1)
        self.parser = mavlink.MAVLink(None)

    def send(self, *messages: Any) -> None:
        self.socket.sendto(b"".join(m.pack(self.mavlink) for m in messages), self.to)

    def send_event(self, number: int, level: int, arguments: bytes, *, damaged: bool = False) -> None:
        payload = struct.pack("<IIHBBB", 1 << 24 | number, 0, 0, 0, 0, level << 4 | level) + arguments
        payload = payload.rstrip(b"\0")
        head = bytes([0xFD, len(payload), 0, 0, 0, INSTANCE + 1, 1]) + (410).to_bytes(3, "little")
        crc = x25crc(head[1:] + payload)
        crc.accumulate(bytes([160]))
        checksum = crc.crc ^ (1 if damaged else 0)
        self.socket.sendto(head + payload + checksum.to_bytes(2, "little"), self.to)

    def received(self, wanted: str) -> Any:
        end = time.monotonic() + 3.0
        while time.monotonic() < end:
            for message in self.parser.parse_buffer(self.socket.recv(4096)) or []:
                if message.get_type() == wanted:
                    return message
        raise AssertionError(f"no {wanted} came")


def heartbeat(mode: int = HOLD_MODE, *, armed: bool = False) -> Any:
    return mavlink.MAVLink_heartbeat_message(2, 12, 29 | (128 if armed else 0), mode, 3, 3)


def sys_status(enabled: int, health: int) -> Any:
    return mavlink.MAVLink_sys_status_message(enabled, enabled, health, 0, 12000, 100, 50, 0, 0, 0, 0, 0, 0)


@pytest.fixture
def catalogue(tmp_path: Path) -> EventCatalogue:
    path = tmp_path / "events.json"
    path.write_text(json.dumps(CATALOGUE))
    return EventCatalogue(path)


@pytest.fixture
def monitor(catalogue: EventCatalogue) -> Iterator[Monitor]:
    sample = BatterySample(5_000_000, 15.2, 12.34, 0.87, 360.0, 4)
    watching = Monitor(INSTANCE, catalogue=catalogue, battery=lambda: sample)
    watching.open()
    errors = ErrorLog(print)
    thread = MonitorThread([watching], errors)
    thread.start()
    yield watching
    thread.stop()
    watching.stop()
    assert not errors.lines


@pytest.fixture
def px4(monitor: Monitor) -> Iterator[FakePx4]:
    fake = FakePx4(monitor.port)
    yield fake
    fake.socket.close()


def test_nothing_is_claimed_before_anything_was_heard(monitor: Monitor) -> None:
    status = monitor.status()
    assert not status.heard
    assert status.waits_for == ("the first heartbeat",)
    assert math.isnan(status.time)


def test_state_is_that_of_the_latest_messages_of_a_datagram(monitor: Monitor, px4: FakePx4) -> None:
    px4.send(
        heartbeat(),
        heartbeat(6 << 16, armed=True),
        mavlink.MAVLink_local_position_ned_message(61_500, 1.0, 2.0, -3.0, 0.1, 0.2, -0.3),
        mavlink.MAVLink_extended_sys_state_message(0, 2),
    )
    wait_until(lambda: monitor.status().armed)
    status = monitor.status()
    assert (status.mode, status.landed) == ("Offboard", "in air")
    assert status.time == pytest.approx(61.5)
    assert status.position == pytest.approx((1.0, 2.0, -3.0))
    assert status.waits_for == ()


def test_a_mode_that_was_agreed_to_holds_until_a_heartbeat_tells_another(
    monitor: Monitor, px4: FakePx4
) -> None:
    px4.send(heartbeat())
    wait_until(lambda: monitor.status().mode == "Hold")
    monitor.take_mode("Offboard")
    assert monitor.status().mode == "Offboard"
    px4.send(heartbeat())
    wait_until(lambda: monitor.status().mode == "Hold")


def beats_as_companion(fake: FakePx4, system: int, kind: int = mavlink.MAV_TYPE_ONBOARD_CONTROLLER) -> None:
    """Send a companion computer's heartbeat, as PX4 forwards it, then a second of PX4's clock twice."""
    beat = mavlink.MAVLink_heartbeat_message(kind, mavlink.MAV_AUTOPILOT_INVALID, 0, 0, 4, 3)
    fake.socket.sendto(beat.pack(mavlink.MAVLink(None, srcSystem=system, srcComponent=195)), fake.to)
    for milliseconds in (61_000, 62_500):
        fake.send(mavlink.MAVLink_local_position_ned_message(milliseconds, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
        time.sleep(0.1)


def test_a_companions_heartbeats_are_repeated_by_px4s_clock_as_long_as_it_sends_them(
    px4: FakePx4, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats_as_companion(px4, INSTANCE + 1)
    for _ in range(2):
        beat = px4.received("HEARTBEAT")
        assert (beat.get_srcSystem(), beat.get_srcComponent()) == (INSTANCE + 1, 195)
        assert beat.type == mavlink.MAV_TYPE_ONBOARD_CONTROLLER
    monkeypatch.setattr("sitl_bridge.session.monitor.COMPANION_ALIVE", 0.0)
    px4.send(mavlink.MAVLink_local_position_ned_message(64_000, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    with pytest.raises((AssertionError, TimeoutError)):  # none comes
        px4.received("HEARTBEAT")


@pytest.mark.parametrize(
    ("system", "kind"), [(INSTANCE + 2, mavlink.MAV_TYPE_ONBOARD_CONTROLLER), (INSTANCE + 1, 6)]
)
def test_heartbeats_of_other_systems_and_of_ground_stations_are_not_repeated(
    system: int, kind: int, px4: FakePx4
) -> None:
    beats_as_companion(px4, system, kind)
    with pytest.raises((AssertionError, TimeoutError)):  # none comes
        px4.received("HEARTBEAT")


def test_other_systems_and_damaged_frames_are_not_believed(monitor: Monitor, px4: FakePx4) -> None:
    stranger = mavlink.MAVLink(None, srcSystem=INSTANCE + 2, srcComponent=1)
    good = bytearray(heartbeat(armed=True).pack(px4.mavlink))
    good[12] ^= 0xFF
    px4.socket.sendto(heartbeat(armed=True).pack(stranger) + bytes(good) + b"\x00\xfd\x01", px4.to)
    px4.send(mavlink.MAVLink_system_time_message(0, 7000))
    wait_until(lambda: monitor.status().time == 7.0)
    assert not monitor.status().armed


def test_unhealthy_sensors_and_missing_estimates_are_named(monitor: Monitor, px4: FakePx4) -> None:
    gyro, gps = mavlink.MAV_SYS_STATUS_SENSOR_3D_GYRO, mavlink.MAV_SYS_STATUS_SENSOR_GPS
    attitude = mavlink.ESTIMATOR_ATTITUDE | mavlink.ESTIMATOR_VELOCITY_VERT | mavlink.ESTIMATOR_VELOCITY_HORIZ
    estimator = mavlink.MAVLink_estimator_status_message(0, attitude, 0, 0, 0, 0, 0, 0, 0, 0)
    px4.send(heartbeat(), sys_status(gyro | gps, gyro), estimator)
    wait_until(lambda: "GPS to become healthy" in monitor.status().waits_for)
    assert "the position estimate" in monitor.status().waits_for
    assert "gyroscope to become healthy" not in monitor.status().waits_for
    px4.send(sys_status(gyro, gyro | mavlink.MAV_SYS_STATUS_PREARM_CHECK))
    wait_until(lambda: monitor.status().waits_for == ())


def test_arming_checks_come_in_px4s_own_words(monitor: Monitor, px4: FakePx4) -> None:
    px4.send(heartbeat(), sys_status(0, 0))
    px4.send_event(1, 8, struct.pack("<BIIII", 0, 0, 0, 0, 0))
    px4.send_event(2, 3, struct.pack("<IB", 1 << 4, 3))
    px4.send_event(2, 3, struct.pack("<IB", 1 << 9, 3))  # about a mode that is not flown
    px4.send_event(3, 8, b"")
    wait_until(lambda: monitor.status().waits_for == ("GPS fix too low",))
    px4.send_event(1, 8, struct.pack("<BIIII", 0, 0, 0, 1 << 4, 1 << 4))
    px4.send_event(3, 8, b"")
    wait_until(lambda: monitor.status().waits_for == ("the flight stack's own checks",))


def test_events_and_texts_are_told_once_in_words(monitor: Monitor, px4: FakePx4) -> None:
    px4.send_event(4, 2, struct.pack("<Bf", 6, 12.34), damaged=True)
    px4.send_event(4, 2, struct.pack("<Bf", 6, 12.34))
    px4.send(mavlink.MAVLink_statustext_message(2, b"Failsafe: Return in 12.3 m\t"))
    px4.send(mavlink.MAVLink_statustext_message(4, b"w" * 50, 0, 0))  # PX4's first text has the number 0
    px4.send(mavlink.MAVLink_statustext_message(4, b"rest", 0, 1))
    px4.send(mavlink.MAVLink_statustext_message(3, b"y" * 50, 4, 0))  # nothing ends it but the next
    px4.send(mavlink.MAVLink_statustext_message(6, b"x" * 50, 5, 0))
    px4.send(mavlink.MAVLink_statustext_message(6, b"tail", 5, 1))
    wait_until(lambda: len(monitor.messages) == 4)
    assert [(m.level, m.text) for m in monitor.messages] == [
        (2, "Failsafe: Return in 12.3 m"),
        (4, "w" * 50 + "rest"),
        (3, "y" * 50),
        (6, "x" * 50 + "tail"),
    ]


def test_the_battery_reaches_px4_from_another_component_of_the_same_system(px4: FakePx4) -> None:
    px4.send(heartbeat())
    battery = px4.received("BATTERY_STATUS")
    assert battery.get_srcSystem() == INSTANCE + 1
    assert battery.get_srcComponent() == mavlink.MAV_COMP_ID_BATTERY
    assert battery.voltages == [3800] * 4 + [0xFFFF] * 6
    assert (battery.current_battery, battery.battery_remaining, battery.current_consumed) == (1234, 87, 100)


def test_a_battery_of_more_than_ten_cells_keeps_its_voltage() -> None:
    message = battery_message(BatterySample(0, 50.4, 400.0, 1.0, 0.0, 12, battery_temperature("v1.16.0")))
    assert message.temperature == 25  # which that PX4 takes for deg C
    assert battery_temperature("v1.18.0-12-gabcdef0") == battery_temperature("v0.0.0") == 0x7FFF
    assert sum(message.voltages) == pytest.approx(50_400, abs=10)
    assert message.current_battery == 0x7FFF  # the field's end


def test_streams_that_only_cost_time_are_switched_off(px4: FakePx4) -> None:
    px4.send(heartbeat(), mavlink.MAVLink_attitude_message(0, 0, 0, 0, 0, 0, 0))
    command = px4.received("COMMAND_LONG")
    assert command.command == mavlink.MAV_CMD_SET_MESSAGE_INTERVAL
    assert command.param2 == -1.0


def test_a_taken_port_is_named(monitor: Monitor) -> None:
    with pytest.raises(UserError, match=f"UDP port {monitor.port}.*--instance"):
        Monitor(INSTANCE).open()


def test_modes_have_px4s_names() -> None:
    assert [mode_name(4 << 16 | sub << 24) for sub in (2, 3, 4, 5, 6)] == [
        "Takeoff",
        "Hold",
        "Mission",
        "Return",
        "Land",
    ]
    assert mode_name(3 << 16) == "Position"
    assert mode_name(3 << 16 | 1 << 24) == "Orbit"
    assert mode_name(3 << 16 | 2 << 24) == "Position slow"
    assert mode_name(11 << 16) == "Altitude cruise"


def test_a_file_that_is_no_catalogue_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "all_events.json.xz"
    path.write_bytes(b"nothing")
    with pytest.raises(UserError, match="not an event catalogue"):
        EventCatalogue(path)


def test_messages_of_a_companion_have_been_read_when_deliver_returns(monitor: Monitor, px4: FakePx4) -> None:
    message = mavlink.MAVLink_statustext_message(6, b"companion")
    read: list[str] = []

    def answer() -> None:
        for _ in range(2):
            for got in px4.parser.parse_buffer(px4.socket.recv(4096)) or []:
                if got.get_type() in ("STATUSTEXT", "PING"):
                    read.append(got.get_type())
                if got.get_type() == "PING":
                    reply = (got.time_usec, got.seq, got.get_srcSystem(), got.get_srcComponent())
                    px4.send(mavlink.MAVLink_ping_message(*reply))

    px4.send(heartbeat())
    wait_until(lambda: monitor.status().heard)
    px4.received("BATTERY_STATUS")
    monitor.deliver([message])  # PX4 has not answered yet, and is not waited for
    answer()
    wait_until(lambda: monitor.pings_answered == 1)
    read.clear()
    thread = threading.Thread(target=answer)
    thread.start()
    monitor.deliver([message])
    assert read == ["STATUSTEXT", "PING"]
    thread.join()


def confirmed_message(monitor: Monitor, px4: FakePx4) -> Any:
    """A message of a companion that PX4 has confirmed once, so that the next one is waited for."""
    message = mavlink.MAVLink_statustext_message(6, b"companion")
    px4.send(heartbeat())
    wait_until(lambda: monitor.status().heard)
    monitor.deliver([message])
    ping = px4.received("PING")
    px4.send(mavlink.MAVLink_ping_message(0, ping.seq, ping.get_srcSystem(), ping.get_srcComponent()))
    wait_until(lambda: monitor.pings_answered == 1)
    return message


def test_a_px4_that_no_longer_reads_its_link_is_reported(
    monitor: Monitor, px4: FakePx4, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sitl_bridge.session.monitor.CONFIRMATION", 0.05)
    message = confirmed_message(monitor, px4)
    monitor.deliver([message])
    warning = monitor.messages[-1]
    assert warning.level == mavlink.MAV_SEVERITY_WARNING
    assert "not confirmed STATUSTEXT within 0.05 s" in warning.text
    monitor.deliver([message])  # not waited for, and not reported again
    assert len(monitor.messages) == 1


def test_a_monitor_stops_while_messages_of_a_companion_wait_for_px4(monitor: Monitor, px4: FakePx4) -> None:
    message = confirmed_message(monitor, px4)
    failed: list[OSError] = []

    def deliver() -> None:
        try:
            monitor.deliver([message])
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=deliver)
    thread.start()
    wait_until(lambda: monitor.pings_sent == 2)
    monitor.stop()
    thread.join(timeout=0.5 * CONFIRMATION)
    assert not thread.is_alive()
    assert not failed
    assert not monitor.messages, "PX4 is not blamed for a wait that the monitor ended"
