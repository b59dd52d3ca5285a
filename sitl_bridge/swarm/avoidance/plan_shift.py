"""The plan of the last tick shifted to the present, and the inputs that keep the vehicle level."""

from __future__ import annotations

import math

import numpy as np

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.swarm.avoidance.prediction_model import predict
from sitl_bridge.swarm.avoidance.records import Settings


@compiled
def level_inputs(
    settings: Settings,
    acceleration: Floats,
    velocity: Floats,
    yaw: float,
    disturbance: Floats,
    state: Floats,
    u: Floats,
) -> None:
    """Attitude and inputs that give an acceleration: the feed-forward of eqs 8 and 9.

    The thrust vector is what gravity, drag and disturbance leave of the acceleration; drag is taken at the
    attitude found without it.  Rebuilt from section 4.2 and the companion code, which linearises about
    hover; here the inversion is exact but for that one step, and the gains of eq. 4 are divided out, so
    that the state it leads to is an equilibrium of the model (offset-free tracking needs that).

    Args:
        settings: () SETTINGS.
        acceleration, velocity: (3,) NED, m/s^2 and m/s.
        yaw: rad.
        disturbance: (5,).
        state: (8,) whose roll and pitch are filled.
        u: (3,) filled, within the input limits.
    """
    cos_yaw, sin_yaw = math.cos(yaw), math.sin(yaw)
    fx = disturbance[0] - acceleration[0]
    fy = disturbance[1] - acceleration[1]
    fz = disturbance[2] - acceleration[2] + STANDARD_GRAVITY
    dx = dy = dz = 0.0
    roll = pitch = thrust = 0.0
    for _ in range(2):
        tx, ty, tz = fx - dx, fy - dy, max(fz - dz, 0.1 * STANDARD_GRAVITY)
        thrust = math.sqrt(tx * tx + ty * ty + tz * tz)
        forward = cos_yaw * tx + sin_yaw * ty
        right = -sin_yaw * tx + cos_yaw * ty
        roll = -math.asin(right / thrust)
        pitch = math.atan2(forward, tz)
        axial = (tx * velocity[0] + ty * velocity[1] + tz * velocity[2]) / (thrust * thrust)
        dx = thrust * settings.drag * (velocity[0] - tx * axial)
        dy = thrust * settings.drag * (velocity[1] - ty * axial)
        dz = thrust * settings.drag * (velocity[2] - tz * axial)
    state[6], state[7] = roll, pitch
    u[0] = (roll - disturbance[3]) / settings.gain[0]
    u[1] = (pitch - disturbance[4]) / settings.gain[1]
    u[2] = thrust
    for i in range(3):
        u[i] = min(max(u[i], settings.input_min[i]), settings.input_max[i])


@compiled
def follow_yaw(reference: Floats, gain: float, limit: float, step: float, course: Floats) -> float:
    """Yaw along the horizon under the proportional loop of the companion code, and its first rate.

    Args:
        reference: (n + 1, 11) with yaw and yaw rate in the last columns.
        gain: 1/s.
        limit: rad/s.
        step: s.
        course: (n + 1,) rad; the first is given, the others are filled.

    Returns:
        rad/s to command now.
    """
    first = 0.0
    for k in range(course.shape[0]):
        error = reference[k, 9] - course[k]
        error -= math.tau * round(error / math.tau)
        rate = min(max(gain * error + reference[k, 10], -limit), limit)
        if k == 0:
            first = rate
        if k + 1 < course.shape[0]:
            course[k + 1] = course[k] + rate * step
    return first


@compiled
def shift(
    settings_array: Records, plan_x: Floats, plan_u: Floats, yaw: Floats, disturbance: Floats, share: float
) -> None:
    """Move a plan forward by ``share`` (0..1) of a grid step; its end is continued with the last input.

    Args:
        settings_array: (1,) SETTINGS.
        plan_x: (n + 1, 8), changed.
        plan_u: (n, 3), changed.
        yaw: (n + 1,) rad.
        disturbance: (5,).
        share: of a grid step.
    """
    settings = settings_array[0]
    n: int = plan_u.shape[0]
    end, by_state, by_input, work = np.empty(8), np.empty((8, 8)), np.empty((8, 3)), np.empty((6, 8, 9))
    predict(
        settings, plan_x[n], plan_u[n - 1], yaw[n], disturbance, settings.step, settings.substeps,
        end, by_state, by_input, work,
    )  # fmt: skip
    for k in range(n):
        for i in range(8):
            plan_x[k, i] += share * (plan_x[k + 1, i] - plan_x[k, i])
        if k < n - 1:
            for i in range(3):
                plan_u[k, i] += share * (plan_u[k + 1, i] - plan_u[k, i])
    for i in range(8):
        plan_x[n, i] += share * (end[i] - plan_x[n, i])
