"""Battery samples for a flight stack, from the simulation; they go over the monitor's link."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.core.sensors.records import BATTERY
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.link.px4.vehicle_status import BatterySample, battery_message
from sitl_bridge.session.monitor import BATTERY_PERIOD


def battery_sample(server: LockstepServer, cells: int, vehicle: int = 0) -> BatterySample | None:
    """Latest sample of a vehicle's battery sensor, or the true state if it has no such sensor.

    Args:
        server: of the simulation.
        cells: number in series.
        vehicle: its number.

    Returns:
        None before a flight stack has connected, and before the first sample.
    """
    now = server.time_for(vehicle)
    if now is None:
        return None
    values = server.sensor_values(vehicle, BATTERY)
    if values is None:
        voltage, current, left = (float(value) for value in server.status().battery[vehicle])
        return BatterySample(now, voltage, current, left, 0.0, cells)
    voltage, current, left, consumed = (float(value) for value in values[:4])
    if voltage <= 0.0:
        return None  # not sampled yet
    return BatterySample(now, voltage, current, left, consumed, cells)


class BatteryFeed:
    """Sends the battery to the built-in stack between two steps, so that it arrives at its simulated time.

    It is a ``SensorHost``; its messages do not go over the simulator link, on which PX4 reads none.

    Args:
        vehicle: its number.
        sample: returns the present sample.
        deliver: sends messages and returns when the stack has read them.
    """

    name, label = "battery", "the battery"

    def __init__(
        self,
        vehicle: int,
        sample: Callable[[], BatterySample | None],
        deliver: Callable[[Sequence[Any]], None],
    ) -> None:
        self.vehicle = vehicle
        self.due = BATTERY_PERIOD
        self._sample, self._deliver = sample, deliver

    def run(self, _state: NDArray[np.void], time: int) -> Sequence[Any]:
        """Send the sample of this time (us)."""
        self.due = time + BATTERY_PERIOD
        sample = self._sample()
        if sample is not None:
            self._deliver([battery_message(sample)])
        return []

    def close(self) -> None:
        """Nothing is written."""
