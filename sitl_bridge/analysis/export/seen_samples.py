"""Recorded pictures and point clouds of a run as ROS 2's messages, one at a time: they are large."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.analysis.export.ros_topics import RosMessages, base_link, begin_messages, ros_name
from sitl_bridge.base.arrays import Records
from sitl_bridge.perception.sample_files import POINT
from sitl_bridge.record.picture_files import picture_files, sensor_folders
from sitl_bridge.record.run_reader import RecordedRun

FLOAT32, UINT16 = 7, 4
"""Data types of sensor_msgs/PointField."""
ENCODINGS = {1: "mono8", 2: "16UC1", 4: "32FC1"}
"""Of sensor_msgs/Image with one channel, by bytes of a pixel."""


@dataclass(frozen=True)
class SeenFile:
    """A sample in a file."""

    time: int  # ns of simulated time
    file: Path  # that holds it
    read: Callable[[], RosMessages]  # turns it into a message


def seen_files(run: RecordedRun) -> list[SeenFile]:
    """The recorded samples of a run's sensors that see: cameras, pairs, depth cameras and lidars."""
    return [
        file
        for vehicle in run.description["vehicles"]
        for sensor in vehicle["airframe"]["sensors"]
        if sensor.get("name")
        for file in sample_files(run, vehicle["name"], sensor["name"])
    ]


def sample_files(run: RecordedRun, vehicle: str, sensor: str) -> list[SeenFile]:
    """The recorded samples of a sensor, in the order of their times."""
    topic = f"/{ros_name(vehicle)}/{ros_name(sensor)}"
    frame = f"{base_link(vehicle)}/{ros_name(sensor)}"
    folders = sensor_folders(run.path, vehicle, sensor)
    found = [file for folder in folders for file in _files_of(folder, topic, frame)]
    return sorted(found, key=lambda file: file.time)


def _files_of(folder: Path, topic: str, frame: str) -> Iterator[SeenFile]:
    """The samples in a sensor's directory, whichever layout it has."""
    for one in picture_files(folder):
        yield _picture(one.file, one.time, f"{topic}/{one.kind}", frame)
    for ending in ("pcd", "ply"):
        for file in folder.glob(f"*.{ending}"):
            yield _cloud(file, int(file.stem), f"{topic}/points", frame)


def _picture(file: Path, time: int, topic: str, frame: str) -> SeenFile:
    return SeenFile(time, file, lambda: image_message(read_image(file), time, topic, frame))


def _cloud(file: Path, time: int, topic: str, frame: str) -> SeenFile:
    return SeenFile(time, file, lambda: cloud_message(read_cloud(file), time, topic, frame))


def read_image(file: Path) -> NDArray[np.generic]:
    """A PNG file as (h, w) of 8 or 16 bit or (h, w, 3) of 8 bit."""
    from PIL import Image

    with Image.open(file) as picture:
        image = np.asarray(picture)
    return image.astype(np.uint16) if image.dtype.itemsize > 1 else image


def read_cloud(file: Path) -> Records:
    """(n,) POINT of a PCD or PLY file that was recorded here."""
    data = file.read_bytes()
    end = re.search(rb"(DATA binary|end_header)\n", data)
    points = data[end.end() :] if end is not None else b""
    return np.frombuffer(points, POINT, len(points) // POINT.itemsize)


def image_message(image: NDArray[np.generic], time: int, topic: str, frame: str) -> RosMessages:
    """A picture as sensor_msgs/Image; 16 bit are depths in counts of the recording, 32 bit depths in m."""
    encoding = "rgb8" if image.ndim == 3 else ENCODINGS[image.dtype.itemsize]
    data = np.ascontiguousarray(image, image.dtype.newbyteorder("<")).view(np.uint8).ravel()
    strings, lengths = {"header.frame_id": frame, "encoding": encoding}, {"data": len(data)}
    made, table = begin_messages(topic, "sensor_msgs/Image", np.array([time]), strings, lengths)
    table["height"], table["width"] = image.shape[:2]
    table["step"] = len(data) // image.shape[0]
    table["data"] = data
    return made


def cloud_message(cloud: Records, time: int, topic: str, frame: str) -> RosMessages:
    """A cloud as sensor_msgs/PointCloud2, its points in the sensor's axes (x ahead, y right, z down)."""
    names = POINT.names or ()
    data = np.frombuffer(cloud.tobytes(), np.uint8)
    strings = {"header.frame_id": frame} | {f"fields.{k}.name": name for k, name in enumerate(names)}
    lengths = {"fields": len(names), "data": len(data)}
    made, table = begin_messages(topic, "sensor_msgs/PointCloud2", np.array([time]), strings, lengths)
    assert POINT.fields is not None
    for k, name in enumerate(names):
        dtype, offset = POINT.fields[name][:2]
        table[f"fields.{k}.offset"], table[f"fields.{k}.count"] = offset, 1
        table[f"fields.{k}.datatype"] = FLOAT32 if dtype.kind == "f" else UINT16
    table["height"], table["width"] = 1, len(cloud)
    table["point_step"], table["row_step"] = POINT.itemsize, len(data)
    table["is_dense"] = 1
    if len(data):
        table["data"] = data
    return made
