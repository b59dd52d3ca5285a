"""Height maps: grey pictures (PNG), arrays (NPZ) and georeferenced elevation models (GeoTIFF)."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sitl_bridge.base.arrays import AnyArray, Floats, Singles
from sitl_bridge.base.errors import UserError, shorten
from sitl_bridge.base.extras import missing_package
from sitl_bridge.base.input_file import name_broken, read_bytes
from sitl_bridge.core.world.earth import geodetic_of, ned_of
from sitl_bridge.core.world.scene_specification import HeightGrid

if TYPE_CHECKING:
    from affine import Affine
    from rasterio.crs import CRS

FORMATS = (".png", ".npz", ".tif", ".tiff")
MAX_BYTES = 200_000_000
MAX_HEIGHTS = 16_777_216
"""Most heights of a map, 4096 x 4096: 67 MB."""
FARTHEST = 100_000.0
"""m from the world's origin to the nearest edge of a GeoTIFF; beyond, one of the two is probably wrong."""
ARRAY = "height"
"""Name of the array in an NPZ file."""

Origin = tuple[float, float, float]
"""deg, deg and m above mean sea level of the world's origin."""


def load_heights(
    path: Path, spacing: float | None, height: float | None, origin: Origin
) -> tuple[HeightGrid, tuple[float, float, float]]:
    """Heights of a file, and the position (m NED) of their south-west corner; 0 except for a GeoTIFF.

    Args:
        path: of the file.
        spacing: m between heights.
        height: m of a white pixel.

    Raises:
        UserError: for a file that cannot be read or is broken, and for fields that do not suit it.
    """
    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise UserError(f"{path}: is not a supported height map; the formats are {', '.join(FORMATS)}")
    raw = read_bytes(path, MAX_BYTES)
    if kind in (".tif", ".tiff"):
        if spacing is not None or height is not None:
            raise UserError(f"{path}: a GeoTIFF has its own spacing and heights; leave both fields out")
        return _geotiff(path, raw, origin)
    if spacing is None:
        raise UserError(f"{path}: needs `spacing`, the distance between two heights in m")
    if kind == ".npz":
        if height is not None:
            raise UserError(f"{path}: an NPZ file contains metres; leave out `height`, which scales a PNG")
        heights = _array(path, raw)
    else:
        if height is None:
            raise UserError(f"{path}: needs `height`, the height in m of a white pixel above a black one")
        heights = _picture(path, raw) * height
    return HeightGrid(_validate(path, heights), spacing), (0.0, 0.0, 0.0)


def _validate(path: Path, heights: AnyArray) -> Singles:
    if heights.ndim != 2 or min(heights.shape) < 2:
        shape = " x ".join(str(n) for n in heights.shape) or "no"
        raise UserError(
            f"{path}: is empty: it has {shape} heights; a map needs at least two rows and columns"
        )
    if heights.size > MAX_HEIGHTS:
        raise UserError(
            f"{path}: has {heights.shape[0]} x {heights.shape[1]} heights; a map can have {MAX_HEIGHTS:,};"
            " crop it, or keep every second height"
        )
    if not np.isfinite(heights).all() or np.abs(heights).max() > 1e5:
        raise UserError(f"{path}: has heights that are not finite or beyond 100 km; fill or correct them")
    return np.ascontiguousarray(heights, np.float32)


def _picture(path: Path, raw: bytes) -> Floats:
    """Brightness 0 to 1, rows from south to north: the upper edge of the picture is the north."""
    from PIL import Image

    with (
        name_broken(path, "a PNG", "save it again"),
        Image.open(io.BytesIO(raw), formats=["PNG"]) as image,
    ):
        validate_picture_size(path, image.width, image.height)
        mode, pixels = image.mode, np.asarray(image)
    if mode in ("RGB", "RGBA") and (pixels[..., :1] == pixels[..., 1:3]).all():
        mode, pixels = "L", pixels[..., 0]  # grey, saved as colour
    if mode not in ("L", "I;16", "I;16B", "I"):
        raise UserError(f"{path}: is not a grey picture (mode {mode}); save it as grey with 8 or 16 bit")
    white = 255.0 if mode == "L" else 65535.0
    return np.flipud(pixels).astype(np.float64) / white


def validate_picture_size(path: Path, width: int, height: int) -> None:
    """Refuse a picture with too many pixels.

    Raises:
        UserError: with the limit.
    """
    if width * height > MAX_HEIGHTS:
        raise UserError(
            f"{path}: has {width} x {height} pixels; the limit is {MAX_HEIGHTS:,}; make it smaller"
        )


def load_picture(path: Path) -> Floats:
    """Brightness 0 to 1 (rows, columns) of a grey PNG, rows from south to north.

    Raises:
        UserError: for a file that cannot be read, is not a grey PNG or has less than two rows or columns.
    """
    if path.suffix.lower() != ".png":
        raise UserError(f"{path}: is not a supported height map; convert it to a grey PNG")
    return np.asarray(_validate(path, _picture(path, read_bytes(path, MAX_BYTES))), np.float64)


def _array(path: Path, raw: bytes) -> Floats:
    """Array `height` of an NPZ file: rows from south to north, columns from west to east."""
    remedy = f"write it with numpy.savez_compressed(file, {ARRAY}=heights)"
    with name_broken(path, "an NPZ file of numbers", remedy):
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            sizes = {item.filename: item.file_size for item in archive.infolist()}
        if f"{ARRAY}.npy" not in sizes:
            names = ", ".join(sorted(sizes)) or "nothing"
            raise UserError(f"{path}: has no array {ARRAY!r}, only {shorten(names)}; {remedy}")
        if sizes[f"{ARRAY}.npy"] > 8 * MAX_HEIGHTS + 10_000:
            raise UserError(
                f"{path}: has more than {MAX_HEIGHTS:,} heights; crop it, or keep every second height"
            )
        with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
            return np.asarray(arrays[ARRAY], np.float64)


def _geotiff(path: Path, raw: bytes, origin: Origin) -> tuple[HeightGrid, tuple[float, float, float]]:
    """Elevations on a square grid in the world's frame, and its south-west corner."""
    try:
        from rasterio.io import MemoryFile
    except ImportError as error:
        raise missing_package("rasterio", "GeoTIFF height maps", "geotiff") from error
    with (
        name_broken(path, "a GeoTIFF"),
        MemoryFile(raw) as memory,
        memory.open(driver="GTiff") as raster,
    ):
        validate_picture_size(path, raster.width, raster.height)
        band = raster.read(1, masked=True)
        crs, transform = raster.crs, raster.transform
    if crs is None:
        raise UserError(f"{path}: has no coordinate reference system; add one with gdal_translate -a_srs")
    voids = int(np.ma.getmaskarray(band).sum())
    if voids:
        raise UserError(f"{path}: has {voids:,} heights without data; fill them with gdal_fillnodata.py")
    return _resample(path, np.asarray(band, np.float64), crs, transform, origin)


def _resample(
    path: Path, band: Floats, crs: CRS, transform: Affine, origin: Origin
) -> tuple[HeightGrid, tuple[float, float, float]]:
    """The raster's elevations (bilinear) on the largest grid along north and east within its edges."""
    from rasterio.warp import transform as reproject
    from scipy.ndimage import map_coordinates

    rows, columns = band.shape
    if min(rows, columns) < 2:
        _validate(path, band)
    # Centres of the four corner pixels, in order around the raster.
    corner_columns = np.array([0.0, columns - 1.0, columns - 1.0, 0.0]) + 0.5
    corner_rows = np.array([0.0, 0.0, rows - 1.0, rows - 1.0]) + 0.5
    x = transform.a * corner_columns + transform.b * corner_rows + transform.c
    y = transform.d * corner_columns + transform.e * corner_rows + transform.f
    longitude, latitude = (np.array(v) for v in reproject(crs, "EPSG:4326", list(x), list(y)))
    north, east, _ = ned_of(latitude, longitude, origin[2], origin)
    distance = np.hypot(
        np.maximum(np.maximum(north.min(), -north.max()), 0.0),
        np.maximum(np.maximum(east.min(), -east.max()), 0.0),
    )
    if not np.isfinite(distance) or distance > FARTHEST:
        raise UserError(
            f"{path}: is {distance / 1000.0:.0f} km from the world's origin"
            f" ({origin[0]:g}, {origin[1]:g}); set the world's `origin` to a place in it"
        )
    low_n, high_n = np.sort(north)[1], np.sort(north)[2]
    low_e, high_e = np.sort(east)[1], np.sort(east)[2]
    spacing = float(min((high_n - low_n) / (rows - 1), (high_e - low_e) / (columns - 1)))
    if not spacing > 0.0:
        raise UserError(f"{path}: covers no area along north and east; reproject it with gdalwarp")
    count_n, count_e = int((high_n - low_n) / spacing) + 1, int((high_e - low_e) / spacing) + 1
    if count_n * count_e > MAX_HEIGHTS:
        raise UserError(
            f"{path}: gives {count_n} x {count_e} heights; a map can have {MAX_HEIGHTS:,}; crop it"
        )
    grid_n, grid_e = np.meshgrid(
        low_n + spacing * np.arange(count_n), low_e + spacing * np.arange(count_e), indexing="ij"
    )
    lat, lon, _ = geodetic_of(grid_n, grid_e, 0.0, origin)
    xs, ys = (np.array(v) for v in reproject("EPSG:4326", crs, list(lon.ravel()), list(lat.ravel())))
    inverse = ~transform
    pixel_column = inverse.a * xs + inverse.b * ys + inverse.c - 0.5
    pixel_row = inverse.d * xs + inverse.e * ys + inverse.f - 0.5
    elevation = map_coordinates(band, [pixel_row, pixel_column], order=1, mode="nearest")
    heights = (np.asarray(elevation) - origin[2]).reshape(grid_n.shape)
    return HeightGrid(_validate(path, heights), spacing), (float(low_n), float(low_e), 0.0)
