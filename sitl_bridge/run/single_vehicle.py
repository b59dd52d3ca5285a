"""One vehicle's flight from beginning to end, as a fleet of one.

``FlightSettings`` is checked whole before anything starts; ``FlightSession`` starts everything in order,
watches it, and leaves nothing behind.  The work is done in session.py; the terminal is ``cli/fly.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sitl_bridge.files.plan import Plan
from sitl_bridge.hil.link_state import OnStall
from sitl_bridge.hil.link_status import ServerStatus
from sitl_bridge.px4.vehicle_status import VehicleMessage, VehicleStatus
from sitl_bridge.report.flight_record import FlightRecord
from sitl_bridge.report.summary import Outcome
from sitl_bridge.run.autopilot_choice import AutopilotChoice
from sitl_bridge.run.fleet_outcome import FleetProgress
from sitl_bridge.run.fleet_settings import FleetSettings
from sitl_bridge.run.flight_choices import Choices
from sitl_bridge.run.session import FleetSession
from sitl_bridge.run.vehicle_run import SessionVehicle
from sitl_bridge.system.child_process import ChildProcess
from sitl_bridge.vehicle.airframe import Airframe
from sitl_bridge.world.world import WorldSpecification


@dataclass(frozen=True)
class FlightSettings(Choices):
    """A flight of one vehicle: its mission and airframe, beside the options of every flight.

    Attributes:
        mission: a plan of QGroundControl or a Python script that uses MAVSDK.
        airframe: the vehicle.
        controller: of the built-in stack, None for the airframe's.
        on_stall: what the link does when PX4 stops answering.
    """

    mission: Path
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
            controller=self.controller,
            mission=self.mission,
            arguments=self.arguments,
            python=self.python,
        )
        return FleetSettings(
            (vehicle,),
            self.mission.stem,
            world=self.world or WorldSpecification(),
            seed=self.seed or 0,
            speed=self.speed,
            px4=self.px4,
            runs=self.runs,
            time_limit=math.inf if self.time_limit is None else self.time_limit,
            on_stall=self.on_stall,
            bus=self.bus,
            expose=self.expose,
            limits=self.limits,
        )

    def check(self) -> tuple[AutopilotChoice, Plan | None]:
        """Look for everything that would go wrong later.

        Returns:
            who flies, and the plan where one is flown.

        Raises:
            ConfigurationError: with all faults of the settings.
        """
        return self.fleet.check()[0]


@dataclass(frozen=True)
class Progress:
    """What a pilot wants to know while it flies."""

    server: ServerStatus
    vehicle: VehicleStatus


class FlightSession(FleetSession):
    """A flight; use it in a ``with`` block, call :meth:`fly`, then :meth:`conclude`.

    Args:
        settings: checked here, before anything starts.
        notify: takes lines for the user: of the mission, the link and the session.

    Raises:
        UserError: for everything the user can mend: settings, ports that are taken, PX4.
    """

    def __init__(self, settings: FlightSettings, notify: Callable[[str], None] = lambda _line: None) -> None:
        super().__init__(settings.fleet, notify)
        self.settings = settings
        self.flown_by, self.plan = self.crews[0]

    @property
    def flight_stack(self) -> ChildProcess:
        """The flight stack's process."""
        stack = self.aircraft[0].flight_stack
        assert stack is not None
        return stack

    @property
    def messages(self) -> list[VehicleMessage]:
        """What the flight stack said."""
        return self.aircraft[0].messages if self.aircraft else []

    def progress(self) -> Progress:
        """How it stands; from any thread."""
        return _one(self.fleet_progress())

    def fly(self, on_progress: Callable[[Progress], None] = lambda _progress: None) -> Outcome:
        """Start the mission and watch everything until it has ended or failed.

        Args:
            on_progress: called some 20 times a second of wall time.

        Returns:
            how it ended; :meth:`conclude` completes it.

        Raises:
            KeyboardInterrupt: on Ctrl-C; leave the ``with`` block then.
        """
        self.fly_fleet(lambda progress: on_progress(_one(progress)))
        return self.outcome_of(self.aircraft[0])

    def conclude(self) -> tuple[Outcome, FlightRecord | None]:
        """Stop everything, read PX4's log, write summary.json and the picture into the run directory.

        Returns:
            the complete outcome, and the figures of PX4's last log; None where it left none.
        """
        self.stop()
        aircraft = self.aircraft[0]
        return aircraft.conclude(self.outcome_of(aircraft), self.directory.path, self.logs, picture=True)


def _one(progress: FleetProgress) -> Progress:
    return Progress(progress.server, progress.vehicles[0])
