"""What an inertial unit feels of turning rotors: imbalance once a turn, thrust ripple as blades pass.

These are faster than a step of the dynamics, so they are not integrated there: force, acceleration and
turning rate at the sensor follow in closed form from the rotors' phases at the time of a sample.  Samples of
less than twice the frequency fold it, as in a real unit without an anti-aliasing filter.
"""

from __future__ import annotations

import math

import numpy as np
from pydantic import BaseModel, Field

from sitl_bridge.base.arrays import Floats, Records, Words
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.kernels.compiled import on_demand
from sitl_bridge.base.kernels.random_streams import normal
from sitl_bridge.base.kernels.rotations import product
from sitl_bridge.base.quantities import STRICT, NonNegative
from sitl_bridge.core.dynamics.records import State, Vehicle

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
    shake: tuple[NonNegative, NonNegative] = Field(
        (0.0, 0.0),
        description="m/s^2 and rad/s, of what vibrates faster than an inertial unit samples: deviation of the"
        " white noise whose differences are added to its samples; in a hover, in proportion to the thrust",
    )

    def pack(self, vehicle: Records) -> None:
        """Write the vibration of a () VEHICLE record."""
        vehicle["vibration"] = 1
        vehicle["rotor_imbalance"] = self.imbalance
        vehicle["blade_count"] = self.blades
        vehicle["thrust_ripple"] = self.thrust_ripple
        vehicle["shake"] = self.shake


def damage(vehicle: Records, rotor: int, lost: float) -> tuple[float, float]:
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


def damage_propeller(vehicle: Records, state: Records, rotor: int, lost: float) -> None:
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


@on_demand
def vibration(
    vehicle: Vehicle,
    state: State,
    position: Floats,
    bandwidth: float,
    random: Words,
    shaken: Floats,
    out: Floats,
) -> None:
    """Add the rotors' vibration to an ideal unit's specific force and angular rate.

    A rotor whose centre of mass is off its axis, m e = U, pulls at its hub with U w^2, turning with it (ISO
    21940-11); a ripple of its thrust at n blades per turn acts along its axis.  The rigid body answers
    with F/m and J^-1 (r x F), and the rate is the integral of the latter.  ``shake`` is noise whose spectrum
    rises to the half of the sampling rate, the difference of white noise: its integral stays bounded, as that
    of vibration does.

    Args:
        position: (3,) m, of the sensor, body.
        bandwidth: Hz, of the unit's second-order Butterworth filter; inf for none.  Its lag is left out.
        random: (4,) random stream of the unit, advanced if the vehicle shakes.
        shaken: (6,) numbers drawn for the last sample, rewritten.
        out: (6,) m/s^2 and rad/s, body.
    """
    fx, fy, fz, mx, my, mz, lx, ly, lz = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    thrust = 0.0
    for k in range(vehicle.rotor_count):
        speed = abs(state.rotor_speed[k])
        if speed < 1.0:
            continue
        thrust += state.rotor_thrust[k]
        ax, ay, az = vehicle.rotor_axis[k, 0], vehicle.rotor_axis[k, 1], vehicle.rotor_axis[k, 2]
        # e1 and e2 span the rotor's plane; the shafts of multirotors are far from the body's x axis.
        share = 1.0 / math.sqrt(1.0 - ax * ax)
        e1x, e1y, e1z = (1.0 - ax * ax) * share, -ax * ay * share, -ax * az * share
        e2x, e2y, e2z = ay * e1z - az * e1y, az * e1x - ax * e1z, ax * e1y - ay * e1x
        phase = state.rotor_phase[k]
        turn = vehicle.rotor_direction[k]
        cosine, sine = math.cos(phase), math.sin(phase) * turn
        pull = (vehicle.rotor_imbalance + state.damage_imbalance[k]) * speed * speed
        ripple = vehicle.thrust_ripple * state.rotor_thrust[k]
        passing = vehicle.blade_count * phase
        ratio = speed / (2.0 * math.pi * bandwidth)
        pull /= math.sqrt(1.0 + ratio**4)
        ripple /= math.sqrt(1.0 + (vehicle.blade_count * ratio) ** 4)
        push = ripple * math.cos(passing)
        # The force, and its integral over time.
        gx = pull * (cosine * e1x + sine * e2x) + push * ax
        gy = pull * (cosine * e1y + sine * e2y) + push * ay
        gz = pull * (cosine * e1z + sine * e2z) + push * az
        pull /= speed
        push = ripple * math.sin(passing) / (max(vehicle.blade_count, 1.0) * speed)
        cosine, sine = -math.cos(phase) * turn, math.sin(phase)
        ix = pull * (sine * e1x + cosine * e2x) + push * ax
        iy = pull * (sine * e1y + cosine * e2y) + push * ay
        iz = pull * (sine * e1z + cosine * e2z) + push * az
        x, y, z = vehicle.rotor_position[k, 0], vehicle.rotor_position[k, 1], vehicle.rotor_position[k, 2]
        fx, fy, fz = fx + gx, fy + gy, fz + gz
        mx += y * gz - z * gy
        my += z * gx - x * gz
        mz += x * gy - y * gx
        lx += y * iz - z * iy
        ly += z * ix - x * iz
        lz += x * iy - y * ix
    p, q, r = product(vehicle.inertia_inverse, mx, my, mz)
    x, y, z = position[0], position[1], position[2]
    out[0] += fx / vehicle.mass + q * z - r * y
    out[1] += fy / vehicle.mass + r * x - p * z
    out[2] += fz / vehicle.mass + p * y - q * x
    p, q, r = product(vehicle.inertia_inverse, lx, ly, lz)
    out[3], out[4], out[5] = out[3] + p, out[4] + q, out[5] + r
    if vehicle.shake[0] + vehicle.shake[1] > 0.0:
        load = thrust / (vehicle.mass * STANDARD_GRAVITY)
        for axis in range(6):
            number = vehicle.shake[axis // 3] * normal(random)
            out[axis] += load * (number - shaken[axis])
            shaken[axis] = number


@on_demand
def turn_phases(vehicle: Vehicle, state: State, seconds: float) -> None:
    """Turn every rotor on over a step by its present speed."""
    for k in range(vehicle.rotor_count):
        phase = state.rotor_phase[k] + abs(state.rotor_speed[k]) * seconds
        state.rotor_phase[k] = phase - 2.0 * math.pi * math.floor(phase / (2.0 * math.pi))
