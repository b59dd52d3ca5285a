"""Decay rates of a vehicle's motion, and the limits of the integrator.

The classical Runge-Kutta method of fourth order is stable on the negative real axis for rates up to 2.785/h
(Hairer and Wanner, Solving Ordinary Differential Equations II, 2nd ed., section IV.2).  Steps are divided so
that the fastest decay stays well below that limit; a vehicle that needs more than MAX_SUBSTEPS is rejected.
"""

from __future__ import annotations

import math

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.base.kernels.record import Packed
from sitl_bridge.core.dynamics.contact import MOST_CONTACT_STEPS, contact_rate
from sitl_bridge.core.dynamics.induced_flow import static_of, still_air
from sitl_bridge.core.dynamics.records import (
    INDUCED_LAW,
    MOTOR_DC,
    POLYNOMIAL_LAW,
    TABLE_LAW,
    Scratch,
    State,
    Vehicle,
)
from sitl_bridge.core.dynamics.rotor_laws import rotor_loads

STABILITY_LIMIT = 1.0
"""Largest product of rate and step length: a third of the stability limit, with an error of 2 % per step."""
MAX_SUBSTEPS = 64
"""Largest number of substeps."""
AIRSPEED = 30.0
"""Airspeed up to which a vehicle must be stable, m/s."""
_GAINED_AIRSPEED = 10.0
"""m/s, by which the airspeed of a hub may be above that of the vehicle, and grow within a step."""
_ROTOR_FIGURES = ("rotor_model (its law)", "rotor_model (drag, thrust_b1, thrust_b2, inflow_loss_speed)")
TURN_RATE = math.radians(2000.0)
"""Turn rate up to which a vehicle must be stable, rad/s: the range of ordinary gyroscopes."""


@compiled
def body_drag_rates(
    vehicle: Vehicle, airspeed: float, turn_rate: float, density: float
) -> tuple[float, float]:
    """Return decay rates (1/s) of velocity and turn by body drag, d(C v^2)/dv = 2 C v over the inertia."""
    ratio = 2.0 * density / vehicle.drag_density
    force = 0.0
    moment = 0.0
    for i in range(3):
        force = max(force, vehicle.drag_force[i] / vehicle.mass)
        moment = max(moment, vehicle.drag_moment[i] * vehicle.inertia_inverse[i, i])
    return force * ratio * airspeed, moment * ratio * turn_rate


@compiled
def _is_polynomial(vehicle: Vehicle) -> bool:
    """Return whether the rotors of a vehicle use the polynomial law, which has analytic slopes."""
    return bool(vehicle.rotor_law == POLYNOMIAL_LAW or vehicle.rotor_law == TABLE_LAW)


@on_demand
def _force_slope(vehicle: Vehicle, k: int, speed: float, airspeed: float, density: float) -> float:
    """Return the slope in N s/m of a rotor's force by the hub's velocity, for any law: drag and thrust.

    The thrust slope is the larger of those at rest and at the airspeed, from differences over 1 m/s.
    """
    slope = 0.0
    for at in (-airspeed, 0.0, airspeed):
        low, _, _, _ = rotor_loads(vehicle, k, speed, at - 0.5, airspeed, density)
        high, _, drag, _ = rotor_loads(vehicle, k, speed, at + 0.5, airspeed, density)
        slope = max(slope, abs(high - low) + abs(drag))
    return slope


@on_demand
def _blade_slope(vehicle: Vehicle, k: int, speed: float, density: float) -> float:
    """Return an upper bound of the slope in N s/m of the force of a rotor with induced flow, near hover.

    In place of v_h = sqrt(T/2 rho A) its bound (T/(2 rho A u) + u)/2 with u a twentieth of the tip speed,
    which meets it at a thrust coefficient of 0.04 and costs no root.
    """
    if speed <= 0.0:
        return 0.0
    thrust, torque, slope, disc = still_air(vehicle, k, speed, density)
    per_tip = 1.0 / (speed * vehicle.rotor_radius[k])
    hover = 10.0 * thrust * per_tip / disc + 0.025 / per_tip
    drag = (2.0 * torque * speed + 1.5 * (thrust + slope * hover) * hover) * per_tip * per_tip
    drag = drag * vehicle.drag_share[k] + vehicle.rotor_drag[k] * speed * density / vehicle.rotor_density[k]
    return slope + drag


@compiled
def rotor_rate(vehicle: Vehicle, k: int, speed: float, inflow: float, density: float) -> float:
    """Return the rate in 1/s at which a rotor's in-plane drag and thrust loss with inflow decay motion.

    A force f v at a lever arm r decays velocity with f/m and a turn with at most f r^2/J.
    """
    speed = abs(speed)
    r2 = 0.0
    turning = 0.0
    for i in range(3):
        r2 += vehicle.rotor_position[k, i] ** 2
        turning += vehicle.inertia_inverse[i, i]
    if vehicle.rotor_law == INDUCED_LAW:
        return _blade_slope(vehicle, k, speed, density) * (1.0 / vehicle.mass + r2 * turning)
    if not _is_polynomial(vehicle):
        slope = _force_slope(vehicle, k, speed, inflow, density)
        return slope * (1.0 / vehicle.mass + r2 * turning)
    thrust = (vehicle.thrust_c2[k] * speed + abs(vehicle.thrust_c1[k])) * speed
    slope = vehicle.rotor_drag[k] * speed
    slope += abs(vehicle.thrust_b1[k]) * speed + 2.0 * abs(vehicle.thrust_b2[k]) * inflow
    slope += thrust / vehicle.inflow_loss_speed[k]
    return slope * density / vehicle.rotor_density[k] * (1.0 / vehicle.mass + r2 * turning)


@on_demand
def motor_rate(vehicle: Vehicle, k: int, speed: float, density: float) -> float:
    """Return the decay rate in 1/s of a DC motor's speed: (Psi^2/R + dQ/dw)/J_M, back voltage and load."""
    if _is_polynomial(vehicle):
        load = vehicle.torque_thrust_ratio[k] * (
            2.0 * vehicle.thrust_c2[k] * speed + abs(vehicle.thrust_c1[k])
        )
        load = (load + abs(vehicle.torque_g1[k])) * density / vehicle.rotor_density[k]
    else:
        _, low, _, _ = rotor_loads(vehicle, k, speed, 0.0, 0.0, density)
        _, high, _, _ = rotor_loads(vehicle, k, speed + 1.0, 0.0, 0.0, density)
        load = abs(high - low)
    back = vehicle.dc_flux * vehicle.dc_flux / vehicle.dc_resistance
    return (back + load) / vehicle.dc_inertia


@on_demand
def _induced_rates(vehicle: Vehicle, state: State, rows: Scratch) -> None:
    """``rotor_rate`` of every rotor with induced flow into ``rows``, which ``prepare_rotors`` wrote.

    Without branches, for vector instructions.
    """
    inverse = vehicle.inertia_inverse
    per_mass, turning = 1.0 / vehicle.mass, inverse[0, 0] + inverse[1, 1] + inverse[2, 2]
    place = vehicle.rotor_position
    for k in range(vehicle.rotor_count):
        speed = abs(state.rotor_speed[k])
        ratio = rows.ratio[k]
        turns = speed > 0.0
        thrust, torque = static_of(vehicle, k, speed, ratio)
        slope = rows.blade[k] * speed
        tip = speed * vehicle.rotor_radius[k]
        per_tip = 1.0 / (tip if turns else 1.0)
        hover = 10.0 * thrust * per_tip * rows.per_disc[k] + 0.025 * tip
        drag = (2.0 * torque * speed + 1.5 * (thrust + slope * hover) * hover) * per_tip * per_tip
        drag = drag * rows.drag_share[k] + rows.drag[k] * speed * ratio
        r2 = place[k, 0] ** 2 + place[k, 1] ** 2 + place[k, 2] ** 2
        rows.decay[k] = (slope + drag) * (per_mass + r2 * turning) * (1.0 if turns else 0.0)


@compiled
def decay_rate(vehicle: Vehicle, state: State, rows: Scratch, density: float) -> float:
    """Return an upper bound of the fastest decay rate of a state in 1/s, without contact.

    ``rows`` is as ``prepare_rotors`` leaves it; its ``standing`` is written.
    """
    north = state.velocity[0] - state.wind[0]
    east = state.velocity[1] - state.wind[1]
    down = state.velocity[2] - state.wind[2]
    airspeed = math.sqrt(north * north + east * east + down * down)
    w = state.angular_velocity
    turn_rate = math.sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2])
    moving, turning = body_drag_rates(vehicle, airspeed, turn_rate, density)
    slowest = math.inf
    for k in range(vehicle.rotor_count):
        slowest = min(slowest, abs(state.rotor_speed[k]) * vehicle.rotor_radius[k])
    rows.standing = 1 if slowest < airspeed + _GAINED_AIRSPEED else 0
    rotors = 0.0
    motors = 0.0
    if vehicle.rotor_law == INDUCED_LAW:
        _induced_rates(vehicle, state, rows)
        for k in range(vehicle.rotor_count):
            rotors += rows.decay[k]
        if vehicle.motor_kind != MOTOR_DC:
            return float(max(moving, turning) + rotors)
    for k in range(vehicle.rotor_count):
        speed = state.rotor_speed[k]
        if vehicle.rotor_law != INDUCED_LAW:
            rotors += rotor_rate(vehicle, k, speed, airspeed, density)
        if vehicle.motor_kind == MOTOR_DC:
            motors = max(motors, motor_rate(vehicle, k, speed, density))
    return max(max(moving, turning) + rotors, motors)


@compiled
def stable_steps(rate: float, seconds: float) -> int:
    """Return the substeps of a step of ``seconds`` for a decay rate in 1/s; 1 if it is not finite."""
    parts = rate * seconds / STABILITY_LIMIT
    if not parts > 1.0:
        return 1
    return int(min(math.ceil(parts), MAX_SUBSTEPS))


def check_stability(vehicle: Packed, density: float, step: float) -> None:
    """Reject a vehicle whose motion decays too fast for the integrator, up to AIRSPEED and TURN_RATE.

    Args:
        vehicle: () VEHICLE record.
        density: kg/m^3 of the air.
        step: s, of the integration.

    Raises:
        UserError: with the field, its rate and the limit.
    """
    n = int(vehicle["rotor_count"])
    direct = vehicle["motor_kind"] == MOTOR_DC
    # The end of the motors' range.
    top = float(vehicle["battery_nominal_voltage"]) / float(vehicle["dc_flux"]) if direct else 0.0
    parts = ("motor_speed_idle", "motor_speed_range", "motor_speed_offset")
    top = top or sum(float(vehicle[part]) for part in parts)
    moving, turning = body_drag_rates(vehicle, AIRSPEED, TURN_RATE, density)
    rates: dict[str, float] = {
        f"drag.force at {AIRSPEED:g} m/s": moving,
        f"drag.moment at {TURN_RATE:.0f} rad/s": turning,
        _ROTOR_FIGURES[bool(_is_polynomial(vehicle))]: sum(
            rotor_rate(vehicle, k, top, AIRSPEED, density) for k in range(n)
        ),
    }
    if direct:
        rates["motor.inertia"] = max(motor_rate(vehicle, k, top, density) for k in range(n))
    limits = dict.fromkeys(rates, MAX_SUBSTEPS * STABILITY_LIMIT / step)
    if int(vehicle["contact_count"]):
        rates["contact (stiffness, damping)"] = contact_rate(vehicle)
        limits["contact (stiffness, damping)"] = 2.0 * MOST_CONTACT_STEPS / step
    for figure, rate in rates.items():
        if not rate <= limits[figure]:
            raise UserError(
                f"{figure}: decay rate {rate:.3g} 1/s; a step of {step * 1e3:g} ms in {MAX_SUBSTEPS} substeps"
                f" is stable up to {limits[figure]:.3g} 1/s; check the unit"
            )
