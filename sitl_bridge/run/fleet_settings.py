"""What a flight of any number of vehicles flies, and how: checked whole before anything starts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sitl_bridge.bus.address import BusAddress
from sitl_bridge.dynamics.proximity import Proximity
from sitl_bridge.errors import ConfigurationError, UserError, faults_of
from sitl_bridge.files.plan import Plan
from sitl_bridge.hil.link_state import OnStall
from sitl_bridge.run.autopilot_choice import AutopilotChoice
from sitl_bridge.run.vehicle_run import SessionVehicle
from sitl_bridge.vehicle.event_specification import EventSpecification, problems
from sitl_bridge.world.world import WorldSpecification

if TYPE_CHECKING:
    pass

RUN_DIRECTORY = "{run}"
"""Word of a mission's command in whose place the run directory is put."""


ORDERS = "{orders}"
"""Word of a mission's command in whose place the file descriptor is put from which it takes orders."""


@dataclass(frozen=True)
class FleetSettings:
    """What is flown, by whom, where and how.

    Attributes:
        vehicles: at least one.
        name: of what is flown, names the run directory.
        world: where they fly.
        seed: of all random streams.
        speed: simulated over wall time; inf for as fast as it goes.
        px4: PX4 to fly with; None looks for it.
        runs: where run directories are made.
        mission: command of the interpreter that flies all vehicles, besides their own missions; None for
            none.  It finds them through the file that $SITL_BRIDGE_FLEET names; the word RUN_DIRECTORY
            stands for the run's, the word ORDERS for the file descriptor of orders to a formation.
        python: interpreter of that command; None for this program's.
        mission_prepares: whether the mission reports through its time gate when it has loaded and compiled
            what it needs; the flight stacks start then.
        time_limit: s of simulated time after which the flight is ended as failed; inf for none.
        on_stall: what the link does when a flight stack stops answering.
        proximity: what vehicles do to one another.
        events: scheduled faults and changes.
        bus: broker to publish the flight on; None for none.
        separation: m that any two in the air must keep in truth, or the flight has failed.
        expose: whether other machines may reach the MAVLink ports of PX4, and with them its files.
        limits: of measures by name, with which the flight succeeds; None for no limit.
    """

    vehicles: tuple[SessionVehicle, ...]
    name: str
    world: WorldSpecification = field(default_factory=WorldSpecification)
    seed: int = 0
    speed: float = 1.0
    px4: Path | None = None
    runs: Path = Path("runs")
    mission: tuple[str, ...] | None = None
    python: Path | None = None
    mission_prepares: bool = False
    time_limit: float = math.inf
    on_stall: OnStall = "leave"
    proximity: Proximity | None = None
    events: tuple[EventSpecification, ...] = ()
    bus: BusAddress | None = None
    separation: float = 0.0
    expose: bool = False
    limits: Mapping[str, float | None] = field(default_factory=dict)

    def check(self) -> tuple[tuple[AutopilotChoice, Plan | None], ...]:
        """Look for everything that would go wrong later.

        Returns:
            who flies each vehicle, and its plan where it flies one of its own.

        Raises:
            ConfigurationError: with all faults.
        """
        faults = []
        if not self.speed > 0:
            faults.append(f"--speed: {self.speed:g} is not above 0")
        if self.seed < 0:
            faults.append(f"--seed: {self.seed} is negative")
        if not self.time_limit > 0:
            faults.append(f"--time-limit: {self.time_limit:g} s is not above 0")
        found: list[tuple[AutopilotChoice, Plan | None]] = []
        for vehicle in self.vehicles:
            flown_by, plan, wrong = vehicle.check(self.world, self.px4)
            faults += [fault for fault in wrong if fault not in faults]
            if flown_by is not None:
                found.append((flown_by, plan))
        names = [vehicle.name for vehicle in self.vehicles]
        faults += problems(self.events, names, [v.airframe for v in self.vehicles])
        try:
            self.world.wind.load_series()
        except UserError as error:
            faults += faults_of(error)
        if faults:
            raise ConfigurationError("cannot fly", faults)
        return tuple(found)
