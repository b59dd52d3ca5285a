"""Pictures of cameras as red, green and blue for a page."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from sitl_bridge.base.arrays import Bytes, Columns
from sitl_bridge.live.bus.client_link import Picture
from sitl_bridge.perception.shown_picture import shown_picture

LARGEST = 480
"""Pixels, largest width and height of a picture on a page."""
ARRAYS = ("image", "color", "left", "depth")
"""Names of pictures in a sample, the first that it has is shown."""
LastSample: TypeAlias = Callable[[str, str], tuple[float, Columns] | None]
"""The last sample of a vehicle's sensor: s of simulated time since the start, and its arrays; None before
the first."""


def sample_picture(arrays: Columns) -> Bytes | None:
    """The picture of a sample; None if it has none."""
    for name in ARRAYS:
        if name in arrays:
            return shown_picture(arrays[name], LARGEST)
    return None


def packed(vehicle: str, sensor: str, time: float, image: Bytes) -> Picture:
    """A picture for the link between two processes."""
    pixels = base64.b64encode(image.tobytes()).decode()
    return Picture(vehicle, sensor, time, image.shape[0], image.shape[1], pixels)


def picture_of(last_sample: LastSample, vehicle: str, sensor: str) -> Picture:
    """The last picture of a vehicle's sensor for the link; of height 0 if there is none."""
    sample = last_sample(vehicle, sensor)
    image = None if sample is None else sample_picture(sample[1])
    if sample is None or image is None:
        return Picture(vehicle, sensor, -1.0, 0, 0, "")
    return packed(vehicle, sensor, sample[0], image)


def unpacked(picture: Picture) -> Bytes:
    """(h, w, 3) of a picture from the link."""
    data = np.frombuffer(base64.b64decode(picture.pixels), np.uint8)
    return data.reshape(picture.height, picture.width, 3)
