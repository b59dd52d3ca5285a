"""Effect of each command on a simulation, applied between two steps.  Commands arrive by command_queue.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeAlias

import numpy as np

from sitl_bridge.base.errors import UserError
from sitl_bridge.core.dynamics.scene_contact import MEMORY
from sitl_bridge.core.dynamics.scene_start import start_state
from sitl_bridge.core.dynamics.vibration import damage_propeller
from sitl_bridge.core.sensors import sensor_faults
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.live.bus.messages import (
    BusCommand,
    DamagePropeller,
    Jam,
    Pause,
    Resume,
    SetFault,
    SetPace,
    SetRotor,
    SetWind,
    Spoof,
    Step,
    Teleport,
)
from sitl_bridge.live.bus.run_source import RunSource

OnCommand: TypeAlias = Callable[[str, Mapping[str, Any], int | None], "Future[None]"]
"""Executes a delegated command, given its kind, its data, and the vehicle's number (None: all); the future
completes with the execution.  Raises UserError to refuse it, at once or in the future."""


def execute_for_run(command: BusCommand, source: RunSource) -> None:
    """Execute a command for the whole run.

    Raises:
        UserError: if it is impossible.
    """
    match command:
        case SetWind():
            source.simulation.world.set_wind(command.wind, source.simulation.time)
        case SetPace():
            source.set_speed(math.inf if command.speed == "max" else float(command.speed))
        case Pause():
            source.pause()
        case Resume():
            source.resume()
        case Step():
            source.step(command.count)
        case _:
            raise UserError(f"{type(command).__name__} is not for the whole run")


def execute_for_vehicle(command: BusCommand, simulation: Simulation, vehicle: int) -> None:
    """Execute a command for one vehicle.

    Raises:
        UserError: if it is impossible.
    """
    sensors, memories = simulation.sensors[vehicle], simulation.sensor_states[vehicle]
    match command:
        case SetFault():
            sensor_faults.set_fault(sensors, memories, command.sensor, command.instance, command.fault)
        case Jam():
            sensor_faults.jam(sensors, memories, command.level)
        case Spoof(velocity=None):
            sensor_faults.end_spoofing(sensors, memories)
        case Spoof(velocity=(north, east, down)):
            sensor_faults.spoof(sensors, memories, (north, east, down))
        case DamagePropeller():
            _refuse_rotor(simulation, vehicle, command.rotor)
            damage_propeller(
                simulation.vehicles[vehicle], simulation.states[vehicle], command.rotor, command.lost
            )
        case SetRotor():
            _refuse_rotor(simulation, vehicle, command.rotor)
            simulation.states[vehicle]["rotor_health"][command.rotor] = command.health
        case Teleport():
            teleport(command, simulation, vehicle)
        case _:
            raise UserError(f"{type(command).__name__} is not for one vehicle")


def _refuse_rotor(simulation: Simulation, vehicle: int, rotor: int) -> None:
    count = int(simulation.vehicles[vehicle]["rotor_count"])
    if rotor >= count:
        raise UserError(f"the vehicle has rotors 0 to {count - 1}, not {rotor}")


def teleport(command: Teleport, simulation: Simulation, vehicle: int) -> None:
    """Move a vehicle, as at the start of a run; rotors, battery and faults keep their states.

    Raises:
        UserError: if another vehicle is at that position.
    """
    state = simulation.states[vehicle]
    fresh = start_state(
        simulation.vehicles[vehicle],
        simulation.world.environment[0],
        np.array(command.position),
        math.radians(command.yaw),
        simulation.world.scene.names,
    )
    apart = np.linalg.norm(simulation.states["position"] - fresh["position"], axis=1)
    reach = simulation.vehicles["contact_radius"]
    too_near = apart < reach + reach[vehicle]
    too_near[vehicle] = False
    if too_near.any():
        other = int(np.argmax(too_near))
        raise UserError(f"vehicle {simulation.names[other]} is only {apart[other]:.2f} m from that position")
    for name in ("position", "attitude", "contact_anchor", "contact_touching", "in_contact", *MEMORY):
        state[name] = fresh[name]
    state["velocity"] = command.velocity
    state["angular_velocity"] = 0.0
