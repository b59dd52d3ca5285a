"""What keeps the vehicle from arming, as events; the files that peers may read; log download."""

from __future__ import annotations

import dataclasses
import json
import random
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from pymavlink.dialects.v20 import common as mavlink
from support.mavlink_vehicle import Station, source

from sitl_bridge.autopilot.mavlink import metadata
from sitl_bridge.autopilot.mavlink.file_protocol import DATA, HEADER
from sitl_bridge.autopilot.mavlink.services import Services
from sitl_bridge.autopilot.modes import flight_modes
from sitl_bridge.link.mavlink import common as dialect
from sitl_bridge.link.px4.event_catalogue import ArmingReport, EventCatalogue

SECOND = 1_000_000
ACK, NAK = 128, 129


@pytest.fixture
def station() -> Station:
    return Station(Services(source()), rates={})


@pytest.fixture
def catalogue(tmp_path: Path) -> EventCatalogue:
    path = tmp_path / "events.json"
    path.write_bytes(metadata.files(source().commander.parameters)[metadata.EVENTS])
    return EventCatalogue(path)


def poll(station: Station, now: int) -> None:
    for _, messages in station.services.poll(now, now):
        station.take(messages)


def report(station: Station, catalogue: EventCatalogue) -> ArmingReport:
    got = ArmingReport()
    for message in station.of("EVENT"):
        event = catalogue.decode(message.id, message.log_levels, bytes(message.arguments))
        assert event is not None
        got.take(event)
    return got


# ------------------------------------------------------------------ events


def test_problems_are_reported_in_the_form_this_projects_monitor_reads_of_px4(
    station: Station, catalogue: EventCatalogue
) -> None:
    commander = station.commander
    commander.arming_problems = ("Home position not set", "Geofence violation: 3 m outside", "Something new")
    poll(station, 0)
    got = report(station, catalogue)
    hold, takeoff = (
        catalogue.mode_bit(mode.custom_mode) for mode in (flight_modes.AUTO_LOITER, flight_modes.AUTO_TAKEOFF)
    )
    assert got.reasons(hold) == [
        "Home position not set",
        "Geofence violation",
        "Another check failed; see the messages",
    ]
    assert got.reasons(takeoff) == []
    commander.arming_problems = ()
    poll(station, SECOND)
    assert report(station, catalogue).reasons(hold) == []


def test_a_report_comes_when_something_changes_and_when_asked_for(station: Station) -> None:
    for now in range(0, 5 * SECOND, 50_000):
        poll(station, now)
    assert len(station.of("EVENT")) == 2  # one report without problems: the two summaries
    command = mavlink.MAVLink_command_long_message(1, 1, 401, 0, *(0.0,) * 7)
    assert station.ask(command, "COMMAND_ACK").result == mavlink.MAV_RESULT_ACCEPTED
    poll(station, 5 * SECOND)
    assert len(station.of("EVENT")) == 2
    station.commander.armed = True
    assert station.ask(command, "COMMAND_ACK").result == mavlink.MAV_RESULT_TEMPORARILY_REJECTED


def test_a_check_that_flickers_fills_no_link(station: Station) -> None:
    for k, now in enumerate(range(0, 10 * SECOND, 50_000)):
        station.commander.arming_problems = ("Low battery",) if k % 2 else ()
        poll(station, now)
    assert len(station.of("EVENT")) <= 21 * 3  # a report each half second


def test_missing_events_are_sent_again_and_those_too_old_refused(station: Station) -> None:
    poll(station, 0)
    sequences = [message.sequence for message in station.of("EVENT")]
    assert sequences == [0, 1]
    assert station.of("CURRENT_EVENT_SEQUENCE")[0].flags == 1  # reset
    asked = dialect.MAVLink_request_event_message(1, 1, 0, 1)
    station.heard.clear()
    station.send(asked, 0, 0)
    assert [message.sequence for message in station.of("EVENT")] == [0, 1]
    asked = dialect.MAVLink_request_event_message(1, 1, 65530, 0)
    station.heard.clear()
    station.send(asked, 0, 0)
    assert len(station.of("RESPONSE_EVENT_ERROR")) == 6
    assert station.of("RESPONSE_EVENT_ERROR")[0].sequence_oldest_available == 0
    assert len(station.of("EVENT")) == 1
    asked = dialect.MAVLink_request_event_message(2, 1, 0, 1)
    assert station.ask(asked, "EVENT") is None


def test_health_tells_present_and_failing_components(station: Station, catalogue: EventCatalogue) -> None:
    station.commander.health_bits.healthy &= ~mavlink.MAV_SYS_STATUS_SENSOR_GPS
    poll(station, 0)
    message = station.of("EVENT")[-1]
    event = catalogue.decode(message.id, message.log_levels, bytes(message.arguments))
    assert event is not None
    assert event.group == "health"
    _, present, error, _ = (int(value) for value in event.values)
    assert error == 1 << 3  # gps of PX4's health_component_t
    assert present & 1 << 29  # gyro


# ------------------------------------------------------------------ files


class Downloader:
    """Reads files as MAVSDK and QGroundControl do: open, a burst, the missing parts one by one."""

    def __init__(self, station: Station) -> None:
        self.station = station
        self.sequence = 40

    def ask(
        self, opcode: int, offset: int = 0, size: int = 0, data: bytes = b"", session: int = 0
    ) -> list[Any]:
        head = HEADER.pack(self.sequence, session, opcode, size or len(data), 0, 0, offset)
        payload = list((head + data).ljust(251, b"\0"))
        self.station.heard.clear()
        self.station.send(mavlink.MAVLink_file_transfer_protocol_message(0, 1, 1, payload), 0, 0)
        answers = []
        for message in self.station.of("FILE_TRANSFER_PROTOCOL"):
            assert (message.target_system, message.target_component) == (255, 190)
            raw = bytes(message.payload)
            fields = HEADER.unpack_from(raw)
            assert fields[4] == opcode
            answers.append((*fields, raw[HEADER.size : HEADER.size + fields[3]]))
        self.sequence += 1 + len(answers)
        return answers

    def download(self, name: str, losses: random.Random | None = None) -> bytes:
        opened = self.ask(4, data=name.encode() + b"\0")[0]
        assert opened[2] == ACK
        content = bytearray(int.from_bytes(opened[-1], "little"))
        parts: list[Any] = []
        at = 0
        while at < len(content):
            burst = self.ask(15, at, DATA)
            assert [part[5] for part in burst] == [0] * (len(burst) - 1) + [1]
            parts += burst
            at = burst[-1][6] + len(burst[-1][-1])
        missing = []
        for part in parts:
            if losses is not None and losses.random() < 0.3:
                missing.append(part[6])
            else:
                content[part[6] : part[6] + len(part[-1])] = part[-1]
        for offset in missing:
            part = self.ask(5, offset, DATA)[0]
            content[offset : offset + len(part[-1])] = part[-1]
        assert self.ask(1)[0][2] == ACK
        return bytes(content)


def test_metadata_is_found_and_read_from_its_uri_with_losses(station: Station) -> None:
    answer = station.ask(
        mavlink.MAVLink_command_long_message(1, 1, 512, 0, 397.0, *(0.0,) * 6), "COMPONENT_METADATA"
    )
    downloader = Downloader(station)
    general_file = downloader.download(answer.uri.removeprefix("mftp://"))
    general = json.loads(general_file)
    assert answer.file_crc == zlib.crc32(general_file, 0xFFFFFFFF) ^ 0xFFFFFFFF
    uris = {entry["type"]: entry["uri"].removeprefix("mftp://") for entry in general["metadataTypes"]}
    parameters = json.loads(downloader.download(uris[1], random.Random(1)))
    infos = station.commander.parameters.infos
    assert [row["name"] for row in parameters["parameters"]] == list(infos)
    row = next(row for row in parameters["parameters"] if row["name"] == "MPC_XY_CRUISE")
    assert (row["type"], row["default"], row["units"]) == ("Float", 5.0, "m/s")
    events = json.loads(downloader.download("/" + uris[4]))
    assert events["version"] == 2
    assert events["components"]["1"]["supported_protocols"] == ["health_and_arming_check"]


def test_what_is_not_there_not_open_or_not_allowed_is_refused(station: Station) -> None:
    downloader = Downloader(station)

    def refusal(*args: Any, **more: Any) -> int:
        answer = downloader.ask(*args, **more)[0]
        assert answer[2] == NAK
        return int(answer[-1][0])

    assert refusal(5, 0, 10) == 4  # no session
    assert refusal(4, data=b"etc/passwd\0") == 10
    assert refusal(4, data=b"../../etc/passwd") == 10
    assert refusal(6, data=b"new") == 9
    assert refusal(99) == 7
    downloader.ask(4, data=b"general.json")
    assert refusal(15, offset=10**9, size=DATA) == 6
    assert refusal(5, offset=0, size=DATA, session=3) == 4
    listed = downloader.ask(3, data=b"/")[0][-1]
    assert b"Fgeneral.json\t" in listed
    assert refusal(3, offset=3, data=b"/") == 6
    assert refusal(3, data=b"/no/such") == 10
    crc = downloader.ask(14, data=b"general.json")[0][-1]
    expected = metadata.checksum(station.services.metadata["general.json"])
    assert struct.unpack("<I", crc)[0] == expected


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """The log directory of a vehicle, with a log of an earlier flight and the one that is written."""
    directory = tmp_path / "log"
    (directory / "2026-01-02").mkdir(parents=True)
    (directory / "2026-01-02" / "10_00_00.ulg").write_bytes(bytes(range(256)) * 400)
    (directory / "flight.ulg").write_bytes(b"ULog" * 30)
    (tmp_path / "secret.ulg").write_bytes(b"not a log")
    (directory / "link.ulg").symlink_to(tmp_path / "secret.ulg")
    return directory


@pytest.fixture
def logging(logs: Path) -> Station:
    return Station(Services(dataclasses.replace(source(), log=logs / "flight.ulg")))


def test_directories_are_listed_as_they_are_and_nothing_outside_can_be_reached(logging: Station) -> None:
    downloader = Downloader(logging)

    def listed(path: bytes) -> list[bytes]:
        answer = downloader.ask(3, data=path)[0]
        return [b"NAK"] if answer[2] == NAK else answer[-1].rstrip(b"\0").split(b"\0")

    assert listed(b"/")[-1] == b"Dlog"
    assert listed(b"/log") == [b"D2026-01-02", b"Fflight.ulg\t120"]
    assert listed(b"log/2026-01-02/") == [b"F10_00_00.ulg\t102400"]
    for path in (
        b"/no",
        b"/log/no",
        b"/log/..",
        b"/log/../..",
        b"/log/flight.ulg",
        b"//etc",
        b"/log/link.ulg",
    ):
        assert listed(path) == [b"NAK"], path
    assert downloader.download("/log/2026-01-02/10_00_00.ulg") == bytes(range(256)) * 400
    for path in (b"/log/link.ulg", b"/log/../secret.ulg", b"/secret.ulg", b"/log", b"/etc/passwd"):
        assert downloader.ask(4, data=path)[0][2] == NAK, path


def request(kind: str, *values: int) -> Any:
    return getattr(mavlink, f"MAVLink_log_{kind}_message")(1, 1, *values)


def test_logs_are_listed_and_downloaded_and_never_erased(logging: Station, logs: Path) -> None:
    def take(message: Any, seconds: int) -> None:
        logging.heard.clear()
        logging.send(message, 0, seconds * 1_000_000)
        for tick in range(20):
            wall = seconds * 1_000_000 + 50_000 * tick
            for _key, due in logging.services.poll(wall, wall):
                logging.take(due)

    take(request("request_list", 0, 0xFFFF), 10)
    entries = [(e.id, e.num_logs, e.last_log_num, e.size) for e in logging.of("LOG_ENTRY")]
    assert entries == [(0, 2, 1, 102400), (1, 2, 1, 120)]
    take(request("request_data", 0, 0, 0xFFFFFFFF), 20)
    parts = logging.of("LOG_DATA")
    assert [part.ofs for part in parts] == list(range(0, 102400, 90))
    assert b"".join(bytes(part.data[: part.count]) for part in parts) == bytes(range(256)) * 400
    take(request("request_data", 0, 102000, 90), 30)
    assert [(part.ofs, part.count) for part in logging.of("LOG_DATA")] == [(102000, 90)]
    take(request("request_data", 7, 0, 90), 40)
    assert logging.of("LOG_DATA") == []
    take(request("erase"), 50)
    take(request("request_list", 0, 0xFFFF), 60)
    assert [(e.num_logs, e.size) for e in logging.of("LOG_ENTRY")] == [(2, 102400), (2, 120)]
    assert len(list(logs.rglob("*.ulg"))) == 3  # with a link, which is not served


def test_a_vehicle_without_logs_says_so(station: Station) -> None:
    station.heard.clear()
    station.send(request("request_list", 0, 0xFFFF), 0, 0)
    poll(station, 10_000_000)
    assert [(e.num_logs, e.size) for e in station.of("LOG_ENTRY")] == [(0, 0)]
