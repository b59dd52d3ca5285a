"""One sensor on a vehicle whose state a test sets; shared by the tests of the sensors."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.random_streams import stream
from sitl_bridge.core.dynamics.records import STATE
from sitl_bridge.core.sensors.records import SENSOR_STATE
from sitl_bridge.core.sensors.sample import sample_sensors, start_sensor
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World, WorldSpecification

STEP = 4000
COLUMNS = 18
SAMPLED, DELIVERED = 16, 17
"""Columns of ``Bench.run`` behind the sensor's values: when the sample was taken and when it arrived, us."""


@compiled
def _run(vehicles: Any, states: Any, env: Any, sensors: Any, memories: Any, start: int, out: Any) -> int:
    count = 0
    for k in range(out.shape[0]):
        time = start + (k + 1) * 4000
        sample_sensors(vehicles[0], states[0], env[0], sensors, memories, time, 4000)
        if memories[0].fresh == 1:
            for i in range(out.shape[1] - 2):
                out[count, i] = memories[0].values[i]
            out[count, out.shape[1] - 2] = memories[0].time
            out[count, out.shape[1] - 1] = time
            count += 1
    return count


@cache
def _surroundings() -> tuple[World, NDArray[np.void]]:
    return World(WorldSpecification(earth_rotation=False)), load_airframe("iris").vehicle().reshape(1)


class Bench:
    """A sensor on a vehicle whose state the test sets."""

    def __init__(self, specification: Any, seed: int = 1, world: World | None = None) -> None:
        self.world, self.vehicles = _surroundings()
        self.world = world or self.world
        self.states = np.zeros(1, STATE)
        self.states["attitude"] = (1.0, 0.0, 0.0, 0.0)
        self.states["specific_force"] = (0.0, 0.0, -9.80665)
        self.state = self.states[0]
        self.sensors = specification.pack().reshape(1)
        self.memories = np.zeros(1, SENSOR_STATE)
        self.memories[0] = start_sensor(self.sensors[0], stream(seed, "test"), 0)
        self.time = 0

    def run(self, steps: int) -> NDArray[np.float64]:
        """(samples, 18) values, time of the sample and time of its delivery in us."""
        out = np.zeros((steps, COLUMNS))
        count = _run(
            self.vehicles, self.states, self.world.environment, self.sensors, self.memories, self.time, out
        )
        self.time += steps * STEP
        return out[:count]


def allan(values: NDArray[np.float64], size: int) -> float:
    """Allan deviation over clusters of ``size`` samples (IEEE 952-1997, C.1)."""
    means = values[: len(values) // size * size].reshape(-1, size).mean(axis=1)
    return float(np.sqrt(0.5 * np.mean(np.diff(means) ** 2)))
