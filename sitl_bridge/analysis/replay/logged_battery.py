"""The battery of a simulation that follows the log of a flight."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.core.simulation.simulation import Simulation

FULL = 1e9
"""A s of a pack whose charge does not change within a window."""


def ideal_battery(record: NDArray[np.void]) -> None:
    """Let a VEHICLE record's pack keep its nominal voltage, until one was measured."""
    record["battery_capacity"] = math.inf
    record["battery_slow_resistance"] = 0.0


def follow_battery(simulation: Simulation, nominal: NDArray[np.void], voltage: float, current: float) -> None:
    """Let the motors run at the measured voltage, which follows their current by the pack's resistance.

    Without a measured current, the voltage is constant until the next call.

    Args:
        simulation: of vehicles with the pack of ``ideal_battery``.
        nominal: (n,) VEHICLE as they are described.
        voltage: V; nan changes nothing.
        current: A from the pack; nan if it was not measured.
    """
    if not math.isfinite(voltage):
        return
    vehicles: Any = simulation.vehicles
    states: Any = simulation.states
    known = math.isfinite(current)
    source = voltage + nominal["battery_resistance"] * (current if known else 0.0)
    vehicles["battery_resistance"] = nominal["battery_resistance"] if known else 0.0
    vehicles["battery_ocv"] = (source / nominal["battery_cells"])[:, None]
    states["battery_charge"] = vehicles["battery_capacity"] = FULL
    states["battery_voltage"] = voltage
