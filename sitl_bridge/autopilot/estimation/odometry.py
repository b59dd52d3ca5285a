"""The ideal odometry sensor from which RotorS's examples start: the truth, noise, and places where it is out.

It stands in for the estimator (RotorS section 3.3 and table 1; gazebo_odometry_plugin.cpp).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.image import imread
from numpy.typing import NDArray

from sitl_bridge.autopilot.estimation.inertial import rotated, turn
from sitl_bridge.autopilot.records import ATTITUDE, GLOBAL, HEADING, HEIGHT, POSITION, VELOCITY
from sitl_bridge.errors import UserError
from sitl_bridge.kernels.compiled import compiled
from sitl_bridge.kernels.random_streams import normal_pair, stream

MASK_CELLS = 128
"""Greatest width and height of an outage mask."""
STALE = 0.2
"""s after which the last odometry is no longer relied upon (PX4 EKF2, EV_MAX_INTERVAL)."""

ODOMETRY = np.dtype(
    [
        ("random", "u8", 4),  # the sensor's own stream
        ("position_noise", "f8"),  # m, deviation an axis
        ("attitude_noise", "f8"),  # rad, about each body axis
        ("velocity_noise", "f8"),  # m/s
        ("rate_noise", "f8"),  # rad/s
        ("divisor", "i8"),  # steps a measurement
        ("steps", "i8"),  # since the last one
        ("age", "f8"),  # s of the last one
        ("mask_rows", "i8"),  # 0: works everywhere
        ("mask_columns", "i8"),
        ("mask_scale", "f8"),  # m a cell
        ("mask", "u1", (MASK_CELLS, MASK_CELLS)),  # 0: out
    ],
    align=True,
)


@dataclass(frozen=True, kw_only=True)
class OdometrySettings:
    """An ideal odometry sensor; by default as mav_hovering_example's, without noise.

    Attributes:
        position_noise: m, deviation an axis.
        attitude_noise: rad, about each body axis.
        velocity_noise: m/s, an axis.
        rate_noise: rad/s, an axis.
        divisor: steps a measurement.
        mask: greyscale picture centred on the origin, its columns along east and its rows, first to last,
            along north (RotorS's x and y); where it is black there is no odometry, outside it there is.
        mask_scale: m a pixel.
    """

    position_noise: float = 0.0
    attitude_noise: float = 0.0
    velocity_noise: float = 0.0
    rate_noise: float = 0.0
    divisor: int = 1
    mask: Path | None = None
    mask_scale: float = 1.0

    def __post_init__(self) -> None:
        for name in ("position_noise", "attitude_noise", "velocity_noise", "rate_noise"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise UserError(f"odometry: {name} is a deviation, 0 or more, not {getattr(self, name)}")
        if self.divisor < 1:
            raise UserError(f"odometry: divisor is 1 or more, not {self.divisor}")
        if not 0.0 < self.mask_scale < math.inf:
            raise UserError(f"odometry: mask_scale is a length above 0, not {self.mask_scale}")

    def pack(self, seed: int, name: str) -> NDArray[np.void]:
        """() ODOMETRY of one vehicle.

        Args:
            seed: the run's.
            name: the vehicle's, names the random stream.

        Raises:
            UserError: for a mask that cannot be read or is too large.
        """
        settings = np.zeros((), ODOMETRY)
        settings["random"] = stream(seed, name, "odometry")
        for field in ("position_noise", "attitude_noise", "velocity_noise", "rate_noise", "divisor"):
            settings[field] = getattr(self, field)
        settings["steps"] = self.divisor - 1
        settings["age"] = math.inf
        settings["mask_scale"] = self.mask_scale
        if self.mask is not None:
            mask = _read_mask(self.mask)
            settings["mask_rows"], settings["mask_columns"] = mask.shape
            settings["mask"][: mask.shape[0], : mask.shape[1]] = mask
        return settings


ROTORS_NOISE = OdometrySettings(position_noise=0.01, attitude_noise=0.017, velocity_noise=0.01)
"""What RotorS's mav_generic_odometry_sensor.gazebo sets with ``odometry_noise``."""


def _read_mask(path: Path) -> NDArray[np.uint8]:
    """(rows, columns) 1 where a picture is not black."""
    try:
        picture = imread(path)
    except (OSError, ValueError, SyntaxError) as error:
        raise UserError(f"odometry: cannot read the mask {path}: {error}") from error
    grey = picture if picture.ndim == 2 else picture[..., :3].max(axis=2)
    if max(grey.shape) > MASK_CELLS:
        raise UserError(
            f"odometry: the mask {path} has {grey.shape[1]} x {grey.shape[0]} pixels, at most"
            f" {MASK_CELLS} x {MASK_CELLS} are read; shrink it and raise mask_scale"
        )
    out: NDArray[np.uint8] = (grey > 0).astype(np.uint8)
    return out


@compiled
def _out(settings: Any, north: float, east: float) -> bool:
    """Whether the mask is black at a place."""
    row = math.floor(north / settings.mask_scale) + settings.mask_rows // 2
    column = math.floor(east / settings.mask_scale) + settings.mask_columns // 2
    inside = 0 <= row < settings.mask_rows and 0 <= column < settings.mask_columns
    return bool(inside and settings.mask[row, column] == 0)


@compiled
def ideal_odometry(state: Any, environment: Any, settings: Any, estimate: Any, time: int, dt: float) -> None:
    """Tell the truth with noise; where the sensor is out, the last estimate stays, and soon counts no more.

    Args:
        state: STATE record.
        environment: ENVIRONMENT record; its origin is the local one.
        settings: ODOMETRY record.
        estimate: ESTIMATE record, filled in.
        time: us.
        dt: s since the last call.
    """
    estimate.time = time
    estimate.height_above_ground = math.nan
    settings.steps += 1
    settings.age += dt
    if settings.steps >= settings.divisor and not _out(settings, state.position[0], state.position[1]):
        settings.steps = 0
        settings.age = 0.0
        _tell(state, environment, settings, estimate)
    if settings.age > STALE:
        estimate.valid = GLOBAL


@compiled
def _tell(state: Any, environment: Any, settings: Any, estimate: Any) -> None:
    """One measurement; position, velocity, attitude and rate get noise in this order."""
    for i in range(4):
        estimate.attitude[i] = state.attitude[i]
    force = state.specific_force
    n, e, d = rotated(state.attitude, force[0], force[1], force[2])
    estimate.acceleration[0], estimate.acceleration[1] = n, e
    estimate.acceleration[2] = d + environment.gravity
    for i in range(3):
        a, b = normal_pair(settings.random)
        estimate.position[i] = state.position[i] + settings.position_noise * a
        estimate.velocity[i] = state.velocity[i] + settings.velocity_noise * b
        a, b = normal_pair(settings.random)
        estimate.angular_velocity[i] = state.angular_velocity[i] + settings.rate_noise * b
        about = settings.attitude_noise * a
        turn(
            estimate.attitude,
            about if i == 0 else 0.0,
            about if i == 1 else 0.0,
            about if i == 2 else 0.0,
            1.0,
        )
        estimate.position_deviation[i] = settings.position_noise
        estimate.velocity_deviation[i] = settings.velocity_noise
        estimate.attitude_deviation[i] = settings.attitude_noise
    estimate.origin[0] = environment.latitude
    estimate.origin[1] = environment.longitude
    estimate.origin[2] = environment.height
    estimate.valid = ATTITUDE | HEADING | HEIGHT | VELOCITY | POSITION | GLOBAL
