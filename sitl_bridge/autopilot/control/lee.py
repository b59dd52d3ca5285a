"""Lee's geometric tracking controller on SE(3), with the integrals of its geometric PID.

T. Lee, M. Leok, N. H. McClamroch, "Geometric tracking control of a quadrotor UAV on SE(3)", CDC 2010, as in
RotorS (lee_position_controller.cpp); the integrals are those of F. Goodarzi, D. Lee, T. Lee, "Geometric
nonlinear PID control of a quadrotor UAV on SE(3)", ECC 2013.  With k_i = k_I = 0 it is the plain law.
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
from sitl_bridge.base.kernels.rotations import write_matrix


@compiled
def lee(
    controller: ControllerRecord, estimate: Estimate, setpoint: Setpoint, dt: float, wrench: WrenchRecord
) -> None:
    """Compute thrust and moment of the law for one step.

    Args:
        controller: CONTROLLER record whose reference is of this step.
        setpoint: SETPOINT record, of a level with control.
        dt: s.
        wrench: WRENCH record, written.
    """
    write_matrix(estimate.attitude, controller.R)
    if setpoint.level == TRAJECTORY:
        tracking_force(controller, estimate, setpoint, dt, wrench)
    elif setpoint.level != LEVEL_RATES:
        write_matrix(controller.q_d, controller.R_d)
    attitude_moment(controller, estimate, setpoint, dt, wrench)


@compiled
def tracking_force(
    controller: ControllerRecord, estimate: Estimate, setpoint: Setpoint, dt: float, wrench: WrenchRecord
) -> None:
    """Set the force and, from its direction and the heading, the attitude R_d (Lee 2010, eqs 15 and 16).

    A = -k_x e_x - k_v e_v - k_i e_i - m g e_3 + m (x_d'' + D x_d'), b_3d = -A/|A|, f = -A . R e_3, with
    e_i' = e_v + c_1 e_x (Goodarzi).  ``limit_acceleration`` limits A; its vertical integral scales f alone.
    """
    gains = controller.lee
    a_c, R, R_d = controller.a_c, controller.R, controller.R_d
    for i in range(3):
        e_x = 0.0
        e_v = 0.0
        if controller.follows[i] == POSITION:
            e_x = estimate.position[i] - controller.x_d[i]
        if controller.follows[i] != FREE:
            e_v = estimate.velocity[i] - controller.v_d[i]
        controller.e_i[i] = -(e_v + gains.c_1[i] * e_x)
        a_c[i] = controller.a_d[i] + drag_deceleration(controller, i)
        a_c[i] += controller.integral[i] - (gains.k_x[i] * e_x + gains.k_v[i] * e_v) / gains.mass
    relax_on_ground(controller, estimate, dt)
    limits = limit_acceleration(controller, setpoint)
    integrate_errors(controller, setpoint, wrench, limits, gains.k_i, dt)
    lift = gains.gravity - a_c[2]
    tilting = tilting_lift(controller) + gains.gravity - controller.gravity
    A0, A1, A2 = gains.mass * a_c[0], gains.mass * a_c[1], -gains.mass * tilting
    size = math.sqrt(A0 * A0 + A1 * A1 + A2 * A2)
    b0, b1, b2 = -A0 / size, -A1 / size, -A2 / size
    c, s = math.cos(controller.yaw_d), math.sin(controller.yaw_d)
    # b_2d = b_3d x b_1d / |...| with b_1d = (c, s, 0); b_3d points down here, so b_2d is to the right.
    y0, y1, y2 = -b2 * s, b2 * c, b0 * s - b1 * c
    norm = math.sqrt(y0 * y0 + y1 * y1 + y2 * y2)
    y0, y1, y2 = y0 / norm, y1 / norm, y2 / norm
    R_d[0, 0], R_d[1, 0], R_d[2, 0] = y1 * b2 - y2 * b1, y2 * b0 - y0 * b2, y0 * b1 - y1 * b0
    R_d[0, 1], R_d[1, 1], R_d[2, 1] = y0, y1, y2
    R_d[0, 2], R_d[1, 2], R_d[2, 2] = b0, b1, b2
    f = -(A0 * R[0, 2] + A1 * R[1, 2] + A2 * R[2, 2]) * lift / tilting
    wrench.thrust = min(max(f, controller.thrust_min), controller.thrust_max)


@compiled
def attitude_moment(
    controller: ControllerRecord, estimate: Estimate, setpoint: Setpoint, dt: float, wrench: WrenchRecord
) -> None:
    """Moment M = -k_R e_R - k_Omega e_Omega - k_I e_I + Omega x J Omega (Lee 2010, eqs 10, 11 and 16).

    e_R = (R_d^T R - R^T R_d)^vee/2, e_Omega = Omega - R^T R_d Omega_d, e_I' = e_Omega + c_2 e_R.  Only the
    yaw rate of Omega_d is known, as in RotorS.  RotorS divides its gains by the inertia and multiplies with
    it again, which equals this law, and omits Omega x J Omega: ``inertia`` is then zero.
    """
    gains = controller.lee
    W, W_d, R, R_d = estimate.angular_velocity, controller.Omega_d, controller.R, controller.R_d
    J = gains.inertia
    rates_only = setpoint.level == LEVEL_RATES
    if not rates_only:
        W_d[0], W_d[1], W_d[2] = 0.0, 0.0, controller.yaw_rate_d
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        e_R = 0.0
        e_W = W[i] - W_d[i]
        if not rates_only:
            # Entry (k, j) of the skew matrix; R^T R_d Omega_d row by row.
            turned = 0.0
            for m in range(3):
                e_R += 0.5 * (R_d[m, k] * R[m, j] - R[m, k] * R_d[m, j])
                turned += R[m, i] * (R_d[m, 0] * W_d[0] + R_d[m, 1] * W_d[1] + R_d[m, 2] * W_d[2])
            e_W = W[i] - turned
        integrate_moment(controller, wrench, i, -gains.k_I[i] * (e_W + gains.c_2[i] * e_R) * dt)
        wrench.moment[i] = controller.moment_integral[i] - gains.k_R[i] * e_R - gains.k_Omega[i] * e_W
    add_gyroscopic_moment(wrench, J, W)
