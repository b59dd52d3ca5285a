"""The prediction model: equations 2 to 4 of the paper, and its steps with exact derivatives.

Two kernels, shared by controller, observer and closed-loop runs; nothing here knows a cost.
"""

from __future__ import annotations

import math
from typing import Annotated

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.kernels.compiled import compiled, on_demand
from sitl_bridge.swarm.avoidance.records import Settings


@compiled
def acceleration(
    velocity: Floats,
    roll: float,
    pitch: float,
    yaw: float,
    thrust: float,
    drag: float,
    out: Floats,
    jacobian: Floats,
) -> None:
    """Acceleration by gravity, thrust and rotor drag, and its derivatives.

    a = g e3 - T z - T c_D (I - z z^T) v, with z the third column of the rotation.  Certain from the text:
    the drag force is the thrust times one lumped coefficient times the velocity in the rotor plane (eq. 2)
    and enters the translation (eq. 3b).  Rebuilt: the diagonal (c_D, c_D, 0) in body axes, as in the
    companion code ethz-asl/mav_control_rw, which however leaves out the turn back to world axes.

    Args:
        velocity: (3,) m/s NED.
        roll, pitch, yaw: rad.
        thrust: m/s^2 along body up.
        drag: s/m.
        out: (3,) filled, m/s^2 NED.
        jacobian: (3, 6) filled: derivatives by velocity (3), roll, pitch, thrust.
    """
    sin_roll, cos_roll = math.sin(roll), math.cos(roll)
    sin_pitch, cos_pitch = math.sin(pitch), math.cos(pitch)
    sin_yaw, cos_yaw = math.sin(yaw), math.cos(yaw)
    z = (
        cos_yaw * sin_pitch * cos_roll + sin_yaw * sin_roll,
        sin_yaw * sin_pitch * cos_roll - cos_yaw * sin_roll,
        cos_pitch * cos_roll,
    )
    by_roll = (
        -cos_yaw * sin_pitch * sin_roll + sin_yaw * cos_roll,
        -sin_yaw * sin_pitch * sin_roll - cos_yaw * cos_roll,
        -cos_pitch * sin_roll,
    )
    by_pitch = (cos_yaw * cos_pitch * cos_roll, sin_yaw * cos_pitch * cos_roll, -sin_pitch * cos_roll)
    axial = axial_roll = axial_pitch = 0.0
    for i in range(3):
        axial += z[i] * velocity[i]
        axial_roll += by_roll[i] * velocity[i]
        axial_pitch += by_pitch[i] * velocity[i]
    for i in range(3):
        per_thrust = z[i] + drag * (velocity[i] - z[i] * axial)
        out[i] = -thrust * per_thrust
        for j in range(3):
            jacobian[i, j] = thrust * drag * z[i] * z[j]
        jacobian[i, i] -= thrust * drag
        jacobian[i, 3] = -thrust * (by_roll[i] - drag * (by_roll[i] * axial + z[i] * axial_roll))
        jacobian[i, 4] = -thrust * (by_pitch[i] - drag * (by_pitch[i] * axial + z[i] * axial_pitch))
        jacobian[i, 5] = -per_thrust
    out[2] += STANDARD_GRAVITY


@on_demand
def predict(
    settings: Settings,
    x: Floats,
    u: Floats,
    yaw: float,
    disturbance: Floats,
    seconds: float,
    steps: int,
    after: Floats,
    by_state: Annotated[Floats, 2],
    by_input: Annotated[Floats, 2],
    work: Annotated[Floats, 3],
) -> None:
    """State after ``seconds`` under a held input, and its derivatives: classical Runge-Kutta of order 4.

    The paper integrates with an implicit method of the same order and remarks that the equations are not
    stiff; steps no longer than the fastest time constant keep the explicit one accurate.  The derivatives
    are those of the discrete step itself.

    Args:
        settings: () SETTINGS record, for the model's parameters.
        x: (8,) state.
        u: (3,) input.
        yaw: rad, held.
        disturbance: (5,).
        seconds: length of the interval.
        steps: Runge-Kutta steps within it.
        after: (8,) filled; may not be ``x``.
        by_state: (8, 8) filled.
        by_input: (8, 3) filled.
        work: (6, 8, 9) scratch.
    """
    s = work[0]  # columns 0..7: by velocity (3), roll, pitch and the inputs; column 8: the state
    ds, total, point = work[1], work[2], work[3]
    a, jacobian = work[4, 0, :3], work[5, :3, :6]
    tau_roll, tau_pitch = settings.time_constant[0], settings.time_constant[1]
    s[:] = 0.0
    for i in range(5):
        s[3 + i, i] = 1.0
    for i in range(8):
        s[i, 8] = x[i]
    h = seconds / steps
    for _ in range(steps):
        total[:] = 0.0
        for stage in range(4):
            reach = 0.0 if stage == 0 else (h if stage == 3 else 0.5 * h)
            weight = h / 6.0 if stage in (0, 3) else h / 3.0
            for i in range(8):
                for c in range(9):
                    point[i, c] = s[i, c] + reach * ds[i, c] if stage > 0 else s[i, c]
            acceleration(point[3:6, 8], point[6, 8], point[7, 8], yaw, u[2], settings.drag, a, jacobian)
            for c in range(8):
                for i in range(3):
                    ds[i, c] = point[3 + i, c]
                    rate = 0.0
                    for j in range(5):
                        rate += jacobian[i, j] * point[3 + j, c]
                    ds[3 + i, c] = rate
                ds[6, c] = -point[6, c] / tau_roll
                ds[7, c] = -point[7, c] / tau_pitch
            for i in range(3):
                ds[3 + i, 7] += jacobian[i, 5]
                ds[i, 8] = point[3 + i, 8]
                ds[3 + i, 8] = a[i] + disturbance[i]
            ds[6, 5] += settings.gain[0] / tau_roll
            ds[7, 6] += settings.gain[1] / tau_pitch
            ds[6, 8] = (settings.gain[0] * u[0] + disturbance[3] - point[6, 8]) / tau_roll
            ds[7, 8] = (settings.gain[1] * u[1] + disturbance[4] - point[7, 8]) / tau_pitch
            for i in range(8):
                for c in range(9):
                    total[i, c] += weight * ds[i, c]
        for i in range(8):
            for c in range(9):
                s[i, c] += total[i, c]
    by_state[:] = 0.0
    for i in range(8):
        after[i] = s[i, 8]
        for j in range(5):
            by_state[i, 3 + j] = s[i, j]
        for j in range(3):
            by_input[i, j] = s[i, 5 + j]
    for i in range(3):
        by_state[i, i] = 1.0
