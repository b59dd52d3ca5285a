"""Vibration of a vehicle by its rotors, and what of it an inertial unit measures.

Three causes: the imbalance of each rotor, once a turn; its thrust, as its blades pass; and the turbulent air
that it works in, which is broad noise.  The arms' bending answers to all three.

The first two are faster than a step of the dynamics, so they are not integrated there: force, acceleration
and turning rate at the sensor follow in closed form from the rotors' phases at the time of a sample, as the
steady answer of the arms, of the unit's filter and of its mean over the time between samples.  A unit that
forms no mean folds what is faster than half its rate.  Turbulent air is a force on the body in each step;
only the arms' answer to it is added here.
"""

from __future__ import annotations

import math

import numpy as np
from pydantic import BaseModel, Field

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.base.kernels.random_streams import normal
from sitl_bridge.base.kernels.rotations import product
from sitl_bridge.base.quantities import STRICT, NonNegative, Positive
from sitl_bridge.core.dynamics.records import State, Vehicle

BLADES = 2
"""Blades of a rotor whose airframe has no ``vibration``."""

IN_PLANE = 0.2
"""Turbulent force of a rotor in each direction across its axis, over that along it.  The forces on the blades
are as their torque over 0.7 R to their thrust, 0.12 of a 10-inch propeller; an arm of 16 mm in the wake adds
0.15: C_L' 0.4 (Norberg, Journal of Fluids and Structures 17, 2003) on 10 cm at twice the induced velocity."""

LARGEST_GAIN = 3.0
"""By which a line is sharpened for each of PX4's means at most, as of one at 98 Hz of 250 Hz: they take all
of one at half the rate, and more than 3 x 3 times of an arm's resonance would not fit into 16 g."""

AIR_DENSITY = 1.2
"""kg/m^3, of the induced velocity with which turbulence is compared."""


class Arms(BaseModel):
    """The first bending of the arms, each a spring with the motor at its end, the same up and sideways."""

    model_config = STRICT

    frequency: Positive = Field(description="Hz, natural frequency")
    damping: float = Field(gt=0.0, lt=1.0, description="of critical")
    length: Positive = Field(description="m, from where it is held to the motor")
    height: NonNegative = Field(description="m, of the rotor's centre of mass above the arm")


class Vibration(BaseModel):
    """Vibration that the rotors of a whole vehicle cause; without it they turn smoothly."""

    model_config = STRICT

    imbalance: NonNegative = Field(
        description="kg m, mass of a rotor times the distance of its centre of mass from its axis; with"
        " tolerances, the root mean square of the rotors'"
    )
    tilt: float = Field(
        0.0,
        ge=0.0,
        le=2.0,
        description="deg, by which the line of a rotor's blades is not at right angles to its shaft, so that"
        " its tips are out of track; with tolerances, the root mean square",
    )
    blades: int = Field(BLADES, ge=1, le=8, description="of each rotor")
    thrust_ripple: float = Field(
        0.0,
        ge=0.0,
        le=1.0,
        description="amplitude of the thrust at the passing of blades, share of the thrust",
    )
    turbulence: float = Field(
        0.0,
        ge=0.0,
        le=0.02,
        description="1/sqrt(Hz), share of a rotor's thrust by which turbulent air changes it in a hover; in"
        " flight it grows with the flow through the disc",
    )
    arms: Arms | None = Field(None, description="that bend; without them the frame is stiff")

    def pack(self, vehicle: Records) -> None:
        """Write the vibration of a () VEHICLE record."""
        vehicle["vibration"] = 1
        vehicle["rotor_imbalance"][: vehicle["rotor_count"]] = self.imbalance
        vehicle["rotor_tilt"][: vehicle["rotor_count"]] = math.radians(self.tilt)
        vehicle["blade_count"] = self.blades
        vehicle["thrust_ripple"] = self.thrust_ripple
        vehicle["turbulence"] = self.turbulence
        if self.arms is not None:
            vehicle["arm_frequency"] = 2.0 * math.pi * self.arms.frequency
            vehicle["arm_damping"] = self.arms.damping
            vehicle["arm_length"], vehicle["hub_height"] = self.arms.length, self.arms.height


def damage_propeller(vehicle: Records, state: Records, rotor: int, lost: float) -> None:
    """Let a rotor of a vehicle lose a part of one blade: thrust, torque and balance.

    Lift grows with the square of the radius, so a blade that ends at (1 - s) R keeps (1 - s)^3 of it.  A
    uniform blade of mass m loses m s at R (1 - s/2); n blades are a rod with the rotor's inertia, n m
    R^2/3.

    Args:
        vehicle: () VEHICLE.
        state: () STATE, written.
        rotor: which, from 0.
        lost: share of the blade's length, from its tip; 0 is a whole propeller.
    """
    blades = float(vehicle["blade_count"]) or BLADES
    state["rotor_health"][rotor] = 1.0 - (1.0 - (1.0 - lost) ** 3) / blades
    moment = 3.0 * float(vehicle["rotor_inertia"][rotor]) / (blades * float(vehicle["rotor_radius"][rotor]))
    state["damage_imbalance"][rotor] = moment * lost * (1.0 - 0.5 * lost)
    damaged = bool(np.any(state["damage_imbalance"]))
    state["vibrating"] = int(damaged or vehicle["vibration"] != 0)


@compiled
def transmissibility(ratio: float, damping: float) -> complex:
    """Force that a damped spring passes on, over that on its mass, at a frequency over the natural one.

    (1 + 2j z r)/(1 - r^2 + 2j z r) (ISO 2041, transmissibility).
    """
    lag = 2j * damping * ratio
    return (1.0 + lag) / (1.0 - ratio * ratio + lag)


@compiled
def _filter_gain(speed: float, bandwidth: float, interval: float) -> complex:
    """Share that a unit's filter and its mean over an interval pass of a vibration at ``speed`` in rad/s.

    The filter is a Butterworth one of second order, whose lag is left out; the mean is sin(x)/x and lags by
    x, half the angle turned in the interval.
    """
    share = 1.0 / math.sqrt(1.0 + (speed / (2.0 * math.pi * bandwidth)) ** 4)
    half = 0.5 * speed * interval
    if half <= 0.0:
        return complex(share, 0.0)
    share *= math.sin(half) / half
    return complex(share * math.cos(half), -share * math.sin(half))


@compiled
def _sharpness(speed: float, interval: float, means: float) -> float:
    """Gain by which a line at ``speed`` in rad/s is raised, so that PX4's means of two samples leave it.

    (s_k + s_(k-1))/2 leaves cos(x) of it, x half the angle turned in the interval.
    """
    return min(1.0 / max(abs(math.cos(0.5 * speed * interval)), 1e-3), LARGEST_GAIN) ** means - 1.0


@on_demand
def vibration(
    vehicle: Vehicle,
    state: State,
    position: Floats,
    bandwidth: float,
    interval: float,
    means: float,
    out: Floats,
) -> None:
    """Add the rotors' vibration to an ideal unit's specific force and angular rate.

    A rotor whose centre of mass is off its axis, m e = U, pulls at its hub with U w^2, turning with it (ISO
    21940-11); a ripple of its thrust at n blades per turn acts along its axis.  The body answers with F/m and
    J^-1 (r x F), and the rate is the integral of the latter.  Blades whose line is off by a small angle e
    turn with a moment of I w^2 e (couple unbalance; I of a rod), here a quarter turn from the pull.  An arm
    passes what pulls it sideways or up by its transmissibility H; what pulls along it at a height h bends it
    up by h, so that it pushes the body with (3 h/2 L) r^2 H of that (r: frequency over the natural one).

    All is linear, so each rotor's forces are complex amplitudes that turn with its phase; their integral over
    time is that over j w.

    Args:
        position: (3,) m, of the sensor, body.
        bandwidth: Hz, of the unit's second-order Butterworth filter; inf for none.  Its lag is left out.
        interval: s, over which the unit forms means; 0: its samples are instantaneous.
        means: number of means that PX4 forms of samples of the acceleration.
        out: (9,) m/s^2 and rad/s, body, to which is added; and m/s^2 by which the rotors' lines are to be
            more, so that these means leave them as they are, which is set.
    """
    fx, fy, fz, mx, my, mz, lx, ly, lz = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    sx, sy, sz, nx, ny, nz = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(vehicle.rotor_count):
        speed = abs(state.rotor_speed[k])
        if speed < 1.0:
            continue
        ax, ay, az = vehicle.rotor_axis[k, 0], vehicle.rotor_axis[k, 1], vehicle.rotor_axis[k, 2]
        # e1 and e2 span the rotor's plane; the shafts of multirotors are far from the body's x axis.
        share = 1.0 / math.sqrt(1.0 - ax * ax)
        e1x, e1y, e1z = (1.0 - ax * ax) * share, -ax * ay * share, -ax * az * share
        e2x, e2y, e2z = ay * e1z - az * e1y, az * e1x - ax * e1z, ax * e1y - ay * e1x
        x, y, z = vehicle.rotor_position[k, 0], vehicle.rotor_position[k, 1], vehicle.rotor_position[k, 2]
        phase, blades = state.rotor_phase[k], max(vehicle.blade_count, 1.0)
        once = complex(math.cos(phase), math.sin(phase)) * _filter_gain(speed, bandwidth, interval)
        pull = (vehicle.rotor_imbalance[k] + state.damage_imbalance[k]) * speed * speed * once
        passing = complex(math.cos(blades * phase), math.sin(blades * phase))
        ripple = vehicle.thrust_ripple * state.rotor_thrust[k]
        push = ripple * passing * _filter_gain(blades * speed, bandwidth, interval)
        # Along e1, along e2 and along the axis: once a turn, and as blades pass.
        first, second, along = pull, -1j * vehicle.rotor_direction[k] * pull, 0j
        if vehicle.arm_frequency > 0.0:
            out1, out2 = x * e1x + y * e1y + z * e1z, x * e2x + y * e2y + z * e2z
            reach = math.sqrt(out1 * out1 + out2 * out2)
            ratio = speed / vehicle.arm_frequency
            answer = transmissibility(ratio, vehicle.arm_damping)
            push *= transmissibility(blades * ratio, vehicle.arm_damping)
            if reach > 0.0:
                out1, out2 = out1 / reach, out2 / reach
                sideways = (answer - 1.0) * (out1 * second - out2 * first)
                # The pulls that would have the moment about the axis across the arm at the hub's height.
                couple = 1j * vehicle.rotor_inertia[k] * vehicle.rotor_tilt[k] * speed * speed * once
                moment = vehicle.hub_height * (out1 * first + out2 * second)
                moment += (out1 - 1j * vehicle.rotor_direction[k] * out2) * couple
                along = 1.5 * moment / vehicle.arm_length * ratio * ratio * answer
                first, second = first - out2 * sideways, second + out1 * sideways
        if means > 0.0:
            more, pushes = _sharpness(speed, interval, means), _sharpness(blades * speed, interval, means)
            f1, f2, fa = more * first.real, more * second.real, more * along.real + pushes * push.real
            gx, gy, gz = (
                f1 * e1x + f2 * e2x + fa * ax,
                f1 * e1y + f2 * e2y + fa * ay,
                f1 * e1z + f2 * e2z + fa * az,
            )
            sx, sy, sz = sx + gx, sy + gy, sz + gz
            nx, ny, nz = nx + y * gz - z * gy, ny + z * gx - x * gz, nz + x * gy - y * gx
        slower = -1j / speed
        f1, f2, fa = first.real, second.real, along.real + push.real
        gx, gy, gz = (
            f1 * e1x + f2 * e2x + fa * ax,
            f1 * e1y + f2 * e2y + fa * ay,
            f1 * e1z + f2 * e2z + fa * az,
        )
        f1, f2 = (slower * first).real, (slower * second).real
        fa = (slower * (along + push / blades)).real
        ix, iy, iz = (
            f1 * e1x + f2 * e2x + fa * ax,
            f1 * e1y + f2 * e2y + fa * ay,
            f1 * e1z + f2 * e2z + fa * az,
        )
        fx, fy, fz = fx + gx, fy + gy, fz + gz
        mx += y * gz - z * gy
        my += z * gx - x * gz
        mz += x * gy - y * gx
        lx += y * iz - z * iy
        ly += z * ix - x * iz
        lz += x * iy - y * ix
    felt = state.buffet_felt
    p, q, r = product(vehicle.inertia_inverse, mx, my, mz)
    p, q, r = p + felt[3], q + felt[4], r + felt[5]
    x, y, z = position[0], position[1], position[2]
    out[0] += fx / vehicle.mass + felt[0] + q * z - r * y
    out[1] += fy / vehicle.mass + felt[1] + r * x - p * z
    out[2] += fz / vehicle.mass + felt[2] + p * y - q * x
    p, q, r = product(vehicle.inertia_inverse, nx, ny, nz)
    out[6] = sx / vehicle.mass + q * z - r * y
    out[7] = sy / vehicle.mass + r * x - p * z
    out[8] = sz / vehicle.mass + p * y - q * x
    p, q, r = product(vehicle.inertia_inverse, lx, ly, lz)
    out[3], out[4], out[5] = out[3] + p + felt[6], out[4] + q + felt[7], out[5] + r + felt[8]


@compiled
def _answer_buffet(vehicle: Vehicle, state: State, seconds: float) -> None:
    """Advance the arms' answer to the buffet of a step, and keep what of it is beyond the buffet itself.

    A filter of second order with the arms' poles.  Its numerator b, c, b makes its gain 1 at frequency 0,
    that of the impulse-invariant filter (Oppenheim and Schafer, Discrete-Time Signal Processing, section
    7.2), times the mean over a step, at the natural frequency, and its lag nearly 0.
    """
    felt, turn = state.buffet_felt, vehicle.arm_frequency * seconds
    decay = math.exp(-vehicle.arm_damping * turn)
    bent = math.sqrt(1.0 - vehicle.arm_damping * vehicle.arm_damping) * turn
    c1, c2 = 2.0 * decay * math.cos(bent), decay * decay
    still = 1.0 - c1 + c2
    peak = 2.0 * decay * math.sin(bent) * math.sin(0.5 * turn)
    side = 0.5 * (still - peak) / (1.0 - math.cos(bent))
    middle = still - 2.0 * side
    for axis in range(6):
        force, memory = state.buffet[axis], state.buffet_filter[axis]
        answer = side * force + memory[0]
        memory[0] = middle * force + c1 * answer + memory[1]
        memory[1] = side * force - c2 * answer
        felt[axis] = answer - force
    for axis in range(3):
        felt[axis] /= vehicle.mass
    felt[3], felt[4], felt[5] = product(vehicle.inertia_inverse, felt[3], felt[4], felt[5])
    for axis in range(3):
        felt[6 + axis] += felt[3 + axis] * seconds


@compiled
def _draw_buffet(vehicle: Vehicle, state: State, seconds: float) -> None:
    """Draw the force and moment of turbulent air on the rotors over the coming step: white noise.

    Eddies change the flow through a disc by a share of it, so their force grows with it: in a hover it is the
    induced velocity v_h, in flight sqrt(v_h^2 + V^2).
    """
    b, square = state.buffet, 0.0
    for axis in range(6):
        b[axis] = 0.0
    for axis in range(3):
        square += (state.velocity[axis] - state.wind[axis]) ** 2
    for k in range(vehicle.rotor_count):
        thrust = abs(state.rotor_thrust[k])
        if thrust <= 0.0:
            continue
        disc = math.pi * vehicle.rotor_radius[k] * vehicle.rotor_radius[k]
        flow = math.sqrt(1.0 + square * 2.0 * AIR_DENSITY * disc / thrust)
        # White noise of a density per Hz, held over a step.
        force = vehicle.turbulence * thrust * flow / math.sqrt(2.0 * seconds)
        along, across = force * normal(state.buffet_random), IN_PLANE * force
        gx = along * vehicle.rotor_axis[k, 0] + across * normal(state.buffet_random)
        gy = along * vehicle.rotor_axis[k, 1] + across * normal(state.buffet_random)
        gz = along * vehicle.rotor_axis[k, 2]
        torque = vehicle.torque_thrust_ratio[k] * vehicle.rotor_direction[k] * along
        x, y, z = vehicle.rotor_position[k, 0], vehicle.rotor_position[k, 1], vehicle.rotor_position[k, 2]
        b[0], b[1], b[2] = b[0] + gx, b[1] + gy, b[2] + gz
        b[3] += y * gz - z * gy + torque * vehicle.rotor_axis[k, 0]
        b[4] += z * gx - x * gz + torque * vehicle.rotor_axis[k, 1]
        b[5] += x * gy - y * gx + torque * vehicle.rotor_axis[k, 2]


@on_demand
def turn_phases(vehicle: Vehicle, state: State, seconds: float) -> None:
    """Turn every rotor on over a step by its present speed; end the step's buffet and draw the next."""
    for k in range(vehicle.rotor_count):
        phase = state.rotor_phase[k] + abs(state.rotor_speed[k]) * seconds
        state.rotor_phase[k] = phase - 2.0 * math.pi * math.floor(phase / (2.0 * math.pi))
    random = state.buffet_random
    for axis in range(3):
        state.buffet_past[axis] = state.buffet[axis] / vehicle.mass
    if vehicle.turbulence > 0.0 and random[0] | random[1] | random[2] | random[3] != 0:
        if 0.0 < vehicle.arm_frequency * seconds < math.pi:
            _answer_buffet(vehicle, state, seconds)
        _draw_buffet(vehicle, state, seconds)
