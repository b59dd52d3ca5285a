"""A run of any number of vehicles from start to end: simulation, link, flight stacks, missions.

Its settings are in settings.py, one vehicle's part is in vehicle_run.py, the display in
cli/flight_display.py.
"""

from __future__ import annotations

import contextlib
import json
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sitl_bridge.base.error_log import ErrorLog, cause
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import ReadJson
from sitl_bridge.base.kernels.announcement import announced
from sitl_bridge.base.output_file import write_json
from sitl_bridge.base.system.processor_placement import ProcessorPlacement
from sitl_bridge.base.system.signals import uninterrupted
from sitl_bridge.core.sensors.perception.obstacle_map import reports_obstacles
from sitl_bridge.core.sensors.sensor_host import SensorHost
from sitl_bridge.core.simulation import events
from sitl_bridge.core.simulation.events import ScheduledEvent, StackEvent
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.world.world import World
from sitl_bridge.link.hil.link_sockets import require_free_link
from sitl_bridge.link.hil.link_status import ServerStatus
from sitl_bridge.link.hil.ports import STACK_PORTS
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.link.px4.vehicle_status import VehicleStatus
from sitl_bridge.live.bus.address import is_this_machine
from sitl_bridge.live.run.outlet import RunContext
from sitl_bridge.perception.sensor_hosts import sensor_hosts
from sitl_bridge.perception.sensor_runner import SensorRunner
from sitl_bridge.record.run_description import describe_simulation
from sitl_bridge.record.run_directory import RunDirectory
from sitl_bridge.record.run_recorder import RunRecorder
from sitl_bridge.session.fleet_missions import FleetMissions, mission_failed
from sitl_bridge.session.monitor import PAYLOAD_PORT, MonitorThread
from sitl_bridge.session.running_session import FlightCommands, FlownMission
from sitl_bridge.session.settings import AutopilotChoice, FlightSettings, VehicleSettings
from sitl_bridge.session.stacks import STEP
from sitl_bridge.session.vehicle_run import VehicleRun, require_free_udp

if TYPE_CHECKING:
    from sitl_bridge.analysis.evaluation.summary import Outcome
    from sitl_bridge.session.outcome import FlightOutcome

STANDSTILL = 60.0
"""s of wall time without a step after which the run ends: far above the link's limits and machine pauses."""

SILENCE = 60.0
"""s of simulated time without an answer of any flight stack after which a mission ends."""

INTERRUPTION = "the flight was interrupted"

TICK = 0.05
"""s of wall time between checks of everything."""

COMPILE_LIMIT = 1200.0
"""s of wall time until the built-in stack must have connected; it may have to be compiled first, which took
523 s on a machine of two processors at load 20."""

READY_LIMIT = 30.0
"""s of wall time until PX4 must have connected, which normally takes well under one second."""


@dataclass(frozen=True)
class Progress:
    """State of a flight."""

    server: ServerStatus
    vehicles: tuple[VehicleStatus, ...]
    lost: tuple[bool, ...]
    """Vehicles whose flight stack has ended."""


class Session:
    """A run; use it in a ``with`` block.  Call :meth:`fly`, then :meth:`conclude`.

    A flight of several vehicles continues without a vehicle whose flight stack ends: that is reported, and
    its motors stop.  It continues without one that stalls, according to ``on_stall``, and without one that
    has not connected within READY_LIMIT, which may join later.  A flight of a single vehicle ends instead.

    With external flight stacks it serves the simulation until it is stopped; call :meth:`wait`.

    Args:
        settings: checked here, before anything starts.
        notify: receives lines for the user: from the missions, the link and the session.

    Raises:
        UserError: for invalid settings, ports that are taken, or a PX4 that does not start.
    """

    def __init__(self, settings: FlightSettings, notify: Callable[[str], None] = lambda _line: None) -> None:
        self.settings = settings
        self.choices = settings.check()
        self.errors = ErrorLog(self.say)
        self._notify = notify
        self.verbose = False  # whether the lines of the console log are printed, too
        self._lock = threading.Lock()
        self._stack = contextlib.ExitStack()
        self.missions: FleetMissions | None = None
        self._begun = time.monotonic()
        self._stopped = False
        self._answered = 0.0  # s of simulated time when a flight stack answered last
        self._final: Progress | None = None
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
        settings, external = self.settings, self.settings.external
        self._require_ports()
        self.directory = RunDirectory(settings.runs, settings.name)
        self._stack.callback(self.directory.close)
        self.world = settings.make_world()
        self.vehicles = tuple(
            self._vehicle_run(number, vehicle, autopilot)
            for number, (vehicle, (autopilot, _)) in enumerate(
                zip(settings.vehicles, self.choices, strict=True)
            )
        )
        for vehicle in self.vehicles:
            vehicle.chosen = vehicle.settings.choose_parameters(vehicle.autopilot, self.world, settings.speed)
        for note in settings.given_notes([autopilot for autopilot, _ in self.choices]):
            self.say(f"note: {note}")
        if external is not None and external.startup is not None:
            self._write_startup_files(external.startup, battery=external.battery)
        # The built-in stacks start first, so that they compile while the simulation compiles.
        for vehicle in self.vehicles:
            if vehicle.autopilot.kind == "builtin":
                self._stack.callback(vehicle.stop)
                vehicle.start_builtin(settings.world, STEP, settings.speed)
        with announced(self.say, "the simulation and its link"):
            self._build_simulation()
        self._describe()
        if external is None or external.battery:
            self._open_monitors()
        if external is None:
            self._prepare_missions()
        else:
            self._warn_of_external()
        self.server.start()
        self._start_outlets()
        if external is None:
            self._start_stacks()

    def _require_ports(self) -> None:
        settings = self.settings
        for vehicle, (autopilot, _) in zip(settings.vehicles, self.choices, strict=True):
            # A plan is flown over the monitor's link, and a script of the user's may be listening already.
            if settings.mission is not None or (vehicle.mission and vehicle.mission.suffix != ".plan"):
                purpose = "on which the mission receives the vehicle's messages"
                require_free_udp(vehicle.offboard_port, purpose)
            if settings.external is None:
                purpose = "on which this program follows the flight stack"
                require_free_udp(PAYLOAD_PORT + vehicle.instance, purpose)
            for link, port in STACK_PORTS.items() if autopilot.kind in ("builtin", "board") else ():
                require_free_udp(port + vehicle.instance, f"the flight stack's {link} link")
        for port in settings.ports:
            require_free_link(settings.host, port)
        for vehicle, (autopilot, _) in zip(settings.vehicles, self.choices, strict=True):
            if autopilot.kind == "px4":
                from sitl_bridge.link.px4.px4_process import require_free_instance  # imports scipy

                require_free_instance(vehicle.instance)

    def _prepare_missions(self) -> None:
        missions = self.missions = self._fleet_missions()
        missions.prepare()
        # PX4's start script runs in wall time; simulated time must not run far ahead of the script.
        self._start_limit = self.server.limit_time()
        self._start_limit.at_most(1.0)
        if missions.turn:
            self._start_limit.run_until(missions.turn)  # where their first turn begins

    def _start_stacks(self) -> None:
        """Start PX4, and wait for the built-in stacks, which have been started."""
        settings = self.settings
        for vehicle in self.vehicles:
            if vehicle.autopilot.kind == "px4":
                self._stack.callback(vehicle.stop)
                vehicle.start_px4(
                    self.world, settings.speed, lean=len(self.vehicles) > 1, expose=settings.expose
                )
        if settings.board is not None:
            self._stack.callback(self.vehicles[0].stop)
            self.vehicles[0].start_board(settings.board, self._report_link)
            self._begun = time.monotonic()
            return
        self._begun = time.monotonic()
        stacks = [v.flight_stack for v in self.vehicles if v.flight_stack is not None]
        self._stack.enter_context(ProcessorPlacement(stacks, self.server.thread_id))
        self._wait_for_builtin()

    def _write_startup_files(self, directory: Path, *, battery: bool) -> None:
        """Write the files that give PX4 the airframe's parameters; any version of PX4 may read them."""
        # Computing parameters imports scipy, which takes time that other runs save.
        from sitl_bridge.link.px4.airframe_parameters import parameters_for
        from sitl_bridge.link.px4.startup import write_startup_files
        from sitl_bridge.link.px4.versions import named_for

        settings = self.settings
        parameters = parameters_for(
            self.vehicles[0].airframe_for_px4(),
            World(settings.world),
            speed=settings.speed,
            battery_over_mavlink=battery,
        )
        chosen = self.vehicles[0].chosen
        file = write_startup_files(
            directory, named_for(parameters, None), () if chosen is None else chosen.flown
        )
        count = len(self.vehicles)  # alike, and the files take ports from PX4's instance
        self.say(f"PX4's start-up files{'' if count == 1 else f' of all {count} vehicles'}: {file}")

    def _warn_of_external(self) -> None:
        """Say where the recording is, and warn of what external flight stacks cannot have."""
        settings = self.settings
        assert settings.external is not None
        self.say(f"run directory {self.directory.path}")
        if not is_this_machine(settings.host):
            self.say(
                f"warning: any program that reaches {settings.host}:{settings.ports[0]} can connect as the"
                " flight stack; the link has no password"
            )
        if settings.external.battery:
            return
        airframe = settings.vehicles[0].airframe
        if any(reports_obstacles(sensor) for sensor in airframe.perception_sensors()):
            self.say("warning: obstacle distances reach PX4, on this host, with --battery only")
        elif any(isinstance(host, SensorRunner) and host.has_components for host in self.server.hosts):
            self.say("warning: PX4 on this host reaches the camera with --battery only")

    def _start_outlets(self) -> None:
        settings = self.settings
        formation = settings.formation is not None and self.missions is not None
        monitored = [vehicle for vehicle in self.vehicles if vehicle.monitored]
        commands = FlightCommands(monitored, self.server)
        self._stack.callback(commands.close)
        shown = RunContext(
            self.server,
            self.directory.path,
            self.recorder.command,
            self.errors,
            self.say,
            tuple(settings.instances),
            self.server.hosts,
            self._order_formation if formation else None,
            partial(self._order_stack, commands) if monitored else None,
            lambda: [vehicle.report() for vehicle in monitored],
            lambda number, rate: self.vehicles[number].estimates(rate),
            limit_time=self.server.limit_time,
        )
        for outlet in [one.make(shown) for one in settings.outlets]:
            self._stack.callback(outlet.close)
            outlet.start()

    def _order_stack(
        self, commands: FlightCommands, kind: str, data: ReadJson, vehicle: int | None
    ) -> Future[None]:
        """Hand a command of page, bus and ROS to a flight stack, or refuse what its mission overrules."""
        mission = None if self.missions is None else self.missions.common
        if kind in ("goto", "velocity") and vehicle is not None and isinstance(mission, FlownMission):
            if mission.steers(vehicle):
                raise UserError(f"{kind}: the formation or avoidance steers the vehicle; take it out by land")
            mission.give_up(vehicle)
        return commands.ask(kind, data, vehicle)

    def _order_formation(self, kind: str, data: ReadJson, vehicle: int | None) -> Future[None]:
        assert self.missions is not None
        if self.server.status().paused:
            raise UserError(f"{kind}: simulated time stands still, and the formation with it; resume it")
        return self.missions.orders.ask(kind, data, vehicle)

    def _vehicle_run(self, number: int, vehicle: VehicleSettings, autopilot: AutopilotChoice) -> VehicleRun:
        alone = len(self.settings.vehicles) == 1
        directory = self.directory.autopilot if alone else self.directory.path / f"vehicle-{vehicle.name}"
        if autopilot.kind != "external":
            directory.mkdir()

        def say(line: str) -> None:
            self.say(line if alone else f"{vehicle.name}: {line}")

        def log(line: str) -> None:
            self._log(line if alone else f"{vehicle.name}: {line}")

        return VehicleRun(vehicle, autopilot, number, directory, say, log, self.errors)

    def _build_simulation(self) -> None:
        settings = self.settings
        setups = [
            VehicleSetup.from_airframe(v.airframe, v.position, v.yaw, v.name) for v in settings.vehicles
        ]
        self.simulation = Simulation(
            self.world, setups, seed=settings.seed, step=STEP, proximity=settings.proximity
        )
        recorder = RunRecorder(self.directory.path, self.errors, self.simulation.most_rotors)
        self.recorder = self._stack.enter_context(recorder)
        self.server = LockstepServer(
            self.simulation,
            ports=settings.ports,
            host=settings.host,
            speed=settings.speed,
            on_stall=settings.on_stall,
            recorder=self.recorder,
            hosts=[host for number in range(len(settings.vehicles)) for host in self._sensor_hosts(number)],
            notify=self._report_link,
            note_stall=self._note_stall,
            errors=self.errors,
            prompt=[v.number for v in self.vehicles if v.autopilot.kind in ("builtin", "board")],
            real_time=settings.board is not None,
        )
        self._stack.callback(self.server.close)
        self.server.on_restart = lambda vehicle: self.recorder.restart(self.simulation.time, vehicle)
        self.server.prepare()
        for seconds, action in events.actions(
            settings.events, self.simulation, self.say, self._fail_stack, on_event=self.note_event
        ):
            self.server.at(round(seconds * 1e6), action)

    def _sensor_hosts(self, number: int) -> list[SensorHost]:
        vehicle = self.settings.vehicles[number]
        prefix = "" if len(self.settings.vehicles) == 1 else f"{vehicle.name}-"
        return sensor_hosts(
            vehicle.airframe,
            self.simulation,
            vehicle=number,
            directory=self.directory.path,
            title=prefix.__add__,
            errors=self.errors,
        )

    def note_event(self, event: ScheduledEvent, begins: bool, vehicles: Sequence[int]) -> None:
        """Note an event that begins or ends in the recording, between two steps."""
        self.recorder.scheduled(self.simulation.time, event, begins, vehicles)

    def _fail_stack(self, event: StackEvent, vehicle: int) -> None:
        self.vehicles[vehicle].fail(event)

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
            for v in self.settings.vehicles
        ]
        file = write_json(self.directory.path / "fleet.json", {"vehicles": members})
        place = self.directory.path
        run = self.settings, self.vehicles, self.server, place, file
        return FleetMissions(*run, self.say, self.errors, self.note_event)

    def _wait_for_builtin(self) -> None:
        """Wait until the built-in stacks have connected, which may have to be compiled first, or ended."""
        waiting = [vehicle for vehicle in self.vehicles if vehicle.autopilot.kind == "builtin"]
        while waiting:
            links = self.server.status().links
            waiting = [v for v in waiting if not (links[v.number].connected or self._has_ended(v))]
            if time.monotonic() - self._begun > COMPILE_LIMIT:
                return
            if waiting:
                time.sleep(TICK)

    @staticmethod
    def _has_ended(vehicle: VehicleRun) -> bool:
        return vehicle.flight_stack is not None and bool(vehicle.flight_stack.ended())

    def _describe(self) -> None:
        settings = self.settings
        airframes = [vehicle.airframe for vehicle in settings.vehicles]
        kind = "fly" if settings.external is None else "serve"
        facts = describe_simulation(kind, self.simulation, airframes, settings.proximity)
        if settings.external is None:
            for entry, vehicle in zip(facts["vehicles"], self.vehicles, strict=True):
                entry |= vehicle.description(self.world, settings.speed)
            facts["events"] = [event.model_dump(mode="json") for event in settings.events]
            facts["limits"] = dict(settings.limits)
            if settings.fence is not None:
                facts["fence"] = json.loads(Path(settings.fence.source).read_text(encoding="utf-8"))
        self.directory.describe(speed=str(settings.speed), **facts)

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

    @property
    def stopped(self) -> bool:
        """Whether it has been stopped."""
        return self._stopped

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

    def progress(self) -> Progress:
        """State of the flight; from any thread."""
        return Progress(
            self.server.status(),
            tuple(vehicle.monitor.status() for vehicle in self.vehicles),
            tuple(bool(vehicle.lost) for vehicle in self.vehicles),
        )

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
        started = False
        last_steps, moved = -1, time.monotonic()
        while True:
            progress = self._final = self.progress()
            on_progress(progress)
            missions.mark_pause(progress.server.paused)
            now = time.monotonic()
            if progress.server.steps != last_steps or progress.server.paused or self.server.awaits_others:
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

    @property
    def status(self) -> ServerStatus:
        """State of the simulation and its links, without stopping it; from any thread."""
        return self.server.status()

    def wait(self, on_status: Callable[[ServerStatus], None] = lambda _status: None) -> None:
        """Serve until the simulation ends by itself.

        Args:
            on_status: called about 10 times per second of wall time.

        Raises:
            UserError: if the simulation has failed.
        """
        while self.server.running:
            on_status(self.status)
            time.sleep(2 * TICK)
        if self.server.failure is not None:
            raise self.server.failure

    def _parameters_read(self, progress: Progress) -> bool:
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

    def _begin_without_late(self, progress: Progress) -> None:
        """Start simulated time without flight stacks that have not connected in time."""
        links = progress.server.links
        waited = time.monotonic() - self._begun
        if progress.server.steps == 0 and waited > READY_LIMIT and any(link.connected for link in links):
            names = ", ".join(v.settings.name for v in self.vehicles if not links[v.number].connected)
            if names:
                self.say(f"{names}: not connected within {READY_LIMIT:.0f} s; simulated time starts without")
                self.server.begin()

    def _losses(self) -> str:
        lost = [a.settings.name for a in self.vehicles if a.lost and not a.killed]
        return f"the flight stacks of {', '.join(lost)} ended" if lost else ""

    def _failure(self, progress: Progress, standstill: float) -> str:
        """Reason for ending the flight; empty if there is none.

        Args:
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
            return f"{name} has not connected to port {port} within {waited:.0f} s"
        connected = [link for link in progress.server.links if link.connected]
        if not connected or not all(link.stalled for link in connected):
            self._answered = progress.server.seconds
        elif self.settings.has_mission and progress.server.seconds - self._answered > SILENCE:
            # PX4 of 2026 goes silent for ever where its failsafe terminates the flight.
            return f"{name} has not answered for {SILENCE:.0f} s of simulated time"
        if progress.server.seconds > self.settings.time_limit:
            return f"the time limit of {self.settings.time_limit:g} s of simulated time has passed"
        return ""

    # ---------------------------------------------------------------- afterwards

    def outcome_of(self, vehicle: VehicleRun) -> Outcome:
        """Outcome of one vehicle's flight."""
        from sitl_bridge.analysis.evaluation.summary import Outcome

        mission = self.settings.name if vehicle.settings.mission is None else str(vehicle.settings.mission)
        if len(self.vehicles) == 1:
            reason = self._reason
        elif vehicle.lost:
            reason = vehicle.lost_reason
        elif vehicle.mission is not None and mission_failed(vehicle):
            reason = vehicle.mission.reason()
        else:
            reason = ""
        number, known = vehicle.number, dict[str, Any]()
        if self._final is not None:
            known = {
                "simulated_seconds": self._final.server.seconds,
                "wall_seconds": self._wall,
                "battery_used": 1.0 - float(self._final.server.battery[number, 2]),
                "link_faults": dict(self.server.status().links[number].faults),
            }
        stack = vehicle.flight_stack
        ulogs = [] if stack is None else stack.ulogs()
        return Outcome.at_end(
            self.simulation,
            number,
            reason=reason,
            mission=mission,
            airframe=vehicle.settings.airframe.name,
            flight_stack=vehicle.autopilot.name,
            seed=self.settings.seed,
            partial=not self.recorder.complete,
            logs={"flight log": ulogs[-1]} if ulogs else {},
            **known,
        )

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

    def conclude(self) -> FlightOutcome:
        """Stop everything, judge the flight, and write its summary into the run directory."""
        from sitl_bridge.session.outcome import conclude  # imports the evaluation, which flying does not need

        self.stop()
        return conclude(
            self.settings,
            {"reason": self._reason, "interrupted": self._reason == INTERRUPTION},
            self.simulation,
            self.directory,
            self.logs,
            [(self.outcome_of(vehicle), vehicle.messages) for vehicle in self.vehicles],
            self.errors,
        )
