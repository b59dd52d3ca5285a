"""How a vehicle as it was built differs from its figures: rotors, their axes, the centre of gravity.

The deviations are drawn once for each vehicle of a run.  A flight stack does not know them: its parameters
follow from the airframe's figures.
"""

from __future__ import annotations

import numpy as np
from pydantic import BaseModel, Field

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.quantities import STRICT


class Tolerances(BaseModel):
    """Standard deviations of normal distributions; each vehicle of a run has its own draw."""

    model_config = STRICT

    thrust: float = Field(
        0.0,
        ge=0.0,
        le=0.2,
        description="share of each rotor's thrust in still air, and of its torque",
    )
    axis: float = Field(
        0.0, ge=0.0, le=10.0, description="deg, of each rotor's axis about either axis across"
    )
    centre_of_gravity: tuple[float, float, float] = Field(
        (0.0, 0.0, 0.0), description="m, FRD, of its place; rotors, feet and sensors keep theirs"
    )

    def built(self, vehicle: Records, random: np.random.Generator) -> tuple[Records, Floats]:
        """A vehicle as it was built.

        The inertia stays that of the figures: a shift of 1 cm would change that of a vehicle of 2 kg by 2e-4
        kg m^2.

        Args:
            vehicle: () VEHICLE of the figures; not changed.
            random: yields the deviations, the same for every vehicle with as many rotors.

        Returns:
            () VEHICLE, and (3,) m, body, by which the centre of gravity is off.
        """
        made, rotors = vehicle.copy(), int(vehicle["rotor_count"])
        points = int(vehicle["contact_count"])
        shift = np.array(self.centre_of_gravity) * random.standard_normal(3)
        factors = 1.0 + self.thrust * random.standard_normal(rotors)
        for name in ("thrust_c2", "thrust_c1"):
            made[name][:rotors] *= factors
        across = np.radians(self.axis) * random.standard_normal((rotors, 3))
        axes = vehicle["rotor_axis"][:rotors]
        # A small turn; what of its vector lies along the axis turns nothing.
        turned = axes + np.cross(across, axes)
        made["rotor_axis"][:rotors] = turned / np.linalg.norm(turned, axis=1, keepdims=True)
        made["rotor_position"][:rotors] -= shift
        made["contact_point"][:points] -= shift
        if points:
            made["contact_radius"] = np.linalg.norm(made["contact_point"][:points], axis=1).max()
        return made, shift
