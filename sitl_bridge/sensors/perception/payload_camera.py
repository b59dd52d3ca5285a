"""A camera that takes photos on command, as a MAVLink component of the vehicle, on a gimbal or fixed."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from sitl_bridge.sensors.perception.camera import ImagingSpecification
from sitl_bridge.sensors.perception.gimbal import GimbalSpecification
from sitl_bridge.sensors.perception.view import Arrays, View

CAMERAS = 6
"""MAVLink has ids for six cameras."""


class PayloadCameraSpecification(ImagingSpecification):
    """A camera that takes photos when the flight stack or a ground station commands it.

    Without ``record`` it makes no other pictures.  On a gimbal, ``position`` is the gimbal's pivot and
    ``rotation`` is not given.
    """

    kind: Literal["payload_camera"]
    instance: int = Field(
        0, ge=0, lt=CAMERAS, description="tells several apart; MAVLink component 100 + instance"
    )
    rate: float = Field(10.0, ge=0.01, le=100.0, description="Hz, pictures a second of video and recording")
    width: int = Field(640, ge=2, le=4096, description="pixels")
    height: int = Field(480, ge=2, le=4096, description="pixels")
    color: bool = Field(True, description="red, green and blue; else grey")
    field_of_view: float = Field(
        70.0,
        gt=1.0,
        lt=350.0,
        description="deg, horizontal, before distortion; where no focal_length is given",
    )
    interval: float = Field(0.2, ge=0.02, le=60.0, description="s, least time between two photos")
    quality: int = Field(92, ge=1, le=100, description="of the photos' JPEG files")
    gimbal: GimbalSpecification | None = Field(None, description="that carries the camera; absent: fixed")

    @model_validator(mode="after")
    def _gimbal_has_the_rotation(self) -> PayloadCameraSpecification:
        if self.gimbal is not None and np.any(self.rotation):
            raise ValueError(
                "rotation: a camera on a gimbal is turned by it; set gimbal.neutral_pitch instead"
            )
        return self

    @property
    def continuous(self) -> bool:
        """Whether it makes pictures at its rate, besides photos."""
        return self.record

    @property
    def released(self) -> PayloadCameraSpecification:
        """The camera in axes of its own where a gimbal carries it, else itself."""
        if self.gimbal is None:
            return self
        return self.model_copy(update={"position": (0.0, 0.0, 0.0), "rotation": (0.0, 0.0, 0.0)})

    def measure(self, view: View) -> Arrays:
        """``image`` (height, width) or (height, width, 3), uint8."""
        return {"image": self.image(view)}
