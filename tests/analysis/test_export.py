"""Exported recordings: MCAP that ROS 2's definitions decode, CSV and Parquet with the recorded values."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from pyarrow import parquet
from rosbags.typesys import Stores, get_typestore
from support.commands import run_command
from support.recorded_climb import Climb
from support.vehicle_logs import FORMATS

from sitl_bridge.analysis.export.cdr_layout import DEFINITIONS, CdrLayout, bytes_of, schema_name, schema_text
from sitl_bridge.analysis.export.mcap_file import write_mcap
from sitl_bridge.analysis.export.seen_samples import cloud_message, image_message
from sitl_bridge.analysis.replay.vehicle_log import read_vehicle_log
from sitl_bridge.base.errors import UserError
from sitl_bridge.lab.flights.flight_source import read_identification_flight
from sitl_bridge.link.hil.recorded_samples import samples_of
from sitl_bridge.perception.sample_files import POINT
from sitl_bridge.record.run_reader import RecordedRun
from sitl_bridge.record.ulog_writer import UlogWriter

STORE = get_typestore(Stores.ROS2_JAZZY)
STEPS = 600


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RecordedRun:
    """A recorded run of two vehicles that stand, then climb; one among boxes, with a plan."""
    with Climb(tmp_path_factory.mktemp("runs")) as climb:
        climb.advance(STEPS)
        climb.recorder.note(1000, "link", text='a "quoted", text')
    return RecordedRun(climb.path)


MESSAGES = [name for name in DEFINITIONS if "/srv/" not in name and name != "actuator_msgs/Actuators"]


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_definitions_are_those_of_ros_2(name: str) -> None:
    """rosbags ships the definitions of the messages of ROS 2 Humble, not of its services."""
    theirs, _ = STORE.generate_msgdef(schema_name(name))
    lines = schema_text(name).splitlines()
    own = lines[: lines.index("=" * 80)] if "=" * 80 in lines else lines
    expected = theirs.split("=" * 80)[0].strip().splitlines()
    # rosbags writes ROS 1's word for the time, and no defaults.
    words = {"time": "builtin_interfaces/Time", "duration": "builtin_interfaces/Duration"}
    shown = []
    for line in expected:
        kind, _, rest = line.partition(" ")
        shown.append(f"{words.get(kind, kind)} {rest}")
    bare = [" ".join(line.split(" ")[:2]) if "=" not in line else line for line in own]
    # What rosidl adds to a message without fields, and rosbags leaves out.
    bare = [line for line in bare if line != "uint8 structure_needs_at_least_one_member"]
    assert bare == shown


def test_an_mcap_file_holds_what_was_recorded(run: RecordedRun, tmp_path: Path) -> None:
    count = write_mcap(run, tmp_path / "run.mcap")
    found: dict[str, list[tuple[int, object]]] = {}
    with (tmp_path / "run.mcap").open("rb") as file:
        reader = make_reader(file, validate_crcs=True, decoder_factories=[DecoderFactory()])
        summary = reader.get_summary()
        assert summary is not None
        assert summary.statistics is not None
        assert summary.statistics.message_count == count
        for schema, _, message in reader.iter_messages():
            assert schema is not None
            if schema.encoding == "ros2msg" and not schema.name.startswith("actuator_msgs"):
                STORE.deserialize_cdr(message.data, schema.name)
        for _, channel, message, decoded in reader.iter_decoded_messages():
            found.setdefault(channel.topic, []).append((message.log_time, decoded))
    assert set(found) == topics(run)
    samples = samples_of(run)
    imu = samples["imu"][samples["imu"]["vehicle"] == 0]
    sent: list[Any] = found["/vehicle_0/imu"]
    assert [time for time, _ in sent] == (imu["time"] * 1000).tolist()
    last = sent[-1][1]
    assert last.header.frame_id == "vehicle_0/base_link"
    assert last.header.stamp.sec * 10**9 + last.header.stamp.nanosec == imu["time"][-1] * 1000
    x, y, z = imu["acceleration"][-1].tolist()
    assert (last.linear_acceleration.x, last.linear_acceleration.y, last.linear_acceleration.z) == (x, -y, -z)
    odometry: list[Any] = found["/vehicle_1/odometry"]
    assert len(odometry) == STEPS // 5
    rows = run.rows[run.rows["vehicle"] == 1]
    time, pose = odometry[-1][0], odometry[-1][1].pose.pose
    row = rows[rows["time"] * 1000 == time][0]
    north, east, down = row["position"]
    assert (pose.position.x, pose.position.y, pose.position.z) == (east, north, -down)
    # A heading of 0.5 rad from north, clockwise, is pi/2 - 0.5 from east, anticlockwise.
    yaw = 2.0 * np.arctan2(pose.orientation.z, pose.orientation.w)
    assert yaw == pytest.approx(np.pi / 2 - 0.5, abs=0.05)
    commands: list[Any] = found["/vehicle_0/motor_commands"]
    assert [time for time, _ in commands] == ((run.rows["time"][::2] - run.step) * 1000).tolist()
    assert list(commands[-1][1].normalized) == [0.75] * 4
    rotors: list[Any] = found["/vehicle_1/rotors"]
    assert list(rotors[0][1].name) == ["rotor_1", "rotor_2", "rotor_3", "rotor_4"]
    row = rows[rows["time"] * 1000 == rotors[-1][0]][0]
    assert list(rotors[-1][1].velocity) == row["rotor_speed"][:4].tolist()
    fix: list[Any] = found["/vehicle_0/fix"]
    assert fix[-1][1].latitude == pytest.approx(47.397742, abs=1e-4)
    drawn: list[Any] = found["/markers"]
    markers = {marker.ns: marker for _, array in drawn for marker in array.markers}
    assert "vehicle_0 plan" in markers
    hut = markers["object hut"]
    assert (hut.type, hut.scale.x, hut.scale.y, hut.scale.z) == (1, 2.0, 3.0, 4.0)
    assert (hut.pose.position.x, hut.pose.position.y, hut.pose.position.z) == (20.0, 10.0, 2.0)
    assert hut.pose.orientation.z == pytest.approx(np.sqrt(0.5)), "its x axis points north"


def topics(run: RecordedRun) -> set[str]:
    made = {"/tf", "/markers"}
    for i in range(run.count):
        made |= {f"/vehicle_{i}/{name}" for name in ("odometry", "wind", "motor_commands", "rotors")}
    words = {"imu": "imu", "magnetometer": "magnetic_field", "barometer": "pressure", "gps": "fix"}
    for kind, table in samples_of(run).items():
        for vehicle, instance in {(int(s["vehicle"]), int(s["instance"])) for s in table}:
            made.add(f"/vehicle_{vehicle}/{words.get(kind, 'range')}{instance or ''}")
            if kind == "gps":
                made.add(f"/vehicle_{vehicle}/fix_velocity{instance or ''}")
    return made


def test_pictures_and_clouds_are_decoded() -> None:
    image = np.arange(24, dtype=np.uint16).reshape(4, 6)
    message = image_message(image, 5_000_000_007, "/camera", "front")
    decoded = STORE.deserialize_cdr(message.data[0].tobytes(), "sensor_msgs/msg/Image")
    assert (decoded.encoding, decoded.height, decoded.width, decoded.step) == ("16UC1", 4, 6, 12)
    np.testing.assert_array_equal(decoded.data.view("<u2").reshape(4, 6), image)
    cloud = np.zeros(3, POINT)
    cloud["x"], cloud["ring"] = (1.0, 2.0, 3.0), (4, 5, 6)
    message = cloud_message(cloud, 1, "/lidar", "lidar")
    points = STORE.deserialize_cdr(message.data[0].tobytes(), "sensor_msgs/msg/PointCloud2")
    assert [field.name for field in points.fields] == list(POINT.names or ())
    assert (points.width, points.point_step) == (3, POINT.itemsize)
    assert points.data.tobytes() == cloud.tobytes()
    empty = cloud_message(cloud[:0], 1, "/lidar", "lidar")
    assert len(STORE.deserialize_cdr(empty.data[0].tobytes(), "sensor_msgs/msg/PointCloud2").data) == 0


def test_layouts_agree_with_another_encoder() -> None:
    """Strings of every length move the fields behind them."""
    for length in range(1, 10):
        layout = CdrLayout("nav_msgs/Odometry", {"header.frame_id": "m" * length, "child_frame_id": "c"})
        table = layout.messages(1)
        table["pose.pose.position.x"], table["twist.covariance"][0, 35] = 1.5, 2.5
        decoded = STORE.deserialize_cdr(bytes_of(table)[0].tobytes(), "nav_msgs/msg/Odometry")
        assert decoded.header.frame_id == "m" * length
        assert decoded.pose.pose.position.x == 1.5
        assert decoded.twist.covariance[35] == 2.5
        assert bytes(STORE.serialize_cdr(decoded, "nav_msgs/msg/Odometry")) == bytes_of(table)[0].tobytes()


def test_a_part_of_the_steps_has_all_vehicles(run: RecordedRun, tmp_path: Path) -> None:
    path = tmp_path / "truth.csv"
    arguments = ["export", str(run.path), "--every", "4", "-o", str(path)]
    assert run_command(*arguments).exit_code == 0
    table = np.genfromtxt(path, delimiter=",", names=True)
    assert table["vehicle"].tolist() == [0, 1] * (STEPS // 4)
    np.testing.assert_array_equal(table["time"][::2], run.rows["time"][:: 2 * 4])


def test_the_command_writes_every_table_as_csv_and_parquet(run: RecordedRun, tmp_path: Path) -> None:
    for kind in ("csv-tables", "parquet"):
        arguments = ["export", str(run.path), "--format", kind, "-o", str(tmp_path / kind)]
        result = run_command(*arguments)
        assert result.exit_code == 0, result.output
    for name in ("truth", "steps", "imu", "gps", "events"):
        table = parquet.read_table(tmp_path / "parquet" / f"{name}.parquet")
        lines = (tmp_path / "csv-tables" / f"{name}.csv").read_text().splitlines()
        assert table.num_rows == len(lines) - 1
        assert lines[0].split(",") == table.column_names
    written = np.genfromtxt(tmp_path / "csv-tables" / "truth.csv", delimiter=",", names=True)
    np.testing.assert_allclose(written["position_down"], run.rows["position"][:, 2], rtol=1e-14, atol=0.0)
    truth = parquet.read_table(tmp_path / "parquet" / "truth.parquet")
    np.testing.assert_array_equal(truth["position_down"].to_numpy(), run.rows["position"][:, 2])
    with (tmp_path / "csv-tables" / "events.csv").open(newline="") as file:
        facts = [row["facts"] for row in csv.DictReader(file)]
    assert facts == parquet.read_table(tmp_path / "parquet" / "events.parquet")["facts"].to_pylist()
    assert all(isinstance(json.loads(text), dict) for text in facts)


def test_a_killed_run_is_exported(run: RecordedRun, tmp_path: Path) -> None:
    """Bytes behind what the header counts are those of a block that was being written."""
    target = tmp_path / "killed"
    target.mkdir()
    for name in ("run.json", "truth.npy", "frames.bin", "steps.npy"):
        (target / name).write_bytes((run.path / name).read_bytes() + (b"" if name == "run.json" else b"xyz"))
    arguments = ["export", str(target), "-o", str(tmp_path / "killed.mcap")]
    result = run_command(*arguments)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "killed.mcap").read_bytes()[:5] == b"\x89MCAP"


def written_log(run: RecordedRun, index: int, file: Path, hardware: str = "PX4_FMU_V6X") -> None:
    """A flight log with the estimates that a perfect estimator would have logged."""
    file.parent.mkdir(parents=True)
    formats = {name: list(fields) for name, fields in FORMATS.items()}
    formats["battery_status"] = ["uint64_t timestamp", "float voltage_v", "float current_a"]
    formats["esc_report"] = ["int32_t esc_rpm", "uint8_t actuator_function"]
    formats["esc_status"] = ["uint64_t timestamp", "esc_report[8] esc"]
    topics = [name for name in formats if name != "esc_report"]
    with UlogWriter(file, 0, formats, topics, info={"ver_hw": hardware}) as log:
        rows = run.rows[index :: run.count]
        for k, row in enumerate(rows):
            now = int(row["time"])
            log.write("actuator_motors", now, *row["control"][:4].tolist(), *[float("nan")] * 8)
            log.write("vehicle_attitude", now, *row["attitude"].tolist())
            log.write("vehicle_angular_velocity", now, *row["angular_velocity"].tolist())
            log.write("vehicle_acceleration", now, *row["specific_force"].tolist())
            place = (47.397742, 8.545594, 488.0)
            log.write(
                "vehicle_local_position", now, *row["position"].tolist(), *row["velocity"].tolist(), *place
            )
            log.write("vehicle_land_detected", now, not 20 < k < len(rows) - 20)
            log.write("battery_status", now, float(row["battery_voltage"]), 20.0 + 0.001 * k)
            turning = [round(9.549 * speed) for speed in row["rotor_speed"][:4].tolist()] + [0] * 4
            log.write("esc_status", now, *(v for k, rpm in enumerate(turning) for v in (rpm, 101 + k)))
        log.flush()


def test_a_vehicle_of_a_run_with_several_is_named(run: RecordedRun) -> None:
    with pytest.raises(UserError, match="has 2 vehicles; choose one by --vehicle: 0, 1"):
        read_identification_flight(run.path, 4)


def test_rotor_speeds_that_px4_invents_in_simulation_are_not_read(run: RecordedRun, tmp_path: Path) -> None:
    """SimulatorMavlink writes 6000 times the command."""
    for hardware in ("PX4_FMU_V6X", "PX4_SITL"):
        file = tmp_path / hardware / "flight.ulg"
        written_log(run, 0, file, hardware)
        assert (read_vehicle_log(file, 4).speeds is None) == (hardware == "PX4_SITL")
