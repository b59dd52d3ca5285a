"""Static performance of a vehicle: hover, full thrust, top speed, endurance.

Plain Python for ``check`` and for PX4's parameters, with the same rotor, motor and battery formulas as the
compiled step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.kernels.record import Packed
from sitl_bridge.base.root import root
from sitl_bridge.core.dynamics.battery import open_circuit_voltage
from sitl_bridge.core.dynamics.motor import dc_current, first_order_target, limited_supply
from sitl_bridge.core.dynamics.records import MOTOR_DC, VEHICLE
from sitl_bridge.core.dynamics.rotor_laws import rotor_loads, thrust_and_torque

_MAX_SPEED = 200.0
"""Upper limit of the search for the top speed, m/s."""
_MAX_ROTOR_SPEED = 1e5
"""Upper limit of the search for a rotor's speed, rad/s: a disc of 1 cm radius would have three times the
speed of sound."""
_AXES = ("roll", "pitch", "yaw")
_MIN_SHARE = 1e-3
"""Share of the mean hover thrust below which a rotor counts as idle."""
_MIN_LEVER_ARM = 1e-6
"""Smallest lever arm (moment over thrust) that counts as a moment, m."""


Find = TypeVar("Find", bound=Callable[..., Any])


def remember(find: Find) -> Find:
    """Keep what is found for a VEHICLE record: a vehicle's start asks several times, flights ask again.

    The answer is shared, so nobody may change it.
    """

    @lru_cache(maxsize=64)
    def of_bytes(vehicle: bytes, *others: Any, **named: Any) -> Any:
        return find(np.frombuffer(vehicle, VEHICLE)[0], *others, **named)

    @wraps(find)
    def of(vehicle: Packed, *others: Any, **named: Any) -> Any:
        return of_bytes(vehicle.tobytes(), *others, **named)

    return cast("Find", of)


@dataclass(frozen=True)
class Hover:
    """Trim in still air, far from the ground."""

    rotor_speed: Floats  # (rotors,) rad/s
    rotor_thrust: Floats  # (rotors,) N
    rotor_torque: Floats  # (rotors,) N m
    command: Floats  # (rotors,) motor commands, 1 = full
    # (rotors,) V at the motors: command times battery voltage for DC motors, the battery's for first-order
    # ones
    motor_voltage: Floats
    motor_current: Floats  # (rotors,) A through the motors
    motor_power: float  # W, electrical, all motors
    battery_voltage: float  # V at the terminals
    battery_current: float  # A, avionics included

    @property
    def throttle(self) -> float:
        """Mean motor command."""
        return float(self.command.mean())


def figure_of_merit(vehicle: Packed, trim: Hover, density: float) -> float:
    """Return the power of ideal rotors, T sqrt(T/(2 rho A)) each, over the shaft power of a hover.

    Args:
        vehicle: () VEHICLE record.
        density: kg/m^3 of the air.
    """
    area = math.pi * vehicle["rotor_radius"][: _rotors(vehicle)] ** 2
    ideal = np.sum(trim.rotor_thrust * np.sqrt(np.maximum(trim.rotor_thrust, 0.0) / (2.0 * density * area)))
    return float(ideal / np.sum(trim.rotor_torque * trim.rotor_speed))


def motor_lag(vehicle: Packed, trim: Hover, density: float) -> float:
    """Return the s in which the rotors gain 63 % of the speed that a 10 % higher command gives in a hover.

    Current limits and the sag of a full battery are part of it; the thrust and torque are those of still air.
    Time constants below the step of 0.5 ms count as 0.5 ms, with which a step reaches the speed commanded;
    those above 25 ms take longer steps, so that 400 are eight time constants.

    Args:
        vehicle: () VEHICLE record.
        density: kg/m^3 of the air.
    """
    n, direct = _rotors(vehicle), vehicle["motor_kind"] == MOTOR_DC
    command = np.minimum(trim.command * 1.1, 1.0)
    limit = _current_limit(vehicle)
    charge = float(vehicle["battery_capacity"])
    speeds, torques = trim.rotor_speed, trim.rotor_torque
    tau = max(float(vehicle["motor_tau_up"]), 5e-4)
    if direct:
        tau = float(vehicle["dc_inertia"] * vehicle["dc_resistance"] / vehicle["dc_flux"] ** 2)
    seconds, inertia = max(5e-4, tau / 50.0), np.maximum(vehicle["rotor_inertia"][:n], 1e-9)
    idle, found = float(vehicle["battery_idle_current"]), [speeds.mean()]
    # The target is linear in the voltage, and calling a kernel for each of 15,000 takes half a second.
    still, each_volt = (np.array([first_order_target(vehicle, c, v) for c in command]) for v in (0.0, 1.0))
    each_volt -= still

    def gains(voltage: float) -> tuple[Floats, float]:
        """Return the accelerations in rad/s^2 and the battery's current in A."""
        if direct:
            supplies = command * voltage
            if math.isfinite(limit):
                supplies = np.array(
                    [limited_supply(vehicle, w, u) for w, u in zip(speeds, supplies, strict=True)]
                )
            currents = np.array([dc_current(vehicle, u, w) for u, w in zip(supplies, speeds, strict=True)])
            gained = (float(vehicle["dc_flux"]) * currents - torques) / float(vehicle["dc_inertia"])
            return gained, float(np.sum(currents * supplies) / voltage)
        targets = still + each_volt * voltage
        power = float(vehicle["motor_efficiency"]) * voltage * limit
        gained = np.minimum((targets - speeds) / tau, (power / speeds - torques) / inertia)
        shaft = (torques + inertia * gained) * speeds
        return gained, float(np.sum(shaft)) / (float(vehicle["motor_efficiency"]) * voltage)

    for _ in range(400):
        voltage = _balanced_voltage(vehicle, charge, lambda v: idle + gains(v)[1])
        if math.isnan(voltage):
            voltage = 0.5 * float(open_circuit_voltage(vehicle, charge))
        speeds = speeds + seconds * gains(voltage)[0]
        torques = np.array(
            [thrust_and_torque(vehicle, k, float(w), 0.0, density)[1] for k, w in enumerate(speeds)]
        )
        found.append(speeds.mean())
    wanted = found[0] + (1.0 - math.exp(-1.0)) * (found[-1] - found[0])
    return float(np.interp(wanted, found, seconds * np.arange(len(found))))


@dataclass(frozen=True)
class Performance:
    """Performance of a vehicle in still air of one density."""

    hover: Hover  # the trim with a full battery
    current_share: float  # greatest motor current in hover over the limit of a speed controller; 0 without
    full_thrust: float  # N, all motors at full command with a full battery, including its voltage sag
    full_speed: Floats  # (rotors,) rad/s at full command
    thrust_to_weight: float  # vertical part of the full thrust over weight
    top_speed: float  # m/s in level flight at full command; inf without a limit below 200 m/s
    # s of hover from a full battery to the smallest charge for hover; inf for an ideal source
    endurance: float


def _rotors(vehicle: Packed) -> int:
    return int(vehicle["rotor_count"])


def speed_for_thrust(vehicle: Packed, k: int, thrust: float, density: float) -> float:
    """Return the speed in rad/s at which rotor ``k`` gives ``thrust`` (N, >= 0) in still air.

    Raises:
        UserError: if no speed below _MAX_ROTOR_SPEED does.
    """
    if thrust <= 0.0:
        return 0.0

    def excess(speed: float) -> float:
        return thrust_and_torque(vehicle, k, speed, 0.0, density)[0] - thrust

    high = 100.0
    while not excess(high) >= 0.0:
        high *= 2.0
        if high > _MAX_ROTOR_SPEED:
            raise UserError(f"rotor {k + 1} cannot give a thrust of {thrust:.3g} N at any speed")
    return root(excess, 0.0, high, 1e-9)


def _trim_thrusts(vehicle: Packed, weight: float, density: float) -> Floats:
    """Return the minimum-norm thrusts (rotors,) in N that balance weight and moments.

    The yaw moment of a rotor is its torque at the speed of its thrust, found by fixed-point iteration over
    the ratio of the two.  A tilt compensates side forces of canted rotors, so the magnitude of the sum
    counts.
    """
    n = _rotors(vehicle)
    axis = np.array(vehicle["rotor_axis"][:n])
    lever = np.cross(vehicle["rotor_position"][:n], axis)
    direction = np.array(vehicle["rotor_direction"][:n])
    thrusts = np.full(n, weight / n)
    for _ in range(100):
        ratio = np.zeros(n)
        for k in range(n):
            if thrusts[k] > 0.0:
                speed = speed_for_thrust(vehicle, k, float(thrusts[k]), density)
                ratio[k] = thrust_and_torque(vehicle, k, speed, 0.0, density)[1] / thrusts[k]
        moments = lever - (direction * ratio)[:, None] * axis
        effect = np.vstack([-axis[:, 2], moments.T])
        wanted = np.array([weight, 0.0, 0.0, 0.0])
        trim = np.linalg.lstsq(effect, wanted, rcond=1e-9)[0]
        if np.abs(effect @ trim - wanted).max() > 1e-6 * weight:
            raise UserError("the rotors cannot balance the vehicle in hover: a moment remains")
        trim *= weight / float(np.linalg.norm(trim @ axis))
        if trim.min() < -1e-9 * weight:
            raise UserError(
                f"the vehicle cannot hover: rotor {int(trim.argmin()) + 1} would have to pull downwards;"
                " each must lift in a hover, reversible or not (docs/limits.md)"
            )
        change = float(np.abs(trim - thrusts).max())
        thrusts = np.maximum(trim, 0.0)
        if change < 1e-10 * weight:
            break
    return thrusts


def _balanced_voltage(vehicle: Packed, charge: float, draws: Callable[[float], float]) -> float:
    """Return the terminal voltage in V that balances a load, V = OCV - R I(V), on the upper branch.

    Args:
        vehicle: VEHICLE record.
        charge: remaining A s.
        draws: current in A at a voltage.

    Returns:
        nan if the pack cannot supply the current.
    """
    source = float(open_circuit_voltage(vehicle, charge))
    resistance = float(vehicle["battery_resistance"])
    if math.isinf(float(vehicle["battery_capacity"])) or resistance == 0.0:
        return source

    def excess(voltage: float) -> float:
        return voltage - source + resistance * draws(voltage)

    if source <= 0.0 or excess(0.5 * source) > 0.0:
        return math.nan
    return root(excess, 0.5 * source, source, 1e-12)


@remember
def hover(vehicle: Packed, density: float, gravity: float) -> Hover | None:
    """Return the trim of a vehicle in hover with a full battery.

    Args:
        vehicle: () VEHICLE record.
        density: kg/m^3 of the air.
        gravity: m/s^2.

    Returns:
        None if motors or battery are too weak to hover.

    Raises:
        UserError: if the rotors cannot balance the vehicle at any speed.
    """
    return _hover_on_battery(vehicle, float(vehicle["battery_capacity"]), *_trim(vehicle, density, gravity))


def _trim(vehicle: Packed, density: float, gravity: float) -> tuple[Floats, Floats, Floats]:
    """Return thrusts in N, speeds in rad/s and torques in N m of the rotors in hover, at any charge."""
    n = _rotors(vehicle)
    thrusts = _trim_thrusts(vehicle, float(vehicle["mass"]) * gravity, density)
    speeds = np.array([speed_for_thrust(vehicle, k, float(thrusts[k]), density) for k in range(n)])
    torques = np.array([thrust_and_torque(vehicle, k, float(speeds[k]), 0.0, density)[1] for k in range(n)])
    driven = np.flatnonzero(torques < 0.0)
    if len(driven):
        raise UserError(
            f"rotor {int(driven[0]) + 1} would be driven by the air: its torque in a hover is"
            f" {torques[driven[0]]:.3g} N m; a torque that slows it is positive"
        )
    return thrusts, speeds, torques


def _hover_on_battery(
    vehicle: Packed, charge: float, thrusts: Floats, speeds: Floats, torques: Floats, *, limited: bool = True
) -> Hover | None:
    """Return the hover of rotors with a charge in A s; None if motors, controllers or battery are too weak.

    Args:
        limited: whether the speed controllers limit the current.

    Raises:
        UserError: for a rotor whose least speed already gives more thrust.
    """
    n, idle = _rotors(vehicle), float(vehicle["battery_idle_current"])
    if vehicle["motor_kind"] == MOTOR_DC:
        flux, resistance = float(vehicle["dc_flux"]), float(vehicle["dc_resistance"])
        currents = torques / flux
        # The inverse of ``dc_current``: U = (R I^2 + Psi w I)/(alpha + beta I).
        supplies = resistance * currents**2 + flux * speeds * currents
        supplies /= float(vehicle["dc_alpha"]) + float(vehicle["dc_beta"]) * currents
        power = float(currents @ supplies)
    else:
        power = float(torques @ speeds) / float(vehicle["motor_efficiency"])
    voltage = _balanced_voltage(vehicle, charge, lambda volts: idle + power / volts)
    if math.isnan(voltage):
        return None
    if vehicle["motor_kind"] == MOTOR_DC:
        commands = supplies / voltage
    else:
        ratio = voltage / float(vehicle["battery_nominal_voltage"])
        proportional = (speeds - float(vehicle["motor_speed_offset"])) / ratio
        commands = (proportional - float(vehicle["motor_speed_idle"])) / float(vehicle["motor_speed_range"])
        supplies = np.full(n, voltage)
        currents = torques * speeds / float(vehicle["motor_efficiency"]) / voltage
    if commands.max() > 1.0 or (limited and currents.max() > _current_limit(vehicle)):
        return None
    if commands.min() < 0.0:
        k = int(commands.argmin())
        raise UserError(
            f"the vehicle cannot hover: rotor {k + 1} would have to turn at {speeds[k]:.3g} rad/s, slower"
            " than at the lowest command; check mass, rotor_model and motor for figures in another unit"
        )
    return Hover(
        speeds, thrusts, torques, commands, supplies, currents, power, voltage, idle + power / voltage
    )


def _current_limit(vehicle: Packed) -> float:
    """Return the greatest current of a speed controller in A, of DC motors in the windings; inf for none."""
    return float(vehicle["esc_current_limit"]) or math.inf


def _steady_speed(
    vehicle: Packed, k: int, voltage: float, density: float, command: float = 1.0, *, limited: bool = True
) -> float:
    """Return the steady speed in rad/s of rotor ``k`` at a command in still air.

    A speed controller's limit bounds the shaft power of a first-order motor, Q w <= eta V I, and the current
    in the windings of a DC motor, as in the compiled step.
    """
    limit = _current_limit(vehicle) if limited else math.inf
    if vehicle["motor_kind"] != MOTOR_DC:
        target = float(first_order_target(vehicle, command, voltage))
        power = float(vehicle["motor_efficiency"]) * voltage * limit

        def surplus(speed: float) -> float:
            return power - thrust_and_torque(vehicle, k, speed, 0.0, density)[1] * speed

        return target if surplus(target) >= 0.0 else root(surplus, 0.0, target, 1e-9)

    def excess(speed: float) -> float:
        driving = float(vehicle["dc_flux"]) * min(dc_current(vehicle, command * voltage, speed), limit)
        return driving - thrust_and_torque(vehicle, k, speed, 0.0, density)[1]

    high = 100.0
    while excess(high) > 0.0:
        high *= 2.0
        if high > _MAX_ROTOR_SPEED:
            raise UserError(f"rotor {k + 1} has too little torque: its motor has no steady speed")
    return root(excess, 0.0, high, 1e-9)


def _check_authority(vehicle: Packed, trim: Hover) -> None:
    """Reject rotors without independent control of lift, roll, pitch and yaw."""
    n = _rotors(vehicle)
    axis = np.array(vehicle["rotor_axis"][:n])
    idle = np.flatnonzero(trim.rotor_thrust < _MIN_SHARE * trim.rotor_thrust.mean())
    if len(idle):
        raise UserError(
            f"the vehicle cannot hover: rotor {int(idle[0]) + 1} would have to stop to balance it;"
            " place the rotors so that each carries a share of the weight"
        )
    ratio = trim.rotor_torque / trim.rotor_thrust
    moments = np.cross(vehicle["rotor_position"][:n], axis)
    moments -= (np.array(vehicle["rotor_direction"][:n]) * ratio)[:, None] * axis
    for i, name in enumerate(_AXES):
        if np.abs(moments[:, i]).max() < _MIN_LEVER_ARM:
            hint = "; give torque_thrust_ratio" if name == "yaw" else ""
            raise UserError(f"the rotors give no {name} moment, so {name} cannot be controlled{hint}")
    effect = np.column_stack([-axis[:, 2], moments])
    if np.linalg.matrix_rank(effect / np.abs(effect).max(axis=0), tol=1e-6) < 4:
        raise UserError(
            "the rotors cannot control lift, roll, pitch and yaw independently; use four or more rotors with"
            " different positions and directions"
        )


def static_thrusts(vehicle: Packed, command: float, density: float) -> Floats:
    """Return the thrust (rotors,) in N of each rotor at one common command, in still air at nominal voltage.

    Speed controllers limit nothing here: PX4 knows a curve over the command, not a current.

    Args:
        vehicle: () VEHICLE record.
        command: above 0, up to 1.
        density: kg/m^3 of the air.
    """
    voltage = float(vehicle["battery_nominal_voltage"])
    return np.array(
        [
            thrust_and_torque(
                vehicle, k, _steady_speed(vehicle, k, voltage, density, command, limited=False), 0.0, density
            )[0]
            for k in range(_rotors(vehicle))
        ]
    )


@remember
def torque_slope(vehicle: Packed, k: int, thrust: float, density: float) -> float:
    """Return the derivative of reaction torque by thrust of rotor ``k`` at a thrust (N), in m."""
    low, high = (
        thrust_and_torque(vehicle, k, speed_for_thrust(vehicle, k, share * thrust, density), 0.0, density)
        for share in (0.99, 1.01)
    )
    return float((high[1] - low[1]) / (high[0] - low[0]))


def _full_command(vehicle: Packed, density: float, charge: float) -> Floats:
    """Return rotor speeds (rotors,) in rad/s with all motors at full command."""
    n = _rotors(vehicle)

    def speeds(voltage: float) -> Floats:
        return np.array([_steady_speed(vehicle, k, voltage, density) for k in range(n)])

    def draws(voltage: float) -> float:
        current = float(vehicle["battery_idle_current"])
        for k, speed in enumerate(speeds(voltage)):
            if vehicle["motor_kind"] == MOTOR_DC:
                limited = _current_limit(vehicle)
                supply = voltage if math.isinf(limited) else limited_supply(vehicle, float(speed), voltage)
                current += dc_current(vehicle, supply, float(speed)) * supply / voltage
            else:
                torque = thrust_and_torque(vehicle, k, float(speed), 0.0, density)[1]
                current += torque * float(speed) / float(vehicle["motor_efficiency"]) / voltage
        return current

    voltage = _balanced_voltage(vehicle, charge, draws)
    if math.isnan(voltage):
        voltage = 0.5 * float(open_circuit_voltage(vehicle, charge))
    return speeds(voltage)


def _top_speed(vehicle: Packed, speeds: Floats, density: float, gravity: float) -> float:
    """Return the level speed in m/s at which given rotor speeds carry the vehicle forward.

    Thrust with the inflow of the tilt, in-plane rotor drag and body drag are balanced with the weight in the
    plane of flight, nose down; the rotor axes are treated as parallel to the vehicle's.
    """
    n = _rotors(vehicle)
    weight = float(vehicle["mass"]) * gravity
    body_drag = np.array(vehicle["drag_force"]) * density / float(vehicle["drag_density"])
    share = -np.array(vehicle["rotor_axis"][:n, 2])

    def balance(tilt: float, speed: float) -> tuple[float, float]:
        """Return forward and upward force in N."""
        forward, along = speed * math.cos(tilt), speed * math.sin(tilt)
        loads = [rotor_loads(vehicle, k, float(speeds[k]), along, forward, density) for k in range(n)]
        thrust = sum(share[k] * loads[k][0] for k in range(n))
        rotor_drag = float(np.sum(np.array([drag for _, _, drag, _ in loads])))
        across = -(rotor_drag + body_drag[0] * speed) * forward
        lift = thrust - body_drag[2] * speed * along
        return across * math.cos(tilt) + lift * math.sin(tilt), lift * math.cos(tilt) - across * math.sin(
            tilt
        ) - weight

    def speed_at(tilt: float) -> float:
        if not balance(tilt, _MAX_SPEED)[0] <= 0.0:  # nan of a law that fails there, too
            return _MAX_SPEED
        return root(lambda speed: balance(tilt, speed)[0], 0.0, _MAX_SPEED)

    def lift_at(tilt: float) -> float:
        return balance(tilt, speed_at(tilt))[1]

    if balance(0.0, 0.0)[1] <= 0.0:
        return 0.0
    steepest = math.radians(89.0)
    tilt = steepest if not lift_at(steepest) <= 0.0 else root(lift_at, 0.0, steepest)
    speed = speed_at(tilt)
    return math.inf if speed >= _MAX_SPEED else speed


@remember
def speed_share_in_wind(vehicle: Packed, wind: float, density: float, gravity: float) -> float:
    """Return the greatest share of its full speed that a rotor needs to hold the vehicle in a steady wind.

    Forces and moments are balanced nose into the wind: rotors' thrust, torque, in-plane drag and hub moment,
    and body drag; flapping and uneven inflow are left out.  Above 1, the vehicle is blown away.

    Args:
        vehicle: () VEHICLE record of a vehicle that can hover.
        wind: m/s, horizontal.
        density: kg/m^3.
        gravity: m/s^2.
    """
    n, weight = _rotors(vehicle), float(vehicle["mass"]) * gravity
    full = _full_command(vehicle, density, float(vehicle["battery_capacity"]))
    axis, place = np.array(vehicle["rotor_axis"][:n]), np.array(vehicle["rotor_position"][:n])
    turning = np.array(vehicle["rotor_direction"][:n])
    drag = np.array(vehicle["drag_force"]) * density / float(vehicle["drag_density"])
    arm = float(np.abs(place).max())

    def find_excess(tilt: float, shares: Floats) -> Floats:
        """Return forward and downward force over weight, and the moments over weight and arm."""
        across, along = wind * math.cos(tilt), wind * math.sin(tilt)
        force = np.array([weight * math.sin(tilt), 0.0, weight * math.cos(tilt)])
        force += wind * np.array([-drag[0] * across, 0.0, drag[2] * along])
        moment = np.zeros(3)
        for k in range(n):
            speed = float(max(shares[k], 1e-3) * full[k])
            thrust, torque, plane, hub = rotor_loads(vehicle, k, speed, along, across, density)
            own = thrust * axis[k] - np.array([plane * across, 0.0, 0.0])
            force += own
            moment += np.cross(place[k], own) - turning[k] * torque * axis[k]
            moment[0] -= hub * across
        return np.array([force[0], force[2], *(moment / arm)]) / weight

    found = np.array([0.1, *np.full(n, 0.8)])
    for _ in range(30):  # Newton's method, by the smallest step that balances
        left = find_excess(found[0], found[1:])
        nearby = [found + 1e-5 * unit for unit in np.eye(n + 1)]
        slopes = np.array([(find_excess(one[0], one[1:]) - left) / 1e-5 for one in nearby]).T
        step = np.linalg.lstsq(slopes, -left, rcond=1e-9)[0]
        found += step * min(1.0, 0.2 / max(float(np.abs(step).max()), 1e-9))
        if np.abs(left).max() < 1e-6:
            return float(found[1:].max())
    return math.inf


def _endurance(vehicle: Packed, density: float, gravity: float) -> float:
    """Return the seconds of hover on one charge: the sum of dq/I(q) over decreasing charge, midpoint rule."""
    capacity = float(vehicle["battery_capacity"])
    if math.isinf(capacity):
        return math.inf
    steps = 50
    portion = capacity / steps
    seconds = 0.0
    rotors = _trim(vehicle, density, gravity)
    for i in range(steps):
        trim = _hover_on_battery(vehicle, capacity - (i + 0.5) * portion, *rotors)
        if trim is None:
            break
        seconds += portion / trim.battery_current
    return seconds


@remember
def performance(vehicle: Packed, density: float, gravity: float, *, endurance: bool = True) -> Performance:
    """Compute the performance of a vehicle in still air.

    Args:
        vehicle: () VEHICLE record.
        density: kg/m^3.
        gravity: m/s^2.
        endurance: whether to compute the endurance, which takes longest; nan without.

    Raises:
        UserError: for a vehicle that cannot hover or be controlled, with the reason.
    """
    n = _rotors(vehicle)
    trim = hover(vehicle, density, gravity)
    if trim is not None:
        _check_authority(vehicle, trim)
    speeds = _full_command(vehicle, density, float(vehicle["battery_capacity"]))
    thrusts = np.array([thrust_and_torque(vehicle, k, float(speeds[k]), 0.0, density)[0] for k in range(n)])
    lift = float(-np.array(vehicle["rotor_axis"][:n, 2]) @ thrusts)
    weight = float(vehicle["mass"]) * gravity
    if trim is None:
        charge = float(vehicle["battery_capacity"])
        free = _hover_on_battery(vehicle, charge, *_trim(vehicle, density, gravity), limited=False)
        if free is not None:
            raise UserError(
                f"the vehicle cannot hover: a motor needs {free.motor_current.max():.1f} A, and"
                f" esc.current_limit allows {_current_limit(vehicle):g} A; raise it, or check the rotors'"
                " torque and the mass"
            )
        raise UserError(
            f"the vehicle cannot hover: it weighs {weight:.2f} N, its rotors give {lift:.2f} N in all at "
            "full command; reduce its mass, or use stronger motors or a stronger battery"
        )
    return Performance(
        hover=trim,
        current_share=float(trim.motor_current.max()) / _current_limit(vehicle),
        full_thrust=float(thrusts.sum()),
        full_speed=speeds,
        thrust_to_weight=lift / weight,
        top_speed=_top_speed(vehicle, speeds, density, gravity),
        endurance=_endurance(vehicle, density, gravity) if endurance else math.nan,
    )
