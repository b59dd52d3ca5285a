"""Textures from pictures, and the patterns of visual markers."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from sitl_bridge.base.arrays import Bytes
from sitl_bridge.base.errors import UserError, shortened
from sitl_bridge.base.extras import missing
from sitl_bridge.base.input_file import read_bytes
from sitl_bridge.core.world.height_map_file import refuse_large_picture

FORMATS = (".png", ".jpg", ".jpeg")
MAX_BYTES = 100_000_000


def load_texture(path: Path) -> Bytes:
    """Pixels (rows, columns, 3) of a picture, from its upper left.

    Raises:
        UserError: for a file that cannot be read, is broken or too large.
    """
    if path.suffix.lower() not in FORMATS:
        raise UserError(f"{path}: is not a supported picture; the formats are {', '.join(FORMATS)}")
    raw = read_bytes(path, MAX_BYTES)
    from PIL import Image

    try:
        with Image.open(io.BytesIO(raw), formats=["PNG", "JPEG"]) as image:
            refuse_large_picture(path, image.width, image.height)
            return np.asarray(image.convert("RGB"), np.uint8)
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"{path}: is broken or not a picture: {shortened(str(error))}; save it again"
        ) from error


def marker_pixels(dictionary: str, number: int) -> Bytes:
    """Pixels (n, n, 3) of a marker, one per cell, with its black border and a white one.

    Args:
        dictionary: OpenCV's name in lower case.
        number: of the marker in the dictionary.

    Raises:
        UserError: if OpenCV is missing or too old, and for a number that the dictionary does not have.
    """
    try:
        import cv2
    except ImportError as error:
        raise missing("opencv-python-headless", "markers") from error
    code = getattr(getattr(cv2, "aruco", None), f"DICT_{dictionary.upper()}", None)
    if code is None:
        raise UserError(
            f"OpenCV {cv2.__version__} has no markers {dictionary}:"
            " pip install --upgrade opencv-python-headless"
        )
    found = cv2.aruco.getPredefinedDictionary(code)
    count = len(found.bytesList)
    if number >= count:
        raise UserError(f"the dictionary {dictionary} has the markers 0 to {count - 1}, but not {number}")
    grey = cv2.aruco.generateImageMarker(found, number, found.markerSize + 2, borderBits=1)
    framed = np.pad(np.asarray(grey, np.uint8), 1, constant_values=255)
    return np.ascontiguousarray(np.repeat(framed[:, :, None], 3, axis=2))
