"""Gains that follow from an airframe: one rule for all vehicles and both laws, nothing tuned by hand.

The loops are a cascade, each crossing over slower than the one within it by the same factor.  The innermost
one is set by how fast rotors answer, the outer ones follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.autopilot.control.allocation import allocation_record, density_at
from sitl_bridge.autopilot.control.records import CONTROLLER, HECTOR_PID, LEE, USER
from sitl_bridge.dynamics.performance import hover
from sitl_bridge.dynamics.rotor_laws import in_plane_drag
from sitl_bridge.errors import UserError
from sitl_bridge.vehicle.control_effectiveness import geometry, response, thrust_curve_factor
from sitl_bridge.vehicle.controller import BUILT_IN, RotorsGains, own_controller

if TYPE_CHECKING:
    from sitl_bridge.vehicle.airframe import Airframe
    from sitl_bridge.world.world import World

Floats = NDArray[np.float64]
ControllerChoice: TypeAlias = str | Callable[..., Any] | None
"""``hector_pid``, ``lee``, ``rotors`` or FILE.py:CLASS; or a user's own class or function that takes the
vehicle and returns a controller; None for the airframe's."""

KINDS = {"hector_pid": HECTOR_PID, "lee": LEE, "rotors": LEE}
CASCADE = 3.0
"""Gain of a loop over the gain of the one around it.  Loops k and k/3 nested, s^2 + k s + k^2/3, have a
damping of sqrt(3)/2 = 0.87 and a phase margin of 72 deg; an integral with k/9 keeps 0.76."""
LINEAR_TILT = 0.35
"""rad, attitude error that takes all of the angular acceleration there is; smaller ones do not saturate."""
FAST_LAG = 0.02
"""s, lag of the motors of small multirotors (RotorS's and PX4's models).  Slower rotors are brought there by
a derivative of the rate, as far as MOST_DERIVATIVE goes."""
MOST_DERIVATIVE = 2.0
"""Of that derivative; beyond it the noise of gyroscopes takes more than a tenth of the moments there are."""
DERIVATIVE_FILTER = 0.1
"""Time constant of its filter over the rotors' lag."""
VERTICAL_LIMIT = 4.0
"""1/s, greatest gain of the vertical velocity: PX4's MPC_Z_VEL_P_ACC, what barometer and GPS bear."""
HORIZONTAL_LIMIT = 3.0
"""1/s, the same horizontally: MPC_XY_VEL_P_ACC is 1.8 by default, and may be up to 5."""
RATE_LIMIT = math.radians(220.0)
"""rad/s, greatest rate of roll and pitch asked for: PX4's MC_ROLLRATE_MAX."""


@dataclass(frozen=True)
class Design:
    """The loops of an airframe, by axis.

    Attributes:
        lag: s, of the rotors' answer and half a step, as the derivative leaves it.
        derivative: gain of the derivative of the rate, 1.
        derivative_filter: s.
        yaw_lead: s, moment of a rotor's acceleration over that of its drag.
        angular_acceleration: (3,) rad/s^2, the most the rotors give in hover, roll, pitch, yaw.
        rate: (3,) 1/s.
        attitude: (3,) 1/s.
        velocity: (3,) 1/s, NED.
        position: (3,) 1/s.
    """

    lag: float
    derivative: float
    derivative_filter: float
    yaw_lead: float
    angular_acceleration: Floats
    rate: Floats
    attitude: Floats
    velocity: Floats
    position: Floats


def design(airframe: Airframe, world: World) -> Design:
    """Loops of an airframe.

    Rates: a rotor answers with a lag T, so K_rate = 1/(2 T) gives the rate loop s^2 + s/T + K/T a damping
    of 0.71.  Each outer gain is a third of the one within it.  Where an attitude error of LINEAR_TILT would
    take more than the angular acceleration there is, rate and attitude gains are lowered together
    until it does not.

    Args:
        airframe: the airframe.
        world: gives air and gravity.

    Raises:
        UserError: for an airframe that cannot hover.
    """
    density, gravity = density_at(world), float(world.environment[0]["gravity"])
    trim = hover(airframe.record, density, gravity)
    if trim is None:
        raise UserError(f"{airframe.name} cannot hover; `sitl-bridge check` tells more")
    answer = response(airframe, geometry(airframe), trim, density, thrust_curve_factor(airframe))
    smoothing = DERIVATIVE_FILTER * answer.motor_lag
    share = min(max(answer.motor_lag / FAST_LAG - 1.0, 0.0), MOST_DERIVATIVE)
    # T s + 1 becomes T s + 1 + D/(1 + smoothing s), whose lag at low frequency this is.
    lag = (answer.motor_lag - share * smoothing) / (1.0 + share) + answer.delay
    most = greatest_acceleration(airframe, world, trim.rotor_thrust)
    rate = np.minimum(0.5 / lag, np.sqrt(CASCADE * most / LINEAR_TILT))
    attitude = rate / CASCADE
    tilt = float(min(attitude[0], attitude[1]))
    velocity = np.array(
        [min(tilt / CASCADE, HORIZONTAL_LIMIT)] * 2 + [min(0.5 / lag / CASCADE, VERTICAL_LIMIT)]
    )
    return Design(lag, share, smoothing, answer.yaw_lead, most, rate, attitude, velocity, velocity / CASCADE)


def greatest_acceleration(airframe: Airframe, world: World, thrusts: Floats) -> Floats:
    """(3,) rad/s^2 about each axis that rotors can give both ways from their hover thrusts (n,) in N."""
    allocation = allocation_record(airframe, world)
    n = len(thrusts)
    room = np.minimum(allocation["thrust_max"][:n] - thrusts, thrusts - allocation["thrust_min"][:n])
    found = np.zeros(3)
    for axis in range(3):
        mix = np.abs(allocation["inverse"][:n, 1 + axis])
        used = mix > 1e-6 * mix.max()
        moment = float((room[used] / mix[used]).min()) if mix.max() > 0.0 else 0.0
        found[axis] = moment * float(airframe.record["inertia_inverse"][axis, axis])
    return found


def controller_record(airframe: Airframe, world: World, choice: ControllerChoice = None) -> NDArray[np.void]:
    """() CONTROLLER of an airframe.

    Args:
        airframe: the airframe.
        world: gives air and gravity.
        choice: of controller.  A user's own gets a record of kind USER; user_controller.py makes it.

    Raises:
        UserError: for a choice there is not, and for an airframe that cannot hover.
    """
    law = choice or airframe.controller.kind
    if isinstance(law, str) and law not in BUILT_IN and own_controller(law) is None:
        raise UserError(f"no controller is called {law!r}; give {', '.join(BUILT_IN)} or FILE.py:CLASS")
    published = airframe.controller.rotors
    if law == "rotors" and published is None:
        raise UserError(f"{airframe.name}: RotorS publishes no gains for it; `lee` flies it by Lee's law")
    loops = design(airframe, world)
    record, allocation = airframe.record, allocation_record(airframe, world)
    controller = np.zeros((), CONTROLLER)
    controller["kind"] = KINDS.get(law, USER) if isinstance(law, str) else USER
    mass = float(record["mass"])
    gravity = float(world.environment[0]["gravity"])
    controller["mass"], controller["gravity"], controller["inertia"] = mass, gravity, record["inertia"]
    upward = allocation["effectiveness"][0]
    controller["thrust_min"] = upward @ allocation["thrust_min"]
    controller["thrust_max"] = upward @ allocation["thrust_max"]
    # Braking from a rate at the attitude's gain takes gain times rate; half of what there is.
    controller["rate_limit"] = np.minimum(
        RATE_LIMIT, 0.5 * loops.angular_acceleration / np.maximum(loops.attitude, 1e-9)
    )
    controller["drag"] = (*[_rotor_drag(airframe, world)] * 2, 0.0)
    controller["derivative"], controller["derivative_filter"] = loops.derivative, loops.derivative_filter
    controller["yaw_lead"] = loops.yaw_lead
    controller["vertical_integral_limit"] = 0.5 * gravity
    controller["reference_used"] = 1
    controller["reference_position_p"], controller["reference_velocity_p"] = loops.position, loops.velocity
    controller["acceleration_up"] = 0.5 * (float(controller["thrust_max"]) / mass - gravity)
    controller["acceleration_down"] = 0.5 * (gravity - float(controller["thrust_min"]) / mass)
    if controller["kind"] == HECTOR_PID:
        controller["moment_integral_limit"] = 0.5 * loops.angular_acceleration
    else:
        controller["moment_integral_limit"] = 0.5 * loops.angular_acceleration * np.diag(record["inertia"])
    _fill_hector(controller["hector"], loops)
    _fill_lee(controller["lee"], loops, mass, gravity, np.array(record["inertia"]))
    if law == "rotors" and published is not None:
        _publish(controller, published)
    return controller


def _rotor_drag(airframe: Airframe, world: World) -> float:
    """Deceleration of the hovering rotors' in-plane drag over velocity, 1/s: sum(lambda w)/m (RotorS eq. 2).

    Fed forward as in Faessler, Franchi, Scaramuzza, "Differential flatness of quadrotor dynamics subject to
    rotor drag", RA-L 2018.
    """
    record, density = airframe.record, density_at(world)
    trim = hover(record, density, float(world.environment[0]["gravity"]))
    if trim is None:
        return 0.0
    return in_plane_drag(record, trim.rotor_speed, density) / float(record["mass"])


def _fill_hector(gains: NDArray[np.void], loops: Design) -> None:
    gains["position_p"], gains["velocity_p"] = loops.position, loops.velocity
    gains["velocity_i"] = loops.velocity * loops.position / CASCADE
    gains["attitude_p"], gains["rate_p"] = loops.attitude, loops.rate
    gains["rate_i"] = loops.rate * loops.attitude / CASCADE


def _fill_lee(gains: NDArray[np.void], loops: Design, mass: float, gravity: float, inertia: Floats) -> None:
    gains["mass"], gains["gravity"], gains["inertia"] = mass, gravity, inertia
    gains["k_x"], gains["k_v"] = mass * loops.velocity * loops.position, mass * loops.velocity
    gains["c_1"] = loops.position
    gains["k_i"] = loops.velocity * loops.position / CASCADE
    axes = np.diag(inertia)
    gains["k_R"], gains["k_Omega"] = axes * loops.rate * loops.attitude, axes * loops.rate
    gains["c_2"] = loops.attitude
    gains["k_I"] = axes * loops.rate * loops.attitude / CASCADE


def _publish(controller: NDArray[np.void], published: RotorsGains) -> None:
    """Lee's plain law as RotorS flies it: bare setpoints, no integral, nothing done about rotors or drag."""
    gains = controller["lee"]
    gains["mass"], gains["gravity"], gains["inertia"] = published.mass, published.gravity, 0.0
    gains["k_x"], gains["k_v"] = published.position_gain, published.velocity_gain
    gains["k_R"], gains["k_Omega"] = published.attitude_gain, published.angular_rate_gain
    for name in ("k_i", "c_1", "k_I", "c_2"):
        gains[name] = 0.0
    controller["reference_used"] = 0
    controller["reference_position_p"] = gains["k_x"] / gains["k_v"]
    for name in ("drag", "derivative", "yaw_lead"):
        controller[name] = 0.0
