"""How fast a vehicle answers to its motors' lag: physics alone, one vehicle for each value, side by side.

python missions/api/parameter_study.py
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import sitl_bridge as sb

LAGS = (0.01, 0.02, 0.05, 0.1)
"""s, time constants of the motors."""


def main(seconds: float = 0.6) -> NDArray[np.float64]:
    """Raise the commands by a tenth from hover.

    Returns:
        (4,) s until each vehicle climbs with 0.5 m/s.
    """
    iris = sb.Airframe.load("iris")
    variants = [iris.changed(motor={"time_constant_up": lag, "time_constant_down": lag}) for lag in LAGS]
    simulation = sb.Simulation(variants, spacing=20.0, seed=1)
    simulation.step(simulation.hover_controls, count=250)
    with simulation.record() as log:
        simulation.step(1.1 * simulation.hover_controls, count=round(seconds / simulation.step_size))
    climb = -log.velocity[:, :, 2]
    return log.time[np.argmax(climb > 0.5, axis=0)] - log.time[0]


if __name__ == "__main__":
    for lag, answer in zip(LAGS, main(), strict=True):
        print(f"lag {lag:5.3f} s: climbs with 0.5 m/s after {answer:.3f} s")
