"""What an identification has found: values and their standard deviations."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sitl_bridge.base.arrays import Floats
from sitl_bridge.lab.identification.fitted_parameters import Parameter


@dataclass(frozen=True)
class Estimate:
    """A fitted parameter.

    Attributes:
        parameter: which.
        before: the airframe's value.
        value: fitted.
        deviation: standard deviation of ``value``.
    """

    parameter: Parameter
    before: float
    value: float
    deviation: float

    @property
    def relative(self) -> float:
        """Standard deviation over the value."""
        return self.deviation / abs(self.value) if self.value else math.inf


@dataclass(frozen=True)
class WindEstimate:
    """Wind at the knots along a flight.

    Attributes:
        time: (k,) s on the log's clock.
        velocity: (k, 2) m/s north, east.
        deviation: (k, 2) m/s.
        mean: (2,) over the flight.
        mean_deviation: (2,) of the mean.
    """

    time: Floats
    velocity: Floats
    deviation: Floats
    mean: Floats
    mean_deviation: Floats
