"""hector_quadrotor's cascade of PID controllers (its paper, section 3.5, fig. 3).

Position P gives a velocity, velocity PI an acceleration and from it roll, pitch and vertical thrust; attitude
P gives angular rates, rate PI(D) the moments.  The axes are decoupled, as in the paper.
"""

from __future__ import annotations

import math

from sitl_bridge.autopilot.control.records import ControllerRecord
from sitl_bridge.autopilot.control.reference_model import (
    FREE,
    POSITION,
    add_gyroscopic_moment,
    drag_deceleration,
    integrate_errors,
    integrate_moment,
    limit_acceleration,
    relax_on_ground,
    tilting_lift,
)
from sitl_bridge.autopilot.records import LEVEL_RATES, TRAJECTORY, Estimate, Setpoint, WrenchRecord
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.rotations import product, write_quaternion

MIN_TILT_COSINE = 0.5
"""Smallest cosine of tilt used for thrust compensation; beyond 60 deg the thrust is mostly sideways."""


@compiled
def hector_pid(
    controller: ControllerRecord, estimate: Estimate, setpoint: Setpoint, dt: float, wrench: WrenchRecord
) -> None:
    """Compute thrust and moment of the cascade for one step.

    Args:
        controller: CONTROLLER record whose reference is of this step.
        setpoint: SETPOINT record, of a level with control.
        dt: s.
        wrench: WRENCH record, written.
    """
    if setpoint.level == TRAJECTORY:
        velocity_loop(controller, estimate, setpoint, dt, wrench)
    if setpoint.level != LEVEL_RATES:
        attitude_loop(controller, estimate)
    rate_loop(controller, estimate, dt, wrench)


@compiled
def velocity_loop(
    controller: ControllerRecord, estimate: Estimate, setpoint: Setpoint, dt: float, wrench: WrenchRecord
) -> None:
    """Position P and velocity PI with feed-forward: write roll and pitch to q_d, thrust to the wrench.

    v_c = v_d + K_x (x_d - x), a_c = a_d + D v_d + K_v (v_c - v) + integral; with a_c in axes of the heading,
    tan(theta) = -a_x/(g - a_z), tan(phi) = a_y cos(theta)/(g - a_z), with a_z less its integral, and
    T = m (g - a_z)/(cos phi cos theta) at the present roll and pitch.
    """
    gains = controller.hector
    a_c = controller.a_c
    for i in range(3):
        error = 0.0
        if controller.follows[i] != FREE:
            error = controller.v_d[i] - estimate.velocity[i]
        if controller.follows[i] == POSITION:
            error += gains.position_p[i] * (controller.x_d[i] - estimate.position[i])
        controller.e_i[i] = error
        a_c[i] = controller.a_d[i] + drag_deceleration(controller, i)
        a_c[i] += gains.velocity_p[i] * error + controller.integral[i]
    relax_on_ground(controller, estimate, dt)
    limits = limit_acceleration(controller, setpoint)
    integrate_errors(controller, setpoint, wrench, limits, gains.velocity_i, dt)
    lift = controller.gravity - a_c[2]
    c, s = math.cos(controller.yaw_d), math.sin(controller.yaw_d)
    tilting = tilting_lift(controller)
    pitch = math.atan2(-(c * a_c[0] + s * a_c[1]), tilting)
    roll = math.atan2((c * a_c[1] - s * a_c[0]) * math.cos(pitch), tilting)
    write_quaternion(controller.q_d, roll, pitch, controller.yaw_d)
    upright = 1.0 - 2.0 * (estimate.attitude[1] ** 2 + estimate.attitude[2] ** 2)
    wrench.thrust = controller.thrust_min
    if upright > 0.0:
        thrust = controller.mass * lift / max(upright, MIN_TILT_COSINE)
        wrench.thrust = min(max(thrust, controller.thrust_min), controller.thrust_max)


@compiled
def attitude_loop(controller: ControllerRecord, estimate: Estimate) -> None:
    """Attitude P: rates proportional to the remaining tilt and rotation about the thrust axis.

    The error q* q_d is split into a tilt and a rotation about body z ("swing-twist"), so that the thrust
    direction takes the shortest path whatever the heading.
    """
    w, x, y, z = estimate.attitude[0], -estimate.attitude[1], -estimate.attitude[2], -estimate.attitude[3]
    d = controller.q_d
    e0 = w * d[0] - x * d[1] - y * d[2] - z * d[3]
    e1 = w * d[1] + x * d[0] + y * d[3] - z * d[2]
    e2 = w * d[2] - x * d[3] + y * d[0] + z * d[1]
    e3 = w * d[3] + x * d[2] - y * d[1] + z * d[0]
    if e0 < 0.0:
        e0, e1, e2, e3 = -e0, -e1, -e2, -e3
    n = math.hypot(e0, e3)
    tilt = math.hypot(e1, e2)
    scale = 2.0 * math.atan2(tilt, n) / tilt if tilt > 1e-9 else 2.0
    c, s = (e0 / n, e3 / n) if n > 1e-9 else (1.0, 0.0)
    gains, limit = controller.hector.attitude_p, controller.rate_limit
    roll = gains[0] * scale * (e1 * c - e2 * s)
    pitch = gains[1] * scale * (e2 * c + e1 * s)
    yaw = gains[2] * 2.0 * math.atan2(s, c) + controller.yaw_rate_d
    controller.Omega_d[0] = min(max(roll, -limit[0]), limit[0])
    controller.Omega_d[1] = min(max(pitch, -limit[1]), limit[1])
    controller.Omega_d[2] = min(max(yaw, -limit[2]), limit[2])


@compiled
def rate_loop(controller: ControllerRecord, estimate: Estimate, dt: float, wrench: WrenchRecord) -> None:
    """Rate PI, alpha = K_p e + integral, and the moment J alpha + Omega x J Omega.

    Both laws share the derivative of the cascade's PID (dispatch.py).
    """
    gains = controller.hector
    J, alpha, W = controller.inertia, controller.e_i, estimate.angular_velocity
    for i in range(3):
        error = controller.Omega_d[i] - W[i]
        integrate_moment(controller, wrench, i, gains.rate_i[i] * error * dt)
        alpha[i] = gains.rate_p[i] * error + controller.moment_integral[i]
    M = wrench.moment
    M[0], M[1], M[2] = product(J, alpha[0], alpha[1], alpha[2])
    add_gyroscopic_moment(wrench, J, W)
