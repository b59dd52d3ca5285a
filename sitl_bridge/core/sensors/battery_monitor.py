"""Battery monitor: voltage and current as measured by a power module, and the remaining charge."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from pydantic import Field

from sitl_bridge.base.arrays import Floats, Records
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.dynamics.records import State, Vehicle
from sitl_bridge.core.sensors.error_model import ErrorSpecification, SensorSpecification, read_axis
from sitl_bridge.core.sensors.records import Sensor, SensorState

BATTERY = 8


class BatterySpecification(SensorSpecification):
    """A power module."""

    code = BATTERY
    # V, A, 0..1, A s
    values: ClassVar = {"voltage": 0, "current": 1, "remaining": 2, "consumed": 3}

    kind: Literal["battery"]
    instance: Literal[0] = 0
    voltage: ErrorSpecification = Field(description="V")
    current: ErrorSpecification = Field(description="A")

    def _fill(self, sensor: Records) -> None:
        self.voltage.fill(sensor, (0,), self.period)
        self.current.fill(sensor, (1,), self.period)


@compiled
def sample_battery(vehicle: Vehicle, state: State, sensor: Sensor, memory: SensorState, out: Floats) -> None:
    """Sample voltage, current, remaining share and used charge; an ideal source never empties."""
    out[0] = read_axis(sensor, memory, 0, state.battery_voltage)
    out[1] = max(read_axis(sensor, memory, 1, state.battery_current), 0.0)
    out[2] = 1.0
    out[3] = 0.0
    if math.isfinite(vehicle.battery_capacity):
        out[2] = max(state.battery_charge, 0.0) / vehicle.battery_capacity
        out[3] = vehicle.battery_capacity - state.battery_charge
