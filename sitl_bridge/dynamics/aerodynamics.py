"""What the air and the ground's nearness do to the airframe: body drag and ground effect.

The rotors' own aerodynamics are in rotor.py.
"""

from __future__ import annotations

import math

from sitl_bridge.kernels.compiled import compiled

GROUND_EFFECT_LEAST_HEIGHT = 0.5
"""Rotor radii above the ground below which the ground effect no longer grows.  The image model behind it
places a source at the hub and diverges at a quarter radius; Cheeseman and Bennett compare it with flight
down to half a radius only (ARC R&M 3021, 1955), where it gives 4/3."""
GROUND_EFFECT_REACH = 16.0
"""Rotor radii above which the ground effect, below 0.03 % there, is left out."""


@compiled
def ground_effect_factor(radius: float, height: float, upright: float, speed: float, induced: float) -> float:
    """Thrust near the ground over thrust far from it, at the same rotor speed.

    1/(1 - (R/4z)^2/(1 + (V/v_i)^2)), Cheeseman and Bennett, ARC R&M 3021 (1955), with forward flight.  It
    fades with the part of the wake that goes down, so a rotor on its side or upside down has none.

    Args:
        radius: m.
        height: m of the hub above the ground.
        upright: cosine between the rotor's axis and the vertical.
        speed: m/s of the hub through the air in the rotor's plane.
        induced: m/s, the induced velocity of the hovering rotor; 0 where there is no thrust.
    """
    if upright <= 0.0 or induced <= 0.0:
        return 1.0
    ratio = radius / (4.0 * max(height, GROUND_EFFECT_LEAST_HEIGHT * radius))
    advance = speed / induced
    return 1.0 / (1.0 - upright * ratio * ratio / (1.0 + advance * advance))


@compiled
def induced_velocity(thrust: float, radius: float, density: float) -> float:
    """Induced velocity in m/s of a hovering rotor by momentum theory, sqrt(T/(2 rho pi R^2))."""
    if thrust <= 0.0 or radius <= 0.0:
        return 0.0
    return math.sqrt(thrust / (2.0 * density * math.pi * radius * radius))
