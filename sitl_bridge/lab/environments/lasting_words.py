"""Which words of a state last from step to step: those of rotors and contact points that the vehicle has."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.core.dynamics.records import INDUCED_LAW, MAX_CONTACT_POINTS, MAX_ROTORS, STATE

REWRITTEN = ("wind", "motor_drive")
"""A step writes them before anything reads them."""
RESULTS = ("specific_force", "angular_acceleration", "rotor_thrust", "motor_current")
"""Likewise, but not a step at rest."""
CONTACT = ("contact_anchor", "contact_touching", "in_contact")
REST = ("rest_steps", "rest_position", "rest_attitude", "rest_wind", "rest_mass")
LOADS = ("external_force", "external_moment", "damage_imbalance", "vibrating")
"""Inputs that no environment changes."""
NEIGHBOURS = ("neighbour_force", "neighbour_moment", "neighbour_air", "uneven_wake", "rotor_air")
SUMS = ("vortex_ring_time", "impact_speed")
"""Results over a whole flight, which nothing of an environment reads."""


def lasting_words(
    vehicle: NDArray[np.void], end: int, *, alone: bool, health: bool
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Indices of the 64-bit words of a STATE that a vehicle remembers: always, and on the ground alone.

    Args:
        vehicle: () VEHICLE record.
        end: the first word that does not last.
        alone: whether no other vehicle and no scene act on it; else everything is remembered always.
        health: whether the rotors' health differs between vehicles.

    Returns:
        (k,) and (m,), in order.
    """
    left_out, grounded = set(), set()
    if alone:
        left_out = {*REWRITTEN, *LOADS, *NEIGHBOURS, *SUMS}
        grounded = {*CONTACT, *REST, *RESULTS}
        if not health:
            left_out.add("rotor_health")
        if vehicle["rotor_law"] != INDUCED_LAW:
            left_out.add("induced_velocity")
        if vehicle["esc_thermal_time"] > 0.0:
            grounded.remove("motor_current")  # of an empty battery, its heat is read but not written
    if vehicle["vibration"] == 0:
        left_out.add("rotor_phase")
    if vehicle["esc_thermal_time"] == 0.0:
        left_out.add("esc_rise")
    names = [name for name in STATE.names or () if _first(name) < end and name not in left_out]
    return (
        _words(vehicle, (name for name in names if name not in grounded)),
        _words(vehicle, (name for name in names if name in grounded)),
    )


def _first(name: str) -> int:
    """Index of the first word of a field."""
    assert STATE.fields is not None
    return STATE.fields[name][1] // 8


def _words(vehicle: NDArray[np.void], names: Iterable[str]) -> NDArray[np.uint64]:
    """Indices of the words of some fields, of the rotors and contact points that the vehicle has."""
    used = {MAX_ROTORS: int(vehicle["rotor_count"]), MAX_CONTACT_POINTS: int(vehicle["contact_count"])}
    assert STATE.fields is not None
    found: list[int] = []
    for name in names:
        shape = STATE.fields[name][0].shape
        rows = shape[0] if shape else 1
        found += range(_first(name), _first(name) + used.get(rows, rows) * math.prod(shape[1:]))
    return np.array(found, dtype=np.uint64)
