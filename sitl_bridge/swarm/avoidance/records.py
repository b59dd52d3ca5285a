"""Records of the predictive controller: what it optimises, and what it keeps away from.

World NED, body FRD, SI units, radians.  Thrust is specific: N per kg of the vehicle, along body up.
"""

from __future__ import annotations

from typing import Annotated

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.record import Record

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


class Settings(Record):
    """Model, weights and limits of the controller's optimisation."""

    gain: Annotated[Floats, 2]  # 1, K_phi and K_theta of eq. 4
    time_constant: Annotated[Floats, 2]  # s, tau_phi and tau_theta of eq. 4
    drag: float  # s/m, lumped drag coefficient of eq. 2
    step: float  # s between grid points
    substeps: int  # integration steps between grid points
    state_weight: Annotated[Floats, STATES]  # diagonal of Q_x, eq. 8
    input_weight: Annotated[Floats, INPUTS]  # diagonal of R_u, eq. 9
    terminal: Annotated[Floats, STATES, STATES]  # at yaw 0
    input_min: Annotated[Floats, INPUTS]
    input_max: Annotated[Floats, INPUTS]
    collision_weight: float  # Q_c of eq. 10
    smoothness: float  # 1/m, kappa of eq. 10
    side: float  # m by which encounters lead to the right in the collision cost
    spread: float  # standard deviations by which distances are widened, eq. 15


SETTINGS = Settings.dtype


class Entity(Record):
    """Something to keep away from: another vehicle, or an obstacle."""

    kind: int
    position: Annotated[Floats, 3]  # m NED: of the vehicle when it spoke; centre of an obstacle
    velocity: Annotated[Floats, 3]  # m/s NED
    size: Annotated[Floats, 3]  # m: sphere radius; cylinder radius and half height; box half edges
    age: float  # s between the vehicle's time stamp and now: delta of eq. 13
    position_variance: Annotated[Floats, 3]  # m^2
    velocity_variance: Annotated[Floats, 3]  # m^2/s^2
    acceleration: float  # m/s^2, standard deviation of what it may do unheard
    silence: float  # s from now for which nothing is expected to be heard of it
    minimum: float  # m, r_min of eq. 12
    threshold: float  # m, r_th of eq. 10
    points: int  # of its broadcast plan; below 2 its velocity is extrapolated (eq. 13)
    step: float  # s between them
    plan: Annotated[Floats, PLAN_POINTS, 3]  # m NED, the first at the vehicle's time stamp


ENTITY = Entity.dtype
