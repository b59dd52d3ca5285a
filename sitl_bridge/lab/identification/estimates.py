"""Results of an identification: values and their standard deviations."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sitl_bridge.base.arrays import Floats
from sitl_bridge.lab.identification.fitted_parameters import Parameter


@dataclass(frozen=True)
class Estimate:
    """A fitted parameter."""

    parameter: Parameter  # which
    before: float  # the airframe's value
    value: float  # fitted
    deviation: float  # standard deviation of ``value``

    @property
    def relative(self) -> float:
        """Standard deviation over the value."""
        return self.deviation / abs(self.value) if self.value else math.inf


@dataclass(frozen=True)
class WindEstimate:
    """Wind at the knots along a flight."""

    time: Floats  # (k,) s on the log's clock
    velocity: Floats  # (k, 2) m/s north, east
    deviation: Floats  # (k, 2) m/s
    mean: Floats  # (2,) over the flight
    mean_deviation: Floats  # (2,) of the mean
