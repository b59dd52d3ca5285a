"""Recorded and live pictures as people look at them: small, in red, green and blue."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.arrays import Bytes


def shown_picture(image: NDArray[np.generic], largest: int) -> Bytes:
    """(h, w, 3) of a picture in grey, colour or depth.

    Args:
        image: (h, w) or (h, w, 3); anything but 8 bit is a depth, which is shown bright where it is near.
        largest: pixels, greatest width and height; of a larger picture every n-th pixel is kept.
    """
    step = max(1, -(-max(image.shape[:2]) // largest))
    small = image[::step, ::step]
    if small.dtype != np.uint8:
        depth = small.astype(np.float64)
        known = np.isfinite(depth) & (depth > 0.0)
        far = float(depth[known].max()) if known.any() else 1.0
        # No depth is black.
        small = np.where(known, 255.0 * (1.0 - 0.85 * depth / far), 0.0).astype(np.uint8)
    whole = small if small.ndim == 3 else np.repeat(small[:, :, None], 3, axis=2)
    return np.ascontiguousarray(whole, np.uint8)
