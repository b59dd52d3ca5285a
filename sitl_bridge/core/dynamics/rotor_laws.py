"""The vehicle's rotor law, of the built-in ones and a user's own."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from pydantic import Discriminator, Tag

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.record import Packed
from sitl_bridge.core.dynamics.custom_rotor import CustomRotor, custom_loads
from sitl_bridge.core.dynamics.induced_flow import induced_loads
from sitl_bridge.core.dynamics.records import INDUCED_LAW, POLYNOMIAL_LAW, TABLE_LAW
from sitl_bridge.core.dynamics.rotor import (
    CoefficientRotor,
    Loads,
    Rotor,
    RotorModel,
    polynomial_loads,
    table_loads,
)


@compiled
def rotor_loads(
    vehicle: Packed, k: int, speed: float, inflow: float, in_plane: float, density: float
) -> Loads:
    """Return the aerodynamic loads of a rotor by the vehicle's rotor law.

    Args:
        vehicle: VEHICLE record.
        k: rotor index.
        speed: rad/s; negative for reverse rotation.
        inflow: m/s, the hub's velocity through the air along the thrust axis: positive in a climb.
        in_plane: m/s, >= 0, the hub's velocity through the air across the thrust axis.
        density: kg/m^3 of the air.

    Returns:
        thrust in N along the axis; torque in N m against the rotation, with the sign of ``speed``; in-plane
        drag in N s/m and hub moment in N s, both over the in-plane velocity and opposed to it.
    """
    if vehicle.rotor_law == POLYNOMIAL_LAW:
        return polynomial_loads(vehicle, k, speed, inflow, in_plane, density)
    if vehicle.rotor_law == TABLE_LAW:
        return table_loads(vehicle, k, speed, inflow, in_plane, density)
    if vehicle.rotor_law == INDUCED_LAW:
        return induced_loads(vehicle, k, speed, inflow, in_plane, density)
    return custom_loads(vehicle, k, speed, inflow, in_plane, density)


@compiled
def thrust_and_torque(
    vehicle: Packed, k: int, speed: float, inflow: float, density: float
) -> tuple[float, float]:
    """Return thrust and torque of a rotor without in-plane velocity, as ``rotor_loads``."""
    thrust, torque, _, _ = rotor_loads(vehicle, k, speed, inflow, 0.0, density)
    return thrust, torque


def in_plane_drag(vehicle: Packed, speeds: Floats, density: float) -> float:
    """Return the in-plane drag of all rotors over the vehicle's velocity across their axes, N s/m, at 1 m/s.

    Args:
        vehicle: () VEHICLE record.
        speeds: (rotors,) rad/s.
        density: kg/m^3 of the air.
    """
    rates = [rotor_loads(vehicle, k, float(w), 0.0, 1.0, density)[2] for k, w in enumerate(speeds)]
    return float(np.sum(np.array(rates)))


def pack_rotors(vehicle: Packed, rotors: tuple[Rotor, ...], shared: RotorModel) -> None:
    """Write the rotors of a () VEHICLE record."""
    vehicle["rotor_count"] = len(rotors)
    vehicle["inflow_loss_speed"] = math.inf
    vehicle["rotor_density"] = 1.225  # unused slots: avoids a division by zero
    own = [rotor.combine_with(shared) for rotor in rotors]
    for k, (rotor, model) in enumerate(zip(rotors, own, strict=True)):
        rotor.pack(vehicle, k)
        model.pack(vehicle, k)
    shared.pack_shared(vehicle)


def _kind(data: object) -> str:
    """Return the kind of a rotor model's data or instance; that of a file without one by default."""
    kind = data.get("kind") if isinstance(data, dict) else getattr(data, "kind", None)
    return "coefficients" if kind is None else str(kind)


AnyRotorModel = Annotated[
    Annotated[CoefficientRotor, Tag("coefficients")] | Annotated[CustomRotor, Tag("custom")],
    Discriminator(_kind),
]
