"""No simulator: velocity and body rates stay as they are."""

from __future__ import annotations

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.rotations import quaternion_product
from sitl_bridge.lab.validation.windows import Motion, Predictor, Windows


class Simulator(Predictor):
    """Constant velocity, constant body rates."""

    name = "constant velocity and rates"

    def predict(self, windows: Windows, trim: Floats) -> Motion:
        """The motion at the windows' horizons."""
        del trim
        start, time = windows.start, np.array(windows.horizons)[:, None]
        angle = np.linalg.norm(start.rates, axis=-1, keepdims=True) * time
        axis = start.rates / np.maximum(np.linalg.norm(start.rates, axis=-1, keepdims=True), 1e-12)
        turn = np.concatenate([np.cos(0.5 * angle), np.sin(0.5 * angle) * axis], axis=-1)
        still = np.ones((len(windows), len(windows.horizons), 1))
        return Motion(
            start.position + start.velocity * time,
            start.velocity * still,
            quaternion_product(start.attitude, turn),
            start.rates * still,
        )
