"""Records of a controller: gains by the symbols of their papers, integrators and the reference.

A vehicle's CONTROLLER record holds the gains of every built-in law; ``kind`` selects the law.
"""

from __future__ import annotations

from typing import Annotated

from sitl_bridge.base.arrays import Floats, Ints
from sitl_bridge.base.kernels.record import Record

# --- CONTROLLER.kind
HECTOR_PID = 0
LEE = 1
USER = 2
"""A user's own class, called from Python; the kernel handles only the levels without control."""

ALONG_STEPS, ACROSS_STEPS = 8, 10
"""Intervals of ``thrust_ratio`` along the rotors' axes, each way, and across them."""


class HectorGains(Record):
    """Gains of hector_quadrotor's cascade."""

    position_p: Annotated[Floats, 3]  # 1/s
    velocity_p: Annotated[Floats, 3]  # 1/s
    velocity_i: Annotated[Floats, 3]  # 1/s^2
    attitude_p: Annotated[Floats, 3]  # 1/s
    rate_p: Annotated[Floats, 3]  # 1/s
    rate_i: Annotated[Floats, 3]  # 1/s^2


class LeeGains(Record):
    """Gains of Lee's controller, by the symbols of its paper."""

    mass: float  # kg
    gravity: float  # m/s^2
    inertia: Annotated[Floats, 3, 3]  # kg m^2 in the feed-forward of the moments; zero disables it
    k_x: Annotated[Floats, 3]  # N/m
    k_v: Annotated[Floats, 3]  # N s/m
    # 1/s^2, over the mass, of the integral of e_v + c_1 e_x; zero for the plain law
    k_i: Annotated[Floats, 3]
    c_1: Annotated[Floats, 3]  # 1/s
    k_R: Annotated[Floats, 3]  # N m
    k_Omega: Annotated[Floats, 3]  # N m s
    k_I: Annotated[Floats, 3]  # N m, of the integral of e_Omega + c_2 e_R; zero for the plain law
    c_2: Annotated[Floats, 3]  # 1/s


class ControllerRecord(Record):
    """Settings, gains, state and scratch of a controller."""

    kind: int
    # --- the vehicle
    mass: float  # kg
    gravity: float  # m/s^2
    inertia: Annotated[Floats, 3, 3]  # kg m^2
    thrust_min: float  # N along body up, all rotors at minimum command
    thrust_max: float  # N along body up, all rotors at full command
    rate_limit: Annotated[Floats, 3]  # rad/s, largest commanded rate
    drag: Annotated[Floats, 3]  # 1/s, deceleration over velocity NED, fed forward
    thrust_ratio: Annotated[
        Floats, 2 * ALONG_STEPS + 1, ACROSS_STEPS + 1
    ]  # thrust in motion over thrust in still air
    thrust_lag: float  # s, of the rotors; 0: no acceleration feedback on the thrust
    derivative: float  # gain of the rate derivative on the angular acceleration
    derivative_filter: float  # s
    yaw_lead: float  # s, ratio of a rotor's acceleration moment to its drag moment
    # --- the laws
    hector: HectorGains
    lee: LeeGains
    # --- limits of the integrators
    vertical_integral_limit: float  # m/s^2; the tilt limit bounds the horizontal axes
    moment_integral_limit: Annotated[Floats, 3]  # rad/s^2 in hector's law, N m in Lee's
    # --- reference model between the setpoint and the law
    reference_used: int  # 0: the law receives the setpoint without the reference model
    reference_position_p: Annotated[Floats, 3]  # 1/s
    reference_velocity_p: Annotated[Floats, 3]  # 1/s
    acceleration_up: float  # m/s^2, limit of the reference
    acceleration_down: float  # m/s^2
    # --- state
    level: int  # level of the last step
    follows: Annotated[Ints, 3]  # by axis: 2 position, 1 velocity, 0 acceleration
    x_d: Annotated[Floats, 3]  # m NED
    v_d: Annotated[Floats, 3]  # m/s NED
    a_d: Annotated[Floats, 3]  # m/s^2 NED
    yaw_d: float  # rad
    yaw_rate_d: float  # rad/s
    q_d: Annotated[Floats, 4]  # commanded attitude
    Omega_d: Annotated[Floats, 3]  # rad/s, commanded rates
    grounded: float  # s since contact has prevented a descent
    integral: Annotated[Floats, 3]  # m/s^2 NED
    moment_integral: Annotated[Floats, 3]  # body; rad/s^2 in hector's law, N m in Lee's
    Omega_last: Annotated[Floats, 3]  # rad/s
    Omega_dot: Annotated[Floats, 3]  # rad/s^2, filtered
    yaw_moment: float  # N m, state of the yaw-lead filter
    aloft: int  # 1: no ground carries the vehicle, so the acceleration shows the thrust
    thrust_given: float  # m/s^2, specific force of the last command
    thrust_expected: float  # m/s^2, the same after the rotors' lag
    disturbance_quick: float  # m/s^2 along the thrust axis, filtered
    disturbance_slow: float  # m/s^2
    # --- scratch between the parts of one step
    flow_ratio: float  # of thrust_ratio at the present velocity
    a_c: Annotated[Floats, 3]  # m/s^2 NED, commanded
    e_i: Annotated[Floats, 3]  # m/s, input of the integrators
    R: Annotated[Floats, 3, 3]  # body to NED
    R_d: Annotated[Floats, 3, 3]


CONTROLLER = ControllerRecord.dtype
