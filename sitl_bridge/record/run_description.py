"""Describes a simulation in run.json: everything that repeats it byte by byte."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.core.vehicle.airframe import Airframe


def describe_simulation(
    kind: str, simulation: Simulation, airframes: Sequence[Airframe], proximity: Proximity | None
) -> JsonObject:
    """A simulation before its first step as plain values.

    Args:
        kind: of run: fly, serve or simulate.
        simulation: before its first step.
        airframes: of its vehicles.
        proximity: how its vehicles act on one another; None for not at all.
    """
    return {
        "kind": kind,
        "directory": str(Path.cwd()),
        "world": simulation.world.specification.model_dump(mode="json"),
        "seed": simulation.seed,
        "start": simulation.start,
        "step": simulation.step,
        "substeps": simulation.substeps,
        "proximity": None if proximity is None else proximity.model_dump(),
        "vehicles": [
            describe_vehicle(name, airframe, position, yaw)
            for (name, position, yaw), airframe in zip(simulation.places, airframes, strict=True)
        ],
    }


def describe_vehicle(
    name: str, airframe: Airframe, position: tuple[float, float, float], yaw: float
) -> JsonObject:
    """A vehicle at its start as plain values; the yaw in rad is the one that repeats the run."""
    return {
        "name": name,
        "airframe": airframe.separate_payload().model_dump(mode="json"),
        "position": position,
        "yaw": math.degrees(yaw),
        "yaw_radians": yaw,
    }
