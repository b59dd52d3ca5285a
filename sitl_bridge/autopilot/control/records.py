"""The memory of a controller: gains by the symbols of their papers, integrators, the reference it follows.

One CONTROLLER record a vehicle holds the gains of every built-in law; ``kind`` says which one flies.
"""

from __future__ import annotations

import numpy as np

# --- CONTROLLER.kind
HECTOR_PID = 0
LEE = 1
USER = 2
"""A class of the user's own, called from Python; the kernel only minds the levels without control."""

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
        ("mass", "f8"),  # kg that the law reckons with
        ("gravity", "f8"),  # m/s^2 that the law reckons with
        ("inertia", "f8", (3, 3)),  # kg m^2 in the feed-forward of the moments; zero leaves it out
        ("k_x", "f8", 3),  # N/m
        ("k_v", "f8", 3),  # N s/m
        ("k_i", "f8", 3),  # 1/s^2, over the mass, of the integral of e_v + c_1 e_x; zero is the plain law
        ("c_1", "f8", 3),  # 1/s
        ("k_R", "f8", 3),  # N m
        ("k_Omega", "f8", 3),  # N m s
        ("k_I", "f8", 3),  # N m, of the integral of e_Omega + c_2 e_R; zero is the plain law
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
        ("thrust_min", "f8"),  # N along body up, all rotors at their least
        ("thrust_max", "f8"),  # N along body up, all rotors at full command
        ("rate_limit", "f8", 3),  # rad/s asked for at most
        ("drag", "f8", 3),  # 1/s, deceleration over velocity NED that the law feeds forward
        ("derivative", "f8"),  # 1, of the rate, on the angular acceleration
        ("derivative_filter", "f8"),  # s
        ("yaw_lead", "f8"),  # s, moment of a rotor's acceleration over that of its drag
        # --- the laws
        ("hector", HECTOR_GAINS),
        ("lee", LEE_GAINS),
        # --- limits of the integrators
        ("vertical_integral_limit", "f8"),  # m/s^2; horizontally the tilt limits
        ("moment_integral_limit", "f8", 3),  # rad/s^2 in hector's law, N m in Lee's
        # --- reference model between the setpoint and the law
        ("reference_used", "i8"),  # 0: the law gets the bare setpoint
        ("reference_position_p", "f8", 3),  # 1/s
        ("reference_velocity_p", "f8", 3),  # 1/s
        ("acceleration_up", "f8"),  # m/s^2 of the reference at most
        ("acceleration_down", "f8"),  # m/s^2
        # --- memory
        ("level", "i8"),  # of the last step
        ("follows", "i8", 3),  # by axis: 2 a position, 1 a velocity, 0 an acceleration
        ("x_d", "f8", 3),  # m NED
        ("v_d", "f8", 3),  # m/s NED
        ("a_d", "f8", 3),  # m/s^2 NED
        ("yaw_d", "f8"),  # rad
        ("yaw_rate_d", "f8"),  # rad/s
        ("q_d", "f8", 4),  # attitude asked for
        ("Omega_d", "f8", 3),  # rad/s asked for
        ("grounded", "f8"),  # s for which something has kept the vehicle from descending
        ("integral", "f8", 3),  # m/s^2 NED
        ("moment_integral", "f8", 3),  # body; rad/s^2 in hector's law, N m in Lee's
        ("Omega_last", "f8", 3),  # rad/s
        ("Omega_dot", "f8", 3),  # rad/s^2, filtered
        ("yaw_moment", "f8"),  # N m, of the lead's filter
        # --- scratch between the parts of one step
        ("a_c", "f8", 3),  # m/s^2 NED asked for
        ("e_i", "f8", 3),  # m/s, what the integrators get
        ("R", "f8", (3, 3)),  # body to NED
        ("R_d", "f8", (3, 3)),
    ],
    align=True,
)
