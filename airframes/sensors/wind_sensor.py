"""RotorS's wind sensor as an example of a sensor of one's own: one file, one line in an airframe.

    - {kind: custom, file: sensors/wind_sensor.py, class: WindSensor, rate: 20, options: {deviation: 0.1}}

It measures the air's velocity past the vehicle in body axes (FRD), as an anemometer on board would.
"""

from __future__ import annotations

import numpy as np

from sitl_bridge import CustomSensor, Truth


class WindSensor(CustomSensor):
    """Velocity of the air relative to the vehicle, body axes, with white noise of ``deviation`` m/s."""

    def __init__(self, deviation: float = 0.0) -> None:
        if deviation < 0.0:
            raise ValueError("deviation is not negative")
        self.deviation = deviation

    def sample(self, truth: Truth, random: np.random.Generator) -> dict[str, float]:
        """Rotate wind minus velocity into the body and add noise."""
        w, x, y, z = truth.attitude
        body_to_world = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )
        seen = body_to_world.T @ (truth.wind - truth.velocity) + self.deviation * random.standard_normal(3)
        return {"forward": float(seen[0]), "right": float(seen[1]), "down": float(seen[2])}
