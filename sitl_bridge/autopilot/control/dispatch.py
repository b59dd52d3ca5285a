"""One step of the selected controller, for every setpoint level."""

from __future__ import annotations

import math

from sitl_bridge.autopilot.control.hector_pid import hector_pid
from sitl_bridge.autopilot.control.lee import lee
from sitl_bridge.autopilot.control.records import LEE, USER, ControllerRecord
from sitl_bridge.autopilot.control.reference_model import (
    FREE,
    GROUND_TIME,
    MIN_FLIGHT_THRUST,
    advance_yaw,
    follow_setpoint,
    ground_relief,
)
from sitl_bridge.autopilot.control.thrust_in_motion import thrust_ratio
from sitl_bridge.autopilot.records import (
    LEVEL_ATTITUDE,
    LEVEL_RATES,
    TRAJECTORY,
    Estimate,
    Setpoint,
    WrenchRecord,
)
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.base.kernels.rotations import heading, to_ned

QUICK, SLOW = 0.1, 3.0
"""Time constants of the two low-pass filters, s: well above the rotors' lag, and that of the integrators."""
SHARE = 0.4
"""Largest correction over the gravity."""
ALOFT_SPEED = 0.2
"""Vertical speed that shows that no ground carries the vehicle, m/s."""


@on_demand
def control(
    controller: ControllerRecord, estimate: Estimate, setpoint: Setpoint, dt: float, wrench: WrenchRecord
) -> None:
    """Compute thrust and moment from estimate and setpoint.

    At OFF and IDLE the integrators are reset and the wrench is zero.  At the attitude and rate levels the
    trajectory integrators keep their values.

    Args:
        dt: time since the last call, s.
        wrench: WRENCH record; the unmet part of the last wrench is read, thrust and moment are written.  In
            flight with a user's own controller it is left unchanged.
    """
    level, last = setpoint.level, controller.level
    controller.level = level
    if level < TRAJECTORY or controller.kind == USER:
        if level < TRAJECTORY:
            reset_controller(controller, wrench)
        return
    if last < TRAJECTORY:
        for i in range(3):
            controller.Omega_last[i] = estimate.angular_velocity[i]
    if level == TRAJECTORY and last != TRAJECTORY:
        controller.aloft = 0
        controller.thrust_given = controller.gravity
        controller.thrust_expected = controller.gravity
    if level == TRAJECTORY:
        controller.flow_ratio = thrust_ratio(controller, estimate)
        q = estimate.attitude
        yaw = heading(q)
        follow_setpoint(controller, estimate, setpoint, last != TRAJECTORY, dt)
        advance_yaw(controller, yaw, setpoint, last != TRAJECTORY, dt)
    else:
        copy_attitude_setpoint(controller, setpoint, wrench)
    if controller.kind == LEE:
        lee(controller, estimate, setpoint, dt, wrench)
    else:
        hector_pid(controller, estimate, setpoint, dt, wrench)
    if level == TRAJECTORY:
        compensate_disturbance(controller, estimate, setpoint, dt, wrench)
        wrench.thrust /= controller.flow_ratio
    compensate_rotor_lag(controller, estimate, dt, wrench)
    carried = max(setpoint.on_ground, ground_relief(controller) if level == TRAJECTORY else 0.0)
    if carried > 0.0:
        # Contact moments act on the feet: a control moment against them would tip the vehicle over.
        for i in range(3):
            wrench.moment[i] *= max(1.0 - carried, 0.0)
            controller.moment_integral[i] = 0.0
        # If minimum rotor thrust exceeds the thrust still needed, as with hector's rotors, the rotors idle.
        if (1.0 - carried) * controller.mass * controller.gravity <= controller.thrust_min:
            wrench.thrust = 0.0
            for i in range(3):
                wrench.moment[i] = 0.0


@compiled
def _disturbance(controller: ControllerRecord, estimate: Estimate, dt: float) -> float:
    """Return measured less expected specific force along the thrust axis, m/s^2, after one step."""
    a = estimate.acceleration
    up_n, up_e, up_d = to_ned(estimate.attitude, 0.0, 0.0, -1.0)
    measured = a[0] * up_n + a[1] * up_e + (a[2] - controller.gravity) * up_d
    given = controller.thrust_given
    controller.thrust_expected += (given - controller.thrust_expected) * dt / (dt + controller.thrust_lag)
    return float(measured - controller.thrust_expected)


@compiled
def compensate_disturbance(
    controller: ControllerRecord, estimate: Estimate, setpoint: Setpoint, dt: float, wrench: WrenchRecord
) -> None:
    """Take the quick part of a disturbance by the air from the thrust of a control law, in flight.

    The measured specific force along the thrust axis, less that of the commanded thrust, is the disturbance:
    the downwash of another vehicle, a gust along the axis, a rotor law or a battery that differs from the
    airframe's.  Its quick part is taken from the thrust at once; the integrators of the control laws take the
    slow part, so that neither a biased accelerometer nor the begin of a flight shifts the thrust.

    Args:
        controller: CONTROLLER record; ``flow_ratio`` is of this step.
        dt: s.
        wrench: WRENCH record: the wanted thrust in N, changed in place; the unmet part is of the last step.
    """
    if controller.thrust_lag <= 0.0:
        return
    mass, gravity = controller.mass, controller.gravity
    controller.thrust_given -= wrench.unmet_thrust * controller.flow_ratio / mass
    error = _disturbance(controller, estimate, dt)
    carried = setpoint.on_ground > 0.0 or controller.grounded > GROUND_TIME
    if carried or wrench.thrust < MIN_FLIGHT_THRUST * mass * gravity or not math.isfinite(error):
        controller.aloft = 0
    elif controller.aloft == 0 and abs(estimate.velocity[2]) > ALOFT_SPEED:
        controller.aloft = 1
        controller.disturbance_quick = error
        controller.disturbance_slow = error
    if controller.aloft == 1:
        controller.disturbance_quick += (error - controller.disturbance_quick) * dt / (dt + QUICK)
        controller.disturbance_slow += (error - controller.disturbance_slow) * dt / (dt + SLOW)
        correction = controller.disturbance_quick - controller.disturbance_slow
        wrench.thrust -= mass * min(max(correction, -SHARE * gravity), SHARE * gravity)
    if not math.isfinite(error):
        controller.thrust_expected = gravity
    controller.thrust_given = wrench.thrust / mass


@compiled
def compensate_rotor_lag(
    controller: ControllerRecord, estimate: Estimate, dt: float, wrench: WrenchRecord
) -> None:
    """Compensate the rotor lag in the moment, towards the lag that the control laws assume.

    Derivative D: rotors with a lag T turn the vehicle by (T s + 1) dOmega/dt = M/J; with (1 + D) M - D J
    dOmega/dt in place of M the lag is T/(1 + D).  Yaw lead: the reaction of an accelerating rotor acts before
    its drag, by (1 + lead s); a filter 1/(1 + lead s) cancels it.

    Args:
        dt: s.
        wrench: WRENCH record with the moment of the control law, changed in place.
    """
    D = controller.derivative
    if D > 0.0:
        W, W_dot = estimate.angular_velocity, controller.Omega_dot
        blend = dt / (dt + controller.derivative_filter)
        for i in range(3):
            W_dot[i] += blend * ((W[i] - controller.Omega_last[i]) / dt - W_dot[i])
            controller.Omega_last[i] = W[i]
        for i in range(3):
            J = controller.inertia[i]
            felt = J[0] * W_dot[0] + J[1] * W_dot[1] + J[2] * W_dot[2]
            wrench.moment[i] = (1.0 + D) * wrench.moment[i] - D * felt
    if controller.yaw_lead > 0.0:
        blend = -math.expm1(-dt / controller.yaw_lead)
        controller.yaw_moment += (wrench.moment[2] - controller.yaw_moment) * blend
        wrench.moment[2] = controller.yaw_moment


@compiled
def reset_controller(controller: ControllerRecord, wrench: WrenchRecord) -> None:
    """Reset the integrators and set the wrench to zero."""
    wrench.thrust = 0.0
    controller.yaw_moment = 0.0
    controller.grounded = 0.0
    for i in range(3):
        wrench.moment[i] = 0.0
        controller.follows[i] = FREE
        controller.integral[i] = 0.0
        controller.moment_integral[i] = 0.0
        controller.Omega_dot[i] = 0.0


@compiled
def copy_attitude_setpoint(controller: ControllerRecord, setpoint: Setpoint, wrench: WrenchRecord) -> None:
    """Copy attitude or rates and the thrust (share of full thrust) from the setpoint."""
    share = min(max(setpoint.thrust, 0.0), 1.0) if math.isfinite(setpoint.thrust) else 0.0
    wrench.thrust = share * controller.thrust_max
    if setpoint.level == LEVEL_ATTITUDE:
        controller.yaw_rate_d = setpoint.yaw_rate if math.isfinite(setpoint.yaw_rate) else 0.0
        q = setpoint.attitude
        norm = math.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
        if norm > 0.0:
            for i in range(4):
                controller.q_d[i] = q[i] / norm
    if setpoint.level == LEVEL_RATES:
        for i in range(3):
            rate = setpoint.angular_velocity[i]
            limit = controller.rate_limit[i]
            controller.Omega_d[i] = min(max(rate, -limit), limit) if math.isfinite(rate) else 0.0
