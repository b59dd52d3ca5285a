"""Records of the predictive controller: what it optimises, and what it keeps away from.

World NED, body FRD, SI units, radians.  Thrust is specific: N per kg of the vehicle, along body up.
"""

from __future__ import annotations

import numpy as np

STATES = 8
"""Position (3), velocity (3), roll, pitch.  Yaw is a known course along the horizon: by eq. 4c it follows its
command at once and no other state depends on how."""
INPUTS = 3
"""Commanded roll, pitch and specific thrust."""
DISTURBANCES = 5
"""Acceleration of external forces NED (3), and what roll and pitch settle at when level is commanded (2)."""

LONGEST_HORIZON = 60
PLAN_POINTS = LONGEST_HORIZON + 1
"""Most points of a broadcast plan: the present and the longest horizon, LONGEST_HORIZON steps."""

# --- kinds of things to keep away from
VEHICLE = 0
SPHERE = 1
CYLINDER = 2
BOX = 3

SETTINGS = np.dtype(
    [
        ("gain", "f8", 2),  # 1, K_phi and K_theta of eq. 4
        ("time_constant", "f8", 2),  # s, tau_phi and tau_theta of eq. 4
        ("drag", "f8"),  # s/m, lumped drag coefficient of eq. 2
        ("step", "f8"),  # s between grid points
        ("substeps", "i8"),  # integration steps between grid points
        ("state_weight", "f8", STATES),  # diagonal of Q_x, eq. 8
        ("input_weight", "f8", INPUTS),  # diagonal of R_u, eq. 9
        ("terminal", "f8", (STATES, STATES)),  # at yaw 0
        ("input_min", "f8", INPUTS),
        ("input_max", "f8", INPUTS),
        ("collision_weight", "f8"),  # Q_c of eq. 10
        ("smoothness", "f8"),  # 1/m, kappa of eq. 10
        ("side", "f8"),  # m by which encounters lead to the right in the collision cost
        ("spread", "f8"),  # standard deviations by which distances are widened, eq. 15
    ],
    align=True,
)

ENTITY = np.dtype(
    [
        ("kind", "i8"),
        ("position", "f8", 3),  # m NED: of the vehicle when it spoke; centre of an obstacle
        ("velocity", "f8", 3),  # m/s NED
        ("size", "f8", 3),  # m: sphere radius; cylinder radius and half height; box half edges
        ("age", "f8"),  # s between the vehicle's time stamp and now: delta of eq. 13
        ("position_variance", "f8", 3),  # m^2
        ("velocity_variance", "f8", 3),  # m^2/s^2
        ("acceleration", "f8"),  # m/s^2, standard deviation of what it may do unheard
        ("silence", "f8"),  # s from now for which nothing is expected to be heard of it
        ("minimum", "f8"),  # m, r_min of eq. 12
        ("threshold", "f8"),  # m, r_th of eq. 10
        ("points", "i8"),  # of its broadcast plan; below 2 its velocity is extrapolated (eq. 13)
        ("step", "f8"),  # s between them
        ("plan", "f8", (PLAN_POINTS, 3)),  # m NED, the first at the vehicle's time stamp
    ],
    align=True,
)
"""Something to keep away from: another vehicle, or an obstacle."""
