"""The rotor laws and the compiled selection among them.

A new built-in law is a module with a model of its fields (derived from RotorModel) and a compiled function of
its loads, and its line in ROTOR_MODELS.
"""

from __future__ import annotations

import math
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Discriminator, Tag

from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.record import Packed
from sitl_bridge.core.dynamics.custom_rotor import CustomRotor
from sitl_bridge.core.dynamics.records import Vehicle
from sitl_bridge.core.dynamics.rotor import CoefficientRotor, LoadFunction, Loads, Rotor, RotorModel

ROTOR_MODELS: tuple[type[RotorModel], ...] = (
    CoefficientRotor,
    CustomRotor,
)
"""Models of ``rotor_model``; the first is the default for a file without ``kind``."""
LAWS = tuple(law for model in ROTOR_MODELS for law in model.laws)
"""Compiled load functions; the index is the number in a VEHICLE record's ``rotor_law``."""


def _choice(laws: tuple[LoadFunction, ...], number: int = 0) -> LoadFunction:
    """Return a compiled function that calls the law with a vehicle's number."""
    law = laws[0]
    if len(laws) == 1:
        return law
    other = _choice(laws[1:], number + 1)

    @compiled
    def choose(
        vehicle: Vehicle, k: int, speed: float, inflow: float, in_plane: float, density: float
    ) -> Loads:
        if vehicle.rotor_law == number:
            return law(vehicle, k, speed, inflow, in_plane, density)
        return other(vehicle, k, speed, inflow, in_plane, density)

    return choose


_loads = _choice(LAWS)


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
    thrust, torque, drag, roll = _loads(vehicle, k, speed, inflow, in_plane, density)
    return thrust, torque, drag, roll


@compiled
def thrust_and_torque(
    vehicle: Packed, k: int, speed: float, inflow: float, density: float
) -> tuple[float, float]:
    """Return thrust and torque of a rotor without in-plane velocity, as ``rotor_loads``."""
    thrust, torque, _, _ = _loads(vehicle, k, speed, inflow, 0.0, density)
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
    vehicle["rotor_law"] = LAWS.index(shared.law)
    vehicle["inflow_loss_speed"] = math.inf
    vehicle["rotor_density"] = 1.225  # unused slots: avoids a division by zero
    own = [rotor.own(shared) for rotor in rotors]
    for k, (rotor, model) in enumerate(zip(rotors, own, strict=True)):
        rotor.pack(vehicle, k)
        model.pack(vehicle, k)
    shared.pack_shared(vehicle)


def _kind(data: Any) -> str:
    """Return the kind of a rotor model's data or instance."""
    kind = data.get("kind") if isinstance(data, dict) else getattr(data, "kind", None)
    return ROTOR_MODELS[0].kinds()[0] if kind is None else str(kind)


if TYPE_CHECKING:
    AnyRotorModel = RotorModel
else:
    AnyRotorModel = Annotated[
        reduce(or_, (Annotated[model, Tag(kind)] for model in ROTOR_MODELS for kind in model.kinds())),
        Discriminator(_kind),
    ]
