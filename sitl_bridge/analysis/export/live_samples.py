"""Samples of sensors that see, as ROS 2's messages while a simulation runs.

Topics are those of an exported recording, with the cameras' intrinsics beside them.  Frames have the
sensor's axes: x ahead, y right, z down; those of pictures are optical (REP 103).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import TypeAlias

import numpy as np
from PIL import Image

from sitl_bridge.analysis.export.ros_topics import (
    SENSORS,
    RosMessages,
    base_link,
    begin_messages,
    ros_name,
    sensor_frame,
    set_axes,
    stamp,
    to_flu,
)
from sitl_bridge.analysis.export.seen_samples import cloud_message, image_message
from sitl_bridge.base.arrays import Bytes, Floats, Records
from sitl_bridge.base.rotations import quaternion_from_euler, quaternion_from_matrix
from sitl_bridge.core.sensors.perception.camera import ImagingSpecification
from sitl_bridge.core.sensors.perception.depth_camera import DepthCameraSpecification
from sitl_bridge.core.sensors.perception.lens import Fisheye
from sitl_bridge.core.sensors.perception.lidar import LidarSpecification
from sitl_bridge.core.sensors.perception.scanner import ScannerSpecification
from sitl_bridge.core.sensors.perception.stereo_camera import PairSpecification
from sitl_bridge.core.sensors.perception.view import Arrays, PerceptionSpecification
from sitl_bridge.core.sensors.registry import KIND_NAMES
from sitl_bridge.perception.sample_files import points_of

MOUNTINGS = "/tf_static"
"""Topic of the sensors' places on their vehicles."""
OPTICAL = "_optical"
"""End of the frames of pictures (REP 103): z ahead, x right, y down."""
COMPRESSED = "sensor_msgs/CompressedImage"
JPEG_QUALITY = 95
"""Of compressed_image_transport by default."""
PICTURED = (ImagingSpecification, DepthCameraSpecification)
PICTURES = {"image": "cam0", "left": "cam0", "right": "cam1", "depth": "depth", "color": "rgb"}
"""Last part of the topic by the array's name."""


def sample_messages(
    sensor: PerceptionSpecification, vehicle: str, time: int, arrays: Arrays
) -> Iterator[RosMessages]:
    """The messages of one sample.

    Args:
        vehicle: its name.
        time: us of simulated time.
    """
    topic, frame = f"/{ros_name(vehicle)}/{ros_name(sensor.name)}", f"{base_link(vehicle)}/{sensor.name}"
    at = time * 1000
    for name, part in PICTURES.items():
        if name in arrays:
            yield image_message(arrays[name], at, f"{topic}/{part}", f"{frame}{OPTICAL}")
            if isinstance(sensor, PICTURED):
                yield _camera_info(sensor, name, at, f"{topic}/{part}/camera_info", f"{frame}{OPTICAL}")
    if isinstance(sensor, LidarSpecification):
        yield cloud_message(points_of(arrays), at, f"{topic}/points", frame)
    if isinstance(sensor, ScannerSpecification):
        yield _scan(sensor, arrays, at, f"{topic}/scan", frame)


def pictures(
    sensor: PerceptionSpecification, vehicle: str, arrays: Arrays
) -> Iterator[tuple[str, str, Bytes]]:
    """Topic for image_transport's compressed pictures, frame and picture of each of 8 bits; as above."""
    topic, place = f"/{ros_name(vehicle)}/{ros_name(sensor.name)}", f"{base_link(vehicle)}/{sensor.name}"
    for name, part in PICTURES.items():
        if name in arrays and arrays[name].dtype == np.uint8:
            yield f"{topic}/{part}/compressed", f"{place}{OPTICAL}", arrays[name].view(np.uint8)


def compressed_message(picture: Bytes, time: int, topic: str, place: str) -> RosMessages:
    """A picture (h, w) or (h, w, 3) at a time in us as JPEG, which image_transport takes for its own."""
    file = BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=JPEG_QUALITY)
    data = np.frombuffer(file.getvalue(), np.uint8)
    kind = "rgb8; jpeg compressed bgr8" if picture.ndim == 3 else "mono8; jpeg compressed mono8"
    strings, lengths = {"header.frame_id": place, "format": kind}, {"data": len(data)}
    made, table = begin_messages(topic, COMPRESSED, np.array([time * 1000]), strings, lengths)
    table["data"] = data
    return made


Transform: TypeAlias = tuple[str, str, Floats, Sequence[float]]
"""Parent and child, translation (1, 3) in m and rotation x, y, z, w of the child in the parent's axes."""


def sensor_transforms(name: str, sensors: Records) -> Iterator[Transform]:
    """Yield the frames of a vehicle's sensors that do not see, from SENSOR records; a range's x is its beam.

    An IMU's and a magnetometer's rotation is a mounting error, which nobody knows.
    """
    made = {kind for kind, _, _ in SENSORS.values()}
    for sensor in sensors:
        kind = KIND_NAMES.get(int(sensor["kind"]), "")
        if kind not in made:
            continue
        rotation = [0.0, 0.0, 0.0, 1.0]
        if kind == "range_finder":
            x, y, z = to_flu(sensor["rotation"])  # the sensor's axes, of which z is its beam
            w, *vector = quaternion_from_matrix(np.array([z, y, -x]).T).tolist()
            rotation = [*vector, w]
        child = sensor_frame(name, kind, int(sensor["instance"]))
        yield base_link(name), child, to_flu(sensor["position"][None]), rotation


def mountings(
    sensors: Sequence[tuple[str, PerceptionSpecification]], time: int, others: Sequence[Transform] = ()
) -> RosMessages:
    """Return the mounting of sensors that see: from ``base_link`` to their frames.

    Args:
        sensors: vehicle's name and airframe's line.
        time: ns.
        others: of the same message.
    """
    frames: list[Transform] = [*others]
    for vehicle, sensor in sensors:
        parent, child = base_link(vehicle), f"{base_link(vehicle)}/{sensor.name}"
        # (0, 1, 0, 0) turns FLU into FRD; the sensor's axes are x ahead, y right, z down.
        w, x, y, z = quaternion_from_euler(*np.radians(sensor.rotation).tolist())
        frames.append((parent, child, to_flu(np.array([sensor.position], np.float64)), [w, -z, y, -x]))
        if isinstance(sensor, PICTURED):  # x right, y down, z ahead
            frames.append((child, f"{child}{OPTICAL}", np.zeros((1, 3)), [0.5, 0.5, 0.5, 0.5]))
    strings: dict[str, str] = {}
    for k, (parent, child, _, _) in enumerate(frames):
        strings |= {f"transforms.{k}.header.frame_id": parent, f"transforms.{k}.child_frame_id": child}
    at, lengths = np.array([time]), {"transforms": len(frames)}
    made, table = begin_messages(MOUNTINGS, "tf2_msgs/TFMessage", at, strings, lengths)
    for k, (_, _, place, rotation) in enumerate(frames):
        stamp(table, at, f"transforms.{k}.header.stamp")
        set_axes(table, f"transforms.{k}.transform.translation", place)
        set_axes(table, f"transforms.{k}.transform.rotation", np.array([rotation]))
    return made


def _camera_info(
    sensor: ImagingSpecification | DepthCameraSpecification, name: str, time: int, topic: str, frame: str
) -> RosMessages:
    """The intrinsics as sensor_msgs/CameraInfo; those of a pair's right camera hold the baseline."""
    model, coefficients = "plumb_bob", [0.0] * 5
    if isinstance(sensor, DepthCameraSpecification):
        camera = sensor.camera
        fx, fy, cx, cy = camera.focal, camera.focal, camera.cx, camera.cy
    else:
        fx, fy, cx, cy = sensor.intrinsics
        lens = sensor.lens
        if isinstance(lens, Fisheye):
            model, coefficients = "equidistant", [lens.k1, lens.k2, lens.k3, lens.k4]
        else:
            coefficients = [lens.k1, lens.k2, lens.p1, lens.p2, lens.k3]
    strings, lengths = {"header.frame_id": frame, "distortion_model": model}, {"d": len(coefficients)}
    made, table = begin_messages(topic, "sensor_msgs/CameraInfo", np.array([time]), strings, lengths)
    table["height"], table["width"], table["d"] = sensor.height, sensor.width, coefficients
    baseline = sensor.baseline if name == "right" and isinstance(sensor, PairSpecification) else 0.0
    table["k"] = [fx, 0.0, cx, 0.0, fy, cy, 0.0, 0.0, 1.0]
    table["r"] = np.eye(3).ravel()
    table["p"] = [fx, 0.0, cx, -fx * baseline, 0.0, fy, cy, 0.0, 0.0, 0.0, 1.0, 0.0]
    return made


def _scan(sensor: ScannerSpecification, arrays: Arrays, time: int, topic: str, frame: str) -> RosMessages:
    """A scan as sensor_msgs/LaserScan, whose time is that of the first beam."""
    angles, ranges = sensor.angles, arrays["ranges"]
    begun = np.array([max(time - round(sensor.exposure * 1e9), 0)])
    lengths = {"ranges": len(ranges), "intensities": 0}
    made, table = begin_messages(topic, "sensor_msgs/LaserScan", begun, {"header.frame_id": frame}, lengths)
    table["angle_min"], table["angle_max"] = angles[0], angles[-1]
    table["angle_increment"] = np.radians(sensor.step)
    table["time_increment"] = sensor.exposure / max(len(angles) - 1, 1)
    table["scan_time"] = 1.0 / sensor.rate
    table["range_min"], table["range_max"] = sensor.minimum, sensor.maximum
    table["ranges"] = ranges
    return made
