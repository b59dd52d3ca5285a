"""Section 2.1: the rolling moment of eq. 3, as printed, as released, and as the airframes have it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from comparison import Row

import sitl_bridge as sb

from . import hovering

SPEED, ROTORS, STEP = 10.0, 541.0, 0.001
"""m/s forward; rad/s, the Firefly's hover; s."""


def moment(airframe: sb.Airframe) -> float:
    """N m about the direction of flight, from the angular velocity that one step of it gives."""
    simulation = sb.Simulation(airframe, world=hovering.WORLD, step=STEP, sensors=False)
    simulation.set_state(
        position=(0.0, 0.0, -10.0),
        velocity=(SPEED, 0.0, 0.0),
        attitude=(1.0, 0.0, 0.0, 0.0),
        angular_velocity=(0.0, 0.0, 0.0),
        rotor_speed=np.where(np.arange(simulation.rotor_count) < len(airframe.rotors), ROTORS, 0.0),
    )
    simulation.supply(airframe.battery.nominal_voltage)
    simulation.step(np.full(len(airframe.rotors), ROTORS / airframe.motor.speed_range))
    return float(simulation.angular_velocity[0, 0]) * airframe.inertia.xx / STEP


def reproduce(_picture: Path, _quick: bool) -> list[Row]:
    """Measure the moment on the Firefly; there is no picture."""
    released = hovering.published()
    cancelling = released.changed(rotor_model={"rolling_moment_released": False})
    return [
        Row("six rotors at 10 m/s, by eq. 3: amount", "mN m", "32.5", abs(1e3 * moment(released)), near=0.01),
        Row("... along the flight, released code", "mN m", "", 1e3 * moment(released), digits=1),
        Row("... along the flight, airframes here", "mN m", "", 1e3 * moment(cancelling), digits=1),
    ]
