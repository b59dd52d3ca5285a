"""Pictures of cameras as red, green and blue for a page."""

from __future__ import annotations

import base64

import numpy as np

from sitl_bridge.base.arrays import Bytes, Columns
from sitl_bridge.live.bus.client_link import Picture
from sitl_bridge.perception.shown_picture import shown_picture

LARGEST = 480
"""Pixels, largest width and height of a picture on a page."""
ARRAYS = ("image", "color", "left", "depth")
"""Names of pictures in a sample, the first that it has is shown."""


def packed(vehicle: str, sensor: str, time: float, arrays: Columns) -> Picture:
    """The picture of a sample that was taken at ``time`` s for the link; of height 0 if it has none."""
    for name in ARRAYS:
        if name in arrays:
            image = shown_picture(arrays[name], LARGEST)
            pixels = base64.b64encode(image.tobytes()).decode()
            return Picture(vehicle, sensor, time, image.shape[0], image.shape[1], pixels)
    return Picture(vehicle, sensor, -1.0, 0, 0, "")


def unpacked(picture: Picture) -> Bytes:
    """(h, w, 3) of a picture from the link."""
    data = np.frombuffer(base64.b64decode(picture.pixels), np.uint8)
    return data.reshape(picture.height, picture.width, 3)
