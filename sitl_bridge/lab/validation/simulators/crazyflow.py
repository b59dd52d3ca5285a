"""crazyflow with its own Crazyflie (pip install crazyflow); forward, left, up and a world with z up."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.lab.validation.simulators import TO_FLU, crazyflie_speeds, trim_of
from sitl_bridge.lab.validation.windows import GRID, HORIZONS, LEAD, Motion, Predictor, Windows

ORDER = [0, 3, 1, 2]
"""Of crazyflow's motors (M1 to M4), those in PX4's order."""
FREQUENCY = 500
"""Hz of its integration."""
RPM = 30.0 / np.pi


class Simulator(Predictor):
    """``Sim`` with ``dynamics="first_principles"`` and the drone ``cf2x_L250``, a world for each window."""

    name = "crazyflow, published"

    def __init__(self) -> None:
        self._module = import_module("crazyflow.sim")
        self._drone = self._write_enumerated("Drone", "cf2x_L250")
        self._sim = self._make(1)

    def _write_enumerated(self, kind: str, value: str) -> Any:
        return getattr(import_module("crazyflow.sim.sim"), kind)(value)

    def _make(self, count: int) -> Any:
        return self._module.Sim(
            n_worlds=count,
            drone=self._drone,
            dynamics=self._write_enumerated("Dynamics", "first_principles"),
            control=self._write_enumerated("Control", "rotor_vel"),
            freq=FREQUENCY,
        )

    def trim(self, windows: Windows) -> Floats:
        """(4,) factors of the rotors' speeds with which each carries a quarter of the weight on average."""
        params = self._sim.data.params
        _, one, two = np.asarray(params.rpm2thrust, float).reshape(-1)[-3:]
        quarter = float(np.asarray(params.mass).reshape(-1)[0]) * STANDARD_GRAVITY / 4.0
        rpm = (-one + np.sqrt(one * one + 4.0 * two * quarter)) / (2.0 * two)
        return trim_of(crazyflie_speeds(windows), float(rpm) / RPM)

    def predict(self, windows: Windows, trim: Floats) -> Motion:
        """The motion at the windows' horizons."""
        count, lead = len(windows), round(LEAD / GRID)
        speeds = RPM * (trim[:, None] * crazyflie_speeds(windows))[..., ORDER]
        sim, start = self._make(count), windows.start
        self._set(sim, rotor_vel=speeds[:, 0])
        kept = []
        for k in range(speeds.shape[1]):
            if k <= lead:  # the body held, until the rotors turn as the commands before the start say
                self._set(
                    sim,
                    pos=TO_FLU * start.position[:, 0],
                    vel=TO_FLU * start.velocity[:, 0],
                    quat=(start.attitude[:, 0] * np.append(1.0, TO_FLU))[:, [1, 2, 3, 0]],
                    ang_vel=TO_FLU * start.rates[:, 0],
                )
            sim.rotor_vel_control(speeds[:, None, k].astype(np.float32))
            sim.step(round(GRID * FREQUENCY))
            if round((k + 1 - lead) * GRID, 6) in HORIZONS:
                states = sim.data.states
                pos, vel, quat, rates = (
                    np.asarray(value, np.float64)[:, 0]
                    for value in (states.pos, states.vel, states.quat, states.ang_vel)
                )
                attitude = quat[:, [3, 0, 1, 2]] * np.append(1.0, TO_FLU)
                kept.append((TO_FLU * pos, TO_FLU * vel, attitude, TO_FLU * rates))
        return Motion(*(np.stack(column, axis=1) for column in zip(*kept, strict=True)))

    @staticmethod
    def _set(sim: Any, **values: Floats) -> None:
        import jax.numpy as jnp

        made = {name: jnp.asarray(value[:, None], jnp.float32) for name, value in values.items()}
        sim.data = sim.data.replace(states=sim.data.states.replace(**made))
