"""A flight of any number of vehicles from beginning to end: simulation, link, flight stacks, missions.

``FleetSettings`` is checked whole before anything starts; ``FleetSession`` starts everything in order,
watches it, and leaves nothing behind.  One vehicle's part is aircraft.py; what is shown on the terminal is
``cli/fly.py``; scenario files are scenario.py.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sitl_bridge.bus.address import BusAddress
from sitl_bridge.dynamics.proximity import Proximity
from sitl_bridge.error_log import ErrorLog, cause
from sitl_bridge.errors import ConfigurationError, UserError
from sitl_bridge.files.plan import Plan
from sitl_bridge.hil.ports import FIRST_PORT
from sitl_bridge.hil.server import LockstepServer, OnStall
from sitl_bridge.hil.server import Status as ServerStatus
from sitl_bridge.kernels.compiled import announced
from sitl_bridge.mission_link import pause_flag
from sitl_bridge.mission_link.time_gate import MissionGate
from sitl_bridge.offboard.mission_script import FLEET_VARIABLE, SUCCEEDED
from sitl_bridge.record.run_directory import RunDirectory
from sitl_bridge.record.truth_log import TruthLog
from sitl_bridge.report.formation_truth import add_truth
from sitl_bridge.report.summary import Outcome, write_json
from sitl_bridge.report.ulog_analysis import FlightRecord
from sitl_bridge.report.vehicle_distances import Closest, closest
from sitl_bridge.run import scheduled_events
from sitl_bridge.run.autopilot_choice import FlownBy
from sitl_bridge.run.mission_process import MissionProcess
from sitl_bridge.run.monitor import POLL, Monitor
from sitl_bridge.run.monitor import Status as VehicleStatus
from sitl_bridge.run.vehicle_run import Aircraft, VehicleSettings, faults_of, require_free_udp
from sitl_bridge.sensors.custom import CustomSensorHost
from sitl_bridge.simulation import Simulation, VehicleSetup
from sitl_bridge.system.uninterrupted import unbroken
from sitl_bridge.world.world import World, WorldSpecification

if TYPE_CHECKING:
    from sitl_bridge.mission_link.orders_pipe import OrderLine

STANDSTILL = 60.0
"""s of wall time without a step after which the run is given up: far above the link's own patience, and above
the pauses of a loaded machine."""

TICK = 0.05
"""s of wall time between looks at everything."""

COMPILE_LIMIT = 300.0
"""s of wall time to the first connection of the built-in stack, which may be compiled first."""

STEP = 4000
"""us between inertial samples, PX4's 250 Hz."""

FLEET_POLL = 4
"""Times POLL between looks at the monitors of so many vehicles and more: 60 ms, in which at 3 times real time
less than BATTERY_PERIOD passes."""

RUN_DIRECTORY = "{run}"
"""Word of a mission's command in whose place the run directory is put."""

ORDERS = "{orders}"
"""Word of a mission's command in whose place the file descriptor is put from which it takes orders."""

CLOSEST_RATE = 50.0
"""Hz at which the truth is searched for the nearest two: at a closing speed of 4 m/s they pass one another
within 4 cm of a sample, which at a metre makes a millimetre."""

READY_LIMIT = 30.0
"""s of wall time to the first connection of PX4, which takes well under one."""


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
        events: that befall them.
        bus: broker to publish the flight on; None for none.
        separation: m that any two in the air must keep in truth, or the flight has failed.
        expose: whether other machines may reach the MAVLink ports of PX4, and with them its files.
    """

    vehicles: tuple[VehicleSettings, ...]
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
    events: tuple[scheduled_events.EventSpecification, ...] = ()
    bus: BusAddress | None = None
    separation: float = 0.0
    expose: bool = False

    def check(self) -> tuple[tuple[FlownBy, Plan | None], ...]:
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
        found: list[tuple[FlownBy, Plan | None]] = []
        for vehicle in self.vehicles:
            flown_by, plan, wrong = vehicle.check(self.world, self.px4)
            faults += [fault for fault in wrong if fault not in faults]
            if flown_by is not None:
                found.append((flown_by, plan))
        names = [vehicle.name for vehicle in self.vehicles]
        faults += scheduled_events.problems(self.events, names, [v.airframe for v in self.vehicles])
        try:
            self.world.wind.load_series()
        except UserError as error:
            faults += faults_of(error)
        if faults:
            raise ConfigurationError("cannot fly", faults)
        return tuple(found)


@dataclass(frozen=True)
class FleetProgress:
    """How a flight stands."""

    server: ServerStatus
    vehicles: tuple[VehicleStatus, ...]
    lost: tuple[bool, ...]
    """Vehicles whose flight stack has ended."""


@dataclass(frozen=True)
class FleetOutcome:
    """How a flight of several ended.

    Attributes:
        name: of what was flown.
        names: of the vehicles.
        succeeded: the missions did what they were to do, and no flight stack was lost but by an event.
        reason: why not.
        vehicles: how each vehicle's flight ended, with the figures of its log where it left one.
        collisions: (k,) COLLISION between vehicles.
        collision_count: of them in all.
        closest: the two that came nearest in the air; None where no two were there.
        logs: what is where.
        formation: m, of a formation that was flown; see ``add_truth``.
        errors: of the bridge itself, which the flight outlived; it has not succeeded with any.
    """

    name: str
    names: tuple[str, ...]
    succeeded: bool
    reason: str
    vehicles: tuple[tuple[Outcome, FlightRecord | None], ...]
    collisions: Any
    collision_count: int
    closest: Closest | None
    logs: Mapping[str, Path]
    formation: Mapping[str, float] = field(default_factory=dict)
    errors: tuple[str, ...] = ()


class FleetSession:
    """A flight; use it in a ``with`` block, call :meth:`fly`, then :meth:`conclude`.

    With several vehicles, the others fly on without one whose flight stack ends, which is told, and whose
    motors stop; without one that stalls, as the link's ``on_stall`` says; and without one that has not
    connected within READY_LIMIT, which may still join.  One vehicle alone is given up instead.

    Args:
        settings: checked here, before anything starts.
        notify: takes lines for the user: of the missions, the link and the session.

    Raises:
        UserError: for everything the user can mend: settings, ports that are taken, PX4.
    """

    def __init__(self, settings: FleetSettings, notify: Callable[[str], None] = lambda _line: None) -> None:
        self.fleet = settings
        self.crews = settings.check()
        self.errors = ErrorLog(self.say)
        self._notify = notify
        self._lock = threading.Lock()
        self._stack = contextlib.ExitStack()
        self._mission: MissionProcess | None = None
        self._orders: OrderLine | None = None
        self._begun = time.monotonic()
        self._stopped = False
        self._final: FleetProgress | None = None
        self._reason = "the flight was interrupted"
        self._wall = math.nan
        self.aircraft: tuple[Aircraft, ...] = ()

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
        """Open what can be taken first, start processes last."""
        fleet = self.fleet
        for vehicle in fleet.vehicles:
            require_free_udp(vehicle.offboard_port, "on which the mission hears the vehicle")
        self.directory = RunDirectory(fleet.runs, fleet.name)
        self._stack.callback(self.directory.close)
        self.world = World(
            fleet.world.model_copy(
                update={"wind": scheduled_events.with_gusts(fleet.world.wind, fleet.events)}
            )
        )
        self.aircraft = tuple(
            self._aircraft(number, vehicle, flown_by)
            for number, (vehicle, (flown_by, _)) in enumerate(zip(fleet.vehicles, self.crews, strict=True))
        )
        self._describe()
        # The built-in stacks first, so that what there is to compile is compiled beside the simulation.
        for aircraft in self.aircraft:
            if aircraft.flown_by.px4 is None:
                self._stack.callback(aircraft.stop)
                aircraft.start_builtin(fleet.world, STEP)
        with announced(self.say):
            self._build_simulation()
        self._open_monitors()
        self._write_members()
        self._prepare_mission()
        # PX4's start script runs in wall time; simulated time must not run far ahead of it.
        self._start_limit = self.server.limit_time()
        self._start_limit.at_most(1.0)
        self.server.start()
        if fleet.bus is not None:
            self._start_bus(fleet.bus)
        for aircraft in self.aircraft:
            if aircraft.flown_by.px4 is not None:
                self._stack.callback(aircraft.stop)
                lean = len(self.aircraft) > 1
                aircraft.start_px4(self.world, fleet.speed, lean=lean, expose=fleet.expose)
        self._begun = time.monotonic()
        self._wait_for_builtin()

    def _start_bus(self, address: BusAddress) -> None:
        from sitl_bridge.bus.bus import Bus  # MQTT costs start-up time only where it is wanted

        place = self.directory.path
        if self.fleet.mission is not None and ORDERS in self.fleet.mission:
            from sitl_bridge.mission_link.orders_pipe import OrderLine

            self._orders = OrderLine()
            self._stack.callback(self._orders.close)
        bus = Bus(
            self.server,
            address,
            run=place.name,
            directory=place / "bus",
            on_formation=None if self._orders is None else self._orders.ask,
            notify=self.say,
            errors=self.errors,
        )
        self._stack.callback(bus.close)
        bus.start()

    def _aircraft(self, number: int, vehicle: VehicleSettings, flown_by: FlownBy) -> Aircraft:
        alone = len(self.fleet.vehicles) == 1
        directory = self.directory.autopilot if alone else self.directory.path / f"vehicle-{vehicle.name}"
        directory.mkdir()

        def say(line: str) -> None:
            self.say(line if alone else f"{vehicle.name}: {line}")

        def keep(line: str) -> None:
            self._keep(line if alone else f"{vehicle.name}: {line}")

        return Aircraft(vehicle, flown_by, number, directory, say, keep, self.errors)

    def _build_simulation(self) -> None:
        fleet = self.fleet
        setups = [
            VehicleSetup(v.airframe.vehicle(), v.airframe.sensor_records(), v.position, v.yaw, v.name)
            for v in fleet.vehicles
        ]
        self.simulation = Simulation(
            self.world, setups, seed=fleet.seed, step=STEP, proximity=fleet.proximity
        )
        self.truth = self._stack.enter_context(TruthLog(self.directory.truth))
        self.server = LockstepServer(
            self.simulation,
            ports=[FIRST_PORT + vehicle.instance for vehicle in fleet.vehicles],
            speed=fleet.speed,
            on_stall=fleet.on_stall,
            recorder=self.truth,
            custom=self._custom_sensors(),
            notify=self._link_says,
            errors=self.errors,
        )
        self._stack.callback(self.server.close)
        self.server.prepare()
        airframes = [vehicle.airframe for vehicle in fleet.vehicles]
        for seconds, action in scheduled_events.actions(
            fleet.events, self.simulation, airframes, self.say, self._process
        ):
            self.server.at(seconds, action)

    def _custom_sensors(self) -> list[CustomSensorHost]:
        hosts = []
        for number, vehicle in enumerate(self.fleet.vehicles):
            for sensor in vehicle.airframe.custom_sensors():
                name = sensor.name if len(self.fleet.vehicles) == 1 else f"{vehicle.name}-{sensor.name}"
                table = self.directory.path / f"{name}.csv"
                hosts.append(
                    CustomSensorHost(
                        sensor, vehicle=number, name=vehicle.name, seed=self.fleet.seed, table=table
                    )
                )
        return hosts

    def _process(self, vehicle: int) -> int | None:
        stack = self.aircraft[vehicle].flight_stack
        return stack.pid if stack is not None and stack.poll() is None else None

    def _open_monitors(self) -> None:
        """One thread listens to all vehicles: it wakes as often for many as for one."""
        monitors = [aircraft.open_monitor(self.server) for aircraft in self.aircraft]
        for monitor in monitors:
            self._stack.callback(monitor.stop)
            monitor.open()
        self._monitor_thread = _MonitorThread(monitors, self.errors)
        self._stack.callback(self._monitor_thread.stop)
        self._monitor_thread.start()

    def _write_members(self) -> None:
        """What a mission that flies all vehicles needs to know of them."""
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
        self.members = self.directory.write_json("fleet.json", {"vehicles": members})

    def _wait_for_builtin(self) -> None:
        """Until the built-in stacks have connected: they may have to be compiled first.

        Raises:
            UserError: when one ends instead, or does not connect.
        """
        waiting = [aircraft for aircraft in self.aircraft if aircraft.flown_by.px4 is None]
        while waiting:
            links = self.server.status().links
            waiting = [aircraft for aircraft in waiting if not links[aircraft.number].connected]
            for aircraft in waiting:
                assert aircraft.flight_stack is not None
                ended = aircraft.flight_stack.ended()
                if ended:
                    raise UserError(ended)
            if waiting and time.monotonic() - self._begun > COMPILE_LIMIT:
                name = waiting[0].flown_by.name
                raise UserError(f"{name} has not connected within {COMPILE_LIMIT:.0f} s")
            if waiting:
                time.sleep(TICK)

    def _describe(self) -> None:
        fleet = self.fleet
        self.directory.describe(
            world=self.world.specification.model_dump(mode="json"),
            seed=fleet.seed,
            speed=str(fleet.speed),
            events=[event.model_dump(mode="json") for event in fleet.events],
            vehicles=[self._description(aircraft) for aircraft in self.aircraft],
        )

    def _description(self, aircraft: Aircraft) -> dict[str, Any]:
        settings, build = aircraft.settings, aircraft.flown_by.px4
        autopilot: dict[str, Any] = {"name": aircraft.flown_by.name}
        if build is not None:
            parameters = aircraft.px4_parameters(self.world, self.fleet.speed)
            autopilot |= {"root": str(build.root), "version": build.version, "parameters": parameters}
        return {
            "name": settings.name,
            "mission": None if settings.mission is None else str(settings.mission),
            "arguments": list(settings.arguments),
            "airframe": settings.airframe.model_dump(mode="json"),
            "position": settings.position,
            "yaw": math.degrees(settings.yaw),
            "instance": settings.instance,
            "autopilot": autopilot,
        }

    def stop(self) -> None:
        """Stop everything, missions first, PX4 while its clock still runs; safe to call twice."""
        if self._stopped:
            return
        with unbroken():
            self._stopped = True
            try:
                if self._mission is not None:
                    self._mission.stop()
                for aircraft in self.aircraft:
                    aircraft.stop_mission()
            finally:
                self._stack.close()

    # ---------------------------------------------------------------- what is heard

    def say(self, line: str) -> None:
        """A line for the user and the console log; from any thread."""
        self._keep(line)
        with contextlib.suppress(OSError):  # nobody reads the terminal any more; the console log has it
            self._notify(line)

    def _keep(self, line: str) -> None:
        with self.errors.guard("writing of the console log"), self._lock:
            self.directory.say(line)

    def _link_says(self, line: str) -> None:
        if not self._stopped:  # that PX4 leaves when it is told to is no news
            self.say(line)

    def fleet_progress(self) -> FleetProgress:
        """How it stands; from any thread."""
        return FleetProgress(
            self.server.status(),
            tuple(aircraft.monitor.status() for aircraft in self.aircraft),
            tuple(bool(aircraft.lost) for aircraft in self.aircraft),
        )

    # ---------------------------------------------------------------- the flight

    def fly_fleet(self, on_progress: Callable[[FleetProgress], None] = lambda _progress: None) -> bool:
        """Start the missions and watch everything until they have ended or failed.

        Args:
            on_progress: called some 20 times a second of wall time.

        Returns:
            whether they succeeded; :meth:`conclude` tells more.

        Raises:
            KeyboardInterrupt: on Ctrl-C; leave the ``with`` block then.
        """
        started = False
        last_steps, moved = -1, time.monotonic()
        while True:
            progress = self._final = self.fleet_progress()
            on_progress(progress)
            self._mark_pause(progress.server.paused)
            now = time.monotonic()
            if progress.server.steps != last_steps or progress.server.paused:
                last_steps, moved = progress.server.steps, now
            self._look_for_lost()
            self._begin_without_late(progress)
            self._adapt_speed(progress)
            reason = self._trouble(progress, now - moved) or self._parameter_faults()
            if not started and not reason and self._parameters_read(progress):
                self._report_parameters()
                self._start_missions()
                self._start_limit.release()
                started = True
            if reason or (started and self._over()):
                break
            time.sleep(TICK)
        self._mark_pause(held=False)
        self._wall = time.monotonic() - self._begun
        self._reason = reason or self._mission_reason() or self._losses()
        return not self._reason

    def _parameters_read(self, progress: FleetProgress) -> bool:
        """Whether every PX4 has confirmed its parameters; one that is late or lost is not waited for."""
        late = time.monotonic() - self._begun > READY_LIMIT
        links = progress.server.links
        return not any(
            aircraft.parameters_pending and not aircraft.lost and (link.connected or not late)
            for aircraft, link in zip(self.aircraft, links, strict=True)
        )

    def _report_parameters(self) -> None:
        for aircraft in self.aircraft:
            read_back = aircraft.monitor.read_back
            if read_back is not None and read_back.done:
                self._keep(f"{aircraft.settings.name}: PX4 has all {read_back.count} parameters it was given")

    def _parameter_faults(self) -> str:
        """Which parameters did not reach which PX4; empty where all did."""
        alone = len(self.aircraft) == 1
        faults = [(a.settings.name, a.parameter_fault) for a in self.aircraft if a.parameter_fault]
        return "; ".join(fault if alone else f"{name}: {fault}" for name, fault in faults)

    @property
    def _pause_mark(self) -> Path:
        """The file that is there while time is held."""
        return self.directory.path.resolve() / "paused"

    def _mark_pause(self, held: bool) -> None:
        """Let missions know that nobody is lost who does not speak."""
        with self.errors.guard("marking of the pause for missions"):
            if held:
                self._pause_mark.touch()
            else:
                self._pause_mark.unlink(missing_ok=True)

    def _start_missions(self) -> None:
        for aircraft in self.aircraft:
            if aircraft.lost:
                continue
            aircraft.start_mission({pause_flag.VARIABLE: str(self._pause_mark)}, self.server)
        if self.fleet.mission is not None:
            if self._mission is None:
                self._mission = self._start_common_mission(self.fleet.mission)
            assert self._mission.gate is not None
            self._mission.gate.go()

    def _start_common_mission(self, words: tuple[str, ...]) -> MissionProcess:
        """Start the program that flies all vehicles."""
        meant = {RUN_DIRECTORY: str(self.directory.path)}
        inherited = [] if self._orders is None else [self._orders.other.fileno()]
        if inherited:
            meant[ORDERS] = str(inherited[0])
        command = [meant.get(word, word) for word in words]
        variables = {FLEET_VARIABLE: str(self.members), pause_flag.VARIABLE: str(self._pause_mark)}
        gate = MissionGate(self.server.limit_time())
        mission = MissionProcess(command, variables, self.say, inherited, gate, self.fleet.python)
        if self._orders is not None:
            self._orders.begin()
        return mission

    def _prepare_mission(self) -> None:
        """Start a mission that has to load and compile, and wait until it has: no vehicle's time passes then.

        Raises:
            UserError: when it ends instead.
        """
        if self.fleet.mission is None or not self.fleet.mission_prepares:
            return
        mission = self._mission = self._start_common_mission(self.fleet.mission)
        assert mission.gate is not None
        while not mission.gate.ready.wait(TICK) and mission.poll() is None:
            pass
        if not mission.gate.ready.is_set():
            raise UserError(mission.reason())

    def _look_for_lost(self) -> None:
        """Notice flight stacks that ended; their vehicles' own missions have nobody to fly."""
        if len(self.aircraft) == 1:
            return
        for aircraft in self.aircraft:
            if aircraft.lost or aircraft.flight_stack is None:
                continue
            aircraft.lost = aircraft.flight_stack.ended()
            if aircraft.lost:
                self.say(f"{aircraft.settings.name}: {aircraft.lost_in_short}; the others fly on")
                aircraft.stop_mission()

    def _begin_without_late(self, progress: FleetProgress) -> None:
        """Do not let everybody wait for a flight stack that does not come."""
        links = progress.server.links
        waited = time.monotonic() - self._begun
        if progress.server.steps == 0 and waited > READY_LIMIT and any(link.connected for link in links):
            late = [
                a.settings.name for a, link in zip(self.aircraft, links, strict=True) if not link.connected
            ]
            if late:
                self.say(f"{', '.join(late)}: not connected within {READY_LIMIT:.0f} s; time begins without")
                self.server.begin()

    def _adapt_speed(self, progress: FleetProgress) -> None:
        """Slow down for missions that cannot say so themselves while their vehicles stand disarmed."""
        links = progress.server.links
        flying = [a for a in self.aircraft if links[a.number].connected and not a.lost]
        if self._mission is not None and self._mission.gate is not None:
            self._mission.gate.look(armed=all(links[a.number].armed for a in flying))
        for aircraft in flying:
            if aircraft.mission is not None and aircraft.mission.gate is not None:
                aircraft.mission.gate.look(armed=links[aircraft.number].armed)

    def _over(self) -> bool:
        """Whether all missions have ended."""
        if self._mission is not None:
            return self._mission.poll() is not None
        flying = [a.mission for a in self.aircraft if a.mission is not None and not a.lost]
        return all(mission.poll() is not None for mission in flying)

    def _mission_reason(self) -> str:
        """Why the missions did not succeed; empty where they did."""
        if self._mission is not None:
            return "" if self._mission.poll() == SUCCEEDED else self._mission.reason()
        found = [(a, a.mission.reason()) for a in self.aircraft if a.mission is not None and _failed(a)]
        if len(self.aircraft) == 1:
            return found[0][1] if found else ""
        return "; ".join(f"{aircraft.settings.name}: {reason}" for aircraft, reason in found)

    def _losses(self) -> str:
        """Flight stacks that ended though no event was to end them."""
        names = [aircraft.settings.name for aircraft in self.aircraft]
        meant = {
            vehicle
            for event in self.fleet.events
            if isinstance(event, scheduled_events.StackEvent) and event.kind == "stack_killed"
            for vehicle in scheduled_events.concerned(event, names)
        }
        lost = [a.settings.name for a in self.aircraft if a.lost and a.number not in meant]
        return f"the flight stacks of {', '.join(lost)} ended" if lost else ""

    def _trouble(self, progress: FleetProgress, standing: float) -> str:
        """What makes going on pointless; empty when nothing does."""
        first = self.aircraft[0]
        ended = [aircraft.flight_stack.ended() for aircraft in self.aircraft if aircraft.flight_stack]
        if all(ended):
            return ended[0] if len(ended) == 1 else "every flight stack has ended"
        if self.server.failure is not None:
            return f"the simulation stopped: {cause(self.server.failure)}"
        if not self.server.running:
            return "the simulation stopped"
        name = first.flown_by.name
        if standing > STANDSTILL:
            return f"simulated time has stood still for {STANDSTILL:.0f} s: {name} does not answer"
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
        """What the simulation knows of a vehicle's flight."""
        if self._final is None:
            return {"seed": self.fleet.seed}
        return {
            "seed": self.fleet.seed,
            "simulated_seconds": self._final.server.time,
            "wall_seconds": self._wall,
            "impact_speed": float(self.simulation.states[number]["impact_speed"]),
            "battery_used": 1.0 - float(self._final.server.battery[number, 2]),
            "link_faults": dict(self.server.status().links[number].faults),
        }

    def outcome_of(self, aircraft: Aircraft) -> Outcome:
        """How one vehicle's flight ended."""
        mission = self.fleet.name if aircraft.settings.mission is None else str(aircraft.settings.mission)
        if len(self.aircraft) == 1:
            reason = self._reason
        elif aircraft.lost:
            reason = aircraft.lost_in_short
        elif aircraft.mission is not None and _failed(aircraft):
            reason = aircraft.mission.reason()
        else:
            reason = ""
        return aircraft.outcome(mission, reason, **self._figures(aircraft.number))

    @property
    def started(self) -> bool:
        """Whether it got as far as flight stacks."""
        return any(aircraft.flight_stack is not None for aircraft in self.aircraft)

    @property
    def logs(self) -> dict[str, Path]:
        """What is where, of all vehicles."""
        return {
            "run directory": self.directory.path,
            "console log": self.directory.path / "console.log",
            "ground truth": self.directory.truth,
        }

    def conclude_fleet(self) -> FleetOutcome:
        """Stop everything, read the flight logs, write summaries and the picture into the run directory.

        Returns:
            how the flight ended.
        """
        self.stop()
        errors = self.errors
        vehicles = tuple(
            aircraft.conclude(self.outcome_of(aircraft), aircraft.directory, self.logs, picture=False)
            for aircraft in self.aircraft
        )
        # matplotlib takes half a second to load, which no flight waits for at its start.
        from sitl_bridge.report.plot_fleet import draw_fleet, thinned

        picture = self.directory.path / "fleet.png"
        names = [aircraft.settings.name for aircraft in self.aircraft]
        logs = self.logs
        with errors.guard("drawing of the picture"):
            if draw_fleet(self.directory.truth, names, picture, self.fleet.name):
                logs["picture"] = picture
        near: Closest | None = None
        with errors.guard("search for the nearest two"):
            near = closest(*thinned(self.directory.truth, len(names), CLOSEST_RATE))
        if not self._reason and near is not None and near.distance < self.fleet.separation:
            first, second = (names[i] for i in near.vehicles)
            self._reason = (
                f"{first} and {second} were {near.distance:.2f} m apart in truth at {near.time:.1f} s; "
                f"{self.fleet.separation:g} m had to be kept"
            )
        formation: dict[str, float] = {}
        with errors.guard("comparing of the formation with the truth"):
            formation = add_truth(self.directory.path / "formation", self.directory.truth, len(self.aircraft))
        outcome = FleetOutcome(
            self.fleet.name,
            tuple(names),
            not (self._reason or errors.lines),
            self._reason,
            vehicles,
            self.simulation.collisions,
            int(self.simulation.proximity[0]["count"]),
            near,
            logs,
            formation,
            tuple(errors.lines),
        )
        with errors.guard("writing of the summary"):
            logs["summary"] = self._write_summary(outcome)
        return replace(
            outcome, logs=logs, succeeded=not (self._reason or errors.lines), errors=tuple(errors.lines)
        )

    def _write_summary(self, outcome: FleetOutcome) -> Path:
        summary = self.directory.path / "summary.json"
        write_json(
            {
                "name": outcome.name,
                "succeeded": outcome.succeeded,
                "reason": outcome.reason,
                "errors": list(outcome.errors),
                "collision_count": outcome.collision_count,
                "closest": None if outcome.closest is None else closest_words(outcome.closest, outcome.names),
                "collisions": [collision_words(row, self.simulation.names) for row in outcome.collisions],
                "logs": {name: str(path) for name, path in outcome.logs.items()},
                "vehicles": {aircraft.settings.name: aircraft.summary for aircraft in self.aircraft},
            },
            summary,
        )
        return summary


def closest_words(near: Closest, names: tuple[str, ...]) -> dict[str, Any]:
    """The nearest two as plain values."""
    vehicles = [names[i] for i in near.vehicles]
    return {"distance_m": near.distance, "time_s": near.time, "vehicles": vehicles}


def collision_words(row: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """A COLLISION as plain values."""
    parts = ["body" if part == 0 else f"rotor {part}" for part in row["part"].tolist()]
    return {
        "time": float(row["time"]) * 1e-6,
        "vehicles": [names[i] for i in row["vehicle"].tolist()],
        "parts": parts,
        "closing_speed": float(row["speed"]),
        "position": row["position"].tolist(),
    }


def _failed(aircraft: Aircraft) -> bool:
    """Whether a vehicle's own mission has ended without success."""
    mission = aircraft.mission
    return mission is not None and not aircraft.lost and mission.poll() not in (None, SUCCEEDED)


class _MonitorThread:
    """Polls all monitors; more seldom where they are several, for the time of a fleet does not run as fast.

    Args:
        monitors: opened.
        errors: takes those of reading; the next datagram may be fine.
    """

    def __init__(self, monitors: list[Monitor], errors: ErrorLog) -> None:
        self._monitors = monitors
        self._errors = errors
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="monitors", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        self._thread.join(timeout=5.0)

    def _run(self) -> None:
        while not self._stop.wait(POLL * min(len(self._monitors), FLEET_POLL)):
            for monitor in self._monitors:
                with self._errors.guard(f"reading of telemetry on UDP port {monitor.port}"):
                    monitor.poll()
