"""A flight of missions from start to end.

Its settings are in settings.py, the display in cli/flight_display.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import Future

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import ReadJson
from sitl_bridge.base.output_file import write_json
from sitl_bridge.base.system.signals import delay_signals
from sitl_bridge.session.fleet_missions import FleetMissions
from sitl_bridge.session.run import TICK
from sitl_bridge.session.running_session import FlightCommands, FlownMission
from sitl_bridge.session.settings import FlightSettings
from sitl_bridge.session.started_run import INTERRUPTION, Progress, StartedRun


class Session(StartedRun):
    """A flight; use it in a ``with`` block.  Call :meth:`fly`, then :meth:`conclude`.

    Arguments and errors are those of ``Run``.
    """

    def __init__(self, settings: FlightSettings, notify: Callable[[str], None] = lambda _line: None) -> None:
        super().__init__(settings, notify)
        self.missions: FleetMissions | None = None
        self.reason = INTERRUPTION if settings.has_mission else ""

    # ---------------------------------------------------------------- start

    def open(self) -> None:
        """Open the links to the flight stacks, and prepare the missions."""
        super().open()
        missions = self.missions = self._fleet_missions()
        missions.prepare()
        if missions.hold:
            self.start_limit.run_until(missions.hold)

    def stop(self) -> None:
        """Stop everything: missions first, PX4 while simulated time still runs; safe to call twice."""
        with delay_signals():
            try:
                if self.missions is not None and not self.stopped:
                    self.missions.stop()
            finally:
                super().stop()

    def _fleet_missions(self) -> FleetMissions:
        """The missions, and the file that describes the vehicles to a program that flies all of them."""
        members = [
            {
                "name": v.name,
                "url": v.url,
                "system": v.instance + 1,
                "position": v.position,
                "yaw": math.degrees(v.yaw),
                "airframe": v.airframe.name,
            }
            for v in self.settings.vehicles
        ]
        file = write_json(self.directory.path / "fleet.json", {"vehicles": members})
        return FleetMissions(self, file)

    @property
    def formation_orders(self) -> Callable[[str, ReadJson, int | None], Future[None]] | None:
        """Takes orders for the formation."""
        return None if self.settings.formation is None else self._order_formation

    def order_stack(
        self, commands: FlightCommands, kind: str, data: ReadJson, vehicle: int | None
    ) -> Future[None]:
        """Hand a command of page, bus and ROS to a flight stack, or refuse what its mission overrules."""
        mission = None if self.missions is None else self.missions.common
        if kind in ("goto", "velocity") and vehicle is not None and isinstance(mission, FlownMission):
            if mission.steers(vehicle):
                raise UserError(f"{kind}: the formation or avoidance steers the vehicle; take it out by land")
            mission.give_up(vehicle)
        return super().order_stack(commands, kind, data, vehicle)

    def _order_formation(self, kind: str, data: ReadJson, vehicle: int | None) -> Future[None]:
        assert self.missions is not None
        if self.server.status().paused:
            raise UserError(f"{kind}: simulated time stands still, and the formation with it; resume it")
        return self.missions.orders.ask(kind, data, vehicle)

    # ---------------------------------------------------------------- the flight

    def fly(self, on_progress: Callable[[Progress], None] = lambda _progress: None) -> bool:
        """Start the missions and monitor everything until they have ended or failed.

        Args:
            on_progress: called about 20 times per second of wall time.

        Returns:
            whether they succeeded; :meth:`conclude` returns the details.

        Raises:
            KeyboardInterrupt: on Ctrl-C; leave the ``with`` block then.
        """
        missions = self.missions
        assert missions is not None
        self.expect_steps(-1)
        while True:
            progress = self.look()
            on_progress(progress)
            missions.mark_pause(progress.server.paused)
            missions.pace(progress.server.links)
            reason = self.find_trouble(progress)
            if reason or (self.confirm(progress, missions.start) and missions.have_ended()):
                break
            time.sleep(TICK)
        missions.mark_pause(False)
        self.wall = time.monotonic() - self.begun
        self.reason = reason or missions.failure() or self.losses()
        return not self.reason

    # ---------------------------------------------------------------- afterwards

    @property
    def started(self) -> bool:
        """Whether a flight stack has been started in a simulation, so that there is a flight to conclude."""
        return self.missions is not None and any(v.flight_stack is not None for v in self.vehicles)
