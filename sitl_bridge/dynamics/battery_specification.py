"""The battery pack in the airframe file."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from sitl_bridge.dynamics.records import OCV_POINTS
from sitl_bridge.quantities import STRICT, NonNegative, Positive

SECONDS_PER_HOUR = 3600.0
LIPO_CELL = (3.27, 3.61, 3.69, 3.71, 3.75, 3.79, 3.83, 3.89, 3.97, 4.08, 4.20)
"""V, open-circuit voltage of a lithium-polymer cell at 0, 10, ... 100 % of its charge: the usual published
discharge table of hobby cells ("LiPo voltage chart": 3.27 V empty, 3.84 V near the middle, 4.20 V full)."""


class Battery(BaseModel):
    """A lithium battery pack."""

    model_config = STRICT

    cells: int = Field(ge=1, le=14)
    capacity: Positive | None = Field(None, description="Ah; absent: an ideal source")
    resistance: NonNegative = Field(0.0, description="ohm, whole pack")
    slow_resistance: NonNegative = Field(
        0.0, description="ohm, whole pack: further resistance that a lasting current meets (RC pair)"
    )
    slow_time: Positive = Field(30.0, description="s, time constant of the RC pair")
    nominal_voltage: Positive = Field(description="V, reference voltage of the motor's speed_range")
    cell_voltage: tuple[Positive, ...] = Field(
        LIPO_CELL, description="V a cell at 0, 10 ... 100 %", min_length=OCV_POINTS, max_length=OCV_POINTS
    )
    idle_current: NonNegative = Field(0.0, description="A, avionics")

    def pack(self, vehicle: NDArray[np.void]) -> None:
        """Write the battery of a () VEHICLE record."""
        capacity = math.inf if self.capacity is None else self.capacity * SECONDS_PER_HOUR
        vehicle["battery_capacity"] = capacity
        vehicle["battery_cells"] = self.cells
        vehicle["battery_resistance"] = self.resistance
        vehicle["battery_slow_resistance"], vehicle["battery_slow_time"] = (
            self.slow_resistance,
            self.slow_time,
        )
        vehicle["battery_ocv"] = self.cell_voltage
        vehicle["battery_nominal_voltage"] = self.nominal_voltage
        vehicle["battery_idle_current"] = self.idle_current
