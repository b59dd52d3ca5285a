"""Row indices of a state's ``rotor_work``, the scratch of the loops over the rotors."""

from __future__ import annotations

# Each row has one value per rotor, so that the loops over the rotors compile to vector instructions: motion
# and loads, parameters, the flow at the hub, the effect on the body. GROUND_REACH holds one value, the height
# of the centre of gravity below which ground effect acts, ROLLING whether blades give a hub moment, and RATES
# two, the inverse time constants of motors that gain and that lose speed: read from there, they are not
# divided again for each rotor. REVERSE holds two as well, ``reverse_loss``. DRAG_RATE and ROLL_RATE are
# in-plane drag and hub moment over the in-plane velocity of the hub.
SPEED = 0
ACCELERATION = 1
THRUST = 2
TORQUE = 3
X = 4
Y = 5
Z = 6
AXIS_X = 7
AXIS_Y = 8
AXIS_Z = 9
DIRECTION = 10
INERTIA = 11
C2 = 12
C1 = 13
B1 = 14
B2 = 15
LOSS_RATE = 16
K_M = 17
G1 = 18
Q0 = 19
DENSITY_RATE = 20
HEALTH = 21
DRAG = 22
ROLL = 23
INFLOW = 24
ACROSS_X = 25
ACROSS_Y = 26
ACROSS_Z = 27
FORCE_X = 28
FORCE_Y = 29
FORCE_Z = 30
MOMENT_X = 31
MOMENT_Y = 32
MOMENT_Z = 33
MOMENTUM_X = 34
MOMENTUM_Y = 35
MOMENTUM_Z = 36
TOTAL = 37
GROUND_REACH = 38
DRAG_RATE = 39
ROLL_RATE = 40
RADIUS = 41
BLADE_SLOPE = 42
INDUCED = 43
DRAG_SHARE = 44
ROLL_SHARE = 45
# Of the rotors' speeds, for induced flow: see prepare_speeds in induced_flow.py.
LIFT = 46
SLOPE = 47
LIMIT = 48
PROFILE = 49
PER_SPEED = 50
PER_TIP2 = 51
DISC = 52
CONSTANT_DRAG = 53
CONSTANT_ROLL = 54
TURNING = 55
# Of the air and the rotors alone, for induced flow: see prepare_flow in induced_flow.py.
RATIO = 56
BLADE = 57
PER_DISC = 58
PER_RADIUS2 = 59
AIR_MASS = 60
RING = 61
# Of the commands, and of the motors' share of the current: see motor.py.
STEADY = 62
RUNNING = 63
POWER = 64
GRIP = 65
LIMITED = 66
DECAY = 67
PROFILE_DRAG = 68
ROLLING = 69
RATES = 70
REVERSE = 71
# Of flapping blades, in rows that induced flow leaves free.
TILT_X = B1
TILT_Y = B2
TILT_Z = LOSS_RATE
CONING = RING
