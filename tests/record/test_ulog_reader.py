"""Reading ULogs: as pyulog reads them, whatever has happened to the file."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyulog import ULog

from sitl_bridge.base.errors import UserError
from sitl_bridge.record.ulog_reader import FlightLog
from sitl_bridge.record.ulog_writer import UlogWriter

TOPIC = "vehicle_air_data"


def test_a_topic_ends_where_its_time_goes_back_and_the_log_counts_as_damaged(tmp_path: Path) -> None:
    file = tmp_path / "twice.ulg"
    with UlogWriter(file, 0, {TOPIC: ["uint64_t timestamp", "float baro_alt_meter"]}, [TOPIC]) as log:
        for k in (1, 2, 2, 3, 1, 2, 3, 4):
            log.write(TOPIC, 1_000_000 * k, 100.0 * k)
        log.flush()
    found = FlightLog.read(file, {TOPIC: ()})
    assert found.damaged
    assert found.columns[TOPIC, 0]["timestamp"].tolist() == [1_000_000, 2_000_000, 2_000_000, 3_000_000]
    assert found.columns[TOPIC, 0]["baro_alt_meter"].tolist() == [100.0, 200.0, 200.0, 300.0]
    with pytest.raises(UserError, match=r"twice\.ulg: is damaged; take another flight"):
        FlightLog.read(file, {TOPIC: ()}, whole=True)


FORMATS = {
    TOPIC: ["uint64_t timestamp", "float baro_alt_meter", "uint8_t calibration_count"],
    "actuator_armed": ["uint64_t timestamp", "uint8_t[3] states", "bool safety_off"],
    "cpuload": ["uint64_t timestamp", "float load"],
}


def log_of(file: Path, samples: int) -> bytes:
    with UlogWriter(file, 0, FORMATS, list(FORMATS)) as log:
        for k in range(1, samples + 1):
            log.write(TOPIC, 1000 * k, 0.5 * k, k % 256)
            log.write("actuator_armed", 1000 * k, k % 7, 1, 2, True)
            log.write("cpuload", 1000 * k, 0.1)
        log.flush()
    return file.read_bytes()


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 60), st.integers(0, 4000), st.integers(0, 4000), st.binary(max_size=40))
def test_topics_are_those_that_pyulog_reads_however_the_file_is_cut_or_damaged(
    tmp_path_factory: pytest.TempPathFactory, samples: int, end: int, place: int, wrong: bytes
) -> None:
    file = tmp_path_factory.mktemp("log") / "a.ulg"
    data = bytearray(log_of(file, samples))
    if len(data) > place > HEADER_END:
        data[place : place + len(wrong)] = wrong[: len(data) - place]
    file.write_bytes(data[: max(end, HEADER_END)])
    topics = {TOPIC: ("baro_alt_meter",), "actuator_armed": ()}
    try:
        expected = ULog(str(file), list(topics))
    except Exception:  # noqa: BLE001  (whatever its parser meets)
        with pytest.raises(UserError):
            FlightLog.read(file, topics)
        return
    found = FlightLog.read(file, topics)
    whole = [one for one in expected.data_list if "timestamp" in one.data]
    for one in whole:
        times = one.data["timestamp"].astype("int64").tolist()  # a stamp of 2^63 goes back, too
        if times != sorted(times):
            continue
        kept = ("timestamp", "baro_alt_meter") if one.name == TOPIC else tuple(one.data)
        columns = found.columns[one.name, one.multi_id]
        assert {name: columns[name].tobytes() for name in columns} == {
            name: one.data[name].tobytes() for name in kept if name in one.data
        }
    assert len(found.columns) == len(whole)
    assert found.damaged or not expected.file_corruption


HEADER_END = 100
"""Bytes that are left as they are, so that the file is a ULog."""


def test_a_version_that_is_no_number_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "a.ulg"
    key = b"char[4] ver_sw_release"
    info = bytes([len(key)]) + key + b"abcd"
    messages = [(b"B", bytes(40)), (b"I", info)]
    content = b"".join(struct.pack("<HB", len(body), kind[0]) + body for kind, body in messages)
    file.write_bytes(b"ULog\x01\x12\x35\x01" + struct.pack("<Q", 0) + content)
    assert FlightLog.read(file, {TOPIC: ()}).version == ""


def test_a_damaged_definition_at_the_end_is_refused_instead_of_read_for_ever(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a.ulg"
    key = b"char[1] a"
    info = bytes([len(key)]) + key + b"x"
    message = struct.pack("<HB", len(info), ord("I")) + info
    claim = struct.pack("<HB", len(message) * 1000 + 11, 0)
    file.write_bytes(b"ULog\x01\x12\x35\x01" + struct.pack("<Q", 0) + message * 1200 + claim + bytes(10))
    with pytest.raises(UserError, match="definitions are damaged"):
        FlightLog.read(file, {TOPIC: ()})
