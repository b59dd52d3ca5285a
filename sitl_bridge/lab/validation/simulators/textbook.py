"""A rigid body as textbooks have it, fitted to the flights for fitting; a quadrotor X.

    v' = g - T b_z - D v_b,   w_i' = G_i t_i + m_i v_i,   T_k = c_k ((u_k + u_0)/(1 + u_0))^2

with the specific thrust T of four rotors, their drive u_k, command times voltage over the mean, behind a
delay and a lag, rotor drag D, gains G of the motors' moments t in roll, pitch and yaw over the moments of
inertia, and moments m in proportion to the velocity (Mahony, Kumar and Corke, IEEE Robotics and Automation
Magazine 19, 2012).
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import least_squares

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.rotations import matrix_from_quaternion, quaternion_product
from sitl_bridge.lab.validation.windows import GRID, HORIZONS, LEAD, Motion, Predictor, Windows, fit_residuals

MOMENTS = np.array([[-1, 1, 1, -1], [1, -1, 1, -1], [1, 1, -1, -1]])
"""Signs of the thrusts in roll, pitch and yaw, motors in PX4's order of a quadrotor X."""
START = {
    "thrust": [2.5] * 4, "offset": [0.2], "delay": [0.02], "rise": [0.03], "fall": [0.03],
    "gain": [30.0, 30.0, 5.0], "drag": [0.3, 0.2], "moment": [0.0, 0.0],
}  # fmt: skip
"""m/s^2, 1, s, s, s, rad/s^2 per m/s^2, 1/s in and across the rotors' plane, rad/s^2 per m/s."""


class Simulator(Predictor):
    """The textbook's rigid body."""

    name = "textbook rigid body, fitted"

    def __init__(self) -> None:
        self.figures = np.concatenate([np.array(v, float) for v in START.values()])
        self.mean = 1.0

    def _drives(self, windows: Windows) -> Floats:
        voltage = np.nan_to_num(windows.voltage, nan=1.0)
        return np.asarray(windows.commands * voltage[..., None] / self.mean)

    def fit(self, windows: Windows) -> None:
        """Fit the figures to every second window by least squares with a soft L1 loss."""
        windows = windows.part(np.arange(len(windows)) % 2 == 0)
        self.mean = float(self._drives(windows).mean())
        one = np.ones((len(windows), 4))

        def residuals(figures: Floats) -> Floats:
            return fit_residuals(self._predict(figures, windows, one), windows)

        lowest, highest = zip(*(self._bounds(name, v) for name, vs in START.items() for v in vs), strict=True)
        scale = np.maximum(np.abs(self.figures), 0.3)
        found = least_squares(
            residuals, self.figures, bounds=(lowest, highest), loss="soft_l1", x_scale=scale, max_nfev=40
        )
        self.figures = found.x

    @staticmethod
    def _bounds(name: str, value: float) -> tuple[float, float]:
        if name == "delay":
            return 0.0, LEAD / 3.0
        return (-np.inf, np.inf) if name == "moment" else (0.02 * value, 20.0 * value)

    def trim(self, windows: Windows) -> Floats:
        """(4,) factors of the drives with which each rotor carries a quarter of the weight on average."""
        thrust = self._thrusts(self.figures, self._drives(windows)).mean(axis=(0, 1))
        return np.asarray(np.sqrt(STANDARD_GRAVITY / 4.0 / thrust))

    @staticmethod
    def _thrusts(figures: Floats, drives: Floats) -> Floats:
        offset = figures[4]
        return np.asarray(figures[:4] * ((drives + offset) / (1.0 + offset)) ** 2)

    def predict(self, windows: Windows, trim: Floats) -> Motion:
        """The motion at the windows' horizons."""
        return self._predict(self.figures, windows, trim)

    def predict_pushed(self, windows: Windows, trim: Floats, lacking: Floats) -> Motion:
        """The motion at the windows' horizons while forces and moments push the body."""
        return self._predict(self.figures, windows, trim, lacking)

    def _predict(
        self, figures: Floats, windows: Windows, trim: Floats, lacking: Floats | None = None
    ) -> Motion:
        pushed = np.zeros((len(windows), 6)) if lacking is None else lacking
        _, _, _, _, offset, delay, rise, fall, *rest = figures
        gain, (across, along), moment = rest[:3], rest[3:5], np.append(rest[5:7], 0.0)
        drives = trim[:, None] * (self._drives(windows) + offset) - offset
        lead, late = round(LEAD / GRID), int(delay / GRID)
        share = delay / GRID - late
        drive = drives[:, 0]
        position, velocity = windows.start.position[:, 0], windows.start.velocity[:, 0]
        attitude, rates = windows.start.attitude[:, 0], windows.start.rates[:, 0]
        kept = []
        for k in range(late + 1, drives.shape[1]):
            wanted = (1.0 - share) * drives[:, k - late] + share * drives[:, k - late - 1]
            before = drive
            drive = wanted + (drive - wanted) * np.where(
                wanted > drive, np.exp(-GRID / rise), np.exp(-GRID / fall)
            )
            if k < lead:
                continue
            thrusts = self._thrusts(figures, 0.5 * (before + drive))
            rotation = matrix_from_quaternion(attitude)
            through = np.einsum("wji,wj->wi", rotation, velocity)
            force = pushed[:, :3] - through * (across, across, along)
            force[:, 2] -= thrusts.sum(axis=1)
            acceleration = np.einsum("wij,wj->wi", rotation, force)
            acceleration[:, 2] += STANDARD_GRAVITY
            turning = thrusts @ MOMENTS.T * gain + through[:, [1, 0, 2]] * moment + pushed[:, 3:]
            position = position + GRID * velocity + 0.5 * GRID**2 * acceleration
            velocity = velocity + GRID * acceleration
            mean = rates + 0.5 * GRID * turning
            turn = np.concatenate([np.ones((len(windows), 1)), 0.5 * GRID * mean], axis=1)
            attitude = quaternion_product(attitude, turn)
            attitude /= np.linalg.norm(attitude, axis=1, keepdims=True)
            rates = rates + GRID * turning
            if round((k + 1 - lead) * GRID, 6) in HORIZONS:
                kept.append((position, velocity, attitude, rates))
        return Motion(*(np.stack(column, axis=1) for column in zip(*kept, strict=True)))
