"""A flight of one vehicle, as a fleet of one: its settings and its session.

The session itself is in session.py, the display on the terminal in ``cli/fly.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from sitl_bridge.analysis.report.flight_record import FlightRecord
from sitl_bridge.analysis.report.summary import Outcome
from sitl_bridge.base.system.child_process import ChildProcess
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.controller import beside
from sitl_bridge.core.world.world import WorldSpecification
from sitl_bridge.link.hil.link_state import OnStall
from sitl_bridge.link.hil.link_status import ServerStatus
from sitl_bridge.link.px4.vehicle_status import VehicleMessage, VehicleStatus
from sitl_bridge.plan.plan import Plan
from sitl_bridge.session.autopilot_choice import AutopilotChoice
from sitl_bridge.session.fleet_outcome import FleetProgress
from sitl_bridge.session.fleet_settings import FleetSettings
from sitl_bridge.session.flight_choices import Choices
from sitl_bridge.session.session import FleetSession
from sitl_bridge.session.vehicle_run import SessionVehicle

STANDING = "start"
"""Name of a flight without a mission; also of its run directory."""


@dataclass(frozen=True)
class FlightSettings(Choices):
    """Settings of a flight of one vehicle: mission and airframe, and the options of every flight.

    Attributes:
        mission: a plan of QGroundControl or a Python script that uses MAVSDK; None for a vehicle that waits
            for a ground station and for scripts that are started by hand.
        airframe: of the vehicle.
        controller: of the built-in stack; None for the airframe's.
        on_stall: reaction of the link to a flight stack that stops answering.
    """

    mission: Path | None
    airframe: Airframe
    controller: str | None = None
    on_stall: OnStall = "continue"

    @property
    def fleet(self) -> FleetSettings:
        """The same as a fleet of one."""
        vehicle = SessionVehicle(
            self.airframe,
            instance=self.instance,
            autopilot=self.autopilot,
            controller=None if self.controller is None else beside(self.controller, Path.cwd()),
            mission=self.mission,
            arguments=self.arguments,
            python=self.python,
        )
        return FleetSettings(
            (vehicle,),
            STANDING if self.mission is None else self.mission.stem,
            world=self.world or WorldSpecification(),
            seed=self.seed or 0,
            speed=self.speed,
            px4=self.px4,
            runs=self.runs,
            time_limit=math.inf if self.time_limit is None else self.time_limit,
            on_stall=self.on_stall,
            bus=self.bus,
            outlets=self.outlets,
            expose=self.expose,
            limits=self.limits,
        )

    def check(self) -> tuple[AutopilotChoice, Plan | None]:
        """Check everything that can be checked before the start.

        Returns:
            the flight stack, and the plan; None for a script.

        Raises:
            ConfigurationError: with all faults of the settings.
        """
        return self.fleet.check()[0]


@dataclass(frozen=True)
class Progress:
    """State of a flight of one vehicle."""

    server: ServerStatus
    vehicle: VehicleStatus


class FlightSession(FleetSession):
    """A flight; use it in a ``with`` block, call :meth:`fly`, then :meth:`conclude`.

    Args:
        settings: checked here, before anything starts.
        notify: receives lines for the user: from the mission, the link and the session.

    Raises:
        UserError: for invalid settings, ports that are taken, or a PX4 that does not start.
    """

    def __init__(self, settings: FlightSettings, notify: Callable[[str], None] = lambda _line: None) -> None:
        super().__init__(settings.fleet, notify)
        self.settings = settings
        self.autopilot, self.plan = self.choices[0]

    @property
    def flight_stack(self) -> ChildProcess:
        """The flight stack's process."""
        stack = self.vehicles[0].flight_stack
        assert stack is not None
        return stack

    @property
    def messages(self) -> list[VehicleMessage]:
        """Status texts and events of the flight stack."""
        return self.vehicles[0].messages if self.vehicles else []

    def progress(self) -> Progress:
        """State of the flight; from any thread."""
        return _one(self.fleet_progress())

    def fly(self, on_progress: Callable[[Progress], None] = lambda _progress: None) -> Outcome:
        """Start the mission and monitor everything until it has ended or failed.

        Args:
            on_progress: called about 20 times per second of wall time.

        Returns:
            the outcome; :meth:`conclude` completes it.

        Raises:
            KeyboardInterrupt: on Ctrl-C; leave the ``with`` block then.
        """
        self.fly_fleet(lambda progress: on_progress(_one(progress)))
        return self.outcome_of(self.vehicles[0])

    def conclude(self) -> tuple[Outcome, FlightRecord | None]:
        """Conclude the flight.

        Returns:
            the outcome by the verdict, and the figures of the last flight log; None if there is no log.
        """
        flown = self.conclude_fleet()
        outcome, record = flown.vehicles[0]
        return replace(outcome, succeeded=flown.succeeded, reason=flown.reason), record


def _one(progress: FleetProgress) -> Progress:
    return Progress(progress.server, progress.vehicles[0])
