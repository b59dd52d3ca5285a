"""A camera that takes photos on command: its protocol, its photos and their places; and its gimbal."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sitl_bridge.base.rotations import matrix_from_euler, quaternion_from_euler
from sitl_bridge.core.sensors.perception.gimbal import Gimbal, GimbalSpecification, heading_of
from sitl_bridge.core.sensors.perception.payload_camera import PayloadCameraSpecification
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.scene_specification import BoxObject, SceneSpecification
from sitl_bridge.core.world.world import World, WorldSpecification
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.px4.airframe_parameters import parameters_for
from sitl_bridge.perception.camera_component import CameraComponent
from sitl_bridge.perception.payload_runner import PayloadRunner
from sitl_bridge.perception.sensor_hosts import runner_for

SYSTEM, STACK, STATION = 1, (1, 1), (255, 190)
SMALL = {"kind": "payload_camera", "width": 64, "height": 48, "latency": 0.02}
CAMERA = PayloadCameraSpecification(**SMALL)
GIMBAL = PayloadCameraSpecification(**SMALL, gimbal=GimbalSpecification())
NOTHING = math.nan


def sent(message: Any, sender: tuple[int, int]) -> Any:
    """The message as it arrives from a sender."""
    encoder = mavlink.MAVLink(None, *sender)
    return mavlink.MAVLink(None).decode(bytearray(message.pack(encoder)))


def command(number: int, *params: float, to: tuple[int, int] = (SYSTEM, 100), by: Any = STATION) -> Any:
    padded = (*params, *(0.0,) * (7 - len(params)))
    return sent(mavlink.MAVLink_command_long_message(*to, number, 0, *padded), by)


class Link:
    """A link whose far end is the test."""

    system_id = SYSTEM

    def __init__(self) -> None:
        self.inbox: list[Any] = []
        self.sent: list[tuple[int, Any]] = []

    def receive(self) -> list[Any]:
        found, self.inbox = self.inbox, []
        return found

    def send(self, component: int, messages: Sequence[Any]) -> None:
        self.sent += [(component, message) for message in messages]

    def of(self, kind: str) -> list[Any]:
        return [message for _, message in self.sent if message.get_type() == kind]


def standing(
    camera: PayloadCameraSpecification, directory: Path | None = None, yaw: float = 0.0
) -> tuple[Simulation, PayloadRunner, Link]:
    """An iris that stands on the ground 6 m south of a wall, with a camera and its link."""
    iris = load_airframe("iris")
    wall = BoxObject(kind="box", size=(2.0, 40.0, 20.0), position=(7.0, 0.0, 0.0))
    world = World(WorldSpecification(scene=SceneSpecification(objects=(wall,))))
    setups = [VehicleSetup(iris.vehicle(), iris.sensor_records(), (0.0, 0.0, 0.0), yaw, "a")]
    core = Simulation(world, setups)
    runner = runner_for(camera, core, directory=directory)
    assert isinstance(runner, PayloadRunner)
    link = Link()
    runner.connect(link)
    return core, runner, link


def run(core: Simulation, runner: PayloadRunner, steps: int) -> None:
    for _ in range(steps):
        core.advance()
        if runner.due <= core.time:
            runner.run(core.states[0], core.time)


def table(directory: Path) -> list[dict[str, str]]:
    """Rows of the table of photos."""
    text = (directory / "photos" / "payload_camera_0" / "photos.csv").read_text()
    return list(csv.DictReader(text.splitlines()))


# ---------------------------------------------------------------- the camera's protocol


def test_requested_messages_are_answered_and_acknowledged() -> None:
    camera = CameraComponent(SYSTEM, CAMERA)
    for number in (259, 260, 261, 262):
        camera.handle(command(mavlink.MAV_CMD_REQUEST_MESSAGE, number), 1_000_000)
        message, ack = camera.outbox.popleft(), camera.outbox.popleft()
        assert message.id == number
        message.pack(mavlink.MAVLink(None, 1, 100))
        assert (ack.command, ack.result, ack.target_system) == (512, mavlink.MAV_RESULT_ACCEPTED, 255)
    camera.handle(command(mavlink.MAV_CMD_REQUEST_MESSAGE, 1), 0)
    assert camera.outbox.popleft().result == mavlink.MAV_RESULT_UNSUPPORTED
    camera.handle(command(mavlink.MAV_CMD_REQUEST_MESSAGE, NOTHING), 0)
    assert camera.outbox.popleft().result == mavlink.MAV_RESULT_UNSUPPORTED


def test_a_command_for_another_component_is_left_alone() -> None:
    camera = CameraComponent(SYSTEM, CAMERA)
    camera.handle(command(mavlink.MAV_CMD_REQUEST_MESSAGE, 259, to=(SYSTEM, 154)), 0)
    camera.handle(command(mavlink.MAV_CMD_DO_MOUNT_CONTROL, to=(SYSTEM, 0)), 0)
    assert not camera.outbox


def test_a_trigger_takes_one_photo_at_its_own_time_and_px4s_copies_take_none() -> None:
    camera = CameraComponent(SYSTEM, CAMERA)
    camera.handle(sent(mavlink.MAVLink_camera_trigger_message(1_900_000, 0), STACK), 2_000_000)
    camera.handle(command(mavlink.MAV_CMD_IMAGE_START_CAPTURE, 0, 0, 1, 1, by=STACK), 2_000_000)
    shoot = (NOTHING, NOTHING, NOTHING, NOTHING, 1, NOTHING, NOTHING)
    camera.handle(command(mavlink.MAV_CMD_DO_DIGICAM_CONTROL, *shoot, by=STACK), 2_000_000)
    assert camera.requested == [1_900_000]
    assert [m.result for m in camera.outbox] == [mavlink.MAV_RESULT_ACCEPTED] * 2


def test_a_series_keeps_its_interval_until_it_is_stopped() -> None:
    camera = CameraComponent(SYSTEM, CAMERA)
    camera.handle(command(mavlink.MAV_CMD_IMAGE_START_CAPTURE, 0, 0.5, 3), 1_000_000)
    for now in range(1_000_000, 3_000_000, 20_000):
        camera.update(now)
    assert camera.requested == [1_000_000, 1_500_000, 2_000_000]
    camera.requested.clear()
    camera.handle(command(mavlink.MAV_CMD_IMAGE_START_CAPTURE, 0, 0.5, 0), 3_000_000)
    camera.update(3_700_000)
    camera.handle(command(mavlink.MAV_CMD_IMAGE_STOP_CAPTURE), 3_800_000)
    camera.update(9_000_000)
    assert camera.requested == [3_000_000, 3_500_000]


def test_a_repeated_command_is_acknowledged_but_not_repeated() -> None:
    camera = CameraComponent(SYSTEM, CAMERA)
    once = command(mavlink.MAV_CMD_IMAGE_START_CAPTURE, 0, 0, 1, 7)
    camera.handle(once, 1_000_000)
    once.confirmation = 1
    camera.handle(once, 5_000_000)
    assert camera.requested == [1_000_000]
    assert len(camera.outbox) == 2


def test_a_mode_is_set_and_an_unknown_one_denied() -> None:
    camera = CameraComponent(SYSTEM, CAMERA)
    for mode, result in ((2, 0), (9, 2), (NOTHING, 2)):
        camera.handle(command(mavlink.MAV_CMD_SET_CAMERA_MODE, 0, mode), 0)
        assert camera.outbox[-1].result == result
    camera.handle(command(mavlink.MAV_CMD_REQUEST_MESSAGE, 260), 0)
    assert camera.outbox[-2].mode_id == mavlink.CAMERA_MODE_IMAGE_SURVEY


# ---------------------------------------------------------------- photos


def estimate(core: Simulation) -> list[Any]:
    """Messages of a flight stack that takes itself to be 2 m north of the origin, heading east."""
    place = core.world.geodetic(np.array([2.0, 0.0, -0.2]))
    milliseconds = core.time // 1000
    q = math.sqrt(0.5)
    position = mavlink.MAVLink_global_position_int_message(
        milliseconds, round(place[0] * 1e7), round(place[1] * 1e7), round(place[2] * 1e3), 200, 0, 0, 0, 0
    )
    attitude = mavlink.MAVLink_attitude_quaternion_message(milliseconds, q, 0, 0, q, 0, 0, 0)
    return [sent(position, STACK), sent(attitude, STACK)]


def test_a_photo_carries_its_estimated_place_and_the_table_both(tmp_path: Path) -> None:
    core, runner, link = standing(CAMERA, tmp_path)
    run(core, runner, 50)
    link.inbox += [*estimate(core), command(mavlink.MAV_CMD_IMAGE_START_CAPTURE, 0, 0, 1)]
    run(core, runner, 20)
    runner.close()
    (captured,) = link.of("CAMERA_IMAGE_CAPTURED")
    assert (captured.image_index, captured.capture_result, captured.file_url) == (0, 1, "0001.jpg")
    folder = tmp_path / "photos" / "payload_camera_0"
    (row,) = table(tmp_path)
    true = core.world.ned(*(float(row[f"true_{k}"]) for k in ("latitude", "longitude", "altitude")))
    assert true == pytest.approx([float(row[f"true_{k}"]) for k in ("north", "east", "down")], abs=2e-3)
    found = core.world.ned(*(float(row[f"estimated_{k}"]) for k in ("latitude", "longitude", "altitude")))
    assert found == pytest.approx([2.0, 0.0, -0.2], abs=0.02)
    assert [float(row[f"estimated_q{k}"]) for k in "wxyz"] == pytest.approx([0.7071, 0, 0, 0.7071], abs=1e-3)
    assert captured.lat * 1e-7 == pytest.approx(float(row["estimated_latitude"]), abs=1e-7)
    with Image.open(folder / "0001.jpg") as photo:
        assert photo.size == (64, 48)
        tags = photo.getexif().get_ifd(0x8825)
    degrees, minutes, seconds = (float(v) for v in tags[2])
    assert degrees + minutes / 60 + seconds / 3600 == pytest.approx(
        float(row["estimated_latitude"]), abs=1e-7
    )
    assert (tags[1], tags[3]) == ("N", "E")
    assert float(tags[6]) == pytest.approx(float(row["estimated_altitude"]), abs=2e-3)


def test_a_late_trigger_takes_its_photo_with_the_pose_of_its_time(tmp_path: Path) -> None:
    core, runner, link = standing(CAMERA, tmp_path)
    run(core, runner, 50)
    east = {}
    for _ in range(60):  # moved along by hand
        core.states[0]["position"][1] += 0.01
        run(core, runner, 1)
        east[core.time] = float(core.states[0]["position"][1])
    at = core.time - 100_000
    link.inbox.append(sent(mavlink.MAVLink_camera_trigger_message(at, 0), STACK))
    run(core, runner, 20)
    runner.close()
    (row,) = table(tmp_path)
    assert float(row["time"]) == pytest.approx(at * 1e-6)
    assert float(row["true_east"]) == pytest.approx(east[at], abs=1e-3)
    assert east[at] < east[at + 100_000] - 0.1


def test_photos_without_an_estimate_have_no_place(tmp_path: Path) -> None:
    core, runner, _ = standing(CAMERA, tmp_path)
    runner.camera.requested.append(core.time)
    run(core, runner, 20)
    runner.close()
    folder = tmp_path / "photos" / "payload_camera_0"
    (row,) = table(tmp_path)
    assert row["estimated_latitude"] == ""
    with Image.open(folder / "0001.jpg") as photo:
        assert not photo.getexif().get_ifd(0x8825)


def test_one_seed_gives_the_same_photo_bytes(tmp_path: Path) -> None:
    found = []
    for name in ("a", "b"):
        core, runner, _ = standing(GIMBAL, tmp_path / name)
        runner.camera.requested.append(core.time)
        run(core, runner, 20)
        runner.close()
        found.append((tmp_path / name / "photos" / "payload_camera_0" / "0001.jpg").read_bytes())
    assert found[0] == found[1]


# ---------------------------------------------------------------- the gimbal


def test_a_gimbal_holds_the_horizon_while_the_body_tilts() -> None:
    gimbal = Gimbal(GimbalSpecification())
    gimbal.point((0.0, -0.5, 0.3), (NOTHING,) * 3, False, 0.0)
    for _ in range(100):
        gimbal.advance(0.02)
    for roll, pitch, yaw in ((0.0, 0.0, 0.0), (0.4, -0.3, 1.0), (-0.5, 0.2, -2.5)):
        body = matrix_from_euler(roll, pitch, yaw)
        # With the heading of the body's x axis, which is that of the rotation.
        assert gimbal.pose(body) == pytest.approx(matrix_from_euler(0.0, -0.5, yaw + 0.3), abs=1e-9)


def test_a_gimbal_with_two_axes_turns_with_the_body() -> None:
    gimbal = Gimbal(GimbalSpecification(yaw=None))
    body = matrix_from_euler(0.3, 0.2, 1.0)
    assert gimbal.pose(body) == pytest.approx(matrix_from_euler(0.0, 0.0, 1.0), abs=1e-9)
    gimbal.point((0.0, 0.0, 0.8), (NOTHING,) * 3, False, 1.0)
    for _ in range(100):
        gimbal.advance(0.02)
    assert heading_of(gimbal.pose(matrix_from_euler(0.0, 0.0, 1.0))) == pytest.approx(1.0)


def test_a_gimbal_turns_at_its_rate_and_stops_at_its_limit() -> None:
    gimbal = Gimbal(GimbalSpecification(rate=30.0, pitch=(-90.0, 20.0)))
    gimbal.point((0.0, -math.pi / 2, 0.0), (NOTHING,) * 3, False, 0.0)
    gimbal.advance(1.0)
    assert math.degrees(gimbal.angles[1]) == pytest.approx(-30.0)
    gimbal.point((NOTHING,) * 3, (0.0, 5.0, 0.0), False, 0.0)
    for _ in range(100):
        gimbal.advance(0.1)
    assert math.degrees(gimbal.angles[1]) == pytest.approx(20.0)


def test_a_locked_gimbal_keeps_its_direction_while_the_vehicle_turns() -> None:
    gimbal = Gimbal(GimbalSpecification())
    gimbal.point((0.0, 0.0, 1.0), (NOTHING,) * 3, True, 0.0)
    for _ in range(100):
        gimbal.advance(0.02)
    for yaw in (0.0, 1.5, -2.0):
        assert heading_of(gimbal.pose(matrix_from_euler(0.1, 0.1, yaw))) == pytest.approx(1.0)


def test_the_gimbals_manager_points_the_camera_and_photos_show_it(tmp_path: Path) -> None:
    core, runner, link = standing(GIMBAL, tmp_path, yaw=1.0)
    own = (SYSTEM, 154)
    run(core, runner, 60)
    assert link.of("GIMBAL_MANAGER_STATUS")
    denied = command(mavlink.MAV_CMD_DO_GIMBAL_MANAGER_PITCHYAW, -30, 20, NOTHING, NOTHING, 12, to=own)
    configure = command(mavlink.MAV_CMD_DO_GIMBAL_MANAGER_CONFIGURE, 255, 190, -1, -1, to=own)
    link.inbox += [denied, configure, denied]
    run(core, runner, 300)
    results = [m.result for m in link.of("COMMAND_ACK")]
    assert results == [mavlink.MAV_RESULT_DENIED, mavlink.MAV_RESULT_ACCEPTED, mavlink.MAV_RESULT_ACCEPTED]
    status = link.of("GIMBAL_DEVICE_ATTITUDE_STATUS")[-1]
    half = np.radians([-15.0, 10.0])
    w, y, z = np.cos(half).prod(), np.cos(half[1]) * np.sin(half[0]), np.cos(half[0]) * np.sin(half[1])
    assert [status.q[k] for k in (0, 2, 3)] == pytest.approx([w, y, z], abs=1e-3)
    runner.camera.requested.append(core.time)
    run(core, runner, 20)
    runner.close()
    (row,) = table(tmp_path)
    expected = matrix_from_euler(0.0, math.radians(-30.0), 1.0 + math.radians(20.0))
    w, x, y, z = (float(row[f"true_q{k}"]) for k in "wxyz")
    axis = [1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)]
    assert axis == pytest.approx(expected[:, 0].tolist(), abs=5e-3)


def test_the_gimbal_looks_at_a_place() -> None:
    core, runner, link = standing(GIMBAL)
    run(core, runner, 50)
    # 10 m north, 10 m east and 5 m up of where the flight stack takes itself to be.
    place = core.world.geodetic(np.array([12.0, 10.0, -5.2]))
    look = mavlink.MAVLink_command_int_message(
        SYSTEM, 154, 0, 195, 0, 0, 0, 0, 0, 0, *(round(v * 1e7) for v in place[:2]), place[2]
    )
    link.inbox += [*estimate(core), sent(look, STATION)]
    run(core, runner, 200)
    status = link.of("GIMBAL_DEVICE_ATTITUDE_STATUS")[-1]
    assert status.flags & mavlink.GIMBAL_DEVICE_FLAGS_YAW_LOCK
    expected = (0.0, math.atan2(5.0, math.hypot(10.0, 10.0)), math.pi / 4)
    w, x, y, z = status.q
    axis = np.array([1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)])
    assert axis == pytest.approx(matrix_from_euler(*expected)[:, 0], abs=0.01)
    runner.close()


def test_px4s_manager_takes_over_with_its_first_setpoint() -> None:
    core, runner, link = standing(GIMBAL)
    run(core, runner, 20)
    q = [math.cos(-0.25), 0.0, math.sin(-0.25), 0.0]
    flags = mavlink.GIMBAL_DEVICE_FLAGS_ROLL_LOCK | mavlink.GIMBAL_DEVICE_FLAGS_PITCH_LOCK
    setpoint = mavlink.MAVLink_gimbal_device_set_attitude_message(1, 154, flags, q, *(NOTHING,) * 3)
    link.inbox.append(sent(setpoint, STACK))
    run(core, runner, 100)
    link.sent.clear()
    link.inbox.append(sent(setpoint, STACK))
    run(core, runner, 100)
    assert not link.of("GIMBAL_MANAGER_STATUS")
    assert link.of("GIMBAL_DEVICE_ATTITUDE_STATUS")[-1].q == pytest.approx(q, abs=1e-3)
    runner.close()


@pytest.mark.parametrize(("pitch", "yaw"), [(-90.0, 100.0), (-100.0, 30.0), (-89.9, -60.0)])
def test_px4s_setpoints_near_straight_down_keep_horizon_and_yaw(pitch: float, yaw: float) -> None:
    core, runner, link = standing(GIMBAL)
    q = quaternion_from_euler(0.0, math.radians(pitch), math.radians(yaw))
    flags = mavlink.GIMBAL_DEVICE_FLAGS_ROLL_LOCK | mavlink.GIMBAL_DEVICE_FLAGS_PITCH_LOCK
    setpoint = mavlink.MAVLink_gimbal_device_set_attitude_message(1, 154, flags, q, *(NOTHING,) * 3)
    for _ in range(10):
        link.inbox.append(sent(setpoint, STACK))
        run(core, runner, 100)
    found = [message.q for message in link.of("GIMBAL_DEVICE_ATTITUDE_STATUS")]
    assert max(abs(2.0 * (y * z + w * x)) for w, x, y, z in found) < 0.01
    assert abs(np.dot(found[-1], q)) > 0.9999
    runner.close()


# ---------------------------------------------------------------- settings


def test_px4_gets_the_parameters_of_the_trigger_and_the_gimbal() -> None:
    found = parameters_for(load_airframe("iris_survey"))
    assert (found["TRIG_MODE"], found["TRIG_INTERFACE"], found["TRIG_MIN_INTERVA"]) == (4, 3, 200.0)
    assert "MNT_MODE_IN" not in found
    found = parameters_for(load_airframe("iris_gimbal"))
    assert (found["MNT_MODE_IN"], found["MNT_MODE_OUT"]) == (4, 2)
    assert "TRIG_MODE" not in parameters_for(load_airframe("iris"))


def test_a_rotation_beside_a_gimbal_and_a_falling_range_are_refused() -> None:
    with pytest.raises(ValueError, match="turned by it"):
        PayloadCameraSpecification(**SMALL, gimbal=GimbalSpecification(), rotation=(0, -90, 0))
    with pytest.raises(ValueError, match="lower end"):
        GimbalSpecification(pitch=(10.0, -10.0))
