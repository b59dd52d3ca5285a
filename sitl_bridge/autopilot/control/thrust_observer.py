"""Acceleration feedback on the thrust: a disturbance observer for quick changes by the flow of the air.

The measured specific force along the thrust axis, less that of the commanded thrust, is the disturbance: the
downwash of another vehicle, a gust along the axis, a rotor law or a battery that differs from the airframe's.
Its quick part is taken from the thrust at once; the integrators of the control laws take the slow part, so
that neither a biased accelerometer nor the begin of a flight shifts the thrust.
"""

from __future__ import annotations

import math
from typing import Any

from sitl_bridge.autopilot.control.reference_model import GROUND_TIME, MIN_FLIGHT_THRUST
from sitl_bridge.base.kernels.compiled import compiled

QUICK, SLOW = 0.1, 3.0
"""Time constants of the two low-pass filters, s: well above the rotors' lag, and that of the integrators."""
SHARE = 0.4
"""Largest correction over the gravity."""
ALOFT_SPEED = 0.2
"""Vertical speed that shows that no ground carries the vehicle, m/s."""


@compiled
def _disturbance(controller: Any, estimate: Any, dt: float) -> float:
    """Return measured less expected specific force along the thrust axis, m/s^2, after one step."""
    q, a = estimate.attitude, estimate.acceleration
    up_n = -2.0 * (q[1] * q[3] + q[0] * q[2])
    up_e = -2.0 * (q[2] * q[3] - q[0] * q[1])
    up_d = 2.0 * (q[1] * q[1] + q[2] * q[2]) - 1.0
    measured = a[0] * up_n + a[1] * up_e + (a[2] - controller.gravity) * up_d
    given = controller.thrust_given
    controller.thrust_expected += (given - controller.thrust_expected) * dt / (dt + controller.thrust_lag)
    return float(measured - controller.thrust_expected)


@compiled
def compensate_disturbance(controller: Any, estimate: Any, setpoint: Any, dt: float, wrench: Any) -> None:
    """Take the quick part of the disturbance from the thrust of a control law, in flight.

    Args:
        controller: CONTROLLER record; ``flow_ratio`` is of this step.
        estimate: ESTIMATE record.
        setpoint: SETPOINT record.
        dt: s.
        wrench: WRENCH record: the wanted thrust in N, changed in place; the unmet part is of the last step.
    """
    if controller.thrust_lag <= 0.0:
        return
    mass, gravity = controller.mass, controller.gravity
    controller.thrust_given -= wrench.unmet_thrust * controller.flow_ratio / mass
    error = _disturbance(controller, estimate, dt)
    carried = setpoint.on_ground > 0.0 or controller.grounded > GROUND_TIME
    if carried or wrench.thrust < MIN_FLIGHT_THRUST * mass * gravity or not math.isfinite(error):
        controller.aloft = 0
    elif controller.aloft == 0 and abs(estimate.velocity[2]) > ALOFT_SPEED:
        controller.aloft = 1
        controller.disturbance_quick = error
        controller.disturbance_slow = error
    if controller.aloft == 1:
        controller.disturbance_quick += (error - controller.disturbance_quick) * dt / (dt + QUICK)
        controller.disturbance_slow += (error - controller.disturbance_slow) * dt / (dt + SLOW)
        correction = controller.disturbance_quick - controller.disturbance_slow
        wrench.thrust -= mass * min(max(correction, -SHARE * gravity), SHARE * gravity)
    if not math.isfinite(error):
        controller.thrust_expected = gravity
    controller.thrust_given = wrench.thrust / mass
