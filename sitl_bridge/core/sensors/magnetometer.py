"""Magnetometer: the Earth's field in the sensor's axes, with hard iron as turn-on bias."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.rotations import product, to_body
from sitl_bridge.base.quantities import Positive, Vector
from sitl_bridge.core.dynamics.records import State
from sitl_bridge.core.sensors.error_model import ErrorSpecification, SensorSpecification, read_axis
from sitl_bridge.core.sensors.records import Sensor, SensorState
from sitl_bridge.core.world.records import Environment

MAGNETOMETER = 2


class MagnetometerSpecification(SensorSpecification):
    """A three-axis magnetometer."""

    code = MAGNETOMETER
    # T, body FRD
    values: ClassVar = {"field": slice(0, 3)}

    kind: Literal["magnetometer"]
    instance: int = Field(0, ge=0, le=1, description="sensor id on the simulator link")
    error: ErrorSpecification = Field(
        description="tesla; the turn-on bias is the hard iron, the scale error the soft iron along the axes"
    )
    field_range: Positive | None = Field(None, description="T, largest magnitude on an axis")
    current_field: Vector = Field((0.0, 0.0, 0.0), description="T/A, field of the battery current, body axes")

    def _fill(self, sensor: Records) -> None:
        self.error.fill(sensor, (0, 1, 2), self.period)
        sensor["parameter"][:3] = self.current_field
        if self.field_range is not None:
            sensor["limit"][:3] = self.field_range


@compiled
def sample_magnetometer(
    state: State, environment: Environment, sensor: Sensor, memory: SensorState, out: Floats
) -> None:
    """Sample the magnetic flux density in tesla in the sensor's axes."""
    place, slope = state.position, environment.magnetic_slope
    north, east, down = environment.magnetic_field
    north += slope[0, 0] * place[0] + slope[0, 1] * place[1] + slope[0, 2] * place[2]
    east += slope[1, 0] * place[0] + slope[1, 1] * place[1] + slope[1, 2] * place[2]
    down += slope[2, 0] * place[0] + slope[2, 1] * place[1] + slope[2, 2] * place[2]
    x, y, z = to_body(state.attitude, north, east, down)
    current = state.battery_current
    x, y, z = product(
        sensor.rotation,
        x + sensor.parameter[0] * current,
        y + sensor.parameter[1] * current,
        z + sensor.parameter[2] * current,
    )
    out[0] = read_axis(sensor, memory, 0, x)
    out[1] = read_axis(sensor, memory, 1, y)
    out[2] = read_axis(sensor, memory, 2, z)
