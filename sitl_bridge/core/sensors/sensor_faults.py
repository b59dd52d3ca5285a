"""Sensor faults: silence, frozen readings, jammed and spoofed satellite receivers.

Functions over one vehicle's sensor records, called between steps.  sample.py and gps.py apply the faults to
the samples.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.base.arrays import Records
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.sensors.gps import GPS, JAMMING, SPOOF_DRIFT, SPOOF_OFFSET
from sitl_bridge.core.sensors.records import FAULT_NONE, FAULT_OFF, FAULT_STUCK, NONE
from sitl_bridge.core.sensors.registry import KIND_NAMES

Fault = Literal["none", "off", "stuck"]
_FAULTS: dict[Fault, int] = {"none": FAULT_NONE, "off": FAULT_OFF, "stuck": FAULT_STUCK}


def find_sensor(sensors: Records, kind: str, instance: int = 0) -> int:
    """Return the index of a sensor in its vehicle's row.

    Args:
        sensors: (MAX_SENSORS,) SENSOR of one vehicle, ``simulation.sensors[i]``.
        kind: as in airframe files, e.g. ``"gps"``.
        instance: sensor id on the simulator link.

    Raises:
        UserError: with the vehicle's sensors, if it has no such sensor.
    """
    there = [
        (KIND_NAMES[int(s["kind"])], int(s["instance"])) if s["kind"] != NONE else ("", 0) for s in sensors
    ]
    if (kind, instance) not in there:
        known = ", ".join(f"{name} {number}" for name, number in there if name)
        raise UserError(f"the vehicle has no sensor {kind!r} {instance}; it has {known or 'none'}")
    return there.index((kind, instance))


def set_fault(
    sensors: Records,
    memories: Records,
    kind: str,
    instance: int = 0,
    fault: Fault = "off",
) -> None:
    """Switch a sensor off, freeze its reading, or clear its fault.

    Args:
        sensors: (MAX_SENSORS,) SENSOR of one vehicle, ``simulation.sensors[i]``.
        memories: (MAX_SENSORS,) SENSOR_STATE, ``simulation.sensor_states[i]``.
        kind: as in airframe files.
        instance: sensor id on the simulator link.
        fault: ``off`` for no output, ``stuck`` to repeat the last sample at the sensor's rate.

    Raises:
        UserError: for a sensor that the vehicle does not have, or another fault.
    """
    if fault not in _FAULTS:
        raise UserError(f"a sensor fault must be one of {', '.join(_FAULTS)}, not {fault!r}")
    memories["fault"][find_sensor(sensors, kind, instance)] = _FAULTS[fault]


def jam(sensors: Records, memories: Records, level: float) -> None:
    """Jam every satellite receiver of a vehicle.

    Args:
        sensors: (MAX_SENSORS,) SENSOR of one vehicle.
        memories: (MAX_SENSORS,) SENSOR_STATE.
        level: 0 = clear sky, 1 = no signal; accuracy, satellites and fix degrade in this order.

    Raises:
        UserError: for a level outside 0..1 or a vehicle without receiver.
    """
    if not 0.0 <= level <= 1.0:
        raise UserError(f"the jamming level must be 0 to 1, not {level}")
    memories["memory"][_receivers(sensors), JAMMING] = level


def spoof(
    sensors: Records,
    memories: Records,
    velocity: tuple[float, float, float],
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> None:
    """Move the fix of every satellite receiver of a vehicle away, position and velocity consistently.

    Args:
        sensors: (MAX_SENSORS,) SENSOR of one vehicle.
        memories: (MAX_SENSORS,) SENSOR_STATE.
        velocity: m/s NED; zero holds the present offset, ``end_spoofing`` removes it.
        offset: m NED by which the position jumps at once.

    Raises:
        UserError: for a velocity that is not finite, or a vehicle without a receiver.
    """
    if len(velocity) != 3 or not all(math.isfinite(v) for v in velocity):
        raise UserError(f"the spoofing velocity must be three numbers in m/s, not {velocity}")
    rows = _receivers(sensors)
    memories["memory"][rows, SPOOF_DRIFT : SPOOF_DRIFT + 3] = velocity
    memories["memory"][rows, SPOOF_OFFSET : SPOOF_OFFSET + 3] += offset


def end_spoofing(sensors: Records, memories: Records) -> None:
    """End spoofing on every satellite receiver of a vehicle: the fix jumps back to the truth.

    Raises:
        UserError: for a vehicle without receiver.
    """
    rows = _receivers(sensors)
    memories["memory"][rows, SPOOF_DRIFT : SPOOF_DRIFT + 3] = 0.0
    memories["memory"][rows, SPOOF_OFFSET : SPOOF_OFFSET + 3] = 0.0


def _receivers(sensors: Records) -> NDArray[np.intp]:
    rows = np.flatnonzero(sensors["kind"] == GPS)
    if len(rows) == 0:
        raise UserError("the vehicle has no satellite receiver")
    return rows
