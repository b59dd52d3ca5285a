"""Two-dimensional laser scanner: distances around the sensor's z axis."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Literal

import numpy as np
from pydantic import Field

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.quantities import NonNegative, Positive
from sitl_bridge.core.sensors.perception.obstacle_map import RangingSpecification, Returns, Sight
from sitl_bridge.core.sensors.perception.view import Arrays, Rate, View


class ScannerSpecification(RangingSpecification):
    """A scanner in the plane of the sensor's x and y axes.

    The defaults are the Hokuyo UTM-30LX of hector_quadrotor (hector_sensors_description): 270 deg in steps of
    0.25 deg at 40 Hz, 0.1 to 30 m, noise of 0.01 m as hector's plugin has it.
    """

    kind: Literal["scanner"]
    rate: Rate = Field(40.0, description="Hz, scans a second")
    field_of_view: Positive = Field(270.0, le=360.0, description="deg, about the sensor's x axis")
    step: Positive = Field(0.25, le=90.0, description="deg between beams")
    minimum: NonNegative = Field(0.1, description="m")
    maximum: Positive = Field(30.0, description="m")
    noise: NonNegative = Field(0.01, description="m, standard deviation of a distance")
    drop_out: float = Field(0.0, ge=0.0, le=1.0, description="share of beams that return nothing")
    sweep: float = Field(0.75, ge=0.0, le=1.0, description="share of the period a scan takes; 0: at once")

    @property
    def exposure(self) -> float:
        """s from the first beam to the last."""
        return self.sweep / self.rate

    @cached_property
    def angles(self) -> Floats:
        """(n,) rad of the beams, from the sensor's x axis towards y."""
        count = math.floor(self.field_of_view / self.step + 1e-9) + 1
        if self.field_of_view >= 360.0:
            count -= 1
        return np.radians(-0.5 * self.field_of_view + self.step * np.arange(count))

    @cached_property
    def directions(self) -> Floats:
        """(n, 3) of the beams, in the sensor's axes."""
        return np.stack([np.cos(self.angles), np.sin(self.angles), np.zeros_like(self.angles)], axis=1)

    def _beams(self, view: View) -> tuple[Floats, Floats]:
        """Origins (n, 3) or (1, 3) and directions (n, 3) of a scan, NED."""
        age = None
        if self.sweep > 0.0:
            age = self.exposure * (1.0 - np.arange(len(self.angles)) / max(len(self.angles) - 1, 1))
        return self.rays(view, self.directions, age)

    def sight(self, view: View, arrays: Arrays) -> Sight:
        """All beams, as of ``sight_of_beams``."""
        ranges = np.where(np.isinf(arrays["ranges"]), np.nan, arrays["ranges"].astype(float))
        nearest = None if self.drop_out > 0.0 else self.minimum + 6.0 * self.noise
        return self.sight_of_beams(view, self._beams(view), ranges, nearest)

    def returns(self, view: View, arrays: Arrays) -> Returns:
        """Return the points where the beams met something."""
        return Returns(self.sight(view, arrays).points(), self.sectors_of(self.directions))

    def measure(self, view: View) -> Arrays:
        """Distances (n,) in m as float32, inf where nothing returns."""
        origins, directions = self._beams(view)
        true = view.caster.cast(origins, directions, self.maximum).distance
        measured = true + self.noise * view.random.standard_normal(len(true))
        lost = view.random.random(len(true)) < self.drop_out
        outside = ~((measured >= self.minimum) & (measured <= self.maximum))
        return {"ranges": np.where(lost | outside, np.inf, measured).astype(np.float32)}
