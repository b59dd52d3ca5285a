"""A run of any number of vehicles: its simulation, link, recording and outlets, from start to stop.

Beside one another on it stand a flight of missions (session.py), one whose time passes on demand
(ready_session.py) and a simulation that is served to flight stacks of others (served.py).  The flight stacks
that a run starts itself are in started_run.py, one vehicle's part in vehicle_run.py.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.base.json_data import ReadJson
from sitl_bridge.base.kernels.announcement import announce_compilation
from sitl_bridge.base.system.signals import delay_signals
from sitl_bridge.core.sensors.imu import leave_unsharpened
from sitl_bridge.core.sensors.sensor_host import SensorHost
from sitl_bridge.core.simulation import events
from sitl_bridge.core.simulation.events import ScheduledEvent, StackEvent
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.link.hil.link_sockets import require_free_link
from sitl_bridge.link.hil.link_status import ServerStatus
from sitl_bridge.link.hil.ports import PAYLOAD_PORT, STACK_PORTS
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.live.run.outlet import RunContext
from sitl_bridge.perception.sensor_hosts import sensor_hosts
from sitl_bridge.record.run_description import describe_simulation
from sitl_bridge.record.run_directory import RunDirectory
from sitl_bridge.record.run_recorder import RunRecorder
from sitl_bridge.session.monitor import MonitorThread
from sitl_bridge.session.running_session import FlightCommands
from sitl_bridge.session.settings import AutopilotChoice, FlightSettings, VehicleSettings
from sitl_bridge.session.stacks import STEP
from sitl_bridge.session.vehicle_run import VehicleRun, require_free_udp

TICK = 0.05
"""s of wall time between checks of everything."""


class Run:
    """A run; use it in a ``with`` block.  What flies in it fills in three parts of its start.

    Args:
        settings: checked here, before anything starts.
        notify: receives lines for the user: from the missions, the link and the run.

    Raises:
        UserError: for invalid settings, ports that are taken, or a PX4 that does not start.
    """

    kind = "fly"
    """Word for it in its description."""

    def __init__(self, settings: FlightSettings, notify: Callable[[str], None] = lambda _line: None) -> None:
        self.settings = settings
        self.choices = settings.check()
        self.errors = ErrorLog(self.say)
        self._notify = notify
        self.verbose = False  # whether the lines of the console log are printed, too
        self._lock = threading.Lock()
        self.closing = contextlib.ExitStack()
        """Functions that are called when it stops, the last one first."""
        self._stopped = False
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
        settings = self.settings
        self._require_ports()
        self.directory = RunDirectory(settings.runs, settings.name)
        self.closing.callback(self.directory.close)
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
        self.prepare()
        with announce_compilation(self.say, "the simulation and its link"):
            self._build_simulation()
        self._describe()
        self.open()
        self.server.start()
        self._start_outlets()
        self.launch()

    def prepare(self) -> None:
        """Start what takes long, before the simulation is built."""

    def open(self) -> None:
        """Make ready what must be there before the link is served."""

    def launch(self) -> None:
        """Start what connects to the link, which is served now."""

    def on_end(self, action: Callable[[], object]) -> None:
        """Call ``action`` when everything has stopped that has been started after this call."""
        self.closing.callback(action)

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

    def _vehicle_run(self, number: int, vehicle: VehicleSettings, autopilot: AutopilotChoice) -> VehicleRun:
        alone = len(self.settings.vehicles) == 1
        directory = self.directory.autopilot if alone else self.directory.path / f"vehicle-{vehicle.name}"
        if autopilot.kind != "external":
            directory.mkdir()

        def say(line: str) -> None:
            self.say(line if alone else f"{vehicle.name}: {line}")

        def log(line: str) -> None:
            self.log(line if alone else f"{vehicle.name}: {line}")

        return VehicleRun(vehicle, autopilot, number, directory, say, log, self.errors)

    def _build_simulation(self) -> None:
        settings = self.settings
        setups = [
            VehicleSetup.from_airframe(v.airframe, v.position, v.yaw, v.name) for v in settings.vehicles
        ]
        for number, (autopilot, _) in enumerate(self.choices):
            if autopilot.kind == "builtin":
                setups[number] = replace(setups[number], sensors=leave_unsharpened(setups[number].sensors))
        self.simulation = Simulation(
            self.world, setups, seed=settings.seed, step=STEP, proximity=settings.proximity
        )
        recorder = RunRecorder(self.directory.path, self.errors, self.simulation.most_rotors)
        self.recorder = self.closing.enter_context(recorder)
        self.server = LockstepServer(
            self.simulation,
            ports=settings.ports,
            host=settings.host,
            speed=settings.speed,
            on_stall=settings.on_stall,
            recorder=self.recorder,
            hosts=[host for number in range(len(settings.vehicles)) for host in self._sensor_hosts(number)],
            notify=self.report_link,
            note_stall=self._note_stall,
            errors=self.errors,
            prompt=[v.number for v in self.vehicles if v.autopilot.kind in ("builtin", "board")],
            real_time=settings.board is not None,
        )
        self.closing.callback(self.server.close)
        self.server.on_restart = lambda vehicle: self.recorder.restart(self.simulation.time, vehicle)
        self.server.prepare()
        for seconds, action in events.actions(
            settings.events, self.simulation, self.say, self.fail_stack, on_event=self.note_event
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
        self.recorder.note_scheduled(self.simulation.time, event, begins, vehicles)

    def fail_stack(self, event: StackEvent, vehicle: int) -> None:
        """Let a flight stack fail by an event."""
        self.vehicles[vehicle].fail(event)

    def open_monitors(self) -> None:
        """Open the monitors of all vehicles and poll them in one thread, which wakes as often as for one."""
        monitors = [vehicle.open_monitor(self.server) for vehicle in self.vehicles]
        for monitor in monitors:
            self.closing.callback(monitor.stop)
            monitor.open()
        self._monitor_thread = MonitorThread(monitors, self.errors)
        self.closing.callback(self._monitor_thread.stop)
        self._monitor_thread.start()

    def _start_outlets(self) -> None:
        monitored = [vehicle for vehicle in self.vehicles if vehicle.monitored]
        commands = FlightCommands(monitored, self.server)
        self.closing.callback(commands.close)
        shown = RunContext(
            self.server,
            self.directory.path,
            self.recorder.command,
            self.errors,
            self.say,
            tuple(self.settings.instances),
            self.server.hosts,
            self.formation_orders,
            partial(self.order_stack, commands) if monitored else None,
            lambda: [vehicle.report() for vehicle in monitored],
            lambda number, rate: self.vehicles[number].estimates(rate),
            limit_time=self.server.limit_time,
        )
        for outlet in [one.make(shown) for one in self.settings.outlets]:
            self.closing.callback(outlet.close)
            outlet.start()

    @property
    def formation_orders(self) -> Callable[[str, ReadJson, int | None], Future[None]] | None:
        """Takes orders of page, bus and ROS for a formation; None where none flies."""
        return None

    def order_stack(
        self, commands: FlightCommands, kind: str, data: ReadJson, vehicle: int | None
    ) -> Future[None]:
        """Hand a command of page, bus and ROS to a flight stack.

        Raises:
            UserError: for one that cannot be executed now.
        """
        return commands.ask(kind, data, vehicle)

    def _describe(self) -> None:
        settings = self.settings
        airframes = [vehicle.airframe for vehicle in settings.vehicles]
        facts = describe_simulation(self.kind, self.simulation, airframes, settings.proximity)
        self.add_facts(facts)
        self.directory.describe(speed=str(settings.speed), **facts)

    def add_facts(self, facts: dict[str, Any]) -> None:
        """Add what flies in the run to its description."""

    def stop(self) -> None:
        """Stop everything, what was started last first; safe to call twice."""
        if self._stopped:
            return
        with delay_signals():
            self._stopped = True
            self.closing.close()

    @property
    def stopped(self) -> bool:
        """Whether it has been stopped."""
        return self._stopped

    # ---------------------------------------------------------------- console log

    def say(self, line: str) -> None:
        """Print a line and log it to the console log; from any thread."""
        self.log(line, shown=True)

    def log(self, line: str, shown: bool = False) -> None:
        """Log a line to the console log, and print it where ``shown`` or ``verbose``."""
        with self.errors.guard("writing of the console log"), self._lock:
            self.directory.say(line)
        if shown or self.verbose:
            with contextlib.suppress(OSError):  # the terminal is closed; the console log has the line
                self._notify(line)

    def report_link(self, line: str) -> None:
        """Tell what happens on a link."""
        if not self._stopped:  # PX4 disconnects when it is stopped
            self.say(line)
            self.recorder.note(self.simulation.time, "link", text=line)

    def _note_stall(self, vehicle: int, begins: bool) -> None:
        if not self._stopped:
            self.recorder.note(self.simulation.time, "stall", vehicle=vehicle, begins=begins)

    @property
    def status(self) -> ServerStatus:
        """State of the simulation and its links, without stopping it; from any thread."""
        return self.server.status()

    @property
    def logs(self) -> dict[str, Path]:
        """Files of all vehicles, by their content."""
        return {
            "run directory": self.directory.path,
            "console log": self.directory.path / "console.log",
            "ground truth": self.directory.truth,
        }
