"""Snapshot of a vehicle from the stack's records and its commander, for all messages of a time step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sitl_bridge.autopilot.commander import Commander
from sitl_bridge.base.rotations import euler_angles
from sitl_bridge.core.world.geography import projection_at

UNKNOWN = 0xFFFF
"""Value of an unknown uint16 field."""

NAN = math.nan


@dataclass
class TelemetrySource:
    """Data source of the telemetry.  The records are views that the stack writes and telemetry only reads.

    Attributes:
        system_id: MAVLink system id.
        version: version of this program: major, minor, patch.
        rotor_count: number of rotors of the airframe.
        commander: mode, arming, mission, home, battery (``commander.Commander``).
        estimate: () ESTIMATE.
        setpoint: () SETPOINT.
        measurement: () MEASUREMENT.
        controls: (16,) motor commands 0..1.
        unix_time: us since 1970 at simulated time 0; 0 if unknown.
        log: the file being logged to; the logs in its directory are served.  None without a log.
    """

    system_id: int
    version: tuple[int, int, int]
    rotor_count: int
    commander: Commander
    estimate: Any
    setpoint: Any
    measurement: Any
    controls: Any
    unix_time: int = 0
    log: Path | None = None


class Snapshot:
    """State of the vehicle at one time, with the estimate as plain numbers, shared by all messages.

    Args:
        source: data source.
        now: us of simulated time.
    """

    def __init__(self, source: TelemetrySource, now: int) -> None:
        estimate = source.estimate
        self.source = source
        self.commander = source.commander
        self.now = now
        self.boot_ms = now // 1000 & 0xFFFFFFFF
        self.valid = int(estimate["valid"])
        self.attitude: list[float] = estimate["attitude"].tolist()
        self.rates: list[float] = estimate["angular_velocity"].tolist()
        self.velocity: list[float] = estimate["velocity"].tolist()
        self.position: list[float] = estimate["position"].tolist()
        self.origin: list[float] = estimate["origin"].tolist()

    def has(self, bits: int) -> bool:
        """Return whether the estimate has all of these bits of ESTIMATE.valid."""
        return self.valid & bits == bits

    @cached_property
    def euler(self) -> tuple[float, float, float]:
        """Roll, pitch and yaw in rad."""
        return euler_angles(*self.attitude)

    @cached_property
    def geodetic(self) -> tuple[float, float, float]:
        """Position: deg latitude, deg longitude, m altitude."""
        return projection_at(*self.origin).place(self.position)

    @cached_property
    def home(self) -> tuple[float, float, float] | None:
        """Home in the local frame: m north, east, down; None if unknown."""
        home = self.commander.home
        return None if home is None else projection_at(*self.origin).position(home)

    @property
    def heading(self) -> float:
        """deg, 0..360."""
        return math.degrees(self.euler[2]) % 360.0


def rounded(value: float, low: int, high: int, unknown: int) -> int:
    """Return ``value`` rounded and limited to its field, or ``unknown`` if it is not finite."""
    return min(max(round(value), low), high) if math.isfinite(value) else unknown


def int16(value: float) -> int:
    """Return a value for an int16 field; 0 if it is not finite."""
    return rounded(value, -32768, 32767, 0)


def uint16(value: float, unknown: int = UNKNOWN) -> int:
    """Return a value for a uint16 field, or ``unknown`` if it is not finite."""
    return rounded(value, 0, 65534, unknown)


def int32(value: float) -> int:
    """Return a value for an int32 field; 0 if it is not finite."""
    return rounded(value, -(2**31), 2**31 - 1, 0)
