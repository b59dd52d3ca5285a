"""Files of recorded samples: tables, PNG images, trajectories, and a directory with an NPZ file a sample."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.output_file import append_whole, write_whole
from sitl_bridge.base.rotations import quaternion_from_matrix
from sitl_bridge.core.sensors.perception.camera import ImagingSpecification
from sitl_bridge.core.sensors.perception.depth_camera import DepthCameraSpecification
from sitl_bridge.core.sensors.perception.lens import Fisheye
from sitl_bridge.core.sensors.perception.lidar import LidarSpecification
from sitl_bridge.core.sensors.perception.stereo_camera import PairSpecification, VisualInertialSpecification
from sitl_bridge.core.sensors.perception.view import Arrays, PerceptionSpecification, Poses

OPTICAL = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
"""Axes of a camera's image (x right, y down, z ahead) to the sensor's (x ahead, y right, z down)."""


class SampleTable:
    """A text table that is whole after every block of lines.

    Args:
        path: new file.
        header: its first line.
    """

    def __init__(self, path: Path, header: str) -> None:
        self._file = path.open("xb", buffering=0)
        self.add([header])

    def add(self, lines: list[str]) -> None:
        """Append lines.

        Raises:
            OSError: when they cannot be written; nothing of them is.
        """
        append_whole(self._file, "".join(line + "\n" for line in lines).encode())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def write_png(path: Path, image: NDArray[np.generic]) -> None:
    """Write an image, (h, w) of 8 or 16 bit or (h, w, 3) of 8 bit, as a PNG file.

    Raises:
        UserError: when it cannot be written.
    """
    from PIL import Image  # only recordings of pictures need it

    picture = io.BytesIO()
    Image.fromarray(image).save(picture, "PNG", compress_level=1)
    write_whole(path, picture.getvalue())


def seconds(time: int) -> str:
    """us as s."""
    return f"{time // 1_000_000}.{time % 1_000_000:06d}"


class PoseTable:
    """The true way of a sensor in TUM's layout: s, position in m NED, quaternion x y z w of its axes to NED.

    Args:
        path: new file.
        sensor: of which it is the way.
        axes: (3, 3) of the frame to the sensor's axes.
    """

    def __init__(self, path: Path, sensor: PerceptionSpecification, axes: Floats) -> None:
        self._table = SampleTable(path, "# timestamp tx ty tz qx qy qz qw")
        self._position = np.array(sensor.position, float)
        self._turn = sensor.mounting() @ axes

    def add(self, poses: Poses) -> None:
        """Append the poses of the vehicle.

        Raises:
            OSError: when they cannot be written.
        """
        position, rotation = poses.at(poses.time.astype(float))
        lines = []
        for time, p, r in zip(poses.time.tolist(), position, rotation, strict=True):
            place = p + r @ self._position
            w, x, y, z = quaternion_from_matrix(r @ self._turn)
            numbers = " ".join(f"{value:.9g}" for value in (*place, x, y, z, w))
            lines.append(f"{seconds(time)} {numbers}")
        self._table.add(lines)

    def close(self) -> None:
        """Close the file."""
        self._table.close()


class SampleFolder(ABC):
    """A file a sample, named by its time in ns, and ``groundtruth.txt`` of the sensor.

    Args:
        sensor: whose samples they are.
        path: new directory.
    """

    def __init__(self, sensor: PerceptionSpecification, path: Path) -> None:
        path.mkdir(parents=True)
        self._path = path
        self._truth = PoseTable(path / "groundtruth.txt", sensor, np.eye(3))

    @abstractmethod
    def file_of(self, arrays: Arrays) -> tuple[str, bytes]:
        """Ending and content of the file of a sample."""

    def write(self, time: int, arrays: Arrays, poses: Poses) -> None:
        """Add a sample.

        Args:
            time: us of simulated time.
            poses: of the vehicle since the last sample, up to this one's.

        Raises:
            UserError: when it cannot be written.
            OSError: likewise.
        """
        ending, content = self.file_of(arrays)
        write_whole(self._path / f"{time * 1000}.{ending}", content)
        self._truth.add(poses)

    def close(self) -> None:
        """Close its tables."""
        self._truth.close()


class ArrayFolder(SampleFolder):
    """An NPZ file a sample."""

    def file_of(self, arrays: Arrays) -> tuple[str, bytes]:
        """The sample's arrays by their names."""
        packed = io.BytesIO()
        np.savez(packed, allow_pickle=False, **arrays)
        return "npz", packed.getvalue()


FACTOR = 5000.0
"""Counts a metre, TUM's; cameras that reach beyond 13 m have 1000."""


class TumFolder:
    """``depth/`` with depth.txt, ``rgb/`` with rgb.txt where there is colour, and groundtruth.txt.

    Args:
        sensor: whose samples they are.
        path: new directory.
    """

    def __init__(self, sensor: DepthCameraSpecification, path: Path) -> None:
        self._path = path
        self._factor = FACTOR if sensor.maximum * FACTOR < 65535.0 else 1000.0
        (path / "depth").mkdir(parents=True)
        self._depth = SampleTable(
            path / "depth.txt", f"# timestamp filename, {self._factor:g} counts a metre"
        )
        self._color: SampleTable | None = None
        self._way = PoseTable(path / "groundtruth.txt", sensor, OPTICAL)

    def write(self, time: int, arrays: Arrays, poses: Poses) -> None:
        """Add a sample; see ``SampleFolder``."""
        stamp = seconds(time)
        counts = np.nan_to_num(arrays["depth"].astype(np.float32), nan=0.0) * self._factor
        image = np.minimum(counts + 0.5, 65535.0).astype(np.uint16)
        write_png(self._path / "depth" / f"{stamp}.png", image)
        self._depth.add([f"{stamp} depth/{stamp}.png"])
        if "color" in arrays:
            if self._color is None:
                (self._path / "rgb").mkdir()
                self._color = SampleTable(self._path / "rgb.txt", "# timestamp filename")
            write_png(self._path / "rgb" / f"{stamp}.png", arrays["color"])
            self._color.add([f"{stamp} rgb/{stamp}.png"])
        self._way.add(poses)

    def close(self) -> None:
        """Close its tables."""
        self._depth.close()
        if self._color is not None:
            self._color.close()
        self._way.close()


TRUTH = (
    "#timestamp [ns], p_RS_R_x [m], p_RS_R_y [m], p_RS_R_z [m], q_RS_w [], q_RS_x [], q_RS_y [], q_RS_z [],"
    " v_RS_R_x [m s^-1], v_RS_R_y [m s^-1], v_RS_R_z [m s^-1], b_w_RS_S_x [rad s^-1], b_w_RS_S_y [rad s^-1],"
    " b_w_RS_S_z [rad s^-1], b_a_RS_S_x [m s^-2], b_a_RS_S_y [m s^-2], b_a_RS_S_z [m s^-2]"
)
IMU = (
    "#timestamp [ns],w_RS_S_x [rad s^-1],w_RS_S_y [rad s^-1],w_RS_S_z [rad s^-1],"
    "a_RS_S_x [m s^-2],a_RS_S_y [m s^-2],a_RS_S_z [m s^-2]"
)


def _extrinsics(rotation: Floats, place: Floats) -> str:
    """T_BS: sensor to body."""
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = rotation, place
    numbers = ", ".join(f"{value:.12g}" for value in matrix.ravel() + 0.0)
    return f"T_BS:\n  cols: 4\n  rows: 4\n  data: [{numbers}]\n"


def camera_sheet(sensor: ImagingSpecification, shift: tuple[float, float, float]) -> str:
    """Content of a camera's sensor.yaml."""
    mounting = sensor.mounting()
    place = np.array(sensor.position) + mounting @ np.array(shift)
    lens = sensor.lens
    if isinstance(lens, Fisheye):
        model, figures = "equidistant", [lens.k1, lens.k2, lens.k3, lens.k4]
    else:
        model, figures = "radial-tangential", [lens.k1, lens.k2, lens.p1, lens.p2]
        if lens.k3 != 0.0:
            figures.append(lens.k3)
    intrinsics = ", ".join(f"{value:.12g}" for value in sensor.intrinsics)
    return (
        "sensor_type: camera\n"
        f"comment: {sensor.name}, simulated; body forward-right-down, world north-east-down\n"
        f"{_extrinsics(mounting @ OPTICAL, place)}"
        f"rate_hz: {sensor.rate:g}\n"
        f"resolution: [{sensor.width}, {sensor.height}]\n"
        "camera_model: pinhole\n"
        f"intrinsics: [{intrinsics}]\n"
        f"distortion_model: {model}\n"
        f"distortion_coefficients: [{', '.join(f'{value:.12g}' for value in figures)}]\n"
    )


def imu_sheet(sensor: VisualInertialSpecification) -> str:
    """Content of the IMU's sensor.yaml."""
    mounting = sensor.mounting()
    place = np.array(sensor.position) + mounting @ np.array(sensor.imu_position)
    return (
        "sensor_type: imu\n"
        f"comment: {sensor.name}, simulated; body forward-right-down, world north-east-down\n"
        f"{_extrinsics(mounting, place)}"
        f"rate_hz: {sensor.imu_rate:g}\n"
        f"gyroscope_noise_density: {sensor.gyroscope_noise:g}\n"
        f"gyroscope_random_walk: {sensor.gyroscope_walk:g}\n"
        f"accelerometer_noise_density: {sensor.accelerometer_noise:g}\n"
        f"accelerometer_random_walk: {sensor.accelerometer_walk:g}\n"
    )


class EurocFolder:
    """``mav0`` with cam0 (and cam1, imu0), state_groundtruth_estimate0, and ``groundtruth.txt`` of cam0.

    Args:
        sensor: whose samples they are.
        path: new directory.
    """

    def __init__(self, sensor: ImagingSpecification, path: Path) -> None:
        self._cameras: list[tuple[str, Path, SampleTable]] = []
        self._imu: SampleTable | None = None
        self._last: tuple[int, Floats] | None = None
        base = path / "mav0"
        pairs = isinstance(sensor, PairSpecification)
        shifts = sensor.shifts if isinstance(sensor, PairSpecification) else ((0.0, 0.0, 0.0),)
        for k, shift in enumerate(shifts):
            folder = base / f"cam{k}"
            (folder / "data").mkdir(parents=True)
            write_whole(folder / "sensor.yaml", camera_sheet(sensor, shift))
            table = SampleTable(folder / "data.csv", "#timestamp [ns],filename")
            self._cameras.append((("left", "right")[k] if pairs else "image", folder / "data", table))
        if isinstance(sensor, VisualInertialSpecification):
            (base / "imu0").mkdir()
            write_whole(base / "imu0" / "sensor.yaml", imu_sheet(sensor))
            self._imu = SampleTable(base / "imu0" / "data.csv", IMU)
        truth = base / "state_groundtruth_estimate0"
        truth.mkdir()
        self._truth = SampleTable(truth / "data.csv", TRUTH)
        first = sensor.model_copy(
            update={"position": tuple(np.array(sensor.position) + sensor.mounting() @ np.array(shifts[0]))}
        )
        self._way = PoseTable(path / "groundtruth.txt", first, OPTICAL)

    def write(self, time: int, arrays: Arrays, poses: Poses) -> None:
        """Add a sample; see ``SampleFolder``."""
        stamp = time * 1000
        for name, folder, table in self._cameras:
            write_png(folder / f"{stamp}.png", arrays[name])
            table.add([f"{stamp},{stamp}.png"])
        if self._imu is not None:
            self._imu.add(self._imu_lines(stamp, arrays))
        self._truth.add(self._truth_lines(poses))
        self._way.add(poses)

    @staticmethod
    def _imu_lines(stamp: int, arrays: Arrays) -> list[str]:
        ages = np.rint(arrays["imu_time"].astype(float) * 1e9).astype(int)
        rows = np.concatenate([arrays["angular_velocity"], arrays["specific_force"]], axis=1)
        return [
            ",".join([str(stamp + age), *(f"{value:.9g}" for value in row)])
            for age, row in zip(ages.tolist(), rows.tolist(), strict=True)
        ]

    def _truth_lines(self, poses: Poses) -> list[str]:
        """One line a pose; the velocity is the mean since the pose before."""
        lines = []
        for time, place, q in zip(poses.time.tolist(), poses.position, poses.attitude, strict=True):
            velocity = np.zeros(3)
            if self._last is not None and time > self._last[0]:
                velocity = (place - self._last[1]) / ((time - self._last[0]) * 1e-6)
            self._last = time, place
            numbers = ",".join(f"{value:.9g}" for value in (*place, *q, *velocity, *np.zeros(6)))
            lines.append(f"{time * 1000},{numbers}")
        return lines

    def close(self) -> None:
        """Close its tables."""
        for _, _, table in self._cameras:
            table.close()
        if self._imu is not None:
            self._imu.close()
        self._truth.close()
        self._way.close()


POINT = np.dtype(
    [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("intensity", "<f4"), ("ring", "<u2"), ("time", "<f4")]
)
"""A point in the sensor's axes: m, 0 to 1, number, and s from the end of the turn."""


def points_of(arrays: Arrays) -> Records:
    """(n,) POINT of the beams that returned."""
    places = arrays["points"]
    hit = np.isfinite(places[:, 0].astype(np.float32))
    cloud = np.zeros(int(hit.sum()), POINT)
    for i, name in enumerate("xyz"):
        cloud[name] = places[hit, i]
    cloud["intensity"], cloud["ring"] = arrays["intensity"][hit], arrays["ring"][hit]
    cloud["time"] = arrays["offset"][hit]
    return cloud


def pcd(cloud: Records) -> bytes:
    """A PCD file, version 0.7, binary."""
    kinds = [("F" if POINT[name].kind == "f" else "U", POINT[name].itemsize) for name in POINT.names or ()]
    header = (
        "# .PCD v0.7 - Point Cloud Data file format\nVERSION 0.7\n"
        f"FIELDS {' '.join(POINT.names or ())}\n"
        f"SIZE {' '.join(str(size) for _, size in kinds)}\n"
        f"TYPE {' '.join(kind for kind, _ in kinds)}\n"
        f"COUNT {' '.join('1' for _ in kinds)}\n"
        f"WIDTH {len(cloud)}\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS {len(cloud)}\nDATA binary\n"
    )
    return header.encode() + cloud.tobytes()


def ply(cloud: Records) -> bytes:
    """A PLY file, version 1.0, binary little-endian."""
    lines = [
        f"property {'float' if POINT[name].kind == 'f' else 'ushort'} {name}\n" for name in POINT.names or ()
    ]
    header = (
        f"ply\nformat binary_little_endian 1.0\nelement vertex {len(cloud)}\n{''.join(lines)}end_header\n"
    )
    return header.encode() + cloud.tobytes()


class CloudFolder(SampleFolder):
    """A PCD or PLY file a turn.

    Args:
        sensor: whose samples they are.
        path: new directory.
    """

    def __init__(self, sensor: LidarSpecification, path: Path) -> None:
        super().__init__(sensor, path)
        self._ending = sensor.cloud_format

    def file_of(self, arrays: Arrays) -> tuple[str, bytes]:
        """The turn in the sensor's ``cloud_format``."""
        cloud = points_of(arrays)
        return self._ending, pcd(cloud) if self._ending == "pcd" else ply(cloud)
