"""ULog files that are written are what pyulog reads."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from pyulog import ULog

from sitl_bridge.record.topic_memory import TopicMemory
from sitl_bridge.record.ulog_writer import UlogWriter

FORMATS = {
    "point": ["double lat", "bool valid"],
    "thing": ["uint64_t timestamp", "float[3] position", "uint8_t state"],
    "pair": ["uint64_t timestamp", "point previous", "point current"],
}


def test_pyulog_reads_back_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "log.ulg"
    with UlogWriter(path, 5, FORMATS, ["thing", "pair"], {"sys_name": "x"}, {"A": 3, "B": 0.5}) as log:
        log.write("thing", 10, 1.0, 2.0, 3.0, 7)
        log.write("thing", 20, -1.0, 0.5, float("nan"), 255)
        log.write("pair", 15, 47.5, True, -8.25, False)
        log.say(12, 4, "a warning")
    read = ULog(str(path))
    thing = read.get_dataset("thing").data
    assert list(thing["timestamp"]) == [10, 20]
    assert list(thing["position[1]"]) == [2.0, 0.5]
    assert np.isnan(thing["position[2]"][1])
    assert list(thing["state"]) == [7, 255]
    pair = read.get_dataset("pair").data
    assert (pair["previous.lat"][0], pair["current.lat"][0]) == (47.5, -8.25)
    assert (bool(pair["previous.valid"][0]), bool(pair["current.valid"][0])) == (True, False)
    assert read.start_timestamp == 5
    assert read.msg_info_dict["sys_name"] == "x"
    assert read.initial_parameters == {"A": 3, "B": 0.5}
    message = read.logged_messages[0]
    assert (message.timestamp, message.log_level_str(), message.message) == (12, "WARNING", "a warning")


def test_a_value_beyond_the_range_of_its_field_is_infinite_and_the_log_stays_whole(tmp_path: Path) -> None:
    path = tmp_path / "log.ulg"
    with UlogWriter(path, 0, FORMATS, ["thing"]) as log:
        log.write("thing", 10, 3e40, -1e300, 1.5, 7)
        with pytest.raises(Exception, match="format requires"):
            log.write("thing", 15, 1.0, 1.0, 1.0, 256)
        log.write("thing", 20, 1.0, 2.0, 3.0, 8)
    read = ULog(str(path))
    assert not read.file_corruption
    thing = read.get_dataset("thing").data
    assert list(thing["timestamp"]) == [10, 20]
    assert [thing[f"position[{k}]"][0] for k in range(3)] == [math.inf, -math.inf, 1.5]


def test_a_log_that_was_cut_off_is_readable_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "log.ulg"
    with UlogWriter(path, 0, FORMATS, ["thing"]) as log:
        for k in range(5):
            log.write("thing", k, 0.0, 0.0, 0.0, k)
    path.write_bytes(path.read_bytes()[:-7])
    assert list(ULog(str(path)).get_dataset("thing").data["state"]) == [0, 1, 2, 3]


def test_an_unknown_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="quaternion"):
        UlogWriter(tmp_path / "log.ulg", 0, {"a": ["uint64_t timestamp", "quaternion q"]}, ["a"])
    with pytest.raises(ValueError, match="is not a ULog field"):
        UlogWriter(tmp_path / "log.ulg", 0, {"a": ["timestamp"]}, ["a"])


def test_memory_holds_the_columns_that_a_file_gives_back(tmp_path: Path) -> None:
    layouts = {
        "point": ("double lat", "float alt", "bool valid"),
        "sample": ("uint64_t timestamp", "float[3] xyz", "int8_t kind", "point place", "bool armed"),
    }
    memory = TopicMemory(layouts, ["sample", "absent"])
    with UlogWriter(tmp_path / "a.ulg", 0, layouts, ["sample"]) as file:
        for log in (file, memory):
            log.write("sample", 5, 0.1, 2.0, math.nan, -3, 47.123456789, 0.3, True, False)
            log.write("sample", 9, 1e-7, 1e9, 0.0, 4, -1.0, 7.7, False, True)
            log.say(7, 4, "wind")
    read = ULog(str(tmp_path / "a.ulg"))
    expected, found = read.data_list[0].data, memory.columns("sample")
    assert list(found) == list(expected)
    for name, column in expected.items():
        assert found[name].dtype == column.dtype, name
        assert np.array_equal(found[name], column, equal_nan=True), name
    assert memory.topics == ["sample"]
    assert memory.messages == [(m.timestamp, m.log_level - ord("0"), m.message) for m in read.logged_messages]
