"""Vibration of the rotors in the airframe file, and what a damaged propeller adds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from sitl_bridge.base.quantities import STRICT, NonNegative

BLADES = 2
"""Blades of a rotor whose airframe has no ``vibration``."""


class Vibration(BaseModel):
    """Vibration that the rotors of a whole vehicle cause; without it they turn smoothly."""

    model_config = STRICT

    imbalance: NonNegative = Field(
        description="kg m, mass of a rotor times the distance of its centre of mass from its axis"
    )
    blades: int = Field(BLADES, ge=1, le=8, description="of each rotor")
    thrust_ripple: float = Field(
        0.0,
        ge=0.0,
        le=1.0,
        description="amplitude of the thrust at the passing of blades, share of the thrust",
    )

    def pack(self, vehicle: NDArray[np.void]) -> None:
        """Write the vibration of a () VEHICLE record."""
        vehicle["vibration"] = 1
        vehicle["rotor_imbalance"] = self.imbalance
        vehicle["blade_count"] = self.blades
        vehicle["thrust_ripple"] = self.thrust_ripple


def damage(vehicle: NDArray[np.void], rotor: int, lost: float) -> tuple[float, float]:
    """Remaining share of thrust and torque, and imbalance in kg m, of a rotor with a broken blade.

    Lift grows with the square of the radius, so a blade that ends at (1 - s) R keeps (1 - s)^3 of it.  A
    uniform blade of mass m loses m s at R (1 - s/2); n blades are a rod with the rotor's inertia, n m
    R^2/3.

    Args:
        vehicle: () VEHICLE.
        rotor: which, from 0.
        lost: share of the blade's length, from its tip.
    """
    blades = float(vehicle["blade_count"]) or BLADES
    health = 1.0 - (1.0 - (1.0 - lost) ** 3) / blades
    moment = 3.0 * float(vehicle["rotor_inertia"][rotor]) / (blades * float(vehicle["rotor_radius"][rotor]))
    return health, moment * lost * (1.0 - 0.5 * lost)


def damage_propeller(vehicle: NDArray[np.void], state: NDArray[np.void], rotor: int, lost: float) -> None:
    """Let a rotor of a vehicle lose a part of one blade, 0 to 1 of its length; 0 is a whole propeller.

    Args:
        vehicle: () VEHICLE.
        state: () STATE, written.
        rotor: which, from 0.
        lost: share of the blade's length.
    """
    state["rotor_health"][rotor], state["damage_imbalance"][rotor] = damage(vehicle, rotor, lost)
    damaged = bool(np.any(state["damage_imbalance"]))
    state["vibrating"] = int(damaged or vehicle["vibration"] != 0)
