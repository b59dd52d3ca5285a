"""Effect of each command on a simulation, applied between two steps.  Commands arrive by command_queue.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeAlias

from sitl_bridge.base.json_data import ReadJson
from sitl_bridge.core.simulation.events import apply_event, event_of_command
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.link.hil.run_clock import RunClock
from sitl_bridge.live.run.messages import (
    BusCommand,
    Pause,
    Resume,
    SetPace,
    SetWind,
    Step,
)

OnCommand: TypeAlias = Callable[[str, ReadJson, int | None], "Future[None]"]
"""Executes a delegated command, given its kind, its data, and the vehicle's number (None: all); the future
completes with the execution.  Raises UserError to refuse it, at once or in the future."""


def execute_for_run(command: BusCommand, source: RunClock) -> None:
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


def execute_for_vehicle(command: BusCommand, kind: str, simulation: Simulation, vehicle: int) -> None:
    """Execute a command for one vehicle.

    Args:
        kind: last level of its topic.
        simulation: between two steps.

    Raises:
        UserError: if it is impossible.
    """
    event, begins = event_of_command(kind, command.model_dump(exclude_unset=True))
    apply_event(event, begins, simulation, [vehicle])
