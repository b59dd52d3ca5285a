"""What the flight stack is sent about the surroundings, and the parameters that go with it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from pymavlink.dialects.v20 import common as mavlink

import sitl_bridge as sb
from sitl_bridge.core.sensors.perception.depth_camera import DepthCameraSpecification
from sitl_bridge.core.sensors.perception.marker_detector import MarkerDetectorSpecification
from sitl_bridge.core.sensors.perception.obstacle_map import UNKNOWN, ObstacleMap, RangingSpecification
from sitl_bridge.core.sensors.perception.scanner import ScannerSpecification
from sitl_bridge.core.sensors.perception.scene_caster import SceneCaster
from sitl_bridge.core.sensors.perception.view import Arrays, Poses, View
from sitl_bridge.core.sensors.perception.visual_odometry import VisualOdometrySpecification
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import BoxObject, SceneSpecification
from sitl_bridge.link.px4.airframe_parameters import collision_prevention_mode, parameters_for, reach
from sitl_bridge.link.px4.startup import write_startup_files
from sitl_bridge.perception.flight_stack_messages import companion_messages, link_messages

WALL = BoxObject(kind="box", size=(2.0, 40.0, 20.0), position=(6.0, 0.0, 0.0))
SCENE = Scene(SceneSpecification(objects=(WALL,)))
SCANNER = ScannerSpecification(
    kind="scanner", field_of_view=360, step=0.5, noise=0.0, sweep=0.0, obstacle_distance=True
)


def quaternion(roll: float = 0.0, pitch: float = 0.0, yaw: float = 0.0) -> NDArray[np.float64]:
    """w, x, y, z of angles in deg, of which one of roll and pitch is 0."""
    r, p, y = (0.5 * math.radians(angle) for angle in (roll, pitch, yaw))
    turned = np.array([math.cos(y), 0.0, 0.0, math.sin(y)])
    if roll:
        return np.array(
            [
                turned[0] * math.cos(r),
                turned[0] * math.sin(r),
                turned[3] * math.sin(r),
                turned[3] * math.cos(r),
            ]
        )
    return np.array(
        [turned[0] * math.cos(p), -turned[3] * math.sin(p), turned[0] * math.sin(p), turned[3] * math.cos(p)]
    )


def sample(
    sensor: RangingSpecification,
    obstacles: ObstacleMap,
    attitude: NDArray[np.float64],
    time: int = 0,
    position: tuple[float, float, float] = (0.0, 0.0, -3.0),
) -> Arrays:
    poses = Poses(np.array([time]), np.array([position]), attitude[None])
    view = View(SceneCaster(SCENE, time, np.zeros((0, 4))), poses, time, np.random.default_rng(0))
    return obstacles.update(view, sensor.measure(view))


def test_sectors_hold_the_least_horizontal_distance_in_the_axes_of_the_heading() -> None:
    for yaw in (0, 40, 270):
        found = sample(SCANNER, ObstacleMap(SCANNER), quaternion(yaw=yaw))["obstacles"]
        assert found.dtype == np.uint16
        ahead = -yaw // 5 % 72
        assert found[ahead] == pytest.approx(500, abs=1)
        # The sector 30 deg beside it begins at 27.5 deg.
        assert found[(ahead + 6) % 72] == pytest.approx(500 / math.cos(math.radians(27.5)), abs=3)
        assert found[(ahead + 36) % 72] == 3001


def test_a_sector_beyond_the_field_of_view_is_unknown() -> None:
    camera = DepthCameraSpecification(
        kind="depth_camera", width=64, height=48, quadratic_noise=0.0, obstacle_distance=True
    )
    found = sample(camera, ObstacleMap(camera), quaternion())["obstacles"]
    assert found[:6].tolist() == pytest.approx([500, 500, 503, 510, 523, 541], abs=3)
    assert found[67:].tolist() == pytest.approx([541, 523, 510, 503, 500], abs=3)
    assert (found[7:66] == UNKNOWN).all()


def test_the_ground_under_a_tilted_vehicle_is_no_obstacle() -> None:
    low = sample(SCANNER, ObstacleMap(SCANNER), quaternion(roll=20), position=(-40.0, 0.0, -1.0))
    assert (low["obstacles"] == 3001).all()


def test_a_wall_is_remembered_for_a_second_of_tilt() -> None:
    obstacles = ObstacleMap(SCANNER)
    assert sample(SCANNER, obstacles, quaternion(), 0)["obstacles"][0] == pytest.approx(500, abs=1)
    # At 30 deg nose up the beams ahead meet the wall 2.9 m above the vehicle.
    tilted = quaternion(pitch=30)
    later = sample(SCANNER, obstacles, tilted, 500_000, (0.5, 0.0, -3.0))["obstacles"]
    assert later[0] == pytest.approx(450, abs=2)
    assert sample(SCANNER, obstacles, tilted, 1_600_000)["obstacles"][0] == 3001


def test_obstacles_become_a_message_that_px4_reads() -> None:
    arrays = sample(SCANNER, ObstacleMap(SCANNER), quaternion())
    (message,) = companion_messages(SCANNER, 123_456, arrays)
    frame = message.pack(mavlink.MAVLink(None, srcSystem=1, srcComponent=191))
    read = mavlink.MAVLink(None).decode(bytearray(frame))
    assert read.get_type() == "OBSTACLE_DISTANCE"
    assert (read.time_usec, read.min_distance, read.max_distance) == (123_456, 10, 3000)
    assert (read.increment_f, read.angle_offset, read.frame) == (5.0, 0.0, mavlink.MAV_FRAME_BODY_FRD)
    assert read.distances == arrays["obstacles"].tolist()
    assert companion_messages(SCANNER, 0, {"ranges": arrays["ranges"]}) == []


def test_collision_prevention_is_on_where_a_sensor_reports_obstacles() -> None:
    airframe = load_airframe("iris_scanner")
    assert reach(airframe) == pytest.approx(0.26 + 0.128, abs=0.01)
    found = parameters_for(airframe)
    assert found["CP_DIST"] == pytest.approx(1.39, abs=0.02)
    assert found["CP_DELAY"] == pytest.approx(0.5)
    assert "CP_DIST" not in parameters_for(load_airframe("iris_depth"))


def test_older_px4_prevents_collisions_in_direct_velocity_mode() -> None:
    def build(*values: int) -> dict[str, dict[str, list[dict[str, int]]]]:
        return {"MPC_POS_MODE": {"values": [{"value": value} for value in values]}}

    given = {"CP_DIST": 1.4}
    assert collision_prevention_mode(given, build(0, 3, 4)) == {"MPC_POS_MODE": 0}
    assert collision_prevention_mode(given, build(0, 4)) == {}
    assert collision_prevention_mode({}, build(0, 3, 4)) == {}
    assert collision_prevention_mode(given, None) == {}


def odometry(
    sensor: VisualOdometrySpecification, seed: int = 0, way: float = 100.0, yaw: float = 90.0
) -> Arrays:
    """The estimate after a straight flight to the east, at 10 m/s, with a heading."""
    process, arrays = sensor.processor(), {}
    caster = SceneCaster(SCENE, 0, np.zeros((0, 4)))
    random = np.random.default_rng(seed)
    for k in range(1, round(way) + 1):
        ends = np.array([(k - 1) * 100_000, k * 100_000])
        positions = np.stack([np.zeros(2), ends * 1e-5, np.full(2, -3.0)], axis=1)
        poses = Poses(ends, positions, np.stack([quaternion(yaw=yaw)] * 2))
        view = View(caster, poses, int(ends[1]), random, start=0)
        arrays = process(view, sensor.measure(view))
    return arrays


EXACT = VisualOdometrySpecification(
    kind="visual_odometry", rate=10, drift=0, yaw_drift=0, noise=0, angle_noise=0, velocity_noise=0
)


def test_visual_odometry_begins_at_the_vehicles_place_and_heading() -> None:
    found = odometry(EXACT, yaw=60.0)
    # It began where the first sample was taken, 1 m on the way; its x axis is turned by 60 deg.
    assert found["position"] == pytest.approx(
        [99.0 * math.cos(math.radians(30)), 99.0 * math.sin(math.radians(30)), 0.0]
    )
    assert found["attitude"] == pytest.approx([1.0, 0.0, 0.0, 0.0], abs=1e-9)
    assert found["velocity"] == pytest.approx(
        [10.0 * math.cos(math.radians(30)), 10.0 * math.sin(math.radians(30)), 0.0]
    )


def test_motion_capture_gives_the_pose_in_the_worlds_axes() -> None:
    sensor = EXACT.model_copy(update={"world_axes": True})
    found = odometry(sensor, yaw=60.0)
    assert found["position"] == pytest.approx([0.0, 100.0, -3.0])
    assert found["attitude"] == pytest.approx(quaternion(yaw=60.0), abs=1e-9)
    (message,) = link_messages(sensor, 10_000_000, found)
    assert message.frame_id == mavlink.MAV_FRAME_LOCAL_NED
    seeing = sb.Airframe.load("iris").changed(sensors=[{"kind": "visual_odometry", "world_axes": True}])
    assert parameters_for(seeing)["EKF2_EV_CTRL"] == 15


def test_visual_odometry_drifts_with_the_root_of_the_way() -> None:
    for way in (25.0, 100.0):
        sensor = EXACT.model_copy(update={"drift": 0.02})
        errors = [odometry(sensor, seed, way)["position"] - [way - 1.0, 0.0, 0.0] for seed in range(40)]
        assert np.std(errors) == pytest.approx(0.02 * math.sqrt(way - 1.0), rel=0.2)


def test_a_reset_takes_the_drift_away_and_is_counted() -> None:
    sensor = EXACT.model_copy(update={"drift": 0.02, "resets": (5.0, 9.95)})
    found = odometry(sensor)
    assert int(found["reset_counter"]) == 2
    assert found["position"] == pytest.approx([99.0, 0.0, 0.0])


def test_an_estimate_becomes_a_message_of_the_simulator_link() -> None:
    sensor = VisualOdometrySpecification(kind="visual_odometry", rate=10, position=(0.1, 0, 0))
    arrays = odometry(sensor)
    (message,) = link_messages(sensor, 10_000_000, arrays)
    read = mavlink.MAVLink(None).decode(bytearray(message.pack(mavlink.MAVLink(None))))
    assert read.get_type() == "ODOMETRY"
    assert (read.frame_id, read.child_frame_id) == (mavlink.MAV_FRAME_LOCAL_FRD, mavlink.MAV_FRAME_BODY_FRD)
    assert read.estimator_type == mavlink.MAV_ESTIMATOR_TYPE_VIO
    assert [read.x, read.y, read.z] == pytest.approx(arrays["position"].tolist(), rel=1e-6, abs=1e-6)
    assert read.q == pytest.approx(arrays["attitude"].tolist(), rel=1e-6, abs=1e-6)
    assert read.pose_covariance[0] == pytest.approx(0.005**2)
    assert math.isnan(read.rollspeed)


def test_external_vision_is_on_where_there_is_visual_odometry() -> None:
    found = parameters_for(load_airframe("iris_vio"))
    assert (found["EKF2_EV_CTRL"], found["EKF2_EV_DELAY"], found["EKF2_EV_POS_X"]) == (7, 50.0, 0.1)
    assert "EKF2_EV_DELAY" not in parameters_for(load_airframe("iris"))


DETECTOR = MarkerDetectorSpecification(kind="marker_detector", marker=(-10.0, 0.0, 0.0), noise=0.0)
ROOF = BoxObject(kind="box", size=(0.2, 0.2, 0.1), position=(-9.8, 0.1, -1.0))


def detected(
    position: tuple[float, float, float], yaw: float = 0.0, *objects: BoxObject
) -> tuple[NDArray[np.float64], float]:
    poses = Poses(np.array([0]), np.array([position]), quaternion(yaw=yaw)[None])
    caster = SceneCaster(Scene(SceneSpecification(objects=objects)), 0, np.zeros((0, 4)))
    found = DETECTOR.measure(View(caster, poses, 0, np.random.default_rng(0)))
    return np.asarray(found["angles"], float), float(found["distance"])


def test_a_marker_is_seen_ahead_and_to_the_right() -> None:
    angles, distance = detected((-11.0, -0.5, -5.0))
    assert angles == pytest.approx([math.atan2(1.0, 5.0), math.atan2(0.5, 5.0)])
    assert distance == pytest.approx(math.sqrt(26.25))
    turned, _ = detected((-11.0, -0.5, -5.0), 90.0)  # heading east: the marker is ahead and to the left
    assert turned == pytest.approx([math.atan2(0.5, 5.0), -math.atan2(1.0, 5.0)])


def test_a_marker_out_of_sight_is_not_reported() -> None:
    assert math.isnan(detected((-14.0, 0.0, -5.0))[1])  # beyond the field of view
    assert math.isnan(detected((-10.0, 0.0, -16.0))[1])  # too far
    assert math.isnan(detected((-10.0, 0.0, -5.0), 0.0, ROOF)[1])  # a corner is covered
    arrays: Arrays = {"angles": np.full(2, np.nan), "distance": np.array(np.nan)}
    assert link_messages(DETECTOR, 0, arrays) == []


def test_a_marker_becomes_a_message_of_the_simulator_link() -> None:
    arrays: Arrays = {"angles": np.array([0.1, -0.2]), "distance": np.array(5.0)}
    (message,) = link_messages(DETECTOR, 1_000_000, arrays)
    read = mavlink.MAVLink(None).decode(bytearray(message.pack(mavlink.MAVLink(None))))
    assert read.get_type() == "LANDING_TARGET"
    assert (read.angle_x, read.angle_y, read.distance) == pytest.approx((0.1, -0.2, 5.0))
    assert (read.position_valid, read.frame) == (0, mavlink.MAV_FRAME_BODY_FRD)


def test_px4_starts_its_estimator_of_the_marker(tmp_path: Path) -> None:
    parameters = parameters_for(load_airframe("iris_marker"))
    assert (parameters["LTEST_MODE"], parameters["LTEST_SENS_ROT"]) == (1, 0)
    script = write_startup_files(tmp_path / "marker", parameters).read_text()
    assert script.rstrip().endswith("landing_target_estimator start")
    plain = write_startup_files(tmp_path / "plain", parameters_for(load_airframe("iris"))).read_text()
    assert "landing_target" not in plain
