"""A camera that takes photos on command, as a MAVLink component of the vehicle, on a gimbal or fixed."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import BaseModel, Field, field_validator, model_validator

from sitl_bridge.base.quantities import STRICT
from sitl_bridge.core.sensors.perception.camera import Colored, FieldOfView, ImagingSpecification, Side
from sitl_bridge.core.sensors.perception.gimbal import GimbalSpecification
from sitl_bridge.core.sensors.perception.view import Rate

CAMERAS = 6
"""MAVLink has ids for six cameras."""


class VideoSpecification(BaseModel):
    """Video of a camera, H.264 over RTP to a port of this machine."""

    model_config = STRICT

    port: int = Field(
        5600, ge=1024, le=65534, description="UDP, of the first vehicle; two more for each further one"
    )
    bitrate: float = Field(2.0, ge=0.05, le=50.0, description="Mbit/s")

    @field_validator("port")
    @classmethod
    def _port_is_even(cls, port: int) -> int:
        if port % 2:
            raise ValueError(f"RTP has even ports (RFC 3550), not {port}")
        return port


class PayloadCameraSpecification(ImagingSpecification):
    """A camera that takes photos when the flight stack or a ground station commands it.

    Without ``video`` and ``record`` it makes no other pictures.  On a gimbal, ``position`` is the gimbal's
    pivot and ``rotation`` is not given.
    """

    kind: Literal["payload_camera"]
    instance: int = Field(
        0, ge=0, lt=CAMERAS, description="tells several apart; MAVLink component 100 + instance"
    )
    rate: Rate = Field(10.0, description="Hz, pictures a second of video and recording")
    width: Side = 640
    height: Side = 480
    color: Colored = True
    field_of_view: FieldOfView = 70.0
    interval: float = Field(0.2, ge=0.02, le=60.0, description="s, least time between two photos")
    quality: int = Field(92, ge=1, le=100, description="of the photos' JPEG files")
    video: VideoSpecification | None = Field(None, description="sent at the camera's rate; absent: none")
    gimbal: GimbalSpecification | None = Field(None, description="that carries the camera; absent: fixed")

    @model_validator(mode="after")
    def _gimbal_and_video_fit(self) -> PayloadCameraSpecification:
        if self.gimbal is not None and np.any(self.rotation):
            raise ValueError(
                "rotation: a camera on a gimbal is turned by it; set gimbal.neutral_pitch instead"
            )
        if self.video is not None and (self.width % 2 or self.height % 2):
            raise ValueError("video: H.264 needs an even width and height")
        return self

    @property
    def continuous(self) -> bool:
        """Whether it makes pictures at its rate, besides photos."""
        return self.record or self.video is not None

    @property
    def released(self) -> PayloadCameraSpecification:
        """The camera in axes of its own where a gimbal carries it, else itself."""
        if self.gimbal is None:
            return self
        return self.model_copy(update={"position": (0.0, 0.0, 0.0), "rotation": (0.0, 0.0, 0.0)})
