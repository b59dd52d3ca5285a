"""The missions of a flight: one program that flies all vehicles, or one for each vehicle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sitl_bridge.base.kernels.announcement import announce_compilation
from sitl_bridge.link.hil.link_status import LinkStatus
from sitl_bridge.plan.plan import with_fence_of
from sitl_bridge.plan.plan_file import load_plan
from sitl_bridge.session.live_orders import Orders
from sitl_bridge.session.mission_file import takes_turns
from sitl_bridge.session.mission_process import MissionProcess
from sitl_bridge.session.missions.environment import FLEET_VARIABLE, PAUSE_VARIABLE, SUCCEEDED
from sitl_bridge.session.missions.time_gate import UNANNOUNCED_SPEED, MissionGate
from sitl_bridge.session.plan_flight import Say
from sitl_bridge.session.run import Run
from sitl_bridge.session.running_session import FIRST, FlownMission, SessionVehicles, fly_plan
from sitl_bridge.session.stacks import STEP
from sitl_bridge.session.vehicle_run import Mission, VehicleRun

if TYPE_CHECKING:
    from sitl_bridge.swarm.avoidance.specification import AvoidanceSpecification


class FleetMissions:
    """Starts the missions of a flight, monitors them, and limits simulated time for those that do not.

    Args:
        run: whose simulated time is limited by the missions' time gates.
        members: file that describes the vehicles to a program that flies all of them.

    Attributes:
        turn: us of simulated time between two turns of the missions; 0 if they take none.
        hold: us of simulated time at which it waits for their start, however busy the machine is; 0 for none.
        common: the mission that flies all vehicles; None before it starts, and if there is none.
    """

    def __init__(self, run: Run, members: Path) -> None:
        settings = self._settings = run.settings
        vehicles, server = self._vehicles, self._server = run.vehicles, run.server
        self._run, self._directory, self.members = run, run.directory.path, members
        self.common: Mission | None = None
        # Scripts that are started by hand have no gate of their own.
        self._limit = None if settings.has_mission else server.limit_time()
        self._fencing: FlownMission | None = None
        self._station: SessionVehicles | None = None
        # A plan is uploaded with the geofence.
        self._fenced = [v for v in vehicles if settings.fence and v.plan is None]
        self._pause_flag = self._directory.resolve() / "paused"
        self.orders = Orders()
        # Only built-in stacks may wait for as long as a mission needs.
        builtin = all(vehicle.autopilot.kind == "builtin" for vehicle in vehicles)
        self.turn = self._turn() if builtin else 0
        self.hold = self.turn
        if builtin and self._flies_by_itself() and not self.turn:
            self.hold = FIRST - STEP  # the step before such a mission looks at its vehicle

    def _flies_by_itself(self) -> bool:
        """Whether this program flies a mission, and no script."""
        settings = self._settings
        swarm = settings.formation is not None or settings.avoidance is not None
        return swarm or bool(self._fenced) or any(vehicle.plan is not None for vehicle in self._vehicles)

    def _turn(self) -> int:
        """The mission of one vehicle takes turns with its built-in stack.

        With several vehicles, one stack that no longer answers would stop the time of all others; behind an
        upload of a geofence, the first turn would be over.
        """
        settings = self._settings
        if len(self._vehicles) > 1 or self._fenced:
            return 0
        missions = [(v.settings.mission, v.settings.python) for v in self._vehicles if v.settings.mission]
        if settings.mission is not None:
            missions.append((Path(settings.mission[0]), settings.python))
        if not missions or not all(takes_turns(*mission) for mission in missions):
            return 0
        from sitl_bridge.autopilot.stack import TICK as STACK_TICK  # with its kernels, which take time

        return STACK_TICK

    def prepare(self) -> None:
        """Load and compile what avoidance needs, before simulated time begins."""
        scenario = self._settings.avoidance
        if scenario is None:
            return
        from sitl_bridge.swarm.avoidance.swarm import rehearse

        with announce_compilation(self._run.say):
            rehearse(scenario, self._deviation(scenario))

    def _deviation(self, scenario: AvoidanceSpecification) -> float:
        from sitl_bridge.swarm.avoidance.specification import lasting_deviation

        return lasting_deviation(scenario, self._settings.vehicles[0].airframe)

    def start(self) -> None:
        """Start the missions of all vehicles whose flight stack is running, within their geofence."""
        there = [vehicle for vehicle in self._fenced if not vehicle.lost]
        if there:
            end = "the geofence is in force"
            self._fencing = FlownMission(
                there, self._server, self._give_fence, self._run.say, shown=False, end=end
            )
        else:
            self._start_missions()

    def _give_fence(self, stacks: SessionVehicles, _say: Say) -> None:
        """Upload the geofence; plans are uploaded with it."""
        assert self._settings.fence is not None
        for vehicle in range(len(stacks.names)):
            stacks.upload(vehicle, self._settings.fence)

    def _start_missions(self) -> None:
        shown = bool(self._settings.outlets)
        if self._settings.formation is not None or self._settings.avoidance is not None:
            self.common = FlownMission(
                self._vehicles, self._server, self._fly_swarm, self._run.say, shown=shown
            )
        for vehicle in self._vehicles:
            if not vehicle.lost and vehicle.plan is not None:
                flown = with_fence_of(load_plan(vehicle.plan), self._settings.fence)
                vehicle.mission = FlownMission(
                    [vehicle], self._server, partial(fly_plan, flown), vehicle.say, shown=shown
                )
            elif not vehicle.lost:
                vehicle.start_mission({PAUSE_VARIABLE: str(self._pause_flag)}, self._server, self.turn)
        if self._settings.mission is not None:
            variables = {FLEET_VARIABLE: str(self.members), PAUSE_VARIABLE: str(self._pause_flag)}
            gate = MissionGate(self._server.limit_time(), self.turn)
            python = self._settings.python
            self.common = MissionProcess(self._settings.mission, variables, self._run.say, gate, python)

    def _fly_swarm(self, stacks: SessionVehicles, say: Say) -> None:
        plan, scenario = self._settings.formation, self._settings.avoidance
        if plan is not None:
            from sitl_bridge.session import formation_flight as formation

            stacks.request_states(formation.POSITIONS, formation.HEADINGS)
            place = self._directory / "formation"
            formation.fly_formation(plan, stacks, say, place, self.orders, self._run.note_event)
        elif scenario is not None:
            from sitl_bridge.session import avoidance_flight as avoidance

            directory = self._directory / "avoidance"
            stacks.request_states(avoidance.RATE, avoidance.RATE)
            avoidance.fly_avoidance(
                scenario, stacks, self._deviation(scenario), self._settings.seed, say, directory
            )

    def mark_pause(self, paused: bool) -> None:
        """Set or remove the pause flag, so that missions do not take a pause for a lost vehicle."""
        with self._run.errors.guard("setting of the pause flag"):
            if paused:
                self._pause_flag.touch()
            else:
                self._pause_flag.unlink(missing_ok=True)

    def pace(self, links: Sequence[LinkStatus]) -> None:
        """Slow simulated time while vehicles are disarmed, for missions that do not use their time gate."""
        connected = [v for v in self._vehicles if links[v.number].connected and not v.lost]
        if self._limit is not None:
            armed = all(links[v.number].armed for v in connected)
            self._limit.at_most(math.inf if armed else UNANNOUNCED_SPEED)
        if self.common is not None and self.common.gate is not None:
            self.common.gate.limit_speed(armed=all(links[v.number].armed for v in connected))
        for vehicle in connected:
            if vehicle.mission is not None and vehicle.mission.gate is not None:
                vehicle.mission.gate.limit_speed(armed=links[vehicle.number].armed)

    def have_ended(self) -> bool:
        """Whether there are missions, and all have ended; those that have no longer limit time for others.

        Missions start once the geofence is in force.
        """
        if self._fencing is not None:
            status = self._fencing.poll()
            if status != SUCCEEDED:
                return status is not None
            self._start_missions()
            self._fencing.release_time()
            self._fencing = None
            if not self._settings.has_mission:
                self._station = SessionVehicles([v for v in self._fenced if not v.lost], self._server)
                self._server.call(self._station.stay)
            return False
        if not self._settings.has_mission:
            return False
        if self.common is not None:
            return self.common.poll() is not None
        missions = [v.mission for v in self._vehicles if v.mission is not None and not v.lost]
        done = [mission for mission in missions if mission.poll() is not None]
        if len(done) == len(missions):
            return True
        for mission in done:
            mission.release_time()
        return False

    def failure(self) -> str:
        """Why the missions did not succeed; empty if they did."""
        if self._fencing is not None:
            return self._fencing.reason()
        if self.common is not None:
            return "" if self.common.poll() == SUCCEEDED else self.common.reason()
        failed = [
            (v, v.mission.reason()) for v in self._vehicles if v.mission is not None and mission_failed(v)
        ]
        if len(self._vehicles) == 1:
            return failed[0][1] if failed else ""
        return "; ".join(f"{vehicle.settings.name}: {reason}" for vehicle, reason in failed)

    def stop(self) -> None:
        """Stop all missions."""
        if self._fencing is not None:
            self._fencing.stop()
        if self._station is not None:
            self._station.close()
        if self.common is not None:
            self.common.stop()
        for vehicle in self._vehicles:
            vehicle.stop_mission()


def mission_failed(vehicle: VehicleRun) -> bool:
    """Whether a vehicle's own mission has ended without success."""
    mission = vehicle.mission
    return mission is not None and not vehicle.lost and mission.poll() not in (None, SUCCEEDED)
