"""Controller gains computed from an airframe: one rule for all vehicles and both laws, without hand tuning.

The loops form a cascade.  The rotor lag sets the innermost gain; each outer loop is slower by the same
factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sitl_bridge.autopilot.control.allocation import allocation_record, density_at
from sitl_bridge.autopilot.control.records import CONTROLLER, HECTOR_PID, LEE, USER
from sitl_bridge.autopilot.control.thrust_in_motion import thrust_ratios
from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.user_file import class_at
from sitl_bridge.core.dynamics.performance import hover
from sitl_bridge.core.dynamics.rotor_laws import in_plane_drag
from sitl_bridge.core.vehicle.control_effectiveness import geometry, response, thrust_curve_factor
from sitl_bridge.core.vehicle.controller import BUILT_IN, RotorsGains

if TYPE_CHECKING:
    from sitl_bridge.core.vehicle.airframe import Airframe
    from sitl_bridge.core.world.world import World

ControllerChoice: TypeAlias = str | Callable[..., Any] | None
"""A built-in law (``hector_pid``, ``lee``, ``rotors``), FILE.py:CLASS, or a class or function that takes the
vehicle and returns a controller; None for the airframe's own choice."""

KINDS = {"hector_pid": HECTOR_PID, "lee": LEE, "rotors": LEE}
CASCADE_RATIO = 3.0
"""Ratio of a loop's gain to the gain of the loop around it.  With k and k/3, s^2 + k s + k^2/3 has a damping
of sqrt(3)/2 = 0.87 and a phase margin of 72 deg; with an integral of k/9 the damping is 0.76."""
LINEAR_TILT = 0.35
"""Attitude error at which the angular acceleration saturates, rad."""
FAST_LAG = 0.02
"""Motor lag of small multirotors (models of RotorS and PX4), s.  A rate derivative reduces the lag of slower
rotors to this value, within MAX_DERIVATIVE."""
MAX_DERIVATIVE = 2.0
"""Largest gain of that derivative; above it, gyroscope noise uses more than a tenth of the available
moments."""
DERIVATIVE_FILTER = 0.1
"""Ratio of the derivative's filter time constant to the rotor lag."""
VERTICAL_LIMIT = 4.0
"""Largest gain of the vertical velocity, 1/s: PX4's MPC_Z_VEL_P_ACC, for the noise of barometer and GNSS."""
HORIZONTAL_LIMIT = 3.0
"""Largest gain of the horizontal velocity, 1/s: MPC_XY_VEL_P_ACC is 1.8 by default and at most 5."""
RATE_LIMIT = math.radians(220.0)
"""Largest commanded roll and pitch rate, rad/s: PX4's MC_ROLLRATE_MAX."""


@dataclass(frozen=True)
class Design:
    """Control loops of an airframe, by axis."""

    motor_lag: float  # rotor lag, s
    lag: float  # rotor lag after the derivative, plus half a time step, s
    derivative: float  # gain of the rate derivative, dimensionless
    derivative_filter: float  # s
    yaw_lead: float  # ratio of a rotor's acceleration moment to its drag moment, s
    angular_acceleration: Floats  # (3,) rad/s^2, largest that the rotors give in hover: roll, pitch, yaw
    rate: Floats  # (3,) 1/s
    attitude: Floats  # (3,) 1/s
    velocity: Floats  # (3,) 1/s, NED
    position: Floats  # (3,) 1/s
    drag: float  # 1/s, deceleration over velocity by the hovering rotors: sum(lambda w)/m (RotorS eq. 2)


def design(airframe: Airframe, world: World) -> Design:
    """Design the control loops of an airframe.

    Rates: with a rotor lag T, K_rate = 1/(2 T) gives the rate loop s^2 + s/T + K/T a damping of 0.71.  Each
    outer gain is a third of the next inner one.  If an attitude error of LINEAR_TILT would need more than the
    available angular acceleration, rate and attitude gains are reduced together to the limit.

    Args:
        world: supplies air density and gravity.

    Raises:
        UserError: if the airframe cannot hover.
    """
    density, gravity = density_at(world), float(world.environment[0]["gravity"])
    trim = hover(airframe.record, density, gravity)
    if trim is None:
        raise UserError(f"{airframe.name} cannot hover; see `sitl-bridge check`")
    answer = response(airframe, geometry(airframe), trim, density, thrust_curve_factor(airframe))
    smoothing = DERIVATIVE_FILTER * answer.motor_lag
    share = min(max(answer.motor_lag / FAST_LAG - 1.0, 0.0), MAX_DERIVATIVE)
    # T s + 1 becomes T s + 1 + D/(1 + smoothing s); this is its lag at low frequency.
    lag = (answer.motor_lag - share * smoothing) / (1.0 + share) + answer.delay
    most = max_angular_acceleration(airframe, world, trim.rotor_thrust)
    rate = np.minimum(0.5 / lag, np.sqrt(CASCADE_RATIO * most / LINEAR_TILT))
    attitude = rate / CASCADE_RATIO
    tilt = float(min(attitude[0], attitude[1]))
    velocity = np.array(
        [min(tilt / CASCADE_RATIO, HORIZONTAL_LIMIT)] * 2 + [min(0.5 / lag / CASCADE_RATIO, VERTICAL_LIMIT)]
    )
    return Design(
        answer.motor_lag,
        lag,
        share,
        smoothing,
        answer.yaw_lead,
        most,
        rate,
        attitude,
        velocity,
        velocity / CASCADE_RATIO,
        in_plane_drag(airframe.record, trim.rotor_speed, density) / float(airframe.record["mass"]),
    )


def max_angular_acceleration(airframe: Airframe, world: World, thrusts: Floats) -> Floats:
    """Return the (3,) rad/s^2 available both ways about each axis from hover thrusts (n,) in N."""
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


def controller_record(airframe: Airframe, world: World, choice: ControllerChoice = None) -> Records:
    """Return the () CONTROLLER record of an airframe.

    Args:
        world: supplies air density and gravity.
        choice: the controller.  A user's own controller gets a record of kind USER; user_controller.py makes
            the object.

    Raises:
        UserError: if there is no such controller or the airframe cannot hover.
    """
    chosen = choice or airframe.controller.kind
    if isinstance(chosen, str) and chosen not in BUILT_IN and class_at(chosen) is None:
        raise UserError(f"no controller is called {chosen!r}; give {', '.join(BUILT_IN)} or FILE.py:CLASS")
    published = airframe.controller.rotors
    if chosen == "rotors" and published is None:
        raise UserError(f"{airframe.name}: RotorS publishes no gains for it; use `lee` for the same law")
    loops = design(airframe, world)
    record, allocation = airframe.record, allocation_record(airframe, world)
    controller = np.zeros((), CONTROLLER)
    controller["kind"] = KINDS.get(chosen, USER) if isinstance(chosen, str) else USER
    mass = float(record["mass"])
    gravity = float(world.environment[0]["gravity"])
    controller["mass"], controller["gravity"], controller["inertia"] = mass, gravity, record["inertia"]
    upward = allocation["effectiveness"][0]
    controller["thrust_min"] = upward @ allocation["thrust_min"]
    controller["thrust_max"] = upward @ allocation["thrust_max"]
    # Braking from a rate with the attitude gain needs gain times rate; allow half of the available
    # acceleration.
    controller["rate_limit"] = np.minimum(
        RATE_LIMIT, 0.5 * loops.angular_acceleration / np.maximum(loops.attitude, 1e-9)
    )
    # Fed forward as in Faessler, Franchi, Scaramuzza, "Differential flatness of quadrotor dynamics subject to
    # rotor drag", RA-L 2018.
    controller["drag"] = loops.drag, loops.drag, 0.0
    controller["thrust_ratio"] = thrust_ratios(record, density_at(world), gravity)
    controller["thrust_lag"] = loops.motor_lag
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
    if chosen == "rotors" and published is not None:
        _fill_published(controller, published)
    return controller


def _fill_hector(gains: Records, loops: Design) -> None:
    gains["position_p"], gains["velocity_p"] = loops.position, loops.velocity
    gains["velocity_i"] = loops.velocity * loops.position / CASCADE_RATIO
    gains["attitude_p"], gains["rate_p"] = loops.attitude, loops.rate
    gains["rate_i"] = loops.rate * loops.attitude / CASCADE_RATIO


def _fill_lee(gains: Records, loops: Design, mass: float, gravity: float, inertia: Floats) -> None:
    gains["mass"], gains["gravity"], gains["inertia"] = mass, gravity, inertia
    gains["k_x"], gains["k_v"] = mass * loops.velocity * loops.position, mass * loops.velocity
    gains["c_1"] = loops.position
    gains["k_i"] = loops.velocity * loops.position / CASCADE_RATIO
    axes = np.diag(inertia)
    gains["k_R"], gains["k_Omega"] = axes * loops.rate * loops.attitude, axes * loops.rate
    gains["c_2"] = loops.attitude
    gains["k_I"] = axes * loops.rate * loops.attitude / CASCADE_RATIO


def _fill_published(controller: Records, published: RotorsGains) -> None:
    """Fill Lee's law as in RotorS: bare setpoints, no integral, no compensation."""
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
    controller["thrust_ratio"], controller["thrust_lag"] = 1.0, 0.0
