"""The error model of all sensors: white noise, a drifting bias, a turn-on bias and a scale error.

y = (1 + s) y_true + b_on + b + w (hector eq. 11a, XTDrone eq. 11), db/dt = -b/tau + w_b (hector eq. 11b) or a
random walk (XTDrone eq. 12); then quantisation to the sensor's resolution and limitation to its range. The
measured quantities are in the sensors' own modules.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import BaseModel, Field, model_validator

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.random_streams import normal_pair
from sitl_bridge.base.quantities import STRICT, Mounting, NonNegative, Positive, Vector
from sitl_bridge.base.rotations import matrix_from_euler
from sitl_bridge.core.sensors.records import DELAY_SLOTS, SENSOR, Sensor, SensorState

PerAxis = NonNegative | tuple[NonNegative, NonNegative, NonNegative]
Share = Annotated[float, Field(gt=-1.0, lt=1.0)]
SLOWEST = 0.01
"""Lowest sensor rate, Hz: one sample in 100 s."""


class ErrorSpecification(BaseModel):
    """Error of one measured quantity, with one value for all axes or one per axis.

    White noise is given as a density (unit/sqrt(Hz), one-sided, as in data sheets) or as the standard
    deviation of a single sample; the bias as its stationary deviation or as a random-walk density
    (unit*sqrt(Hz)/... as in RotorS and XTDrone's ``RandomWalk``), with or without a correlation time.
    """

    model_config = STRICT

    noise_density: PerAxis | None = Field(None, description="white noise, unit/sqrt(Hz)")
    noise_deviation: PerAxis | None = Field(None, description="white noise of one sample, unit")
    bias_deviation: PerAxis | None = Field(None, description="stationary deviation of the bias, unit")
    random_walk: PerAxis | None = Field(
        None, description="driving noise density of the bias, unit/s/sqrt(Hz)"
    )
    bias_correlation_time: Positive | None = Field(None, description="s; absent: a pure random walk")
    calibrated: bool = Field(
        False, description="the drifting bias is zero at the start, as after a calibration at power-on"
    )
    turn_on_deviation: PerAxis = Field(0.0, description="deviation of the constant turn-on bias, unit")
    scale_error: Share | tuple[Share, Share, Share] = Field(0.0, description="relative scale factor error")
    resolution: PerAxis = Field(0.0, description="quantisation step of the reading, unit; 0: none")

    @model_validator(mode="after")
    def _one_way(self) -> ErrorSpecification:
        if self.noise_density is not None and self.noise_deviation is not None:
            raise ValueError("give noise_density or noise_deviation, not both")
        if self.bias_deviation is not None and self.random_walk is not None:
            raise ValueError("give bias_deviation or random_walk, not both")
        if self.bias_deviation is not None and self.bias_correlation_time is None:
            raise ValueError("a bias_deviation needs a bias_correlation_time")
        return self

    def fill(self, sensor: Records, axes: Sequence[int], period: float) -> None:
        """Write this error to the given axes of a SENSOR record.

        Noise of a sample: sigma = density/sqrt(dt).  With a correlation time tau the bias is a Gauss-Markov
        process, discretised exactly: b' = exp(-dt/tau) b + N(0, s^2 (1 - exp(-2 dt/tau))) with stationary
        deviation s; a random-walk density s_b gives s = s_b sqrt(tau/2) (RotorS's IMU plugin, Crassidis
        2006).  Without one, b' = b + N(0, s_b^2 dt).

        Args:
            sensor: () SENSOR.
            axes: error axes, in the order of the quantity's components.
            period: s between samples.
        """
        noise = 0.0 if self.noise_deviation is None else self.noise_deviation
        factor = 1.0
        if self.noise_density is not None:
            noise, factor = self.noise_density, 1.0 / math.sqrt(period)
        tau = self.bias_correlation_time
        sensor["axis_count"] = max(sensor["axis_count"], axes[-1] + 1)
        for i, axis in enumerate(axes):
            sensor["noise"][axis] = component(noise, i) * factor
            sensor["turn_on_sigma"][axis] = component(self.turn_on_deviation, i)
            sensor["scale"][axis] = component(self.scale_error, i)
            sensor["resolution"][axis] = component(self.resolution, i)
            if tau is None:
                walk = component(self.random_walk or 0.0, i)
                sensor["bias_decay"][axis] = 1.0
                sensor["bias_step"][axis] = walk * math.sqrt(period)
                continue
            stationary = component(self.bias_deviation or 0.0, i)
            if self.random_walk is not None:
                stationary = component(self.random_walk, i) * math.sqrt(tau / 2.0)
            sensor["bias_start"][axis] = 0.0 if self.calibrated else stationary
            sensor["bias_decay"][axis] = math.exp(-period / tau)
            sensor["bias_step"][axis] = stationary * math.sqrt(-math.expm1(-2.0 * period / tau))


def component(value: float | Sequence[float], axis: int) -> float:
    """Return the component of a per-axis value that may be one number for all axes."""
    return value if isinstance(value, int | float) else value[axis]


class SensorSpecification(BaseModel):
    """Fields of every built-in sensor: instance, rate, latency and mounting position."""

    model_config = STRICT
    code: ClassVar[int]
    """Kind in a SENSOR record, another one for each."""
    values: ClassVar[Mapping[str, int | slice]]
    """Places of the figures in ``values`` of a SENSOR_STATE, by name."""

    instance: int = Field(0, ge=0, le=3, description="sensor id on the simulator link")
    rate: float = Field(
        ge=SLOWEST, le=1000.0, description="Hz; the period is rounded to a whole number of microseconds"
    )
    latency: float = Field(0.0, ge=0.0, le=2.0, description="s from sampling to delivery")
    phase: float = Field(
        0.0, ge=0.0, le=100.0, description="s, delay of the samples after multiples of the period"
    )
    position: Mounting = Field((0.0, 0.0, 0.0), description="m, body FRD, from the centre of gravity")
    rotation: Vector = Field((0.0, 0.0, 0.0), description="deg, mounting roll, pitch, yaw in the body")

    @property
    def period(self) -> float:
        """Seconds between samples."""
        return round(1e6 / self.rate) * 1e-6

    @model_validator(mode="after")
    def _delay_fits(self) -> SensorSpecification:
        if self.latency > self.period * (DELAY_SLOTS - 1):
            raise ValueError(
                f"a latency of {self.latency:g} s at {self.rate:g} Hz needs a queue of more than"
                f" {DELAY_SLOTS - 1} samples"
            )
        if self.phase >= self.period:
            raise ValueError(f"the phase of {self.phase:g} s must be below the period of {self.period:g} s")
        return self

    def pack(self) -> Records:
        """() SENSOR."""
        sensor = np.zeros((), SENSOR)
        sensor["kind"] = self.code
        sensor["instance"] = self.instance
        sensor["period"] = round(self.period * 1e6)
        sensor["phase"] = round(self.phase * 1e6)
        sensor["latency"] = round(self.latency * 1e6)
        sensor["position"] = self.position
        sensor["rotation"] = body_to_sensor(self.rotation)
        sensor["bias_decay"] = 1.0
        sensor["limit"] = math.inf
        self._fill(sensor)
        return sensor

    def _fill(self, sensor: Records) -> None:
        """Write what a () SENSOR has of this kind alone."""
        raise NotImplementedError


def body_to_sensor(angles: Vector) -> Floats:
    """Return the rotation (3, 3) from body axes to a sensor mounted at roll, pitch, yaw (deg)."""
    return matrix_from_euler(*np.radians(angles)).T


@compiled
def start_errors(sensor: Sensor, state: SensorState) -> None:
    """Draw the turn-on biases and the initial drifting biases from their stationary distribution."""
    for axis in range(0, sensor.axis_count):
        first, second = normal_pair(state.random)
        state.turn_on[axis] = sensor.turn_on_sigma[axis] * first
        state.bias[axis] = sensor.bias_start[axis] * second


@compiled
def draw_errors(sensor: Sensor, state: SensorState) -> None:
    """Advance the biases by one period and draw the white noise; the sum is in ``state.error``.

    Errors are independent of the measured quantity, so they may be drawn before the sample is due;
    ``state.drawn`` marks that, and sampling clears it.
    """
    if state.drawn != 0:
        return
    state.drawn = 1
    for axis in range(0, sensor.axis_count):
        first, second = normal_pair(state.random)
        state.bias[axis] = sensor.bias_decay[axis] * state.bias[axis] + sensor.bias_step[axis] * first
        state.error[axis] = state.turn_on[axis] + state.bias[axis] + sensor.noise[axis] * second


@compiled
def read_axis(sensor: Sensor, state: SensorState, axis: int, truth: float) -> float:
    """Return the reading on an axis: scale, drawn error, quantisation and range applied."""
    value = (1.0 + sensor.scale[axis]) * truth + state.error[axis]
    step = sensor.resolution[axis]
    if step > 0.0:
        value = np.rint(value / step) * step
    limit = sensor.limit[axis]
    return min(max(value, -limit), limit)
