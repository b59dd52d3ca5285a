"""The memory of a step: the size of its records, and that nothing of its scratch outlasts it."""

from __future__ import annotations

import math
from typing import Annotated

import pytest

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.numba_extensions import on_stack
from sitl_bridge.base.kernels.record import Record
from sitl_bridge.core.dynamics.records import SCRATCH, STATE, VEHICLE
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World

DEEP = 32_768


class Stain(Record):
    """More than a step takes of the stack."""

    words: Annotated[Floats, DEEP]


STAIN = Stain.dtype


@compiled
def stain(value: float, look: int) -> float:
    """Leave a value all over the stack that the next call uses."""
    area = on_stack(STAIN)
    for i in range(DEEP):
        area.words[i] = value
    return float(area.words[look])


def test_the_records_of_a_step_fit_in_16_kb() -> None:
    assert STATE.itemsize <= 3000
    assert STATE.itemsize + VEHICLE.itemsize + SCRATCH.itemsize <= 16_000


@pytest.mark.parametrize("airframe", ["iris", "iris_blade_element", "hector"])
def test_a_step_reads_nothing_of_its_scratch_that_it_has_not_written(airframe: str) -> None:
    def flown(value: float) -> bytes:
        setup = VehicleSetup.from_airframe(load_airframe(airframe), (0.0, 0.0, -20.0))
        simulation = Simulation(World(), [setup], threads=1)
        simulation.controls[:, :4] = 0.6
        for k in range(50):
            simulation.armed[:] = k > 10
            assert stain(value, k) == value or math.isnan(value)
            simulation.advance()
        return simulation.states.tobytes() + simulation.sensor_states["values"].tobytes()

    assert flown(math.nan) == flown(0.0) == flown(1e9)
