"""Aerodynamics of the airframe: body drag and ground effect.

The rotors' own aerodynamics are in rotor.py.
"""

from __future__ import annotations

import math

from pydantic import BaseModel, Field

from sitl_bridge.base.arrays import Records
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.base.quantities import STRICT, NonNegative, Positive
from sitl_bridge.core.dynamics.records import Rotation, State

GROUND_EFFECT_MIN_HEIGHT = 0.5
"""Height in rotor radii below which the ground effect is constant.  Its image model places a source at the
hub and diverges at a quarter radius; Cheeseman and Bennett compare it with flight down to half a radius only
(ARC R&M 3021, 1955), where it gives 4/3."""
GROUND_EFFECT_REACH = 16.0
"""Height in rotor radii above which the ground effect is neglected (below 0.03 %)."""
NonNegativeVector = tuple[NonNegative, NonNegative, NonNegative]


class Drag(BaseModel):
    """Body drag F = -C |v| v and M = -C |w| w (hector eq. 2)."""

    model_config = STRICT

    force: NonNegativeVector = Field((0.0, 0.0, 0.0), description="N s^2/m^2, x, y, z")
    moment: NonNegativeVector = Field((0.0, 0.0, 0.0), description="N m s^2")
    reference_density: Positive = Field(1.225, description="kg/m^3")

    def pack(self, vehicle: Records) -> None:
        """Write the drag of a () VEHICLE record."""
        vehicle["drag_force"], vehicle["drag_moment"] = self.force, self.moment
        vehicle["drag_density"] = self.reference_density


@compiled
def ground_effect_factor(radius: float, height: float, upright: float, speed: float, induced: float) -> float:
    """Return thrust near the ground over thrust far from it, at the same rotor speed.

    1/(1 - (R/4z)^2/(1 + (V/v_i)^2)), Cheeseman and Bennett, ARC R&M 3021 (1955), with forward flight.  It is
    scaled by the downward part of the wake, so a rotor on its side or upside down has none.

    Args:
        radius: m.
        height: height of the hub above the ground, m.
        upright: cosine between the rotor's axis and the vertical.
        speed: velocity of the hub through the air in the rotor's plane, m/s.
        induced: induced velocity of the hovering rotor, m/s; 0 without thrust.
    """
    if upright <= 0.0 or induced <= 0.0:
        return 1.0
    ratio = radius / (4.0 * max(height, GROUND_EFFECT_MIN_HEIGHT * radius))
    advance = speed / induced
    return 1.0 / (1.0 - upright * ratio * ratio / (1.0 + advance * advance))


@compiled
def induced_velocity(thrust: float, radius: float, density: float) -> float:
    """Return the induced velocity in m/s of a hovering rotor by momentum theory, sqrt(T/(2 rho pi R^2))."""
    if thrust <= 0.0 or radius <= 0.0:
        return 0.0
    return math.sqrt(thrust / (2.0 * density * math.pi * radius * radius))


@on_demand
def air_at_hubs(state: State, n: int, a: Rotation) -> None:
    """Let each rotor fly in the wakes and gusts at its own place: the vehicle's wind holds their mean.

    A rotor that is blown on from above loses thrust, so a vehicle half inside a wake or a gust is turned.
    """
    rows = state.scratch
    for k in range(n):
        north, east, down = state.rotor_air[k, 0], state.rotor_air[k, 1], state.rotor_air[k, 2]
        u = a.r00 * north + a.r10 * east + a.r20 * down
        v = a.r01 * north + a.r11 * east + a.r21 * down
        w = a.r02 * north + a.r12 * east + a.r22 * down
        along = u * rows.axis_x[k] + v * rows.axis_y[k] + w * rows.axis_z[k]
        rows.inflow[k] -= along
        rows.across_x[k] -= u - along * rows.axis_x[k]
        rows.across_y[k] -= v - along * rows.axis_y[k]
        rows.across_z[k] -= w - along * rows.axis_z[k]
