"""A flight of any number of vehicles from start to end: simulation, link, flight stacks, missions.

One vehicle's part is in vehicle_run.py, the display in ``cli/fly.py``, settings in scenario_settings.py.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sitl_bridge.analysis.report.object_contacts import object_contacts
from sitl_bridge.analysis.report.summary import Outcome
from sitl_bridge.base.error_log import ErrorLog, cause
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.kernels.announcement import announced
from sitl_bridge.base.system.processor_placement import ProcessorPlacement
from sitl_bridge.base.system.signals import uninterrupted
from sitl_bridge.core.simulation import events
from sitl_bridge.core.simulation.events import ScheduledEvent, StackEvent, affected_vehicles
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.world.world import World
from sitl_bridge.link.hil.link_sockets import require_free_link
from sitl_bridge.link.hil.ports import FIRST_PORT, STACK_PORTS
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.link.px4.px4_process import require_free_instance
from sitl_bridge.record.run_description import describe_simulation
from sitl_bridge.record.run_directory import RunDirectory
from sitl_bridge.record.run_recorder import RunRecorder
from sitl_bridge.session.autopilot_choice import AutopilotChoice
from sitl_bridge.session.fleet_missions import FleetMissions, mission_failed
from sitl_bridge.session.fleet_outcome import FleetOutcome, FleetProgress, conclude
from sitl_bridge.session.fleet_settings import ORDERS, FleetSettings
from sitl_bridge.session.flight_commands import FlightCommands, stack_reports
from sitl_bridge.session.monitor import PAYLOAD_PORT
from sitl_bridge.session.monitor_thread import MonitorThread
from sitl_bridge.session.outlets import ShownRun, start_outlets
from sitl_bridge.session.stack_signals import fail_stack
from sitl_bridge.session.vehicle_run import SessionVehicle, VehicleRun, require_free_udp, sensor_hosts

if TYPE_CHECKING:
    from sitl_bridge.session.missions.orders_pipe import OrdersPipe

STANDSTILL = 60.0
"""s of wall time without a step after which the run ends: far above the link's limits and machine pauses."""

INTERRUPTION = "the flight was interrupted"

TICK = 0.05
"""s of wall time between checks of everything."""

COMPILE_LIMIT = 1200.0
"""s of wall time until the built-in stack must have connected; it may have to be compiled first, which took
523 s on a machine of two processors at load 20."""

STEP = 4000
"""us between inertial samples, PX4's 250 Hz."""

READY_LIMIT = 30.0
"""s of wall time until PX4 must have connected, which normally takes well under one second."""


class FleetSession:
    """A flight; use it in a ``with`` block, call :meth:`fly`, then :meth:`conclude`.

    A flight of several vehicles continues without a vehicle whose flight stack ends: that is reported, and
    its motors stop.  It continues without one that stalls, according to ``on_stall``, and without one that
    has not connected within READY_LIMIT, which may join later.  A flight of a single vehicle ends instead.

    Args:
        settings: checked here, before anything starts.
        notify: receives lines for the user: from the missions, the link and the session.

    Raises:
        UserError: for invalid settings, ports that are taken, or a PX4 that does not start.
    """

    def __init__(self, settings: FleetSettings, notify: Callable[[str], None] = lambda _line: None) -> None:
        self.fleet = settings
        self.choices = settings.check()
        self.errors = ErrorLog(self.say)
        self._notify = notify
        self.verbose = False  # whether the lines of the console log are printed, too
        self._lock = threading.Lock()
        self._stack = contextlib.ExitStack()
        self.missions: FleetMissions | None = None
        self._orders: OrdersPipe | None = None
        self._begun = time.monotonic()
        self._stopped = False
        self._final: FleetProgress | None = None
        self._reason = INTERRUPTION if settings.has_mission else ""
        self._wall = math.nan
        self.vehicles: tuple[VehicleRun, ...] = ()

    # ---------------------------------------------------------------- start and stop

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> None:
        """Open ports and files first, start processes last."""
        fleet = self.fleet
        for settings, (autopilot, _) in zip(fleet.vehicles, self.choices, strict=True):
            if fleet.has_mission:  # else a script of the user's may be listening already
                purpose = "on which the mission receives the vehicle's messages"
                require_free_udp(settings.offboard_port, purpose)
            require_free_udp(PAYLOAD_PORT + settings.instance, "on which this program receives them")
            for link, port in STACK_PORTS.items() if autopilot.px4 is None else ():
                require_free_udp(port + settings.instance, f"the flight stack's {link} link")
            require_free_link("127.0.0.1", FIRST_PORT + settings.instance)
            if autopilot.px4 is not None:
                require_free_instance(settings.instance)
        self.directory = RunDirectory(fleet.runs, fleet.name)
        self._stack.callback(self.directory.close)
        self.world = World(events.with_gusts(fleet.world, fleet.events))
        self.vehicles = tuple(
            self._vehicle_run(number, vehicle, autopilot)
            for number, (vehicle, (autopilot, _)) in enumerate(zip(fleet.vehicles, self.choices, strict=True))
        )
        # The built-in stacks start first, so that they compile while the simulation compiles.
        for vehicle in self.vehicles:
            if vehicle.autopilot.px4 is None:
                self._stack.callback(vehicle.stop)
                vehicle.start_builtin(fleet.world, STEP, fleet.speed)
        with announced(self.say, "the simulation and its link"):
            self._build_simulation()
        self._describe()
        self._open_monitors()
        missions = self.missions = self._fleet_missions()
        missions.prepare()
        # PX4's start script runs in wall time; simulated time must not run far ahead of the script.
        self._start_limit = self.server.limit_time()
        self._start_limit.at_most(1.0)
        if missions.turn:
            self._start_limit.run_until(missions.turn)  # where their first turn begins
        self.server.start()
        self._start_outlets()
        for vehicle in self.vehicles:
            if vehicle.autopilot.px4 is not None:
                self._stack.callback(vehicle.stop)
                vehicle.start_px4(self.world, fleet.speed, lean=len(self.vehicles) > 1, expose=fleet.expose)
        self._begun = time.monotonic()
        stacks = [v.flight_stack for v in self.vehicles if v.flight_stack is not None]
        self._stack.enter_context(ProcessorPlacement(stacks, self.server.thread_id))
        self._wait_for_builtin()

    def _start_outlets(self) -> None:
        fleet = self.fleet
        if fleet.bus is not None and fleet.mission is not None and ORDERS in fleet.mission:
            from sitl_bridge.session.missions.orders_pipe import OrdersPipe

            assert self.missions is not None
            self._orders = self.missions.orders = OrdersPipe()
            self._stack.callback(self._orders.close)
        commands = FlightCommands(self.vehicles)
        self._stack.callback(commands.close)
        shown = ShownRun(
            self.server,
            self.directory.path,
            self.recorder.command,
            self.errors,
            self.say,
            tuple(vehicle.instance for vehicle in fleet.vehicles),
            self.server.hosts,
            None if self._orders is None else self._orders.ask,
            commands.ask,
            lambda: stack_reports(self.vehicles),
        )
        start_outlets(shown, fleet.bus, fleet.outlets, lambda outlet: self._stack.callback(outlet.close))

    def _vehicle_run(self, number: int, vehicle: SessionVehicle, autopilot: AutopilotChoice) -> VehicleRun:
        alone = len(self.fleet.vehicles) == 1
        directory = self.directory.autopilot if alone else self.directory.path / f"vehicle-{vehicle.name}"
        directory.mkdir()

        def say(line: str) -> None:
            self.say(line if alone else f"{vehicle.name}: {line}")

        def log(line: str) -> None:
            self._log(line if alone else f"{vehicle.name}: {line}")

        return VehicleRun(vehicle, autopilot, number, directory, say, log, self.errors)

    def _build_simulation(self) -> None:
        fleet = self.fleet
        setups = [VehicleSetup.from_airframe(v.airframe, v.position, v.yaw, v.name) for v in fleet.vehicles]
        self.simulation = Simulation(
            self.world, setups, seed=fleet.seed, step=STEP, proximity=fleet.proximity
        )
        self.recorder = self._stack.enter_context(RunRecorder(self.directory.path, self.errors))
        self.server = LockstepServer(
            self.simulation,
            ports=[FIRST_PORT + vehicle.instance for vehicle in fleet.vehicles],
            speed=fleet.speed,
            on_stall=fleet.on_stall,
            recorder=self.recorder,
            hosts=sensor_hosts(fleet.vehicles, self.simulation, self.directory.path, self.errors),
            notify=self._report_link,
            note_stall=self._note_stall,
            errors=self.errors,
            prompt=[vehicle.number for vehicle in self.vehicles if vehicle.autopilot.px4 is None],
        )
        self._stack.callback(self.server.close)
        self.server.on_restart = lambda vehicle: self.recorder.restart(self.simulation.time, vehicle)
        self.server.prepare()
        for seconds, action in events.actions(
            fleet.events, self.simulation, self.say, self._fail_stack, on_event=self._note_event
        ):
            self.server.at(seconds, action)

    def _note_event(self, event: ScheduledEvent, begins: bool, vehicles: Sequence[int]) -> None:
        self.recorder.scheduled(self.simulation.time, event, begins, vehicles)

    def _fail_stack(self, event: StackEvent, vehicle: int) -> None:
        stack = self.vehicles[vehicle].flight_stack
        fail_stack(event, stack.pid if stack is not None and stack.poll() is None else None)

    def _open_monitors(self) -> None:
        """Open the monitors of all vehicles and poll them in one thread, which wakes as often as for one."""
        monitors = [vehicle.open_monitor(self.server) for vehicle in self.vehicles]
        for monitor in monitors:
            self._stack.callback(monitor.stop)
            monitor.open()
        self._monitor_thread = MonitorThread(monitors, self.errors)
        self._stack.callback(self._monitor_thread.stop)
        self._monitor_thread.start()

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
            for v in self.fleet.vehicles
        ]
        file = self.directory.write_json("fleet.json", {"vehicles": members})
        place = self.directory.path
        return FleetMissions(self.fleet, self.vehicles, self.server, place, file, self.say, self.errors)

    def _wait_for_builtin(self) -> None:
        """Wait until the built-in stacks have connected; they may have to be compiled first.

        Raises:
            UserError: if one ends, or does not connect in time.
        """
        waiting = [vehicle for vehicle in self.vehicles if vehicle.autopilot.px4 is None]
        while waiting:
            links = self.server.status().links
            waiting = [vehicle for vehicle in waiting if not links[vehicle.number].connected]
            for vehicle in waiting:
                assert vehicle.flight_stack is not None
                ended = vehicle.flight_stack.ended()
                if ended:
                    raise UserError(ended)
            if waiting and time.monotonic() - self._begun > COMPILE_LIMIT:
                name = waiting[0].autopilot.name
                raise UserError(f"{name} has not connected within {COMPILE_LIMIT:.0f} s")
            if waiting:
                time.sleep(TICK)

    def _describe(self) -> None:
        fleet = self.fleet
        airframes = [vehicle.airframe for vehicle in fleet.vehicles]
        facts = describe_simulation("fly", self.simulation, airframes, fleet.proximity)
        for entry, vehicle in zip(facts["vehicles"], self.vehicles, strict=True):
            entry |= vehicle.description(self.world, fleet.speed)
        facts["events"] = [event.model_dump(mode="json") for event in fleet.events]
        facts["limits"] = dict(fleet.limits)
        self.directory.describe(speed=str(fleet.speed), **facts)

    def stop(self) -> None:
        """Stop everything: missions first, PX4 while simulated time still runs; safe to call twice."""
        if self._stopped:
            return
        with uninterrupted():
            self._stopped = True
            try:
                if self.missions is not None:
                    self.missions.stop()
            finally:
                self._stack.close()

    # ---------------------------------------------------------------- console log

    def say(self, line: str) -> None:
        """Print a line and log it to the console log; from any thread."""
        self._log(line, shown=True)

    def _log(self, line: str, shown: bool = False) -> None:
        with self.errors.guard("writing of the console log"), self._lock:
            self.directory.say(line)
        if shown or self.verbose:
            with contextlib.suppress(OSError):  # the terminal is closed; the console log has the line
                self._notify(line)

    def _report_link(self, line: str) -> None:
        if not self._stopped:  # PX4 disconnects when it is stopped
            self.say(line)
            self.recorder.note(self.simulation.time, "link", text=line)

    def _note_stall(self, vehicle: int, begins: bool) -> None:
        if not self._stopped:
            self.recorder.note(self.simulation.time, "stall", vehicle=vehicle, begins=begins)

    def fleet_progress(self) -> FleetProgress:
        """State of the flight; from any thread."""
        return FleetProgress(
            self.server.status(),
            tuple(vehicle.monitor.status() for vehicle in self.vehicles),
            tuple(bool(vehicle.lost) for vehicle in self.vehicles),
        )

    # ---------------------------------------------------------------- the flight

    def fly_fleet(self, on_progress: Callable[[FleetProgress], None] = lambda _progress: None) -> bool:
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
        started = False
        last_steps, moved = -1, time.monotonic()
        while True:
            progress = self._final = self.fleet_progress()
            on_progress(progress)
            missions.mark_pause(progress.server.paused)
            now = time.monotonic()
            if progress.server.steps != last_steps or progress.server.paused:
                last_steps, moved = progress.server.steps, now
            self._look_for_lost()
            self._begin_without_late(progress)
            missions.pace(progress.server.links)
            reason = self._failure(progress, now - moved) or self._parameter_faults()
            if not started and not reason and self._parameters_read(progress):
                self._report_parameters()
                missions.start()
                self._start_limit.release()
                started = True
            if reason or (started and missions.ended()):
                break
            time.sleep(TICK)
        missions.mark_pause(False)
        self._wall = time.monotonic() - self._begun
        self._reason = reason or missions.failure() or self._losses()
        return not self._reason

    def _parameters_read(self, progress: FleetProgress) -> bool:
        """Whether every PX4 has confirmed its parameters, except those that are late or lost."""
        late = time.monotonic() - self._begun > READY_LIMIT
        links = progress.server.links
        return not any(
            vehicle.parameters_pending and not vehicle.lost and (link.connected or not late)
            for vehicle, link in zip(self.vehicles, links, strict=True)
        )

    def _report_parameters(self) -> None:
        for vehicle in self.vehicles:
            read_back = vehicle.monitor.read_back
            if read_back is not None and read_back.done:
                self._log(f"{vehicle.settings.name}: PX4 has all {read_back.count} parameters that were set")

    def _parameter_faults(self) -> str:
        """Message about parameters that did not reach a PX4; empty if all did."""
        alone = len(self.vehicles) == 1
        faults = [(a.settings.name, a.parameter_fault) for a in self.vehicles if a.parameter_fault]
        return "; ".join(fault if alone else f"{name}: {fault}" for name, fault in faults)

    def _look_for_lost(self) -> None:
        """Detect flight stacks that have ended, and stop the missions of their vehicles."""
        if len(self.vehicles) == 1:
            return
        for vehicle in self.vehicles:
            if vehicle.lost or vehicle.flight_stack is None:
                continue
            vehicle.lost = vehicle.flight_stack.ended()
            if vehicle.lost:
                self.say(f"{vehicle.settings.name}: {vehicle.lost_reason}; the others fly on")
                vehicle.stop_mission()

    def _begin_without_late(self, progress: FleetProgress) -> None:
        """Start simulated time without flight stacks that have not connected in time."""
        links = progress.server.links
        waited = time.monotonic() - self._begun
        if progress.server.steps == 0 and waited > READY_LIMIT and any(link.connected for link in links):
            names = ", ".join(v.settings.name for v in self.vehicles if not links[v.number].connected)
            if names:
                self.say(f"{names}: not connected within {READY_LIMIT:.0f} s; simulated time starts without")
                self.server.begin()

    def _losses(self) -> str:
        """Message about flight stacks that ended without a scheduled event."""
        names = [vehicle.settings.name for vehicle in self.vehicles]
        scheduled = {
            vehicle
            for event in self.fleet.events
            if isinstance(event, StackEvent) and event.kind == "stack_killed"
            for vehicle in affected_vehicles(event, names)
        }
        lost = [a.settings.name for a in self.vehicles if a.lost and a.number not in scheduled]
        return f"the flight stacks of {', '.join(lost)} ended" if lost else ""

    def _failure(self, progress: FleetProgress, standstill: float) -> str:
        """Reason for ending the flight; empty if there is none.

        Args:
            progress: state of the flight.
            standstill: s of wall time since the last step.
        """
        first = self.vehicles[0]
        ended = [vehicle.flight_stack.ended() for vehicle in self.vehicles if vehicle.flight_stack]
        if all(ended):
            return ended[0] if len(ended) == 1 else "every flight stack has ended"
        if self.server.failure is not None:
            return f"the simulation stopped: {cause(self.server.failure)}"
        if not self.server.running:
            return "the simulation stopped"
        name = first.autopilot.name
        if standstill > STANDSTILL:
            return f"simulated time has not advanced for {STANDSTILL:.0f} s: {name} does not answer"
        waited = time.monotonic() - self._begun
        nobody = not any(link.connected for link in progress.server.links)
        if nobody and progress.server.steps == 0 and waited > READY_LIMIT:
            port = self.server.ports[0]
            return f"{name} has not connected to port {port} within {READY_LIMIT:.0f} s"
        if progress.server.time > self.fleet.time_limit:
            return f"the time limit of {self.fleet.time_limit:g} s of simulated time has passed"
        return ""

    # ---------------------------------------------------------------- afterwards

    def _figures(self, number: int) -> dict[str, Any]:
        """Figures of a vehicle's flight from the simulation."""
        if self._final is None:
            return {"seed": self.fleet.seed}
        return {
            "partial": not self.recorder.complete,
            "seed": self.fleet.seed,
            "simulated_seconds": self._final.server.time,
            "wall_seconds": self._wall,
            "impact_speed": float(self.simulation.states[number]["impact_speed"]),
            "vortex_ring_seconds": float(self.simulation.states[number]["vortex_ring_time"]),
            "battery_used": 1.0 - float(self._final.server.battery[number, 2]),
            "contacts": object_contacts(self.simulation.contacts, number, self.simulation.world.scene.names),
            "link_faults": dict(self.server.status().links[number].faults),
        }

    def outcome_of(self, vehicle: VehicleRun) -> Outcome:
        """Outcome of one vehicle's flight."""
        mission = self.fleet.name if vehicle.settings.mission is None else str(vehicle.settings.mission)
        if len(self.vehicles) == 1:
            reason = self._reason
        elif vehicle.lost:
            reason = vehicle.lost_reason
        elif vehicle.mission is not None and mission_failed(vehicle):
            reason = vehicle.mission.reason()
        else:
            reason = ""
        return vehicle.outcome(mission, reason, **self._figures(vehicle.number))

    @property
    def started(self) -> bool:
        """Whether a flight stack has been started in a simulation, so that there is a flight to conclude."""
        return self.missions is not None and any(v.flight_stack is not None for v in self.vehicles)

    @property
    def logs(self) -> dict[str, Path]:
        """Files of all vehicles, by their content."""
        return {
            "run directory": self.directory.path,
            "console log": self.directory.path / "console.log",
            "ground truth": self.directory.truth,
        }

    def conclude_fleet(self, *, picture: bool = True) -> FleetOutcome:
        """Stop everything, judge the flight, write its summary and a picture into the run directory."""
        self.stop()
        return conclude(
            self.fleet,
            {"reason": self._reason, "interrupted": self._reason == INTERRUPTION},
            self.simulation,
            self.directory,
            self.logs,
            [(vehicle, self.outcome_of(vehicle)) for vehicle in self.vehicles],
            self.errors,
            picture=picture,
        )
