"""RotorPy with its own Crazyflie (pip install rotorpy); forward, left, up and a world with z up."""

from __future__ import annotations

import math
from importlib import import_module

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.lab.validation.simulators import TO_FLU, crazyflie_speeds, trim_of
from sitl_bridge.lab.validation.windows import GRID, HORIZONS, LEAD, Motion, Predictor, Windows

ORDER = [2, 0, 3, 1]
"""Of RotorPy's motors (front left, front right, rear right, rear left), those in PX4's order."""


class Simulator(Predictor):
    """``Multirotor.step`` with ``crazyflie_params``, as released."""

    name = "RotorPy, published"

    def __init__(self) -> None:
        self._params: JsonObject = import_module("rotorpy.vehicles.crazyflie_params").quad_params
        self._vehicle = import_module("rotorpy.vehicles.multirotor").Multirotor(self._params)

    def trim(self, windows: Windows) -> Floats:
        """(4,) factors of the rotors' speeds with which each carries a quarter of the weight on average."""
        weight = self._params["mass"] * STANDARD_GRAVITY
        return trim_of(crazyflie_speeds(windows), math.sqrt(weight / 4.0 / self._params["k_eta"]))

    def predict(self, windows: Windows, trim: Floats) -> Motion:
        """The motion at the windows' horizons."""
        speeds = (trim[:, None] * crazyflie_speeds(windows))[..., ORDER]
        lead, share = round(LEAD / GRID), -math.expm1(-GRID / self._params["tau_m"])
        turning = speeds[:, 0]
        for k in range(lead):
            turning = turning + share * (speeds[:, k] - turning)
        made = Motion(*(np.zeros((len(windows), len(windows.horizons), n)) for n in (3, 3, 4, 3)))
        start = windows.start
        for i in range(len(windows)):
            q = start.attitude[i, 0] * np.append(1.0, TO_FLU)
            state = {
                "x": TO_FLU * start.position[i, 0],
                "v": TO_FLU * start.velocity[i, 0],
                "q": q[[1, 2, 3, 0]],
                "w": TO_FLU * start.rates[i, 0],
                "wind": np.zeros(3),
                "rotor_speeds": turning[i],
            }
            for k in range(lead, speeds.shape[1]):
                state = self._vehicle.step(state, {"cmd_motor_speeds": speeds[i, k]}, GRID)
                now = round((k + 1 - lead) * GRID, 6)
                if now in HORIZONS:
                    h = HORIZONS.index(now)
                    made.position[i, h], made.velocity[i, h] = TO_FLU * state["x"], TO_FLU * state["v"]
                    made.attitude[i, h] = state["q"][[3, 0, 1, 2]] * np.append(1.0, TO_FLU)
                    made.rates[i, h] = TO_FLU * state["w"]
        return made
