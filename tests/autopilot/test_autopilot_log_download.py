"""Download of logs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from pymavlink.dialects.v20 import common as mavlink
from support.mavlink_vehicle import Station, source

from sitl_bridge.autopilot.mavlink.services import Services

SECOND = 1_000_000


@pytest.fixture
def station() -> Station:
    return Station(Services(source()), rates={})


def poll(station: Station, now: int) -> None:
    for _, messages in station.services.poll(now, now):
        station.take(messages)


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
