"""Records of a vehicle's dynamics: its constant parameters (VEHICLE) and its state (STATE).

Arrays with one record per vehicle are passed to the compiled step.  Frames: world NED in metres from the
world's origin, body FRD about the centre of gravity; SI units, radians.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from sitl_bridge.base.arrays import Floats, Ints, Words
from sitl_bridge.base.kernels.record import Record
from sitl_bridge.core.world.ray_casting import Rays

MAX_ROTORS = 12
MAX_CONTACT_POINTS = 24
TABLE_SPEEDS = 24
TABLE_ADVANCE_RATIOS = 32
OCV_POINTS = 11
MAX_PROBES = MAX_CONTACT_POINTS + MAX_ROTORS + 1
"""Parts of a vehicle that touch the shapes of a scene: its contact points, its rotors' discs and its body."""
MAX_NEAR = 64
"""Shapes of a scene near a vehicle at once."""
LAW_PARAMETERS = 256
"""Largest number of parameter values of a user's own rotor law."""

MOTOR_FIRST_ORDER = 0
MOTOR_DC = 1

POLYNOMIAL_LAW = 0
TABLE_LAW = 1
INDUCED_LAW = 2
CUSTOM_LAW = 3
"""Numbers of the rotor laws."""


class PropellerTableRecord(Record):
    """C_T and C_P of a propeller over rotor speed and advance ratio."""

    diameter: float  # m
    speed_count: int
    speed: Annotated[Floats, TABLE_SPEEDS]  # rad/s, increasing
    advance_count: Annotated[Ints, TABLE_SPEEDS]
    advance: Annotated[Floats, TABLE_SPEEDS, TABLE_ADVANCE_RATIOS]  # J = v/(n D), increasing
    ct: Annotated[Floats, TABLE_SPEEDS, TABLE_ADVANCE_RATIOS]
    cp: Annotated[Floats, TABLE_SPEEDS, TABLE_ADVANCE_RATIOS]


PROPELLER_TABLE = PropellerTableRecord.dtype


class Vehicle(Record, lines=True):
    """Parameters of a vehicle: its mass, rotors, motors, body, feet and battery."""

    # --- rotors: thrust T = (c2 w^2 + c1 w + b1 v w + sgn(v) b2 v^2)(1 - |v|/v_loss), v = axial inflow
    rotor_position: Annotated[Floats, MAX_ROTORS, 3]  # m, hub
    rotor_axis: Annotated[Floats, MAX_ROTORS, 3]  # unit vector of positive thrust; (0, 0, -1) is up
    rotor_direction: Annotated[Floats, MAX_ROTORS]  # +1 counter-clockwise seen from above, -1 clockwise
    rotor_radius: Annotated[Floats, MAX_ROTORS]  # m
    rotor_inertia: Annotated[Floats, MAX_ROTORS]  # kg m^2 about the spin axis, with the motor's bell
    thrust_c2: Annotated[Floats, MAX_ROTORS]  # N s^2
    thrust_c1: Annotated[Floats, MAX_ROTORS]  # N s
    thrust_b1: Annotated[Floats, MAX_ROTORS]  # N s^2/m
    thrust_b2: Annotated[Floats, MAX_ROTORS]  # N s^2/m^2
    inflow_loss_speed: Annotated[Floats, MAX_ROTORS]  # m/s, inf for none
    torque_thrust_ratio: Annotated[Floats, MAX_ROTORS]  # m, k_M in Q = k_M T + g1 w + q0
    torque_g1: Annotated[Floats, MAX_ROTORS]  # N m s, AirRobot's gamma, hector's k_m
    torque_constant: Annotated[Floats, MAX_ROTORS]  # N m, q0, bearing friction
    rotor_drag: Annotated[Floats, MAX_ROTORS]  # kg, lambda in F = -w lambda v_perp
    rolling_moment: Annotated[Floats, MAX_ROTORS]  # kg m, mu in M = -w mu v_perp; signed by the rotation
    rotor_density: Annotated[Floats, MAX_ROTORS]  # kg/m^3, reference density of the coefficients
    blade_area: Annotated[Floats, MAX_ROTORS]  # m^2, of all blades, for the drag of a rotor that stands
    # --- blades and induced flow; unused by the other laws
    blade_slope: Annotated[Floats, MAX_ROTORS]  # m/rad, lift slope times number and mean chord of the blades
    drag_share: Annotated[Floats, MAX_ROTORS]  # 1: in-plane force by the blades; 0: by rotor_drag alone
    roll_share: Annotated[Floats, MAX_ROTORS]  # 1: hub moment by the blades; 0: by rolling_moment alone
    table: Annotated[Ints, MAX_ROTORS]  # address of a PROPELLER_TABLE in this process; 0 for none
    reverse_loss: Annotated[Floats, 2]  # 1, of thrust and of torque in reverse rotation; 0: a mirror image
    uneven_inflow: int  # 1: hub pitching moment by the uneven inflow of forward flight
    # --- body
    mass: float  # kg, total mass
    inertia: Annotated[Floats, 3, 3]  # kg m^2 about the centre of gravity, body axes
    inertia_inverse: Annotated[Floats, 3, 3]
    rotor_count: int
    rotor_law: int  # number of the rotor law
    # --- motors
    motor_kind: int
    motor_reversible: int
    motor_tau_up: float  # s
    motor_tau_down: float  # s
    motor_speed_idle: float  # rad/s at command 0 while armed
    motor_speed_range: float  # rad/s, w = idle + range * command at the nominal voltage
    motor_speed_offset: float  # rad/s beside that, whatever the voltage, while the command is not 0
    motor_dead_time: float  # s
    motor_efficiency: float  # shaft power over electrical power, first-order motors only
    dc_flux: float  # V s, Psi (hector eq. 4)
    dc_resistance: float  # ohm, R_A
    dc_inertia: float  # kg m^2, J_M
    dc_alpha: float  # A, alpha_m of the released hector_quadrotor
    dc_beta: float  # 1, beta_m of the released hector_quadrotor
    # --- speed controllers; all 0: neither limit nor heat
    esc_current_limit: float  # A from the battery, each; 0 for none
    esc_heating: float  # K/A^2, steady temperature rise over the square of the current
    esc_thermal_time: float  # s
    # --- vibration, see vibration.py
    vibration: int  # 1: the rotors vibrate
    rotor_imbalance: Annotated[Floats, MAX_ROTORS]  # kg m
    rotor_tilt: Annotated[Floats, MAX_ROTORS]  # rad, of the blades' line on the shaft
    blade_count: float
    thrust_ripple: float  # share of the thrust
    turbulence: float  # 1/sqrt(Hz), share of the thrust
    arm_frequency: float  # rad/s of the arms' bending, undamped; 0: stiff
    arm_damping: float  # of critical
    arm_length: float  # m
    hub_height: float  # m above the arm
    # --- airframe body: F = -diag(C) |v| v (hector eq. 2a), M = -diag(C) |w| w (eq. 2b)
    drag_force: Annotated[Floats, 3]  # N s^2/m^2
    drag_moment: Annotated[Floats, 3]  # N m s^2
    drag_density: float  # kg/m^3, reference density of the coefficients
    ground_effect: float  # 1 = Cheeseman-Bennett with the rotor's radius, 0 = none
    rotor_spacing: float  # m, side of the square of a quadrotor whose rotors act together there; 0: alone
    # --- ground contact: linear spring and damper per point, Coulomb friction
    contact_count: int
    contact_point: Annotated[Floats, MAX_CONTACT_POINTS, 3]  # m
    contact_radius: float  # m, sphere about the centre of gravity around all points
    contact_stiffness: float  # N/m per point
    contact_damping: float  # N s/m per point
    contact_friction: float  # 1
    # --- battery; capacity inf for an ideal source
    battery_capacity: float  # A s
    battery_cells: int
    battery_resistance: float  # ohm, whole pack
    battery_ocv: Annotated[Floats, OCV_POINTS]  # V per cell at charge 0, 0.1, ... 1
    battery_nominal_voltage: float  # V, reference voltage of motor_speed_range
    battery_idle_current: float  # A, avionics
    battery_slow_resistance: float  # ohm, of the RC pair; 0 for none
    battery_slow_time: float  # s, its time constant
    # --- a user's own rotor law
    rotor_law_address: int  # address of its function in this process
    rotor_law_parameters: Annotated[Floats, LAW_PARAMETERS]  # layout: see custom_rotor.py


VEHICLE = Vehicle.dtype

PerRotor = Annotated[Floats, MAX_ROTORS]


class Scratch(Record):
    """Working values of a step, on the stack of ``step_vehicle``, so that it begins and ends with a step.

    Nothing of it is defined before a step writes it.
    """

    # --- of the rotors, one value each, so that the loops over them compile to vector instructions
    # motion and loads
    speed: PerRotor
    acceleration: PerRotor
    thrust: PerRotor
    torque: PerRotor
    # of the model and the air of the step
    loss_rate: PerRotor  # s/m, inverse inflow_loss_speed
    density_rate: PerRotor  # m^3/kg, inverse rotor_density
    health: PerRotor
    drag: PerRotor
    roll: PerRotor
    drag_share: PerRotor
    roll_share: PerRotor
    plate: PerRotor  # N s^2/m^2, drag of the blades of a rotor that stands
    # flow at the hub
    inflow: PerRotor
    across_x: PerRotor
    across_y: PerRotor
    across_z: PerRotor
    induced: PerRotor
    flow_rate: PerRotor  # m/s^2, of induced_velocity: see begin_flow in induced_flow.py
    flow_yielding: PerRotor  # kg, apparent mass and what the flow's decay adds to it
    images: PerRotor  # of the ground effect: see share_of_images in forces.py
    # in-plane drag and hub moment over the hub's in-plane velocity
    drag_rate: PerRotor
    roll_rate: PerRotor
    # effect on the body
    force_x: PerRotor
    force_y: PerRotor
    force_z: PerRotor
    moment_x: PerRotor
    moment_y: PerRotor
    moment_z: PerRotor
    momentum_x: PerRotor
    momentum_y: PerRotor
    momentum_z: PerRotor
    total: PerRotor  # of the accelerations over a step of the integration
    # of the rotors' speeds, for induced flow: see prepare_speeds in induced_flow.py
    lift: PerRotor
    slope: PerRotor
    limit: PerRotor
    profile: PerRotor
    profile_drag: PerRotor
    per_speed: PerRotor
    per_tip2: PerRotor
    constant_drag: PerRotor
    constant_roll: PerRotor
    turning: PerRotor
    # of the air and the rotors alone, for induced flow: see prepare_flow in induced_flow.py
    ratio: PerRotor
    blade: PerRotor
    disc: PerRotor
    per_disc: PerRotor
    per_radius2: PerRotor
    air_mass: PerRotor
    ring: PerRotor  # above 0 in the vortex ring state
    ring_flow: PerRotor  # m/s, that a vortex ring adds to the induced velocity
    # of the commands, and of the motors' share of the current: see motor.py
    steady: PerRotor
    offset: PerRotor
    running: PerRotor
    power: PerRotor
    grip: PerRotor
    limited: PerRotor
    decay: PerRotor  # 1/s: see stability.py
    # --- of all rotors
    ground_reach: float  # m, height of the centre of gravity below which ground effect acts
    rolling: float  # not 0: blades give a hub moment
    rise_rate: float  # 1/s, inverse time constant of motors that gain speed
    fall_rate: float  # 1/s, of those that lose speed
    flow_implicit: float  # 1, how far the induced flow is advanced implicitly
    armed: int
    rings: int  # 1: a rotor descends fast enough for a vortex ring
    ring_middle: float  # s, half the step
    standing: int  # 1: a rotor turns so slowly that its blades stand in the flow
    source: float  # V, source_voltage at the start of the step
    earth_north: float  # rad/s, rotation of the Earth
    earth_down: float
    # --- of the integration, and of rays
    work: Annotated[Floats, 3, 13]
    rays: Rays


SCRATCH = Scratch.dtype


class Rotation(NamedTuple):
    """Rotation matrix body to NED by rows."""

    r00: float
    r01: float
    r02: float
    r10: float
    r11: float
    r12: float
    r20: float
    r21: float
    r22: float


class Motion(NamedTuple):
    """Velocity through the air and angular velocity, body axes, m/s and rad/s."""

    u: float
    v: float
    w: float
    p: float
    q: float
    r: float


class Load(NamedTuple):
    """Force and moment about the centre of gravity, body axes, N and N m."""

    fx: float
    fy: float
    fz: float
    mx: float
    my: float
    mz: float


class State(Record, lines=True):
    """State of a vehicle: what of it lasts from step to step, and the results of a step.

    The rotors' columns are first, as in ``Vehicle``.
    """

    # --- the rotors and their motors
    rotor_speed: PerRotor  # rad/s, >= 0 unless reversible
    rotor_torque: PerRotor  # N m, aerodynamic and bearing torque against the spin
    # of some vehicles: induced flow, health, vibration, heat
    induced_velocity: PerRotor  # m/s through the discs, against forward rotation's thrust
    ring_phase: PerRotor  # rad, of the shedding of vortex rings; turned on while there are some
    rotor_health: PerRotor  # remaining share of thrust and torque; 0: the motor has no power
    rotor_broken: Annotated[Ints, MAX_ROTORS]  # 1: the blades of a rotor without health are gone
    damage_imbalance: PerRotor  # kg m, of a damaged propeller
    rotor_phase: PerRotor  # rad, turned on while rotors vibrate
    esc_rise: PerRotor  # K of each speed controller above the air
    # results of the step
    rotor_thrust: PerRotor  # N
    motor_current: PerRotor  # A that each speed controller takes from the battery
    # written by each step before it is read
    motor_drive: PerRotor  # commanded rad/s (first order) or V (DC; 0 = braked)
    # --- the motion and the battery
    position: Annotated[Floats, 3]  # m NED, centre of gravity
    velocity: Annotated[Floats, 3]  # m/s NED over ground
    attitude: Annotated[Floats, 4]  # quaternion w, x, y, z, body to NED
    angular_velocity: Annotated[Floats, 3]  # rad/s body
    battery_charge: float  # A s, remaining
    battery_voltage: float  # V at the terminals
    battery_current: float  # A
    battery_slow_voltage: float  # V across the RC pair
    # --- on the ground: contact, and standing still
    in_contact: int  # number of contact points below the ground
    contact_touching: Annotated[Ints, MAX_CONTACT_POINTS]  # 1 while the point is below the ground
    contact_anchor: Annotated[Floats, MAX_CONTACT_POINTS, 2]  # m NE, anchor of a point's friction spring
    rest_steps: int  # steps in a row without motion
    rest_position: Annotated[Floats, 3]  # m NED
    rest_attitude: Annotated[Floats, 4]
    rest_wind: Annotated[Floats, 3]  # m/s NED at the start of the rest
    rest_mass: float  # kg
    # --- results of the step, valid at its end; those of a step at rest are the last ones before
    specific_force: Annotated[Floats, 3]  # m/s^2 body, reading of an ideal accelerometer at the CoG
    angular_acceleration: Annotated[Floats, 3]  # rad/s^2 body
    # --- written by each step before they are read
    wind: Annotated[Floats, 3]  # m/s NED at the vehicle
    uneven_air: int  # 1: rotors are in other air than the vehicle's wind
    rotor_air: Annotated[Floats, MAX_ROTORS, 3]  # m/s NED, of the air at each rotor beyond the wind
    air_turn: Annotated[Floats, 3]  # rad/s NED, rotation of the air around the vehicle
    # --- inputs that may change between steps, with rotor_health
    vibrating: int  # 1: rotors vibrate, by the airframe or for damage
    external_force: Annotated[Floats, 3]  # N NED at the centre of gravity
    external_moment: Annotated[Floats, 3]  # N m body
    # --- effect of other vehicles over the step, written by proximity.py
    neighbour_force: Annotated[Floats, 3]  # N NED at the centre of gravity
    neighbour_moment: Annotated[Floats, 3]  # N m body
    neighbour_air: Annotated[Floats, 3]  # m/s NED, mean of their wakes; part of ``wind``
    uneven_wake: int  # 1: rotors are in other wakes than the mean, see HULL
    # --- over the whole flight
    vortex_ring_time: float  # s with a rotor in its vortex ring state so far
    impact_speed: float  # m/s, largest closing speed at a new contact so far
    # --- the scene around it, written by scene_contact.py; SURFACES has the rest
    groundless: int  # 1: the plane down = 0 is no ground
    floor: float  # m, down of the surface below, for the ground effect; inf: none in reach
    near_count: int  # shapes that it may touch in this step
    hit_speed: float  # m/s closing speed of the step's fastest new contact; negative: there was none
    # --- kept values
    motor_decay: Annotated[Floats, 5]  # s, s, s, 1, 1: kept values of _motor_decay in integration.py
    # --- turbulent air of the rotors, see vibration.py
    buffet: Annotated[Floats, 6]  # N and N m body, of the rotors' turbulent air over the step
    buffet_past: Annotated[Floats, 3]  # m/s^2 body, of the buffet of the step that ended
    buffet_filter: Annotated[Floats, 6, 2]  # state of the arms' answer to it
    buffet_felt: Annotated[Floats, 9]  # m/s^2, rad/s^2 and rad/s body, of the arms' answer beyond the buffet
    buffet_random: Annotated[Words, 4]  # state of its stream; zeros: there is none


STATE = State.dtype


class Surfaces(Record):
    """A vehicle's knowledge of the shapes of a scene around it; nothing of it is used without shapes."""

    clearance: float  # m it may move from clearance_position before a shape at rest comes near
    clearance_position: Annotated[Floats, 3]  # m NED
    near_shape: Annotated[Ints, MAX_NEAR]  # the first near_count of STATE
    near_elapsed: float  # s since the moving shapes were put in their places
    # Of each probe, the tangent plane of the surface nearest to it, valid for a part of a step.
    known: Annotated[Ints, MAX_PROBES]
    touching: Annotated[Ints, MAX_PROBES]
    shape: Annotated[Ints, MAX_PROBES]  # index in the scene
    point: Annotated[Floats, MAX_PROBES, 3]  # m NED, in the middle of the part
    normal: Annotated[Floats, MAX_PROBES, 3]  # NED, outward
    velocity: Annotated[Floats, MAX_PROBES, 3]  # m/s NED
    friction: Annotated[Floats, MAX_PROBES]  # 1, coefficient with this vehicle
    anchor: Annotated[Floats, MAX_PROBES, 3]  # m NED, where its friction spring holds on
    probe: Annotated[Floats, MAX_PROBES, 3]  # m body, its point nearest to the surface
    # --- of the fastest new contact of the step, whose speed is hit_speed of STATE
    hit_part: int  # the probe
    hit_shape: int
    hit_position: Annotated[Floats, 3]  # m NED
    rotor_hit: PerRotor  # m/s, of each rotor's new contacts in the step
    # --- of the last contact in the list of contacts
    hit_time: int  # us
    hit_object: int  # one more than the object's number; 0: none yet
    hit_row: int


SURFACES = Surfaces.dtype
