"""Blade-element momentum theory, an example of a rotor law of one's own: one file, one line in an airframe.

    rotor_model: {kind: custom, file: rotors/blade_element.py, class: BladeElement, options: {chord: 0.022}}

A rigid rotor whose propeller has constant chord and constant geometric pitch, which is the ideal twist: the
blade angle falls with one over the radius.  Forces of the elements are averaged over a turn and integrated
along the blade in closed form: Leishman, Principles of Helicopter Aerodynamics, 2nd ed., eq. 3.28 for the
thrust; W. Johnson, Helicopter Theory, section 5-4, for torque and in-plane force.  The induced velocity is
uniform, by Glauert's momentum theory, T = 2 rho A v_i sqrt(V_x^2 + (V_c + v_i)^2).  In a descent, where that
theory fails (the vortex ring state), the flow through the disk is taken to be that of a hover with the same
induced velocity.
"""

from __future__ import annotations

import math

import sitl_bridge as sb


class BladeElement(sb.RotorLaw):
    """A propeller by blade-element momentum theory."""

    radius: float
    """m; the rotor_model's where the options leave it out."""
    chord: float
    """m, mean chord."""
    pitch: float
    """m, geometric pitch: advance in one turn without slip."""
    blades: int = 2
    lift_slope: float = 5.7
    """1/rad, 2 pi less the losses of a real section (Leishman, section 3.2)."""
    drag: float = 0.03
    """Profile drag coefficient."""
    tip: float = 0.95
    """Share of the radius beyond which the tip loses its lift (Prandtl)."""
    root: float = 0.2
    """Share of the radius where the blade begins."""

    def loads(
        self, speed: float, climb: float, in_plane: float, density: float
    ) -> tuple[float, float, float, float]:
        """Thrust, torque, in-plane force and hub moment of one rotor."""
        tip_speed = speed * self.radius
        advance = in_plane / tip_speed
        solidity = self.blades * self.chord / (math.pi * self.radius)
        angle = self.pitch / (2.0 * math.pi * self.radius)  # of the blade at its tip, rad
        length = math.log(1.0 / self.root)  # integral of dr/r along the blade
        slope = 0.25 * solidity * self.lift_slope * self.tip * self.tip
        lifting = angle * (1.0 + length * advance * advance)
        # The blades' thrust falls with the inflow, that of momentum rises: they agree in between.
        low, high = -1.0, 1.0
        for _ in range(40):
            inflow = 0.5 * (low + high)
            induced = inflow - climb / tip_speed
            flow = max(inflow, induced)
            if slope * (lifting - inflow) > 2.0 * induced * math.sqrt(advance * advance + flow * flow):
                low = inflow
            else:
                high = inflow
        inflow = 0.5 * (low + high)
        thrust = slope * (lifting - inflow)
        profile = 0.125 * solidity * self.drag
        inclined = 0.25 * solidity * self.lift_slope * angle * inflow * length * advance
        torque = thrust * inflow + profile * (1.0 + advance * advance) - inclined * advance
        force = 2.0 * profile * advance + inclined
        scale = density * math.pi * self.radius * self.radius * tip_speed * tip_speed
        return thrust * scale, torque * scale * self.radius, force * scale, 0.0
