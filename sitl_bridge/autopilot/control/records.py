"""Records of a controller: gains by the symbols of their papers, integrators and the reference.

A vehicle's CONTROLLER record holds the gains of every built-in law; ``kind`` selects the law.
"""

from __future__ import annotations

import numpy as np

from sitl_bridge.autopilot.control.thrust_in_motion import SHAPE

# --- CONTROLLER.kind
HECTOR_PID = 0
LEE = 1
USER = 2
"""A user's own class, called from Python; the kernel handles only the levels without control."""

HECTOR_GAINS = np.dtype(
    [
        ("position_p", "f8", 3),  # 1/s
        ("velocity_p", "f8", 3),  # 1/s
        ("velocity_i", "f8", 3),  # 1/s^2
        ("attitude_p", "f8", 3),  # 1/s
        ("rate_p", "f8", 3),  # 1/s
        ("rate_i", "f8", 3),  # 1/s^2
    ],
    align=True,
)

LEE_GAINS = np.dtype(
    [
        ("mass", "f8"),  # kg
        ("gravity", "f8"),  # m/s^2
        ("inertia", "f8", (3, 3)),  # kg m^2 in the feed-forward of the moments; zero disables it
        ("k_x", "f8", 3),  # N/m
        ("k_v", "f8", 3),  # N s/m
        ("k_i", "f8", 3),  # 1/s^2, over the mass, of the integral of e_v + c_1 e_x; zero for the plain law
        ("c_1", "f8", 3),  # 1/s
        ("k_R", "f8", 3),  # N m
        ("k_Omega", "f8", 3),  # N m s
        ("k_I", "f8", 3),  # N m, of the integral of e_Omega + c_2 e_R; zero for the plain law
        ("c_2", "f8", 3),  # 1/s
    ],
    align=True,
)

CONTROLLER = np.dtype(
    [
        ("kind", "i8"),
        # --- the vehicle
        ("mass", "f8"),  # kg
        ("gravity", "f8"),  # m/s^2
        ("inertia", "f8", (3, 3)),  # kg m^2
        ("thrust_min", "f8"),  # N along body up, all rotors at minimum command
        ("thrust_max", "f8"),  # N along body up, all rotors at full command
        ("rate_limit", "f8", 3),  # rad/s, largest commanded rate
        ("drag", "f8", 3),  # 1/s, deceleration over velocity NED, fed forward
        ("thrust_ratio", "f8", SHAPE),  # thrust in motion over thrust in still air
        ("thrust_lag", "f8"),  # s, of the rotors; 0: no acceleration feedback on the thrust
        ("derivative", "f8"),  # gain of the rate derivative on the angular acceleration
        ("derivative_filter", "f8"),  # s
        ("yaw_lead", "f8"),  # s, ratio of a rotor's acceleration moment to its drag moment
        # --- the laws
        ("hector", HECTOR_GAINS),
        ("lee", LEE_GAINS),
        # --- limits of the integrators
        ("vertical_integral_limit", "f8"),  # m/s^2; the tilt limit bounds the horizontal axes
        ("moment_integral_limit", "f8", 3),  # rad/s^2 in hector's law, N m in Lee's
        # --- reference model between the setpoint and the law
        ("reference_used", "i8"),  # 0: the law receives the setpoint without the reference model
        ("reference_position_p", "f8", 3),  # 1/s
        ("reference_velocity_p", "f8", 3),  # 1/s
        ("acceleration_up", "f8"),  # m/s^2, limit of the reference
        ("acceleration_down", "f8"),  # m/s^2
        # --- state
        ("level", "i8"),  # level of the last step
        ("follows", "i8", 3),  # by axis: 2 position, 1 velocity, 0 acceleration
        ("x_d", "f8", 3),  # m NED
        ("v_d", "f8", 3),  # m/s NED
        ("a_d", "f8", 3),  # m/s^2 NED
        ("yaw_d", "f8"),  # rad
        ("yaw_rate_d", "f8"),  # rad/s
        ("q_d", "f8", 4),  # commanded attitude
        ("Omega_d", "f8", 3),  # rad/s, commanded rates
        ("grounded", "f8"),  # s since contact has prevented a descent
        ("integral", "f8", 3),  # m/s^2 NED
        ("moment_integral", "f8", 3),  # body; rad/s^2 in hector's law, N m in Lee's
        ("Omega_last", "f8", 3),  # rad/s
        ("Omega_dot", "f8", 3),  # rad/s^2, filtered
        ("yaw_moment", "f8"),  # N m, state of the yaw-lead filter
        ("aloft", "i8"),  # 1: no ground carries the vehicle, so the acceleration shows the thrust
        ("thrust_given", "f8"),  # m/s^2, specific force of the last command
        ("thrust_expected", "f8"),  # m/s^2, the same after the rotors' lag
        ("disturbance_quick", "f8"),  # m/s^2 along the thrust axis, filtered
        ("disturbance_slow", "f8"),  # m/s^2
        # --- scratch between the parts of one step
        ("flow_ratio", "f8"),  # of thrust_ratio at the present velocity
        ("a_c", "f8", 3),  # m/s^2 NED, commanded
        ("e_i", "f8", 3),  # m/s, input of the integrators
        ("R", "f8", (3, 3)),  # body to NED
        ("R_d", "f8", (3, 3)),
    ],
    align=True,
)
