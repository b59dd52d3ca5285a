"""Records of a vehicle's dynamics: its constant parameters (VEHICLE) and its state (STATE).

Arrays with one record per vehicle are passed to the compiled step.  Frames: world NED in metres from the
world's origin, body FRD about the centre of gravity; SI units, radians.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.core.world.ray_casting import SCRATCH as RAY_SCRATCH

MAX_ROTORS = 12
MAX_CONTACT_POINTS = 24
TABLE_SPEEDS = 24
TABLE_ADVANCE_RATIOS = 32
OCV_POINTS = 11
MAX_FEELERS = MAX_CONTACT_POINTS + MAX_ROTORS + 1
"""What of a vehicle touches the shapes of a scene: its contact points, its rotors' discs and its body."""
MAX_NEAR = 64
"""Shapes of a scene near a vehicle at once."""
LAW_PARAMETERS = 256
"""Largest number of parameter values of a user's own rotor law."""

MOTOR_FIRST_ORDER = 0
MOTOR_DC = 1

POLYNOMIAL_LAW = 0
TABLE_LAW = 1
INDUCED_LAW = 2
"""Numbers of the rotor laws with special handling in the step; rotor_laws.py lists all laws."""

RUNGE_KUTTA = 0
EULER = 1
"""Numbers of the integrators of a vehicle's motion."""

PROPELLER_TABLE = np.dtype(
    [
        ("diameter", "f8"),  # m
        ("speed_count", "i8"),
        ("speed", "f8", TABLE_SPEEDS),  # rad/s, increasing
        ("advance_count", "i8", TABLE_SPEEDS),
        ("advance", "f8", (TABLE_SPEEDS, TABLE_ADVANCE_RATIOS)),  # J = v/(n D), increasing
        ("ct", "f8", (TABLE_SPEEDS, TABLE_ADVANCE_RATIOS)),
        ("cp", "f8", (TABLE_SPEEDS, TABLE_ADVANCE_RATIOS)),
    ],
    align=True,
)
"""C_T and C_P of a propeller over rotor speed and advance ratio."""

VEHICLE = np.dtype(
    [
        ("integrator", "i8"),  # RUNGE_KUTTA or, in free air, EULER
        ("mass", "f8"),  # kg, total mass
        ("inertia", "f8", (3, 3)),  # kg m^2 about the centre of gravity, body axes
        ("inertia_inverse", "f8", (3, 3)),
        # --- rotors: thrust T = (c2 w^2 + c1 w + b1 v w + sgn(v) b2 v^2)(1 - |v|/v_loss), v = axial inflow
        ("rotor_count", "i8"),
        ("rotor_law", "i8"),  # number of the rotor law
        ("rotor_position", "f8", (MAX_ROTORS, 3)),  # m, hub
        ("rotor_axis", "f8", (MAX_ROTORS, 3)),  # unit vector of positive thrust; (0, 0, -1) is up
        ("rotor_direction", "f8", MAX_ROTORS),  # +1 counter-clockwise seen from above, -1 clockwise
        ("rotor_radius", "f8", MAX_ROTORS),  # m
        ("rotor_inertia", "f8", MAX_ROTORS),  # kg m^2 about the spin axis, with the motor's bell
        ("thrust_c2", "f8", MAX_ROTORS),  # N s^2
        ("thrust_c1", "f8", MAX_ROTORS),  # N s
        ("thrust_b1", "f8", MAX_ROTORS),  # N s^2/m
        ("thrust_b2", "f8", MAX_ROTORS),  # N s^2/m^2
        ("inflow_loss_speed", "f8", MAX_ROTORS),  # m/s, inf for none
        ("torque_thrust_ratio", "f8", MAX_ROTORS),  # m, k_M in Q = k_M T + g1 w + q0
        ("torque_g1", "f8", MAX_ROTORS),  # N m s, AirRobot's gamma, hector's k_m
        ("torque_constant", "f8", MAX_ROTORS),  # N m, q0, bearing friction
        ("rotor_drag", "f8", MAX_ROTORS),  # kg, lambda in F = -w lambda v_perp
        ("rolling_moment", "f8", MAX_ROTORS),  # kg m, mu in M = -w mu v_perp (sign as released RotorS)
        ("rotor_density", "f8", MAX_ROTORS),  # kg/m^3, reference density of the coefficients
        ("reverse_loss", "f8", 2),  # 1, of thrust and of torque in reverse rotation; 0: a mirror image
        # --- blades and induced flow; unused by the other laws
        ("blade_slope", "f8", MAX_ROTORS),  # m/rad, lift slope times number and mean chord of the blades
        ("drag_share", "f8", MAX_ROTORS),  # 1: in-plane force by the blades; 0: by rotor_drag alone
        ("roll_share", "f8", MAX_ROTORS),  # 1: hub moment by the blades; 0: by rolling_moment alone
        ("uneven_inflow", "i8"),  # 1: hub pitching moment by the uneven inflow of forward flight
        ("flapping", "i8"),  # 1: the blades flap
        ("flap_stiffness", "f8"),  # N m/rad, moment of a rotor's hub over the tilt of its disc
        ("flap_inertia", "f8"),  # kg m^2, sum of the blades' inertias about their roots
        ("table", "i8", MAX_ROTORS),  # address of a PROPELLER_TABLE in this process; 0 for none
        # --- motors
        ("motor_kind", "i8"),
        ("motor_reversible", "i8"),
        ("motor_tau_up", "f8"),  # s
        ("motor_tau_down", "f8"),  # s
        ("motor_speed_idle", "f8"),  # rad/s at command 0 while armed
        ("motor_speed_range", "f8"),  # rad/s, w = idle + range * command at the nominal voltage
        ("motor_efficiency", "f8"),  # shaft power over electrical power, first-order motors only
        ("dc_flux", "f8"),  # V s, Psi (hector eq. 4)
        ("dc_resistance", "f8"),  # ohm, R_A
        ("dc_inertia", "f8"),  # kg m^2, J_M
        ("dc_alpha", "f8"),  # A, alpha_m of the released hector_quadrotor
        ("dc_beta", "f8"),  # 1, beta_m of the released hector_quadrotor
        # --- speed controllers; all 0: neither limit nor heat
        ("esc_current_limit", "f8"),  # A from the battery, each; 0 for none
        ("esc_heating", "f8"),  # K/A^2, steady temperature rise over the square of the current
        ("esc_thermal_time", "f8"),  # s
        # --- vibration, see vibration.py
        ("vibration", "i8"),  # 1: the rotors vibrate
        ("rotor_imbalance", "f8"),  # kg m of each rotor
        ("blade_count", "f8"),
        ("thrust_ripple", "f8"),  # share of the thrust
        # --- airframe body: F = -diag(C) |v| v (hector eq. 2a), M = -diag(C) |w| w (eq. 2b)
        ("drag_force", "f8", 3),  # N s^2/m^2
        ("drag_moment", "f8", 3),  # N m s^2
        ("drag_density", "f8"),  # kg/m^3, reference density of the coefficients
        ("ground_effect", "f8"),  # 1 = Cheeseman-Bennett with the rotor's radius, 0 = none
        # --- ground contact: linear spring and damper per point, Coulomb friction
        ("contact_count", "i8"),
        ("contact_point", "f8", (MAX_CONTACT_POINTS, 3)),  # m
        ("contact_radius", "f8"),  # m, sphere about the centre of gravity around all points
        ("contact_stiffness", "f8"),  # N/m per point
        ("contact_damping", "f8"),  # N s/m per point
        ("contact_friction", "f8"),  # 1
        # --- battery; capacity inf for an ideal source
        ("battery_capacity", "f8"),  # A s
        ("battery_cells", "i8"),
        ("battery_resistance", "f8"),  # ohm, whole pack
        ("battery_ocv", "f8", OCV_POINTS),  # V per cell at charge 0, 0.1, ... 1
        ("battery_nominal_voltage", "f8"),  # V, reference voltage of motor_speed_range
        ("battery_idle_current", "f8"),  # A, avionics
        ("battery_slow_resistance", "f8"),  # ohm, of the RC pair; 0 for none
        ("battery_slow_time", "f8"),  # s, its time constant
        # --- a user's own rotor law
        ("rotor_law_address", "i8"),  # address of its function in this process
        ("rotor_law_parameters", "f8", LAW_PARAMETERS),  # layout: see custom_rotor.py
    ],
    align=True,
)

SCRATCH = np.dtype(
    [
        # Of the rotors, one value each, so that the loops over them compile to vector instructions.
        *[
            (name, "f8", MAX_ROTORS)
            for name in (
                # motion and loads
                "speed", "acceleration", "thrust", "torque",
                # parameters
                "x", "y", "z", "axis_x", "axis_y", "axis_z", "direction", "inertia", "c2", "c1", "b1", "b2",
                "loss_rate", "k_m", "g1", "q0", "density_rate", "health", "drag", "roll", "radius",
                "blade_slope", "drag_share", "roll_share",
                # flow at the hub
                "inflow", "across_x", "across_y", "across_z", "induced",
                # in-plane drag and hub moment over the hub's in-plane velocity
                "drag_rate", "roll_rate",
                # effect on the body
                "force_x", "force_y", "force_z", "moment_x", "moment_y", "moment_z",
                "momentum_x", "momentum_y", "momentum_z",
                "total",  # of the accelerations over a step of the integration
                # of the rotors' speeds, for induced flow: see prepare_speeds in induced_flow.py
                "lift", "slope", "limit", "profile", "profile_drag", "per_speed", "per_tip2",
                "constant_drag", "constant_roll", "turning",
                # of the air and the rotors alone, for induced flow: see prepare_flow in induced_flow.py
                "ratio", "blade", "disc", "per_disc", "per_radius2", "air_mass",
                "ring",  # above 0 in the vortex ring state
                # of flapping blades: see flapping.py
                "tilt_x", "tilt_y", "tilt_z", "coning",
                # of the commands, and of the motors' share of the current: see motor.py
                "steady", "running", "power", "grip", "limited",
                "decay",  # 1/s: see stability.py
            )
        ],
        ("ground_reach", "f8"),  # m, height of the centre of gravity below which ground effect acts
        ("rolling", "f8"),  # not 0: blades give a hub moment
        ("rise_rate", "f8"),  # 1/s, inverse time constant of motors that gain speed
        ("fall_rate", "f8"),  # 1/s, of those that lose speed
        ("reverse_thrust_loss", "f8"),  # reverse_loss of the VEHICLE
        ("reverse_torque_loss", "f8"),
        # --- of the integration, and of rays
        ("work", "f8", (3, 13)),
        ("ray_work", "f8", (4, 3)),
        ("ray_stack", "i8", RAY_SCRATCH),
    ],
    align=True,
)  # fmt: skip
"""What a step works with, undefined between steps."""

CACHE_LINE = 64
"""bytes."""
_MEMORY: list[tuple[Any, ...]] = [
    # --- the motion, battery and motors
    ("position", "f8", 3),  # m NED, centre of gravity
    ("velocity", "f8", 3),  # m/s NED over ground
    ("attitude", "f8", 4),  # quaternion w, x, y, z, body to NED
    ("angular_velocity", "f8", 3),  # rad/s body
    ("rotor_speed", "f8", MAX_ROTORS),  # rad/s, >= 0 unless reversible
    ("rotor_torque", "f8", MAX_ROTORS),  # N m, aerodynamic and bearing torque against the spin
    ("battery_charge", "f8"),  # A s, remaining
    ("battery_voltage", "f8"),  # V at the terminals
    ("battery_current", "f8"),  # A
    ("battery_slow_voltage", "f8"),  # V across the RC pair
    # --- of some vehicles: induced flow, health, vibration, heat
    ("induced_velocity", "f8", MAX_ROTORS),  # m/s through the discs, against forward rotation's thrust
    ("rotor_health", "f8", MAX_ROTORS),  # remaining share of thrust and torque; 0 also stops the motor
    ("rotor_phase", "f8", MAX_ROTORS),  # rad, turned on while rotors vibrate
    ("esc_rise", "f8", MAX_ROTORS),  # K of each speed controller above the air
    # --- on the ground: contact, and standing still by resting.py
    ("in_contact", "i8"),  # number of contact points below the ground
    ("contact_touching", "i8", MAX_CONTACT_POINTS),  # 1 while the point is below the ground
    ("contact_anchor", "f8", (MAX_CONTACT_POINTS, 2)),  # m NE, anchor of a point's friction spring
    ("rest_steps", "i8"),  # steps in a row without motion
    ("rest_position", "f8", 3),  # m NED
    ("rest_attitude", "f8", 4),
    ("rest_wind", "f8", 3),  # m/s NED at the start of the rest
    ("rest_mass", "f8"),  # kg
    # --- results of the step, valid at its end; those of a step at rest are the last ones before
    ("specific_force", "f8", 3),  # m/s^2 body, reading of an ideal accelerometer at the CoG
    ("angular_acceleration", "f8", 3),  # rad/s^2 body
    ("rotor_thrust", "f8", MAX_ROTORS),  # N
    ("motor_current", "f8", MAX_ROTORS),  # A that each speed controller takes from the battery
    # --- written by each step before they are read
    ("wind", "f8", 3),  # m/s NED at the vehicle
    ("motor_drive", "f8", MAX_ROTORS),  # commanded rad/s (first order) or V (DC; 0 = braked)
    # --- inputs that may change between steps, with rotor_health
    ("damage_imbalance", "f8", MAX_ROTORS),  # kg m, of a damaged propeller
    ("vibrating", "i8"),  # 1: rotors vibrate, by the airframe or for damage
    ("external_force", "f8", 3),  # N NED at the centre of gravity
    ("external_moment", "f8", 3),  # N m body
    # --- effect of other vehicles over the step, written by proximity.py
    ("neighbour_force", "f8", 3),  # N NED at the centre of gravity
    ("neighbour_moment", "f8", 3),  # N m body
    ("neighbour_air", "f8", 3),  # m/s NED, mean of their wakes; part of ``wind``
    ("uneven_wake", "i8"),  # 1: rotors are in other air than the mean
    ("rotor_air", "f8", (MAX_ROTORS, 3)),  # m/s NED, of the wakes at each rotor beyond their mean
    # --- over the whole flight
    ("vortex_ring_time", "f8"),  # s with a rotor in its vortex ring state so far
    ("impact_speed", "f8"),  # m/s, largest closing speed at a new contact so far
    # --- the scene around it, written by scene_contact.py
    ("groundless", "i8"),  # 1: the plane down = 0 is no ground
    ("floor", "f8"),  # m, down of the surface below, for the ground effect; inf: none in reach
    ("clearance", "f8"),  # m it may move from clearance_position before a shape at rest comes near
    ("clearance_position", "f8", 3),  # m NED
    ("near_count", "i8"),  # shapes that it may touch in this step
    ("near_shape", "i8", MAX_NEAR),
    ("near_elapsed", "f8"),  # s since the moving shapes were put in their places
    # Of each feeler, the tangent plane of the surface nearest to it, valid for a part of a step.
    ("surface_known", "i8", MAX_FEELERS),
    ("surface_touching", "i8", MAX_FEELERS),
    ("surface_shape", "i8", MAX_FEELERS),  # index in the scene
    ("surface_point", "f8", (MAX_FEELERS, 3)),  # m NED, in the middle of the part
    ("surface_normal", "f8", (MAX_FEELERS, 3)),  # NED, outward
    ("surface_velocity", "f8", (MAX_FEELERS, 3)),  # m/s NED
    ("surface_friction", "f8", MAX_FEELERS),  # 1, coefficient with this vehicle
    ("surface_anchor", "f8", (MAX_FEELERS, 3)),  # m NED, where its friction spring holds on
    ("feeler", "f8", (MAX_FEELERS, 3)),  # m body, its point nearest to the surface
    ("hit_speed", "f8"),  # m/s closing speed of the step's fastest new contact; negative: there was none
    ("hit_part", "i8"),  # the feeler
    ("hit_shape", "i8"),
    ("hit_position", "f8", 3),  # m NED
    ("rotor_hit", "f8", MAX_ROTORS),  # m/s, of each rotor's new contacts in the step
    ("hit_time", "i8"),  # us, of the last contact in the list of contacts
    ("hit_object", "i8"),  # one more than the object's number; 0: none yet
    ("hit_row", "i8"),
    ("motor_decay", "f8", 5),  # s, s, s, 1, 1: kept figures of _motor_decay in step.py
]


def _filled(fields: list[tuple[Any, ...]], name: str) -> list[tuple[Any, ...]]:
    """Fields with one more, where it takes that to end with a cache line."""
    missing = -np.dtype(fields, align=True).itemsize % CACHE_LINE // 8
    return fields + [(name, "i8", missing)] * (missing > 0)


STATE = np.dtype(_filled([*_filled(_MEMORY, "unused"), ("scratch", SCRATCH)], "end"), align=True)
"""State of a vehicle; a whole number of cache lines.

In an array from ``zero_states`` the scratch begins with one, and no four values of a rotor's field cross one.
"""


def zero_states(count: int) -> NDArray[np.void]:
    """(count,) STATE of zeros that begins with a cache line, which saves a twentieth of a step's time."""
    memory = np.zeros(count * STATE.itemsize + CACHE_LINE, np.uint8)
    first = -memory.ctypes.data % CACHE_LINE
    return memory[first : first + count * STATE.itemsize].view(STATE)
