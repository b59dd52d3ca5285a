"""Runs a camera that takes photos on command, with its gimbal and its MAVLink components.

A photo is taken with the pose at the time of its trigger, which may lie a little in the past when the command
arrives, and is written at its latency in simulated time, as the samples of other sensors are.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.rotations import matrix_from_euler, matrix_from_quaternion, quaternion_from_matrix
from sitl_bridge.core.sensors.perception.gimbal import Gimbal, heading_of
from sitl_bridge.core.sensors.perception.payload_camera import PayloadCameraSpecification
from sitl_bridge.core.sensors.perception.view import (
    Arrays,
    Poses,
    View,
    attitudes_between,
)
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.link.mavlink.message import MavlinkMessage
from sitl_bridge.perception.camera_component import CameraComponent, TakenPhoto
from sitl_bridge.perception.gimbal_component import COMPONENTS, GimbalComponent
from sitl_bridge.perception.mavlink_component import ComponentLink
from sitl_bridge.perception.photo_folder import CameraPose, PhotoFolder, jpeg
from sitl_bridge.perception.pose_estimate import EstimatedPose, PoseEstimate
from sitl_bridge.perception.recording import recording_of, report_of
from sitl_bridge.perception.sensor_runner import SeenSample, SensorRunner
from sitl_bridge.perception.video_stream import VideoStream

PERIOD = 20_000
"""us of simulated time between two looks at what has arrived."""
STEEP = math.sin(math.radians(75.0))
"""Of the optical axis, beyond which the top of the picture gives the direction."""
MEMORY = 2.0
"""s for which poses are kept: a trigger that is older gets the oldest pose."""


@dataclass
class _Exposure:
    """A photo under way."""

    due: int  # us at which it is written
    view: View  # what it shows
    pose: CameraPose  # of the camera
    estimated: EstimatedPose | None
    attitude: tuple[float, float, float, float]
    future: Future[tuple[Arrays, bytes]]  # the image and its JPEG file


class PayloadRunner(SensorRunner):
    """Runs a payload camera.

    Args:
        simulation: the vehicles and their world.
        folder: takes the photos; None keeps none.
        video: takes the pictures that are made at the camera's rate; None for none.
        errors: takes photos that cannot be written.
        others: as of ``SensorRunner``.

    Attributes:
        camera: its protocol.
        gimbal: that of the gimbal; None for a fixed camera.
    """

    has_components = True

    def __init__(
        self,
        specification: PayloadCameraSpecification,
        simulation: Simulation,
        *,
        folder: PhotoFolder | None = None,
        errors: ErrorLog | None = None,
        video: VideoStream | None = None,
        **others: Any,
    ) -> None:
        self._camera_specification = specification
        mounted = specification.gimbal
        self._gimbal = None if mounted is None else Gimbal(mounted)
        self._attitudes: deque[tuple[int, Floats]] = deque(maxlen=round(MEMORY * 1e6 / PERIOD) + 2)
        self._link: ComponentLink | None = None
        self._folder = folder
        self._video = video
        self._watched = 0
        """us of the last picture of the video."""
        self._errors = errors
        self._photos: deque[_Exposure] = deque()
        self._tick = simulation.time
        self._system = 1
        self._connect(1)
        simulation.remember_poses(others.get("vehicle", 0), MEMORY)
        super().__init__(specification.released, simulation, **others)
        if not specification.continuous:
            self._next = 1 << 62

    def _connect(self, system: int) -> None:
        """Make the components of a vehicle."""
        specification = self._camera_specification
        self._system = system
        self._estimate = PoseEstimate(system)
        self.gimbal: GimbalComponent | None = None
        if self._gimbal is not None:
            self.gimbal = GimbalComponent(system, specification.instance, self._gimbal, self._estimate)
        carrier = COMPONENTS[specification.instance] if self._gimbal is not None else 0
        self.camera = CameraComponent(system, specification, carrier)

    def connect(self, link: ComponentLink) -> None:
        """Speak MAVLink over a link from now on."""
        self._link = link
        self._connect(link.system_id)

    # ---------------------------------------------------------------- the camera's pose

    def _poses(self) -> Poses:
        """Poses of the camera's axes where a gimbal carries it, else of the vehicle."""
        poses = super()._poses()
        if self._gimbal is None:
            return poses
        pivot = np.array(self._camera_specification.position)
        arm = np.array(self._gimbal.specification.arm)
        if self._attitudes:
            known = np.array([time for time, _ in self._attitudes])
            attitudes = np.array([q for _, q in self._attitudes])
            q = attitudes_between(known, attitudes, poses.time.astype(float))
        else:
            q = np.array(
                [quaternion_from_matrix(self._gimbal.pose(r)) for r in matrix_from_quaternion(poses.attitude)]
            )
        position = (
            poses.position + matrix_from_quaternion(poses.attitude) @ pivot + matrix_from_quaternion(q) @ arm
        )
        return Poses(poses.time, position, q)

    def _turn(self, state: Records, time: int) -> None:
        """Move the gimbal on to ``time``."""
        if self._gimbal is None or self.gimbal is None:
            return
        body = matrix_from_quaternion(state["attitude"])
        seconds = (time - self._attitudes[-1][0]) * 1e-6 if self._attitudes else 0.0
        self.gimbal.advance(time, seconds, body)
        self._attitudes.append((time, quaternion_from_matrix(self._gimbal.pose(body))))

    # ---------------------------------------------------------------- each step

    @property
    def due(self) -> int:
        """us at which ``run`` is to be called next."""
        times = [super().due, self._tick]
        if self._photos:
            times.append(self._photos[0].due)
        if self.camera.due is not None:
            times.append(self.camera.due)
        return min(times)

    def run(self, state: Records, time: int) -> Sequence[MavlinkMessage]:
        """Take and deliver what is due, and exchange messages; see ``SensorRunner``."""
        if self._tick <= time:
            self._tick = time + PERIOD
            self._receive(time)
            self._turn(state, time)
        messages = super().run(state, time)
        self._show()
        self.camera.update(time)
        for shot in self.camera.requested:
            self._expose(shot, time)
        self.camera.requested.clear()
        while self._photos and self._photos[0].due <= time:
            self._deliver_photo(self._photos.popleft(), time)
        self._send()
        return messages

    def _show(self) -> None:
        """Give the video the picture that has just been delivered."""
        if self._video is not None and self.latest is not None and self.latest.time > self._watched:
            self._watched = self.latest.time
            self._video.put(self._watched, self.latest.arrays["image"])

    def _receive(self, time: int) -> None:
        if self._link is None:
            return
        for message in self._link.receive():
            self._estimate.handle(message)
            self.camera.handle(message, time)
            if self.gimbal is not None:
                self.gimbal.handle(message, time)

    def _send(self) -> None:
        for component in (self.camera, self.gimbal):
            if component is not None and component.outbox:
                if self._link is not None:
                    self._link.send(component.component, list(component.outbox))
                component.outbox.clear()

    # ---------------------------------------------------------------- photos

    def _expose(self, shot: int, now: int) -> None:
        """Begin a photo with the pose at ``shot`` (us)."""
        view = self._view(shot)
        position, turn = self.specification.pose(view)
        world = self._simulation.world
        pose = CameraPose(position, turn, world.geodetic(position))
        estimated = self._estimate.at(shot)
        attitude = self._estimated_attitude(estimated, view)
        heading = math.degrees(_image_heading(turn)) % 360.0

        def work() -> tuple[Arrays, bytes]:
            arrays = self.specification.measure(view)
            camera = self._camera_specification
            content = b""
            if self._folder is not None:
                content = jpeg(arrays["image"], camera.quality, estimated, heading, camera.name)
            return arrays, content

        future = self._executor.submit(work)
        self._photos.append(_Exposure(now + self._latency, view, pose, estimated, attitude, future))

    def _estimated_attitude(
        self, estimated: EstimatedPose | None, view: View
    ) -> tuple[float, float, float, float]:
        """Of the camera: by the flight stack's attitude, or by the gimbal's with the stack's heading."""
        if estimated is None:
            return (1.0, 0.0, 0.0, 0.0)
        body = matrix_from_quaternion(estimated.attitude)
        if self._gimbal is None:
            turn = body @ self._camera_specification.mounting()
        else:
            vehicle = super()._poses().at(np.array([float(view.time)]))[1][0]
            turn = (
                matrix_from_euler(0.0, 0.0, heading_of(body) - heading_of(vehicle))
                @ self.specification.pose(view)[1]
            )
        w, x, y, z = quaternion_from_matrix(turn).tolist()
        return w, x, y, z

    def _deliver_photo(self, photo: _Exposure, now: int) -> None:
        arrays, content = photo.future.result()
        self._deliver(SeenSample(photo.view.time, arrays))
        file = ""
        if self._folder is not None:
            try:
                file = self._folder.add(photo.view.time, content, photo.pose, photo.estimated, photo.attitude)
            except (OSError, UserError) as error:
                if self._errors is None:
                    raise
                self._errors.add(f"writing of photos of {self.name}", error)
        place, height = (
            (None, 0.0) if photo.estimated is None else (photo.estimated.place, photo.estimated.height)
        )
        taken = TakenPhoto(photo.view.time, place, height, photo.attitude, file)
        self.camera.taken(taken, len(content), now)

    def close(self) -> None:
        """Write the photos that are under way, and end."""
        while self._photos:
            self._deliver_photo(self._photos.popleft(), self._simulation.time)
        super().close()
        if self._video is not None:
            self._video.close()
        if self._folder is not None:
            self._folder.close()


def _image_heading(turn: Floats) -> float:
    """rad from north of the optical axis, or of the picture's top where the camera looks up or down."""
    steep = abs(float(turn[2, 0])) > STEEP
    return heading_of(-math.copysign(1.0, turn[2, 0]) * turn[:, 2:] if steep else turn)


def make_payload_runner(
    specification: PayloadCameraSpecification,
    simulation: Simulation,
    *,
    directory: Path | None,
    title: str,
    errors: ErrorLog | None,
    **others: Any,
) -> PayloadRunner:
    """The runner of a payload camera in a run; arguments as of ``runner_for`` in sensor_hosts.py."""
    specification = _with_own_port(specification, others.get("vehicle", 0))
    return PayloadRunner(
        specification,
        simulation,
        video=_video_of(specification, directory, title, errors),
        folder=None if directory is None else PhotoFolder(directory / "photos" / title),
        errors=errors,
        recording=recording_of(specification.released, directory, title, errors),
        **others,
    )


def _with_own_port(camera: PayloadCameraSpecification, vehicle: int) -> PayloadCameraSpecification:
    """The camera with a video port for each vehicle: two further for each after the first."""
    if camera.video is None or not vehicle:
        return camera
    video = camera.video.model_copy(update={"port": camera.video.port + 2 * vehicle})
    return camera.model_copy(update={"video": video})


def _video_of(
    camera: PayloadCameraSpecification, directory: Path | None, title: str, errors: ErrorLog | None
) -> VideoStream | None:
    """The video of a camera in a run, or None; the arguments are those of ``make_payload_runner``."""
    if camera.video is None or directory is None:
        return None
    size, description = (camera.width, camera.height), directory / "video" / f"{title}.sdp"
    report = report_of(errors, f"video of {title}")
    return VideoStream(camera.video, size, camera.rate, description=description, name=title, report=report)
