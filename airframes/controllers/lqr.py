"""A linear-quadratic regulator as an example of a controller of one's own: one file, one line.

    controller: controllers/lqr.py:Lqr              in an airframe, or on the command line
    --controller airframes/controllers/lqr.py:Lqr

It follows position, velocity and yaw of a trajectory, linearised about the hover; it has no integrator, so
that wind moves it off its goal.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_continuous_are

from sitl_bridge import Controller, VehicleModel, Wrench

# Bryson's rule: the greatest deviation of each state and input that is acceptable counts 1.
POSITION, VELOCITY, TILT, YAW, RATE = 0.5, 1.0, 0.3, 0.5, 3.0
ACCELERATION, TURN, YAW_TURN = 4.0, 30.0, 2.0
REACH = 2.0
"""m; goals further off are approached as if they were this near, or the linear law would tip over."""


class Lqr(Controller):
    """u = -K x with the state (position, velocity, attitude, rates) of a hover and accelerations as input.

    Args:
        vehicle: what it flies.
        eagerness: weight of the states over that of the inputs.
    """

    def __init__(self, vehicle: VehicleModel, eagerness: float = 1.0) -> None:
        super().__init__(vehicle)
        if eagerness <= 0.0:
            raise ValueError("eagerness is above 0")
        a, b = np.zeros((12, 12)), np.zeros((12, 4))
        a[0:3, 3:6] = a[6:9, 9:12] = np.eye(3)
        # A roll to the right speeds the vehicle up to the right, a pitch up slows it down.
        a[3, 7], a[4, 6] = -vehicle.gravity, vehicle.gravity
        b[5, 0] = -1.0
        b[9:12, 1:4] = np.eye(3)
        states = [POSITION] * 3 + [VELOCITY] * 3 + [TILT, TILT, YAW] + [RATE] * 3
        inputs = np.array([ACCELERATION, TURN, TURN, YAW_TURN])
        cost = np.diag(1.0 / inputs**2)
        riccati = solve_continuous_are(a, b, eagerness * np.diag(1.0 / np.array(states) ** 2), cost)
        self.gain = np.linalg.inv(cost) @ b.T @ riccati

    def control(self, estimate: NDArray[np.void], setpoint: NDArray[np.void], dt: float) -> Wrench:
        """Linear feedback in axes that point where the vehicle heads, thrust turned up for the tilt."""
        del dt
        w, x, y, z = (float(q) for q in estimate["attitude"])
        roll = math.atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
        pitch = math.asin(max(-1.0, min(1.0, 2.0 * (w * y - z * x))))
        yaw = math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
        c, s = math.cos(yaw), math.sin(yaw)
        heading = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
        away = _known(estimate["position"] - setpoint["position"])
        away *= min(1.0, REACH / max(float(np.linalg.norm(away)), REACH))
        moving = estimate["velocity"] - _known(setpoint["velocity"])
        turned = math.remainder(yaw - float(setpoint["yaw"]), 2.0 * math.pi)
        angles = np.array([roll, pitch, turned if math.isfinite(turned) else 0.0])
        state = np.concatenate([heading @ away, heading @ moving, angles, estimate["angular_velocity"]])
        lift, *turn = -self.gain @ state
        upright = max(math.cos(roll) * math.cos(pitch), 0.5)
        thrust = self.vehicle.mass * (self.vehicle.gravity + lift) / upright
        return Wrench(thrust, self.vehicle.inertia @ np.array(turn))


def _known(values: Any) -> NDArray[np.float64]:
    """The values with 0 for those that are not controlled."""
    return np.nan_to_num(np.asarray(values, float), nan=0.0)
