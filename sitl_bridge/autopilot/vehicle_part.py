"""What the parts of one vehicle's flight share: modes, plans, monitoring, failsafes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sitl_bridge.autopilot.estimate import EstimatedState
from sitl_bridge.autopilot.modes.home_position import HomePosition
from sitl_bridge.autopilot.modes.land_detector import LandDetector
from sitl_bridge.autopilot.setpoint_output import Output


@dataclass
class Vehicle:
    """What the parts of one vehicle's flight share.

    Attributes:
        send_text: sends a status text (severity, text).
        state: estimated state, updated by the commander.
        output: setpoint for the controller; a new motion continues from its last values.
    """

    values: dict[str, float]
    send_text: Callable[[int, str], None]
    state: EstimatedState = field(default_factory=EstimatedState)
    output: Output = field(default_factory=Output)

    def __post_init__(self) -> None:
        self.land = LandDetector(self.values)
        self.home = HomePosition(self.state)


class VehiclePart:
    """Base of the parts of a vehicle's flight."""

    def __init__(self, vehicle: Vehicle) -> None:
        self._values, self._send_text = vehicle.values, vehicle.send_text
        self._state, self._land, self._output = vehicle.state, vehicle.land, vehicle.output
        self._home = vehicle.home
