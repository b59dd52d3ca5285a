"""Exported MCAP files hold to every check of ``mcap doctor``, and damage of a single byte is noticed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from foxglove import Context
from mcap.writer import CompressionType, Writer
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_typestore
from support.full_disk import room
from support.mcap_checks import find_faults
from support.recorded_climb import Climb
from test_export import written_log

from sitl_bridge.analysis.export import mcap_file
from sitl_bridge.analysis.export.mcap_file import RosChannels, write_mcap
from sitl_bridge.analysis.export.ros_topics import RosMessages
from sitl_bridge.base.errors import UserError
from sitl_bridge.record.run_reader import RecordedRun

STEPS = 600


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory, STEPS)


def recorded(tmp_path_factory: pytest.TempPathFactory, steps: int) -> Path:
    """Two vehicles with flight logs, a plan and the slots of a formation."""
    with Climb(tmp_path_factory.mktemp("runs")) as climb:
        climb.advance(steps)
    path = tmp_path_factory.mktemp("copy") / "run"
    shutil.copytree(climb.path, path)
    for i in range(2):
        written_log(RecordedRun(path), i, path / f"vehicle-{i}" / "log" / "flight.ulg")
    plan = path / "formation" / "plan"
    plan.mkdir(parents=True)
    (path / "formation" / "summary.json").write_text(json.dumps({"started_at_s": 0.4}))
    header = "t,px,py,pz,vx,vy,vz,ax,ay,az,yaw\n"
    for i in range(2):
        lines = [f"{0.5 * k},{k},{i},-2,2,0,0,0,0,0,0\n" for k in range(5)]
        (plan / f"vehicle_{i}.csv").write_text(header + "".join(lines))
    return path


def test_an_exported_run_passes_the_doctor_s_checks(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also between parts: messages of a later part are never older."""
    monkeypatch.setattr(mcap_file, "PART", 0.25)
    count = write_mcap(RecordedRun(run), tmp_path / "run.mcap")
    assert count > 10 * STEPS
    assert find_faults(tmp_path / "run.mcap") == []


def test_rosbags_opens_a_bag_and_reads_every_message(run: Path, tmp_path: Path) -> None:
    count = write_mcap(RecordedRun(run), tmp_path / "bag", bag=True)
    assert find_faults(tmp_path / "bag" / "bag_0.mcap") == []
    with AnyReader([tmp_path / "bag"], default_typestore=get_typestore(Stores.ROS2_HUMBLE)) as reader:
        assert reader.message_count == count > 10 * STEPS
        read = [
            (time, connection.topic, reader.deserialize(data, connection.msgtype))
            for connection, time, data in reader.messages()
        ]
        assert len(read) == count
        for topic, information in reader.topics.items():
            assert information.msgcount == sum(name == topic for _, name, _ in read), topic
        assert (reader.start_time, reader.end_time) == (read[0][0], read[-1][0] + 1)
    drawn = [(time, message.markers) for time, topic, message in read if topic == "/markers"]
    assert {marker.ns for marker in drawn[0][1]} == {
        "object hut",
        "vehicle_0 plan",
        "vehicle_0 fence",
        "slots' ways",
    }
    starts = [(time, marker) for time, markers in drawn for marker in markers if marker.ns == "slots"]
    time, slots = starts[1]
    assert time == RecordedRun(run).start * 1000 + 900_000_000  # 0.5 s after the formation's start
    assert [(p.x, p.y, p.z) for p in slots.points] == [(0.0, 1.0, 2.0), (1.0, 1.0, 2.0)]
    heights = [message.pose.pose.position.z for _, topic, message in read if topic == "/vehicle_0/odometry"]
    assert heights[-1] > heights[0]


def test_a_killed_run_passes_the_doctor_s_checks(run: Path, tmp_path: Path) -> None:
    for name in ("run.json", "truth.npy", "frames.bin", "steps.npy"):
        (tmp_path / name).write_bytes((run / name).read_bytes() + (b"" if name == "run.json" else b"xyz"))
    write_mcap(RecordedRun(tmp_path), tmp_path / "killed.mcap")
    assert find_faults(tmp_path / "killed.mcap") == []


def test_of_several_flight_logs_the_largest_is_exported_as_in_the_report(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = recorded(tmp_path_factory, STEPS // 20)
    (run / "vehicle-0" / "log" / "restarted.ulg").write_bytes(b"")
    said: list[str] = []
    write_mcap(RecordedRun(run), tmp_path / "run.mcap", notify=said.append)
    assert said == ["0: has 2 flight logs; flight.ulg, the largest, is used"]
    assert b"/vehicle_0/estimate/odometry" in (tmp_path / "run.mcap").read_bytes()


def test_every_damaged_byte_is_noticed(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The checksums of chunks, data and summary cover the whole file that is exported."""
    file = tmp_path / "whole.mcap"
    write_mcap(RecordedRun(recorded(tmp_path_factory, STEPS // 20)), file)
    whole = file.read_bytes()
    for place in np.linspace(0, len(whole) - 1, 300).astype(int):
        changed = bytearray(whole)
        changed[place] ^= 0x55
        file.write_bytes(changed)
        assert find_faults(file), f"byte {place}"
    for size in np.linspace(0, len(whole) - 1, 20).astype(int):
        file.write_bytes(whole[:size])
        assert find_faults(file), f"the first {size} bytes"


def test_a_full_disk_is_reported_once_and_leaves_no_file(run: Path, tmp_path: Path) -> None:
    with room(10_000), pytest.raises(UserError, match=r"run\.mcap: cannot be written: File too large"):
        write_mcap(RecordedRun(run), tmp_path / "run.mcap")
    assert list(tmp_path.iterdir()) == []


def test_files_of_the_package_mcap_pass_and_messages_out_of_order_are_noticed(tmp_path: Path) -> None:
    """The checks are neither those of one writer nor blind."""
    found = []
    for times in ((1, 2, 2, 9), (1, 2, 1, 9)):
        with (tmp_path / "theirs.mcap").open("wb") as opened:
            writer = Writer(opened, compression=CompressionType.ZSTD)
            writer.start(profile="ros2", library="theirs")
            schema = writer.register_schema("bytes", "ros2msg", b"uint8[] data")
            channel = writer.register_channel("/topic", "cdr", schema)
            for k, time in enumerate(times):
                writer.add_message(channel, time, b"data", time, k + 1)
            writer.finish()
        found.append(find_faults(tmp_path / "theirs.mcap"))
    assert found == [[], ["log time 1 on /topic is less than the latest log time 2"]]


@pytest.mark.parametrize(
    ("library", "schema", "complaint"),
    [("test", 7, "of unknown schema 7"), ("", 1, "Header.library is not set")],
)
def test_a_wrong_record_is_named(tmp_path: Path, library: str, schema: int, complaint: str) -> None:
    file = tmp_path / "wrong.mcap"
    with file.open("wb") as opened:
        writer = Writer(opened)
        writer.start(profile="", library=library)
        writer.register_schema("bytes", "ros2msg", b"")
        writer.add_message(writer.register_channel("/topic", "cdr", schema), 5, b"one", 5, 1)
        writer.finish()
    assert any(complaint in text for text in find_faults(file)), find_faults(file)


@pytest.mark.parametrize("time", [-1, 2**64])
def test_a_message_outside_of_simulated_time_is_refused(time: int) -> None:
    channels = RosChannels(Context())
    with pytest.raises(UserError, match="the recording is damaged"):
        channels.log(
            [RosMessages("/a", "std_msgs/Bool", np.array([time], object), np.zeros((1, 5), np.uint8))]
        )
