"""The estimate, read once per update into plain numbers, for code that runs without numpy."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import numpy as np

from sitl_bridge.autopilot.records import ESTIMATE, GLOBAL
from sitl_bridge.base.kernels.record import Packed
from sitl_bridge.base.rotations import euler_angles
from sitl_bridge.core.world.geography import Projection

CODES = {"i": "q", "f": "d"}


def make_unpacker(record: np.dtype[Packed], names: Sequence[str]) -> struct.Struct:
    """Return what unpacks the numbers of some fields of a record, one after another.

    Args:
        record: of fields of 64 bits, or of arrays of them.
        names: of the fields, in their order in the record.
    """
    parts, at = ["="], 0
    for name in names:
        assert record.fields is not None
        field, offset = record.fields[name][:2]
        base, shape = field.subdtype or (field, ())
        assert base.itemsize == 8, name
        assert offset >= at, name
        count = int(np.prod(shape, dtype=int))
        parts.append(f"{offset - at}x{count}{CODES[base.kind]}")
        at = offset + 8 * count
    return struct.Struct("".join(parts))


_WORDS = make_unpacker(
    ESTIMATE,
    (
        *("time", "valid", "attitude", "angular_velocity", "velocity", "position", "acceleration"),
        *("height_above_ground", "origin", "velocity_deviation", "position_deviation", "resets"),
    ),
)


class EstimatedState:
    """Estimate as floats: m, m/s, m/s^2, rad, rad/s; NED and body FRD.

    Attributes:
        time: us.
        valid: bits of the estimate (records.py).
        tilt: rad between body down and down.
        eph: m, standard deviation of the horizontal position; ``evh`` m/s of the velocity.
        height_above_ground: m, nan without a valid range measurement.
        projection: between the local frame and the Earth; None until the origin is known.
        resets: times the estimate jumped.
    """

    def __init__(self) -> None:
        self.time = 0
        self.valid = 0
        self.x = self.y = self.z = 0.0
        self.vx = self.vy = self.vz = 0.0
        self.ax = self.ay = self.az = 0.0
        self.roll = self.pitch = self.yaw = self.tilt = 0.0
        self.p = self.q = self.r = 0.0
        self.eph = self.evh = math.inf
        self.height_above_ground = math.nan
        self.projection: Projection | None = None
        self.resets = 0

    def read(self, estimate: Packed) -> None:
        """Take over a () ESTIMATE record."""
        words = _WORDS.unpack_from(estimate)
        self.time, self.valid = words[0:2]
        self.roll, self.pitch, self.yaw = euler_angles(*words[2:6])
        x, y = words[3:5]
        self.tilt = math.acos(max(-1.0, min(1.0, 1.0 - 2.0 * (x * x + y * y))))
        self.p, self.q, self.r, self.vx, self.vy, self.vz = words[6:12]
        self.x, self.y, self.z, self.ax, self.ay, self.az = words[12:18]
        self.height_above_ground = words[18]
        origin = words[19:22]
        self.evh = math.hypot(words[22], words[23])
        self.eph = math.hypot(words[25], words[26])
        self.resets = words[28]
        if self.valid & GLOBAL and (self.projection is None or self.projection.origin != origin):
            self.projection = Projection(*origin)
