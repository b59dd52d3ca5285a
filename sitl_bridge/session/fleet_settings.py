"""Settings of a flight of any number of vehicles, all checked before anything starts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sitl_bridge.base.errors import ConfigurationError, UserError, faults_of
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.sensors.perception.lidar import LidarSpecification
from sitl_bridge.core.simulation.events import EventSpecification, problems
from sitl_bridge.core.world.world import WorldSpecification
from sitl_bridge.link.hil.link_state import OnStall
from sitl_bridge.live.bus.address import BusAddress
from sitl_bridge.plan.plan import Plan
from sitl_bridge.session.autopilot_choice import AutopilotChoice
from sitl_bridge.session.outlet_choices import OutletChoices
from sitl_bridge.session.vehicle_run import SessionVehicle

RUN_DIRECTORY = "{run}"
"""Placeholder for the run directory in a mission's command."""

ORDERS = "{orders}"
"""Placeholder for the file descriptor from which a mission reads live orders."""


@dataclass(frozen=True)
class FleetSettings:
    """Vehicles, world, missions and options of a flight.

    Attributes:
        vehicles: at least one.
        name: of the scenario or mission; also of the run directory.
        world: of all vehicles.
        seed: of all random streams.
        speed: simulated over wall time; inf for as fast as possible.
        px4: PX4 to fly with; None searches for it.
        runs: parent of the run directories.
        mission: arguments of the interpreter for a program that flies all vehicles, in addition to their own
            missions; None for none.  The file that $SITL_BRIDGE_FLEET names describes the vehicles.
            RUN_DIRECTORY and ORDERS are replaced.
        python: interpreter of that command; None for this program's.
        mission_prepares: whether the mission reports through its time gate that it has loaded and compiled
            what it needs; the flight stacks start after that.
        time_limit: s of simulated time after which the flight fails; inf for none.
        on_stall: reaction of the link to a flight stack that stops answering.
        proximity: collisions and downwash between vehicles.
        events: scheduled faults and changes.
        bus: broker to publish the flight on; None for none.
        outlets: pages and streams that show the flight.
        expose: whether other machines may reach the MAVLink ports of PX4, and through them its files.
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
    outlets: OutletChoices = field(default_factory=OutletChoices)
    expose: bool = False
    limits: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def has_mission(self) -> bool:
        """Whether a mission flies any of the vehicles; without one, the flight lasts until it is ended."""
        return self.mission is not None or any(v.mission is not None for v in self.vehicles)

    def check(self) -> tuple[tuple[AutopilotChoice, Plan | None], ...]:
        """Check everything that can be checked before the start.

        Returns:
            flight stack of each vehicle, and its plan if it flies one.

        Raises:
            ConfigurationError: with all faults.
        """
        faults = self.outlets.faults()
        if not self.speed > 0:
            faults.append(f"--speed: {self.speed:g} is not above 0")
        if self.seed < 0:
            faults.append(f"--seed: {self.seed} is negative")
        if not self.time_limit > 0:
            faults.append(f"--time-limit: {self.time_limit:g} s is not above 0")
        found: list[tuple[AutopilotChoice, Plan | None]] = []
        for vehicle in self.vehicles:
            autopilot, plan, wrong = vehicle.check(self.world, self.px4)
            faults += [fault for fault in wrong if fault not in faults]
            if autopilot is not None:
                found.append((autopilot, plan))
        names = [vehicle.name for vehicle in self.vehicles]
        faults += problems(self.events, names, [v.airframe for v in self.vehicles])
        try:
            self.world.wind.load_series()
        except UserError as error:
            faults += faults_of(error)
        if faults:
            raise ConfigurationError("cannot fly", faults)
        return tuple(found)

    def notes(self) -> list[str]:
        """What the user should know of the world and the vehicles, in sentences."""
        scene = self.world.scene
        if scene.objects or not scene.ground:
            return [*scene.notes]
        lidars = [
            vehicle.airframe.name
            for vehicle in self.vehicles
            for sensor in vehicle.airframe.seeing_sensors()
            if isinstance(sensor, LidarSpecification) and sensor.odometry is not None
        ]
        return [
            *scene.notes,
            *(
                f"{name} takes its position from lidar odometry, which needs walls or other objects; this"
                " world has level ground only, and the position may drift by metres: choose another with"
                " --world"
                for name in dict.fromkeys(lidars)
            ),
        ]
