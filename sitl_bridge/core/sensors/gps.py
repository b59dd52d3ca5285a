"""Satellite receiver: a position error that integrates the velocity error, multipath, jamming and spoofing.

``memory`` of the state: 0-2 position error NED m; 4 jamming level 0..1; 5-7 spoofing drift NED m/s; 8-10
spoofed offset NED m.  Events of the simulation set jamming and spoofing between steps.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.base.kernels.random_streams import normal
from sitl_bridge.base.quantities import NonNegative, Positive
from sitl_bridge.core.dynamics.records import State
from sitl_bridge.core.sensors.axes import point_position, point_velocity, ray_distance
from sitl_bridge.core.sensors.error_model import ErrorSpecification, SensorSpecification, read_axis
from sitl_bridge.core.sensors.records import Sensor, SensorState
from sitl_bridge.core.world.earth import geodetic
from sitl_bridge.core.world.records import Environment

GPS = 4

JAMMING = 4
"""Index in ``memory``: 0 = clear sky, 1 = no signal."""
SPOOF_DRIFT = 5
"""First of three indices in ``memory``: velocity NED in m/s of a spoofed fix relative to the truth."""
SPOOF_OFFSET = 8

CLEAR_FIX = 10
"""Index in ``parameter``; 0 decay of the position error per period, 1-2 eph and epv, 3 satellites, 4-6 and
7-9 the position error's deviation and its slope over the velocity's bias."""
MULTIPATH = 11
"""Index in ``parameter``: square of the error by reflections over that under a clear sky."""

SKY_RAYS = 64
LOWEST_SATELLITE = math.radians(10.0)
"""Elevation below which no satellite counts: assumed, an ordinary mask of receivers."""

LEAST_ACCURACY = 0.1
"""Share of eph and epv below which a receiver reports none."""

FIX_3D = 3.0
FIX_2D = 2.0
FIX_NONE = 1.0
JAMMED_ACCURACY_GAIN = 19.0
"""Increase of the reported accuracies at full jamming, to 20 times their values under a clear sky: far beyond
EKF2's gates of 3 m and 5 m for any ordinary receiver (PX4, EKF2_REQ_EPH, EKF2_REQ_EPV)."""


class GpsSpecification(SensorSpecification):
    """A satellite receiver."""

    code = GPS
    # rad, m AMSL, m/s NED, m, MAVLink GPS_FIX_TYPE
    values: ClassVar = {
        "latitude": 0,
        "longitude": 1,
        "altitude": 2,
        "velocity": slice(3, 6),
        "eph": 6,
        "epv": 7,
        "fix": 8,
        "satellites": 9,
    }

    kind: Literal["gps"]
    instance: int = Field(0, ge=0, le=1, description="sensor id on the simulator link")
    velocity: ErrorSpecification = Field(description="m/s")
    position_noise: ErrorSpecification = Field(
        default_factory=ErrorSpecification, description="m, on top of the drifting position error"
    )
    position_correlation_time: Positive = Field(
        60.0, description="s, decay time of the integrated position error"
    )
    eph: Positive = Field(0.9, description="m, reported horizontal accuracy")
    epv: Positive = Field(1.8, description="m, reported vertical accuracy")
    satellites: int = Field(10, ge=0, le=254, description="number of satellites in the fix")
    accuracy: ErrorSpecification | None = Field(
        None, description="share of eph and epv by which the receiver reports more or less than these"
    )
    visibility: ErrorSpecification | None = Field(
        None, description="satellites in the fix beside that number, as they come and go"
    )
    multipath: NonNegative = Field(
        0.0,
        description="m, horizontal error that reflections add where obstacles hide half the sky, in"
        " proportion to what they hide; they also hide satellites; 0: the receiver sees through them",
    )
    fix: int = Field(3, ge=3, le=6, description="GPS_FIX_TYPE under a clear sky: 3 is 3-D, 6 RTK fixed")

    @model_validator(mode="after")
    def _position_is_no_reading(self) -> GpsSpecification:
        noise = self.position_noise
        if noise.scale_error != 0.0 or noise.resolution != 0.0:
            raise ValueError("position_noise takes no scale_error and no resolution")
        if self.multipath > 0.0 and not self.position_deviation()[:2].any():
            raise ValueError("multipath makes the position's error larger, so give velocity noise or a bias")
        return self

    def _fill(self, sensor: Records) -> None:
        self.velocity.fill(sensor, (0, 1, 2), self.period)
        self.position_noise.fill(sensor, (3, 4, 5), self.period)
        if self.accuracy is not None or self.visibility is not None:  # otherwise nothing is drawn for them
            (self.accuracy or ErrorSpecification()).fill(sensor, (6,), self.period)
            (self.visibility or ErrorSpecification()).fill(sensor, (7,), self.period)
        sensor["parameter"][:4] = (
            math.exp(-self.period / self.position_correlation_time),
            self.eph,
            self.epv,
            self.satellites,
        )
        sensor["parameter"][CLEAR_FIX] = self.fix
        for axis in range(3):
            deviation, slope = _stationary(sensor, axis, self.period)
            sensor["parameter"][4 + axis] = deviation
            sensor["parameter"][7 + axis] = slope
        spread = (_deviation(sensor)[:2] ** 2).sum()
        if self.multipath > 0.0 and spread > 0.0:
            sensor["parameter"][MULTIPATH] = self.multipath**2 / spread

    def position_deviation(self) -> Floats:
        """Stationary deviation (3,) in m of the drifting part of the position error, N, E, D."""
        return _deviation(self.pack())


def _deviation(sensor: Records) -> Floats:
    slope, rest = sensor["parameter"][7:10], sensor["parameter"][4:7]
    deviation: Floats = np.sqrt(rest**2 + (slope * sensor["bias_start"][:3]) ** 2)
    return deviation


def _stationary(sensor: Records, axis: int, period: float) -> tuple[float, float]:
    """Return slope and deviation of the position error p given the velocity bias b.

    p is distributed as N(slope * b, deviation^2).  From p' = a p + dt (b' + w), b' = phi b + n:
    cov(p, b) = dt s_b^2/(1 - a phi) and var(p) = (dt^2 (s_b^2 + s_w^2) + 2 a dt phi cov(p, b))/(1 - a^2), the
    fixed point of the recursion.
    """
    a = float(sensor["parameter"][0])
    phi = float(sensor["bias_decay"][axis])
    bias = float(sensor["bias_start"][axis]) ** 2
    noise = float(sensor["noise"][axis]) ** 2
    cross = period * bias / (1.0 - a * phi)
    variance = (period**2 * (bias + noise) + 2.0 * a * period * phi * cross) / (1.0 - a * a)
    slope = cross / bias if bias > 0.0 else 0.0
    return math.sqrt(max(variance - slope * cross, 0.0)), slope


@compiled
def start_gps(sensor: Sensor, state: SensorState) -> None:
    """Draw the initial position error from its stationary distribution, given the velocity biases."""
    for axis in range(3):
        first = normal(state.random)
        state.memory[axis] = (
            sensor.parameter[7 + axis] * state.bias[axis] + sensor.parameter[4 + axis] * first
        )


@on_demand
def hidden_sky(environment: Environment, sensor: Sensor, state: State) -> float:
    """Share of the sky, 0..1, above LOWEST_SATELLITE that obstacles hide from the antenna.

    The rays are a Fibonacci spiral, each for the same solid angle (Gonzalez, Mathematical Geosciences 42,
    2010).
    """
    north, east, down = point_position(sensor, state)
    if environment.scene.groundless == 0:
        down = min(down, -0.01)  # from within the ground, everything would be hidden
    lowest, hidden = math.sin(LOWEST_SATELLITE), 0
    for ray in range(SKY_RAYS):
        up = lowest + (1.0 - lowest) * (ray + 0.5) / SKY_RAYS
        turn, across = math.pi * (3.0 - math.sqrt(5.0)) * ray, math.sqrt(1.0 - up * up)
        way = across * math.cos(turn), across * math.sin(turn), -up
        if ray_distance(environment.scene, (north, east, down), way) < math.inf:
            hidden += 1
    return hidden / SKY_RAYS


@compiled
def sample_gps(
    state: State, environment: Environment, sensor: Sensor, memory: SensorState, out: Floats
) -> bool:
    """Sample position, velocity and reported accuracy; return False if jamming suppresses the output.

    The position error is a Gauss-Markov process driven by the velocity error in place of w_b of eq. 11b
    (hector, "GPS Receiver").  The turn-on bias of the velocity is excluded: it would shift the position by
    the bias times the correlation time.  All errors grow with eph and epv, the receiver's estimates of them
    (u-blox interface description, UBX-NAV-PVT hAcc and vAcc).  Jamming reduces satellites and accuracy, then
    the fix; spoofing moves position and velocity consistently.

    Where obstacles hide a share h of the sky, n (1 - h) satellites are left, with which errors grow by
    1/sqrt(1 - h), as of n equal pseudoranges, and reflections add an error in proportion to h.
    """
    jamming = memory.memory[JAMMING]
    period = sensor.period * 1e-6
    n, e, d = point_position(sensor, state)
    vn, ve, vd = point_velocity(sensor, state)
    worse = (1.0 + JAMMED_ACCURACY_GAIN * jamming) * max(1.0 + memory.error[6], LEAST_ACCURACY)
    seen = 1.0
    if sensor.parameter[MULTIPATH] > 0.0 and environment.scene.shape_count > 0:
        hidden = hidden_sky(environment, sensor, state)
        seen = 1.0 - hidden
        reflected = 1.0 + sensor.parameter[MULTIPATH] * (hidden / 0.5) ** 2
        worse *= math.sqrt(reflected / max(seen, 1.0 / SKY_RAYS))
    for axis in range(3):
        speed_error = memory.error[axis] - memory.turn_on[axis]
        memory.memory[axis] = sensor.parameter[0] * memory.memory[axis] + period * speed_error
        memory.memory[SPOOF_OFFSET + axis] += period * memory.memory[SPOOF_DRIFT + axis]
    if jamming >= 1.0:
        return False
    latitude, longitude, height = geodetic(
        environment,
        n + worse * (memory.memory[0] + memory.error[3]) + memory.memory[SPOOF_OFFSET],
        e + worse * (memory.memory[1] + memory.error[4]) + memory.memory[SPOOF_OFFSET + 1],
        d + worse * (memory.memory[2] + memory.error[5]) + memory.memory[SPOOF_OFFSET + 2],
    )
    out[0] = latitude
    out[1] = longitude
    out[2] = height
    more = worse - 1.0
    out[3] = read_axis(sensor, memory, 0, vn) + more * memory.error[0] + memory.memory[SPOOF_DRIFT]
    out[4] = read_axis(sensor, memory, 1, ve) + more * memory.error[1] + memory.memory[SPOOF_DRIFT + 1]
    out[5] = read_axis(sensor, memory, 2, vd) + more * memory.error[2] + memory.memory[SPOOF_DRIFT + 2]
    out[6] = sensor.parameter[1] * worse
    out[7] = sensor.parameter[2] * worse
    visible = max(sensor.parameter[3] + math.floor(memory.error[7] + 0.5), 0.0)
    satellites = math.floor(visible * seen * (1.0 - jamming))
    out[9] = satellites
    # Four pseudoranges give position and time, three give a position at a known height.  Carrier ambiguities
    # stay fixed only under a clear sky.
    out[8] = sensor.parameter[CLEAR_FIX] if jamming <= 0.0 else FIX_3D
    if satellites < 4.0:
        out[8] = FIX_2D if satellites >= 3.0 else FIX_NONE
    return True
