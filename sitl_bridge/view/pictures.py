"""Pictures of cameras as red, green and blue for a page."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.bus.client_link import Picture

LARGEST = 480
"""Pixels, largest width and height of a picture on a page."""
ARRAYS = ("image", "color", "left", "depth")
"""Names of pictures in a sample, the first that it has is shown."""


def shown_picture(image: NDArray[np.generic]) -> NDArray[np.uint8]:
    """(h, w, 3) of a picture in grey, colour or depth; every n-th pixel of a large one."""
    step = max(1, -(-max(image.shape[:2]) // LARGEST))
    small = image[::step, ::step]
    if small.dtype != np.uint8:
        depth = small.astype(np.float64)
        known = np.isfinite(depth) & (depth > 0.0)
        far = float(depth[known].max()) if known.any() else 1.0
        # Near is bright; no depth is black.
        small = np.where(known, 255.0 * (1.0 - 0.85 * depth / far), 0.0).astype(np.uint8)
    whole = small if small.ndim == 3 else np.repeat(small[:, :, None], 3, axis=2)
    return np.ascontiguousarray(whole, np.uint8)


def sample_picture(arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8] | None:
    """The picture of a sample; None if it has none."""
    for name in ARRAYS:
        if name in arrays:
            return shown_picture(arrays[name])
    return None


def packed(vehicle: str, sensor: str, time: float, image: NDArray[np.uint8]) -> Picture:
    """A picture for the link between two processes."""
    pixels = base64.b64encode(image.tobytes()).decode()
    return Picture(vehicle, sensor, time, image.shape[0], image.shape[1], pixels)


def unpacked(picture: Picture) -> NDArray[np.uint8]:
    """(h, w, 3) of a picture from the link."""
    data = np.frombuffer(base64.b64decode(picture.pixels), np.uint8)
    return data.reshape(picture.height, picture.width, 3)
