"""Pictures of cameras as red, green and blue for a page, and when it shows its next one."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable

import numpy as np

from sitl_bridge.base.arrays import Bytes, Columns
from sitl_bridge.live.run.client_link import Picture
from sitl_bridge.perception.shown_picture import shown_picture

LARGEST = 480
"""Pixels, largest width and height of a picture on a page."""
ARRAYS = ("image", "color", "left", "depth")
"""Names of pictures in a sample, the first that it has is shown."""
RATE = 25.0
"""Hz of pictures; 20 Hz remain where a fifth of them is late."""
INTERVAL = 1.0 / RATE


def pack_picture(vehicle: str, sensor: str, taken: float, arrays: Columns) -> Picture:
    """The picture of a sample that was taken at ``taken`` s for the link; of height 0 if it has none."""
    for name in ARRAYS:
        if name in arrays:
            image = shown_picture(arrays[name], LARGEST)
            pixels = base64.b64encode(image.tobytes()).decode()
            return Picture(vehicle, sensor, taken, image.shape[0], image.shape[1], pixels)
    return Picture(vehicle, sensor, -1.0, 0, 0, "")


def unpack_picture(picture: Picture) -> Bytes:
    """(h, w, 3) of a picture from the link."""
    data = np.frombuffer(base64.b64decode(picture.pixels), np.uint8)
    return data.reshape(picture.height, picture.width, 3)


class PictureClock:
    """Evenly spaced moments of wall time at which a page shows a picture, whatever a picture itself takes.

    Those that have passed already are left out, not made up for.

    Args:
        now: monotonic time in s.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._due = now() + INTERVAL

    def remaining(self) -> float:
        """Seconds until the next moment, 0 if it has passed; the following one is then an interval later."""
        now = self._now()
        due = self._due if self._due > now - INTERVAL else now
        self._due = due + INTERVAL
        return max(due - now, 0.0)
