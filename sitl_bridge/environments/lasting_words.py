"""Which words of a state last from step to step: those of rotors and contact points that the vehicle has."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.dynamics.records import MAX_CONTACT_POINTS, MAX_ROTORS, STATE

RESULTS = ("specific_force", "angular_acceleration", "wind", "rotor_thrust")
"""A step writes them before anything reads them."""
LOADS = ("external_force", "external_moment", "damage_imbalance", "vibrating")
"""Inputs that no environment changes."""
NEIGHBOURS = ("neighbour_force", "neighbour_moment", "neighbour_air", "uneven_wake", "rotor_air")


def lasting_words(vehicle: NDArray[np.void], end: int, *, alone: bool) -> NDArray[np.int64]:
    """Runs of the 64-bit words of a STATE that a vehicle uses, neighbouring runs joined.

    Args:
        vehicle: () VEHICLE record.
        end: the first word that does not last.
        alone: whether no other vehicle acts on it.

    Returns:
        (k, 2) first word and number of words of each run, in order.
    """
    used = {MAX_ROTORS: int(vehicle["rotor_count"]), MAX_CONTACT_POINTS: int(vehicle["contact_count"])}
    unused = {*RESULTS, *LOADS, *NEIGHBOURS} if alone else set()
    if vehicle["vibration"] == 0:
        unused.add("rotor_phase")
    if vehicle["esc_thermal_time"] == 0.0:
        unused.add("esc_rise")
    runs: list[list[int]] = []
    assert STATE.fields is not None
    for name in STATE.names or ():
        field, offset = STATE.fields[name][:2]
        first = offset // 8
        if first >= end:
            break
        if name in unused:
            continue
        rows = field.shape[0] if field.shape else 1
        count = used.get(rows, rows) * math.prod(field.shape[1:])
        if runs and runs[-1][0] + runs[-1][1] == first:
            runs[-1][1] += count
        elif count:
            runs.append([first, count])
    return np.array(runs, dtype=np.int64)
