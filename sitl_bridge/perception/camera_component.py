"""A camera as a MAVLink component (camera protocol v2): its messages, commands, and when it takes photos.

The flight stack triggers it by CAMERA_TRIGGER, at the time in that message.  PX4 sends IMAGE_START_CAPTURE
and DO_DIGICAM_CONTROL along with every CAMERA_TRIGGER (mavlink/streams/CAMERA_TRIGGER.hpp), which are only
acknowledged.  Commands of triggering that the flight stack executes itself are acknowledged, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sitl_bridge.core.sensors.perception.payload_camera import PayloadCameraSpecification
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.message import MavlinkMessage
from sitl_bridge.perception.mavlink_component import (
    ACCEPTED,
    DENIED,
    Handler,
    MavlinkComponent,
    Parameters,
    from_autopilot,
    name_bytes,
    whole,
)

PITCH_OF_PIXELS = 3e-3
"""mm, size of a pixel, which sets the sensor's size in CAMERA_INFORMATION (chosen)."""
STORAGE = 64_000.0
"""MiB (chosen)."""
TRIGGERED_BY_STACK = (
    mavlink.MAV_CMD_DO_SET_CAM_TRIGG_DIST,
    mavlink.MAV_CMD_DO_SET_CAM_TRIGG_INTERVAL,
    mavlink.MAV_CMD_DO_TRIGGER_CONTROL,
)
PHOTO_MODES = (mavlink.CAMERA_MODE_IMAGE, mavlink.CAMERA_MODE_VIDEO, mavlink.CAMERA_MODE_IMAGE_SURVEY)
OLD_REQUESTS = {
    mavlink.MAV_CMD_REQUEST_CAMERA_INFORMATION: mavlink.MAVLINK_MSG_ID_CAMERA_INFORMATION,
    mavlink.MAV_CMD_REQUEST_CAMERA_SETTINGS: mavlink.MAVLINK_MSG_ID_CAMERA_SETTINGS,
    mavlink.MAV_CMD_REQUEST_STORAGE_INFORMATION: mavlink.MAVLINK_MSG_ID_STORAGE_INFORMATION,
    mavlink.MAV_CMD_REQUEST_CAMERA_CAPTURE_STATUS: mavlink.MAVLINK_MSG_ID_CAMERA_CAPTURE_STATUS,
    mavlink.MAV_CMD_REQUEST_VIDEO_STREAM_INFORMATION: mavlink.MAVLINK_MSG_ID_VIDEO_STREAM_INFORMATION,
    mavlink.MAV_CMD_REQUEST_VIDEO_STREAM_STATUS: mavlink.MAVLINK_MSG_ID_VIDEO_STREAM_STATUS,
}
"""Commands that precede REQUEST_MESSAGE."""


@dataclass(frozen=True)
class TakenPhoto:
    """Report of a photo in CAMERA_IMAGE_CAPTURED."""

    time: int  # us of simulated time
    # deg, deg, m above mean sea level, estimated; None where no estimate came
    place: tuple[float, float, float] | None
    height: float  # m above home, estimated
    attitude: tuple[float, float, float, float]  # w, x, y, z of the camera, estimated
    file: str  # name of the file; empty where it could not be written


class CameraComponent(MavlinkComponent):
    """The protocol of one camera.

    Args:
        system: MAVLink id of the vehicle.
        gimbal: component id of the gimbal that carries it; 0 for none.

    Attributes:
        requested: us at which photos are to be taken, to be emptied by the owner.
    """

    def __init__(self, system: int, specification: PayloadCameraSpecification, gimbal: int = 0) -> None:
        component = mavlink.MAV_COMP_ID_CAMERA + specification.instance
        super().__init__(system, component, mavlink.MAV_TYPE_CAMERA)
        self.requested: list[int] = []
        self._camera = specification
        self._gimbal = gimbal
        self._mode: int = mavlink.CAMERA_MODE_IMAGE
        self._photos: list[TakenPhoto] = []
        self._interval = 0.0
        self._left = 0
        self._next = 0
        self._last = -(1 << 62)
        """us of the last photo."""
        self._used = 0.0
        self.handlers |= {
            mavlink.MAV_CMD_SET_CAMERA_MODE: self._set_mode,
            mavlink.MAV_CMD_RESET_CAMERA_SETTINGS: self._reset,
            mavlink.MAV_CMD_IMAGE_START_CAPTURE: self._start,
            mavlink.MAV_CMD_IMAGE_STOP_CAPTURE: self._stop,
            mavlink.MAV_CMD_DO_DIGICAM_CONTROL: self._shoot,
        }
        self.handlers |= dict.fromkeys(TRIGGERED_BY_STACK, lambda *_: ACCEPTED)
        self.handlers |= {old: self._old_request(number) for old, number in OLD_REQUESTS.items()}
        self.replies |= {
            mavlink.MAVLINK_MSG_ID_CAMERA_INFORMATION: lambda _p, now: self._information(now),
            mavlink.MAVLINK_MSG_ID_CAMERA_SETTINGS: lambda _p, now: self._settings(now),
            mavlink.MAVLINK_MSG_ID_STORAGE_INFORMATION: lambda _p, now: self._storage(now),
            mavlink.MAVLINK_MSG_ID_CAMERA_CAPTURE_STATUS: lambda _p, now: self._status(now),
            mavlink.MAVLINK_MSG_ID_VIDEO_STREAM_INFORMATION: lambda _p, _now: self._video(),
            mavlink.MAVLINK_MSG_ID_VIDEO_STREAM_STATUS: lambda _p, _now: self._video_status(),
            mavlink.MAVLINK_MSG_ID_CAMERA_IMAGE_CAPTURED: lambda p, _now: self._photo(p[1]),
        }

    # ---------------------------------------------------------------- time

    def update(self, now: int) -> None:
        """Send what is due, and request the photos of a series."""
        super().update(now)
        while self._left and now >= self._next:
            self._take(self._next)
            self._left = self._left - 1 if self._left > 0 else -1
            self._next += round(self._interval * 1e6)
            if not self._left:
                self.outbox.append(self._status(now))

    @property
    def due(self) -> int | None:
        """us at which the next photo of a series is taken."""
        return self._next if self._left else None

    def handle(self, message: MavlinkMessage, now: int) -> None:
        """Process a message; a trigger takes a photo at the time that it gives."""
        if message.get_type() == "CAMERA_TRIGGER":
            if from_autopilot(message) and message.get_srcSystem() == self.system:
                self._take(min(message.time_usec, now))
            return
        super().handle(message, now)

    def _take(self, time: int) -> bool:
        """Request a photo; not within ``interval`` of the last."""
        if time - self._last < round(self._camera.interval * 1e6):
            return False
        self._last = time
        self.requested.append(time)
        return True

    def taken(self, photo: TakenPhoto, size: int, now: int) -> None:
        """Report a photo of some bytes."""
        self._photos.append(photo)
        self._used += size / 2**20
        self.outbox.append(self._captured(len(self._photos) - 1))
        if self._left:
            self.outbox.append(self._status(now))

    # ---------------------------------------------------------------- commands

    def _set_mode(self, parameters: Parameters, _message: MavlinkMessage, now: int) -> int:
        if whole(parameters[1]) not in PHOTO_MODES:
            return DENIED
        self._mode = whole(parameters[1])
        self.outbox.append(self._settings(now))
        return ACCEPTED

    def _reset(self, _parameters: Parameters, _message: MavlinkMessage, now: int) -> int:
        self._mode = mavlink.CAMERA_MODE_IMAGE
        self.outbox.append(self._settings(now))
        return ACCEPTED

    def _start(self, parameters: Parameters, message: MavlinkMessage, now: int) -> int:
        count = whole(parameters[2])
        if count == 1:
            if from_autopilot(message):
                return ACCEPTED  # comes with CAMERA_TRIGGER
            return ACCEPTED if self._take(now) else int(mavlink.MAV_RESULT_TEMPORARILY_REJECTED)
        interval = parameters[1]
        if count < 0 or not math.isfinite(interval) or interval < 0.0:
            return DENIED
        self._interval = max(interval, self._camera.interval)
        self._left = count or -1
        self._next = now
        return ACCEPTED

    def _stop(self, _parameters: Parameters, _message: MavlinkMessage, now: int) -> int:
        self._left = 0
        self.outbox.append(self._status(now))
        return ACCEPTED

    def _shoot(self, parameters: Parameters, message: MavlinkMessage, now: int) -> int:
        if not from_autopilot(message) and whole(parameters[4]) == 1 and not self._take(now):
            return int(mavlink.MAV_RESULT_TEMPORARILY_REJECTED)
        return ACCEPTED

    def _old_request(self, number: int) -> Handler:
        def request(_parameters: Parameters, message: MavlinkMessage, now: int) -> int:
            return self._request((float(number),) + (0.0,) * 6, message, now)

        return request

    # ---------------------------------------------------------------- messages

    def _information(self, now: int) -> MavlinkMessage:
        camera = self._camera
        focal, _, _, _ = camera.intrinsics
        flags = (
            mavlink.CAMERA_CAP_FLAGS_CAPTURE_IMAGE
            | mavlink.CAMERA_CAP_FLAGS_HAS_MODES
            | mavlink.CAMERA_CAP_FLAGS_HAS_IMAGE_SURVEY_MODE
        )
        if camera.video is not None:
            flags |= mavlink.CAMERA_CAP_FLAGS_HAS_VIDEO_STREAM
        return mavlink.MAVLink_camera_information_message(
            now // 1000,
            name_bytes("sitl-bridge", 32),
            name_bytes(camera.name, 32),
            1,
            focal * PITCH_OF_PIXELS,
            camera.width * PITCH_OF_PIXELS,
            camera.height * PITCH_OF_PIXELS,
            camera.width,
            camera.height,
            0,
            flags,
            0,
            b"",
            self._gimbal,
        )

    def _settings(self, now: int) -> MavlinkMessage:
        return mavlink.MAVLink_camera_settings_message(now // 1000, self._mode, math.nan, math.nan)

    def _storage(self, now: int) -> MavlinkMessage:
        return mavlink.MAVLink_storage_information_message(
            now // 1000,
            1,
            1,
            mavlink.STORAGE_STATUS_READY,
            STORAGE,
            self._used,
            STORAGE - self._used,
            math.nan,
            math.nan,
            mavlink.STORAGE_TYPE_OTHER,
            b"run directory",
        )

    def _status(self, now: int) -> MavlinkMessage:
        # 0 idle, 1 capturing, 2 waiting between two, 3 both (MAVLink: CAMERA_CAPTURE_STATUS.image_status)
        return mavlink.MAVLink_camera_capture_status_message(
            now // 1000, 2 if self._left else 0, 0, self._interval, 0, STORAGE - self._used, len(self._photos)
        )

    def _video(self) -> MavlinkMessage | None:
        camera = self._camera
        if camera.video is None:
            return None
        return mavlink.MAVLink_video_stream_information_message(
            1,
            1,
            mavlink.VIDEO_STREAM_TYPE_RTPUDP,
            *self._video_figures(),
            camera.name.encode("ascii"),
            str(camera.video.port).encode("ascii"),
            mavlink.VIDEO_STREAM_ENCODING_H264,
        )

    def _video_status(self) -> MavlinkMessage | None:
        if self._camera.video is None:
            return None
        return mavlink.MAVLink_video_stream_status_message(1, *self._video_figures())

    def _video_figures(self) -> tuple[int, float, int, int, int, int, int]:
        """Flags, rate, size, bit rate, rotation and horizontal field of view."""
        camera = self._camera
        bits = 0 if camera.video is None else round(camera.video.bitrate * 1e6)
        focal, _, _, _ = camera.intrinsics
        view = round(2.0 * math.degrees(math.atan(0.5 * camera.width / focal)))
        running = int(mavlink.VIDEO_STREAM_STATUS_FLAGS_RUNNING)
        return running, camera.rate, camera.width, camera.height, bits, 0, view

    def _photo(self, index: float) -> MavlinkMessage | None:
        known = math.isfinite(index) and 0 <= int(index) < len(self._photos)
        return self._captured(int(index)) if known else None

    def _captured(self, index: int) -> MavlinkMessage:
        photo = self._photos[index]
        latitude, longitude, altitude = photo.place or (0.0, 0.0, 0.0)
        return mavlink.MAVLink_camera_image_captured_message(
            photo.time // 1000,
            0,
            self._camera.instance + 1,
            round(latitude * 1e7),
            round(longitude * 1e7),
            round(altitude * 1e3),
            round(photo.height * 1e3),
            photo.attitude,
            index,
            1 if photo.file else 0,
            photo.file.encode("ascii")[:205],
        )
