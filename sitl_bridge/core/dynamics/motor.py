"""First-order motors, hector's DC motors and their speed controllers: parameters, speed, torque, current.

The battery pack is in battery.py, the aerodynamic load torque in rotor.py.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.quantities import STRICT, NonNegative, Number, Positive
from sitl_bridge.core.dynamics.records import MOTOR_DC, MOTOR_FIRST_ORDER, Scratch, State, Vehicle


class _Motor(BaseModel):
    """Parameters that motors of every kind have."""

    model_config = STRICT

    dead_time: float = Field(
        0.0, ge=0.0, le=0.2, description="s from a command to its effect, in whole steps of the simulation"
    )

    def pack(self, vehicle: Records) -> None:
        """Write the motors of a () VEHICLE record."""
        vehicle["motor_dead_time"] = self.dead_time


class FirstOrderMotor(_Motor):
    """w = speed_offset + (idle_speed + speed_range * command) * voltage/nominal, with a lag up and down."""

    kind: Literal["first_order"]
    time_constant_up: Positive = Field(description="s")
    time_constant_down: Positive = Field(description="s")
    idle_speed: NonNegative = Field(0.0, description="rad/s at command 0 while armed")
    speed_range: Positive = Field(description="rad/s between command 0 and 1 at the nominal voltage")
    speed_offset: NonNegative = Field(
        0.0,
        description="rad/s of a running motor's speed that are not in proportion to the voltage, for brushed"
        " motors without a speed controller; none at command 0",
    )
    reversible: bool = Field(
        False, description="takes commands from -1 to 1, and turns backwards below 0; 0 stops it"
    )
    efficiency: Positive = Field(
        description="shaft power (torque times speed) over electrical power; above 1 only for models with"
        " documented exaggerated torque"
    )

    def pack(self, vehicle: Records) -> None:
        """Write the motors of a () VEHICLE record."""
        super().pack(vehicle)
        vehicle["motor_kind"] = MOTOR_FIRST_ORDER
        vehicle["motor_tau_up"], vehicle["motor_tau_down"] = self.time_constant_up, self.time_constant_down
        vehicle["motor_speed_idle"], vehicle["motor_speed_range"] = self.idle_speed, self.speed_range
        vehicle["motor_speed_offset"] = self.speed_offset
        vehicle["motor_reversible"] = int(self.reversible)
        vehicle["motor_efficiency"] = self.efficiency


class DcMotor(_Motor):
    """hector_quadrotor's brushless motor, voltage = command * battery voltage (hector eqs 4-6)."""

    kind: Literal["dc"]
    flux: Positive = Field(description="V s, Psi")
    resistance: Positive = Field(description="ohm, R_A")
    inertia: Positive = Field(description="kg m^2, J_M")
    alpha: Number = Field(description="A, alpha_m of the released code")
    beta: Positive = Field(description="1, beta_m of the released code")

    def pack(self, vehicle: Records) -> None:
        """Write the motors of a () VEHICLE record, and the inertia they accelerate."""
        super().pack(vehicle)
        vehicle["motor_kind"] = MOTOR_DC
        vehicle["dc_flux"], vehicle["dc_resistance"] = self.flux, self.resistance
        vehicle["dc_inertia"] = self.inertia
        vehicle["dc_alpha"], vehicle["dc_beta"] = self.alpha, self.beta
        vehicle["rotor_inertia"][: vehicle["rotor_count"]] = self.inertia
        # Unused by DC motors, but divisors of the first-order law.
        vehicle["motor_tau_up"] = vehicle["motor_tau_down"] = vehicle["motor_efficiency"] = 1.0


Motor = Annotated[FirstOrderMotor | DcMotor, Field(discriminator="kind")]


class SpeedControllers(BaseModel):
    """One electronic speed controller per motor; without this section they are ideal."""

    model_config = STRICT

    current_limit: Positive | None = Field(
        None, description="A, most that one takes from the battery (DC motors: most in the windings)"
    )
    resistance: NonNegative = Field(0.0, description="ohm of the switches, whose losses heat it")
    thermal_resistance: NonNegative = Field(0.0, description="K/W to the air")
    thermal_time: Positive = Field(30.0, description="s in which it warms up")

    def pack(self, vehicle: Records) -> None:
        """Write the speed controllers of a () VEHICLE record."""
        vehicle["esc_current_limit"] = self.current_limit or 0.0
        vehicle["esc_heating"] = self.resistance * self.thermal_resistance
        vehicle["esc_thermal_time"] = self.thermal_time if vehicle["esc_heating"] > 0.0 else 0.0


@compiled
def _limit_current(command: float, lowest: float) -> float:
    return float(min(max(command, lowest), 1.0)) if command - command == 0.0 else 0.0  # nan is not finite


@compiled
def _offset_away_from_0(command: float, offset: float) -> float:
    return 0.0 if command == 0.0 else (-offset if command < 0.0 else offset)


@compiled
def _proportional(command: float, idle: float, span: float) -> float:
    return span * command + (-idle if command < 0.0 else idle)


@compiled
def first_order_target(vehicle: Vehicle, command: float, voltage: float) -> float:
    """Return the steady speed in rad/s of a running first-order motor.

    w = (idle + range c) V/V_nominal: PX4's Gazebo motor model maps commands this way (offset and scaling),
    and a motor's no-load speed is proportional to its supply voltage.  A line through measured speeds of a
    loaded brushed motor does not go through 0: ``motor_speed_offset``, away from command 0.  A reversible
    motor has its idle speed on either side of command 0, and stands still there, the neutral throttle of a
    bidirectional controller.
    """
    if command == 0.0 and vehicle.motor_reversible != 0:
        return 0.0
    ratio = voltage / vehicle.battery_nominal_voltage
    speed = _proportional(command, vehicle.motor_speed_idle, vehicle.motor_speed_range) * ratio
    return float(speed + _offset_away_from_0(command, vehicle.motor_speed_offset))


@compiled
def limited_supply(vehicle: Vehicle, speed: float, supply: float) -> float:
    """Return the supply voltage of a DC motor whose speed controller limits the current of its windings.

    ``dc_current`` solved for the voltage at which the limit flows: U (alpha + beta I) = I (R I + Psi w).
    """
    limit = vehicle.esc_current_limit
    most = limit * (vehicle.dc_resistance * limit + vehicle.dc_flux * speed)
    return float(min(supply, most / (vehicle.dc_alpha + vehicle.dc_beta * limit)))


@compiled
def heat_controllers(vehicle: Vehicle, state: State, seconds: float) -> None:
    """Warm the speed controllers by the square of their currents: tau dT/dt = R R_th I^2 - T."""
    share = -math.expm1(-seconds / vehicle.esc_thermal_time)
    for k in range(vehicle.rotor_count):
        steady = vehicle.esc_heating * state.motor_current[k] * state.motor_current[k]
        state.esc_rise[k] += share * (steady - state.esc_rise[k])


@compiled
def read_commands(vehicle: Vehicle, state: State, rows: Scratch, controls: Floats, armed: int) -> None:
    """Write the commands of a step into ``rows``: ``steady``, ``running`` 1 where a motor runs, rates.

    The rotors' speeds and torques of the state, at which drive and current are evaluated, come with them.

    ``steady`` is the steady speed of a first-order motor at the nominal voltage in rad/s, less its
    ``offset``, or the command of a DC motor.

    Args:
        controls: (16,) commands.
        armed: 0 or 1; a disarmed motor stops.
    """
    rows.rise_rate, rows.fall_rate = 1.0 / vehicle.motor_tau_up, 1.0 / vehicle.motor_tau_down
    rows.armed = armed
    n = vehicle.rotor_count
    for k in range(n):
        rows.speed[k], rows.torque[k] = state.rotor_speed[k], state.rotor_torque[k]
    if vehicle.motor_kind != MOTOR_DC:
        _read_first_order(vehicle, state, rows, controls, armed)
        return
    for k in range(n):
        runs = armed != 0 and state.rotor_health[k] > 0.0
        rows.running[k], rows.steady[k] = (1.0, _limit_current(controls[k], 0.0)) if runs else (0.0, 0.0)


@compiled
def _read_first_order(vehicle: Vehicle, state: State, rows: Scratch, controls: Floats, armed: int) -> None:
    """``first_order_target`` of all motors at the nominal voltage.

    Without branches, so that it becomes vector instructions.
    """
    reversible = vehicle.motor_reversible != 0
    idle, span, shift = vehicle.motor_speed_idle, vehicle.motor_speed_range, vehicle.motor_speed_offset
    lowest = -1.0 if reversible else 0.0
    for k in range(vehicle.rotor_count):
        command, runs = _limit_current(controls[k], lowest), (armed != 0) & (state.rotor_health[k] > 0.0)
        offset = _offset_away_from_0(command, shift)
        target = _proportional(command, idle, span) + offset
        stands = (command == 0.0) & reversible
        rows.running[k] = 1.0 if runs else 0.0
        rows.offset[k] = offset if runs else 0.0
        rows.steady[k] = (0.0 if stands else target) - offset if runs else 0.0


@compiled
def _drive_first_order(vehicle: Vehicle, state: State, rows: Scratch) -> None:
    """``drive_motors`` of first-order motors; without branches, for vector instructions.

    A speed controller's limit I bounds the shaft power, (Q + J (w_t - w)/tau) w <= eta V I, and so the target
    w_t that the motor is led to; beyond it, the motor gains speed as fast as the current lets it.
    """
    n, voltage = vehicle.rotor_count, state.battery_voltage
    ratio = voltage / vehicle.battery_nominal_voltage
    if not vehicle.esc_current_limit > 0.0:
        for k in range(n):
            state.motor_drive[k] = rows.steady[k] * ratio + rows.offset[k]
        return
    power = vehicle.motor_efficiency * voltage * vehicle.esc_current_limit
    up, down = vehicle.motor_tau_up, vehicle.motor_tau_down
    for k in range(n):
        speed, target = rows.speed[k], rows.steady[k] * ratio + rows.offset[k]
        turns = abs(speed) >= 1.0  # below, there is no shaft power yet
        most = power / (speed if turns else 1.0) - rows.torque[k]
        tau = up if most * speed >= 0.0 else down
        bound = speed + most * tau / max(vehicle.rotor_inertia[k], 1e-9)
        limited = min(target, bound) if speed > 0.0 else max(target, bound)
        state.motor_drive[k] = (limited if turns else target) * rows.running[k]


@compiled
def drive_motors(vehicle: Vehicle, state: State, rows: Scratch) -> None:
    """Write the drive of each motor for the commands, speeds and torques in ``rows`` and the voltage.

    ``motor_drive`` becomes the steady speed of a first-order motor (rad/s) or the supply voltage of a DC
    motor (V, command times battery voltage as in the released hector_quadrotor; 0 = braked).

    Args:
        state: STATE record; its commands as ``read_commands`` leaves them.
    """
    if vehicle.motor_kind != MOTOR_DC:
        _drive_first_order(vehicle, state, rows)
        return
    for k in range(vehicle.rotor_count):
        supply = rows.steady[k] * state.battery_voltage
        if vehicle.esc_current_limit > 0.0:
            supply = limited_supply(vehicle, rows.speed[k], supply)
        state.motor_drive[k] = supply


@compiled
def gains_speed(speed: float, target: float) -> bool:
    """Return whether a first-order motor accelerates to its target; before a reversal it decelerates."""
    return abs(target) > abs(speed) and target * speed >= 0.0


@compiled
def dc_current(vehicle: Vehicle, supply: float, speed: float) -> float:
    """Return the armature current in A of hector's DC motor at a supply voltage (V) and a speed (rad/s).

    a = (beta U - Psi w)/(2 R), I = a + sqrt(a^2 + U alpha/R): the form of the paper's eq. 4 in the released
    hector_quadrotor.  It is never negative, so a driven motor does not brake.  With U = 0 the windings are
    short-circuited (eq. 4 itself) and the motor brakes; in the released form, hector's rotors would never
    stop from 297 rad/s, where the identified load torque vanishes.
    """
    if supply <= 0.0:
        return float(-vehicle.dc_flux * speed / vehicle.dc_resistance)
    a = (vehicle.dc_beta * supply - vehicle.dc_flux * speed) / (2.0 * vehicle.dc_resistance)
    return float(a + math.sqrt(a * a + supply * vehicle.dc_alpha / vehicle.dc_resistance))


@compiled
def accelerate_motors(vehicle: Vehicle, state: State, rows: Scratch) -> None:
    """Angular accelerations in rad/s^2 of DC motors: (M_e - M_m)/J_M with M_e = Psi I (eqs 5, 6).

    M_m is ``torque`` in N m, with the sign of the speed.  Those of first-order motors come with their speeds.
    """
    for k in range(vehicle.rotor_count):
        speed, torque = rows.speed[k], rows.torque[k]
        driving = vehicle.dc_flux * dc_current(vehicle, state.motor_drive[k], speed)
        stands = speed <= 0.0 and driving <= torque
        rows.acceleration[k] = 0.0 if stands else (driving - torque) / vehicle.dc_inertia


@compiled
def _dc_current_and_slope(
    vehicle: Vehicle, state: State, rows: Scratch, voltage: float, limit: float
) -> tuple[float, float]:
    """``current_and_slope`` of DC motors: duty cycle times the current of the windings, limited."""
    current = vehicle.battery_idle_current
    slope = 0.0
    half = 0.5 / vehicle.dc_resistance
    for k in range(vehicle.rotor_count):
        command = rows.steady[k]
        state.motor_current[k] = 0.0
        if command > 0.0:
            supply = command * voltage
            anchor = dc_current(vehicle, supply, rows.speed[k])
            if anchor > limit:
                drawn = limit * limited_supply(vehicle, rows.speed[k], supply) / voltage
                state.motor_current[k] = drawn
                current += drawn
                slope -= drawn / voltage
                continue
            a = (vehicle.dc_beta * supply - vehicle.dc_flux * rows.speed[k]) * half
            # d/dU of a + sqrt(a^2 + U alpha/R), with the root equal to anchor - a.
            rise = vehicle.dc_beta * half + (a * vehicle.dc_beta + vehicle.dc_alpha) * half / max(
                anchor - a, 1e-9
            )
            state.motor_current[k] = command * anchor
            current += command * anchor
            slope += command * command * rise
    return current, slope


@compiled
def _shaft_powers(
    vehicle: Vehicle, state: State, rows: Scratch, voltage: float, share: float, limit: float
) -> None:
    """Shaft powers of first-order motors into ``rows``; without branches, for vector instructions.

    share: current over shaft power, 1/V.
    """
    ratio = voltage * (1.0 / vehicle.battery_nominal_voltage)
    rise_rate, fall_rate = rows.rise_rate, rows.fall_rate
    for k in range(vehicle.rotor_count):
        speed, target = rows.speed[k], rows.steady[k] * ratio + rows.offset[k]
        gains = (abs(target) > abs(speed)) & (target * speed >= 0.0)
        push = vehicle.rotor_inertia[k] * (rise_rate if gains else fall_rate)
        shaft = (rows.torque[k] + push * (target - speed)) * speed * rows.running[k]
        drawn = min(max(shaft * share, 0.0), limit)
        free = (shaft > 0.0) & (shaft * share <= limit)
        state.motor_current[k] = drawn
        rows.power[k] = shaft if free else 0.0
        rows.grip[k] = push * (target - rows.offset[k]) * speed if free else 0.0
        rows.limited[k] = 0.0 if free else drawn


@compiled
def current_and_slope(
    vehicle: Vehicle, state: State, rows: Scratch, armed: int, voltage: float
) -> tuple[float, float]:
    """Return the current in A of avionics and motors at a battery voltage, and its derivative in A/V.

    ``motor_current`` of the state becomes each motor's.  First-order motors: shaft power, from the
    rotor's torque and its acceleration towards the target at that voltage, over efficiency and voltage; a
    decelerating motor does not regenerate.  DC motors: duty cycle times armature current, without losses
    between battery and motor.  Speed controllers limit both.

    Args:
        state: STATE record; commands, rotor speeds and torques in ``rows``, see ``read_commands``.
        armed: 0 or 1.
        voltage: V at the terminals, > 0.
    """
    current = vehicle.battery_idle_current
    limit = vehicle.esc_current_limit if vehicle.esc_current_limit > 0.0 else math.inf
    if vehicle.motor_kind == MOTOR_DC:
        return _dc_current_and_slope(vehicle, state, rows, voltage, limit)
    if armed == 0:
        for k in range(vehicle.rotor_count):
            state.motor_current[k] = 0.0
        return current, 0.0
    per_volt = 1.0 / voltage
    share = (1.0 / vehicle.motor_efficiency) * per_volt
    _shaft_powers(vehicle, state, rows, voltage, share, limit)
    power = 0.0
    grip = 0.0
    for k in range(vehicle.rotor_count):
        power += rows.power[k]
        grip += rows.grip[k]
        current += rows.limited[k]
    # P(V) = power + grip (V'/V - 1) near V, so that d(P/V)/dV = (grip - power)/V^2.
    return current + power * share, (grip - power) * share * per_volt
