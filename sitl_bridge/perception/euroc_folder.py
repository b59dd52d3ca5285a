"""Recordings of cameras, stereo pairs and VI-sensors in the layout of the EuRoC MAV data sets.

Burri et al., "The EuRoC micro aerial vehicle datasets", IJRR 35(10), 2016.  The body frame is the vehicle's
(forward, right, down, about the centre of gravity), and the world's is NED.  A camera's frame is x right, y
down, z ahead.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.output_file import write_whole
from sitl_bridge.core.sensors.perception.camera import ImagingSpecification
from sitl_bridge.core.sensors.perception.lens import Fisheye
from sitl_bridge.core.sensors.perception.stereo_camera import PairSpecification, VisualInertialSpecification
from sitl_bridge.core.sensors.perception.view import Arrays, Poses
from sitl_bridge.perception.sample_files import OPTICAL, PoseTable, SampleTable, write_png

TRUTH = (
    "#timestamp [ns], p_RS_R_x [m], p_RS_R_y [m], p_RS_R_z [m], q_RS_w [], q_RS_x [], q_RS_y [], q_RS_z [],"
    " v_RS_R_x [m s^-1], v_RS_R_y [m s^-1], v_RS_R_z [m s^-1], b_w_RS_S_x [rad s^-1], b_w_RS_S_y [rad s^-1],"
    " b_w_RS_S_z [rad s^-1], b_a_RS_S_x [m s^-2], b_a_RS_S_y [m s^-2], b_a_RS_S_z [m s^-2]"
)
IMU = (
    "#timestamp [ns],w_RS_S_x [rad s^-1],w_RS_S_y [rad s^-1],w_RS_S_z [rad s^-1],"
    "a_RS_S_x [m s^-2],a_RS_S_y [m s^-2],a_RS_S_z [m s^-2]"
)


def _extrinsics(rotation: NDArray[np.float64], place: NDArray[np.float64]) -> str:
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
        self._last: tuple[int, NDArray[np.float64]] | None = None
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
        """Add a sample; see ``Folder``."""
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
