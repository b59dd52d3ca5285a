"""Battery samples for a flight stack, from the simulation; the monitor sends them."""

from __future__ import annotations

from sitl_bridge.hil.server import LockstepServer
from sitl_bridge.px4.vehicle_status import BatterySample
from sitl_bridge.sensors.records import BATTERY


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
