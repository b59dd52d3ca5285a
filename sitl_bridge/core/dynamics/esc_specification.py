"""The speed controllers in the airframe file."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from sitl_bridge.base.quantities import STRICT, NonNegative, Positive


class SpeedControllers(BaseModel):
    """One electronic speed controller per motor; without this section they are ideal."""

    model_config = STRICT

    current_limit: Positive | None = Field(
        None, description="A, most that one takes from the battery (DC motors: most in the windings)"
    )
    resistance: NonNegative = Field(0.0, description="ohm of the switches, whose losses heat it")
    thermal_resistance: NonNegative = Field(0.0, description="K/W to the air")
    thermal_time: Positive = Field(30.0, description="s in which it warms up")

    def pack(self, vehicle: NDArray[np.void]) -> None:
        """Write the speed controllers of a () VEHICLE record."""
        vehicle["esc_current_limit"] = self.current_limit or 0.0
        vehicle["esc_heating"] = self.resistance * self.thermal_resistance
        vehicle["esc_thermal_time"] = self.thermal_time if vehicle["esc_heating"] > 0.0 else 0.0
