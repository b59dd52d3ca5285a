"""One vehicle of a run: the process of its flight stack, its monitor, its battery and its mission.

The common simulation, and the order of starting and stopping, are in session.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from sitl_bridge.autopilot.process import LOG_ENDED, Configuration, StackProcess
from sitl_bridge.base.arrays import Records
from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.base.system.child_process import ChildProcess
from sitl_bridge.base.system.port_holder import taken_by
from sitl_bridge.core.sensors.battery_monitor import BATTERY
from sitl_bridge.core.sensors.perception.payload_camera import PayloadCameraSpecification
from sitl_bridge.core.sensors.sensor_host import SensorHost
from sitl_bridge.core.simulation.events import StackEvent
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.world.world import World, WorldSpecification
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.message import MavlinkMessage
from sitl_bridge.link.px4.event_catalogue import EventCatalogue
from sitl_bridge.link.px4.given_parameters import ChosenParameters
from sitl_bridge.link.px4.vehicle_status import (
    BatterySample,
    VehicleMessage,
    battery_message,
    battery_temperature,
)
from sitl_bridge.live.run.client_link import StackReport
from sitl_bridge.perception.sensor_runner import SensorRunner
from sitl_bridge.session.mission_process import MissionProcess
from sitl_bridge.session.missions.environment import MAP_VARIABLE, SYSTEM_VARIABLE, URL_VARIABLE
from sitl_bridge.session.missions.time_gate import MissionGate
from sitl_bridge.session.monitor import BATTERY_PERIOD, Monitor
from sitl_bridge.session.settings import AutopilotChoice, Board, VehicleSettings

ODOMETRY: int = mavlink.MAVLINK_MSG_ID_ODOMETRY
LAST_MESSAGES = 4
"""Texts of a flight stack in a report."""
COMPILATION = re.compile("(still )?compil(ing|ed) ")
"""Begins a line of the built-in stack about its compilation (announcement.py)."""


def battery_sample(server: LockstepServer, cells: int, vehicle: int = 0) -> BatterySample | None:
    """Latest sample of a vehicle's battery sensor, or the true state if it has no such sensor.

    Args:
        cells: number in series.

    Returns:
        None before a flight stack has connected, and before the first sample.
    """
    now = server.time_for(vehicle)
    if now is None:
        return None
    values = server.sensor_values(vehicle, BATTERY)
    if values is None:
        voltage, current, left = (float(value) for value in server.status().battery[vehicle])
        return BatterySample(now, voltage, current, left, 0.0, cells)
    voltage, current, left, consumed = (float(value) for value in values[:4])
    if voltage <= 0.0:
        return None  # not sampled yet
    return BatterySample(now, voltage, current, left, consumed, cells)


class BatteryFeed:
    """Sends the battery to the built-in stack between two steps, so that it arrives at its simulated time.

    It is a ``SensorHost``; its messages do not go over the simulator link, on which PX4 reads none.

    Args:
        deliver: sends messages and returns when the stack has read them.
    """

    name, label = "battery", "the battery"

    def __init__(
        self,
        vehicle: int,
        sample: Callable[[], BatterySample | None],
        deliver: Callable[[Sequence[MavlinkMessage]], None],
    ) -> None:
        self.vehicle = vehicle
        self.due = BATTERY_PERIOD
        self._sample, self._deliver = sample, deliver

    def run(self, _state: Records, time: int) -> Sequence[MavlinkMessage]:
        """Send the sample of this time (us)."""
        self.due = time + BATTERY_PERIOD
        sample = self._sample()
        if sample is not None:
            self._deliver([battery_message(sample)])
        return []

    def close(self) -> None:
        """Nothing is written."""


class Mission(Protocol):
    """Mission of a vehicle, of whatever kind."""

    gate: MissionGate | None
    """Through which it limits simulated time."""

    def poll(self) -> int | None:
        """Exit status; None while it flies."""
        ...

    def reason(self) -> str:
        """Why it has failed."""
        ...

    def release_time(self) -> None:
        """Let time pass for others, after the end; safe to call twice."""
        ...

    def stop(self) -> None:
        """End it; safe to call twice."""
        ...


class VehicleRun:
    """The processes of one vehicle in flight: flight stack, monitor and mission.

    Args:
        settings: checked.
        number: in the simulation.
        directory: the flight stack's working directory, empty.
        say: receives lines for the user and the console log.
        log: receives lines for the console log only.
        errors: receives errors after which the flight continues.
    """

    def __init__(
        self,
        settings: VehicleSettings,
        autopilot: AutopilotChoice,
        number: int,
        directory: Path,
        say: Callable[[str], None],
        log: Callable[[str], None],
        errors: ErrorLog,
    ) -> None:
        self.settings = settings
        self.autopilot = autopilot
        self.number = number
        self.directory = directory
        self.lost, self.killed = "", False
        """How its flight stack ended; empty while it runs."""
        self._monitor: Monitor | None = None
        self._estimated = False
        self.mission: Mission | None = None
        self.flight_stack: ChildProcess | None = None
        self.say = say
        self._log = log
        self.chosen: ChosenParameters | None = None
        """Return the part of its parameter file that it flies, from the start on."""
        self._errors = errors

    @property
    def lost_reason(self) -> str:
        """How its flight stack ended, without its last lines."""
        return self.lost.partition("; its last lines")[0]

    # ---------------------------------------------------------------- start and stop

    def start_builtin(self, world: WorldSpecification, step: int, speed: float) -> None:
        """Start the built-in flight stack, for a simulation at a speed factor."""
        from sitl_bridge.link.px4.airframe_parameters import station_time_out

        settings = self.settings
        configuration = Configuration(
            airframe=settings.airframe,
            world=world,
            instance=settings.instance,
            step=step,
            controller=settings.controller,
            parameters={**station_time_out(speed), **self._of_file(), **settings.parameters},
        )
        self.flight_stack = StackProcess(configuration, self.directory, self._stack_line)

    def px4_parameters(self, world: World, speed: float) -> dict[str, int | float]:
        """Parameters that are set in PX4."""
        # Computing parameters imports scipy, which takes time that served simulations save.
        from sitl_bridge.link.px4.airframe_parameters import parameters_for

        return dict(parameters_for(self.airframe_for_px4(), world, speed))

    def start_px4(self, world: World, speed: float, *, lean: bool = False, expose: bool = False) -> None:
        """Start PX4; ``lean`` and ``expose`` as of Px4Process."""
        from sitl_bridge.link.px4.px4_process import Px4Process

        assert self.autopilot.px4 is not None
        airframe = self.settings.airframe
        # A camera needs the link to the payload as PX4 has it.
        lean = lean and not any(
            isinstance(s, PayloadCameraSpecification) for s in airframe.perception_sensors()
        )
        process = Px4Process(
            self.autopilot.px4,
            self.settings.instance,
            self.directory,
            self.px4_parameters(world, speed),
            self._stack_line,
            given=self.settings.named_parameters,
            lean=lean,
            expose=expose,
        )
        if process.unchanged:
            lines = ", ".join(process.unchanged)
            self.say(
                f"px4-rc.mavlink of this PX4 has no line for {lines}; it sends more telemetry than needed"
            )
        if process.dds_by_simulated_time:
            self.say("PX4's uXRCE-DDS client stamps with simulated time: UXRCE_DDS_SYNCT 0")
        for module in process.without:
            self.say(f"this PX4 has no {module}, which {airframe.name} needs (docs/px4-versions.md)")
        if process.exposed:
            self.say(f"other machines can reach PX4's MAVLink ports and files: {process.exposed}")
        self.flight_stack = process
        self.monitor.read_back = process.read_back()

    def start_board(self, board: Board, report: Callable[[str], None]) -> None:
        """Start the relay to a board, which says itself what is wrong with it, to ``report``."""
        relay = [sys.executable, "-u", "-m", "sitl_bridge.link.hil.board", board.device]
        options = {"baud": board.baud, "instance": self.settings.instance, "gcs": board.station}
        command = [*relay, *(f"--{name}={value}" for name, value in options.items())]
        directory = self.directory.absolute()

        def take(line: str) -> None:
            (report if line.startswith(("warning: ", "note: ")) else self._log)(line)

        self.flight_stack = ChildProcess(self.autopilot.name, command, directory, dict(os.environ), take)

    @property
    def plan(self) -> Path | None:
        """File of the plan that is its own mission; None for another mission, or none."""
        mission = self.settings.mission
        return mission if mission is not None and mission.suffix == ".plan" else None

    @property
    def parameters_pending(self) -> bool:
        """Whether PX4 has not yet confirmed all parameters that were set."""
        read_back = self.monitor.read_back
        return read_back is not None and not read_back.done

    @property
    def parameter_fault(self) -> str:
        """Message about parameters that did not reach PX4; empty if all did."""
        read_back = self.monitor.read_back
        return "" if read_back is None else read_back.fault()

    def _of_file(self) -> dict[str, int | float]:
        return {} if self.chosen is None else self.chosen.flown

    def airframe_for_px4(self) -> Airframe:
        """The airframe, with all parameters that are given to its PX4."""
        airframe = self.settings.airframe
        given = {**airframe.px4.parameters, **self._of_file(), **self.settings.parameters}
        section = airframe.px4.model_copy(update={"parameters": given})
        return airframe.model_copy(update={"px4": section})

    @property
    def monitored(self) -> bool:
        """Whether its monitor has been opened."""
        return self._monitor is not None

    @property
    def monitor(self) -> Monitor:
        """The link to its flight stack, once opened."""
        assert self._monitor is not None
        return self._monitor

    @property
    def messages(self) -> list[VehicleMessage]:
        """Texts of its flight stack, oldest first."""
        return [] if self._monitor is None else self._monitor.messages

    def open_monitor(self, server: LockstepServer) -> Monitor:
        """Create the vehicle's monitor; the caller polls it, or starts its thread."""

        def sample() -> BatterySample | None:
            found = battery_sample(server, self.settings.airframe.battery.cells, self.number)
            build = self.autopilot.px4
            if found is None or build is None:
                return found
            return replace(found, temperature=battery_temperature(build.version))

        builtin = self.autopilot.kind == "builtin"
        monitor = self._monitor = Monitor(
            self.settings.instance,
            catalogue=self._catalogue(),
            battery=None if builtin or self.autopilot.kind == "board" else sample,
            on_message=self._log_message,
            prompt=builtin,
        )
        if builtin:
            server.hosts = (*server.hosts, BatteryFeed(self.number, sample, monitor.deliver))
        self._open_companion(server.hosts)
        return monitor

    def _open_companion(self, hosts: Sequence[SensorHost]) -> None:
        """Let the sensors send messages of a companion computer to the stack over the monitor's link."""
        own = [h for h in hosts if isinstance(h, SensorRunner) and h.vehicle == self.number]
        for runner in own:
            if runner.has_components:
                runner.connect(self.monitor.open_components())
            runner.companion = self.monitor.deliver

    def start_mission(self, variables: Mapping[str, str], server: LockstepServer, turn: int) -> None:
        """Start the vehicle's own script, if it has one.

        Args:
            variables: of the environment, in addition.
            turn: of its gate.
        """
        settings = self.settings
        if settings.mission is None or self.plan is not None:
            return
        command = [str(settings.mission), *settings.arguments]
        environment = {URL_VARIABLE: settings.url, SYSTEM_VARIABLE: str(settings.instance + 1), **variables}
        own = [h for h in server.hosts if isinstance(h, SensorRunner) and h.vehicle == self.number]
        for runner in own:
            if runner.mapper is not None and runner.mapper.file is not None:
                environment[MAP_VARIABLE] = str(runner.mapper.file.resolve())
        gate, python = MissionGate(server.limit_time(), turn), settings.python
        self.mission = MissionProcess(command, environment, self.say, gate=gate, python=python)

    def stop_mission(self) -> None:
        """Stop the vehicle's own mission."""
        if self.mission is not None:
            self.mission.stop()

    def fail(self, event: StackEvent) -> None:
        """Kill the flight stack's process, or stop it for the event's wall time."""
        if self.flight_stack is None or self.flight_stack.poll() is not None:
            return
        process = self.flight_stack.pid
        if event.kind == "stack_killed":
            self.killed = True
            os.kill(process, signal.SIGKILL)
            return
        os.kill(process, signal.SIGSTOP)
        timer = threading.Timer(event.seconds, _resume, (process,))
        timer.daemon = True
        timer.start()

    def stop(self) -> None:
        """Stop the flight stack, and give its logs the same names in every run."""
        if self.flight_stack is not None:
            self.flight_stack.stop()
            name_logs(self.flight_stack.ulogs())

    # ---------------------------------------------------------------- messages of the flight stack

    def _catalogue(self) -> EventCatalogue | None:
        if self.autopilot.px4 is None:
            return None
        path = self.autopilot.px4.etc / "extras" / "all_events.json.xz"
        return EventCatalogue(path) if path.is_file() else None

    def _stack_line(self, line: str) -> None:
        self._log(f"autopilot: {line}")
        if COMPILATION.match(line) and self.autopilot.px4 is None:
            self.say(line)
        if line.startswith(LOG_ENDED) and self.autopilot.px4 is None:
            self._errors.add("recording of the flight log", UserError(line.removeprefix(LOG_ENDED)))

    def report(self) -> StackReport:
        """Report the flight stack's state to page and bus."""
        last = self.messages[-LAST_MESSAGES:]
        status = self.monitor.status()
        messages = [(m.time, m.level, m.text) for m in last]
        return StackReport(status.mode, messages, (status.position_time, *status.position))

    def estimates(self, rate: float) -> list[MavlinkMessage]:
        """ODOMETRY of its flight stack since the last time, at a rate in Hz of its first call.

        None of a board, whose clock is not that of the simulation.
        """
        if self._monitor is None or self.autopilot.kind == "board":
            return []
        if not self._estimated:
            self._estimated = True
            self.monitor.follow(ODOMETRY, rate)
        return self.monitor.take_all(ODOMETRY)

    def _log_message(self, message: VehicleMessage) -> None:
        self._log(f"[{message.time:9.2f} s] autopilot message: {message.text}")

    # ---------------------------------------------------------------- afterwards

    def description(self, world: World, speed: float) -> JsonObject:
        """The vehicle's mission and its flight stack as plain values, for run.json.

        Args:
            speed: simulated over wall time.
        """
        settings, build = self.settings, self.autopilot.px4
        autopilot: JsonObject = {"name": self.autopilot.name}
        if build is not None:
            parameters = self.px4_parameters(world, speed)
            autopilot |= {"root": str(build.root), "version": build.version, "parameters": parameters}
        elif self.autopilot.kind == "board":
            autopilot["device"] = self.autopilot.reason
        else:
            autopilot["controller"] = settings.controller or settings.airframe.controller.kind
        mission, plan = settings.mission, self.plan
        if settings.parameter_file is not None:
            autopilot["parameter_file"] = settings.parameter_file.source
        return {
            "mission": None if mission is None else str(mission),
            "plan": None if plan is None else json.loads(plan.read_text(encoding="utf-8")),
            "arguments": list(settings.arguments),
            "instance": settings.instance,
            "autopilot": autopilot,
        }


def name_logs(logs: Sequence[Path]) -> None:
    """Name the largest log ``flight.ulg``; PX4 names logs by a date, which it may not know yet."""
    for number, file in enumerate(sorted(logs, key=lambda log: -log.stat().st_size), start=1):
        place = next(parent for parent in file.parents if parent.name == "log")
        with contextlib.suppress(OSError):  # where that is not possible, PX4's names are as good
            file.rename(place / ("flight.ulg" if number == 1 else f"flight-{number}.ulg"))
            if file.parent != place:
                file.parent.rmdir()


def _resume(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGCONT)


def require_free_udp(port: int, purpose: str) -> None:
    """Check that no program uses a UDP port of this machine.

    Raises:
        UserError: with the program that uses it.
    """
    holder = taken_by(port, "udp")
    if holder:
        raise UserError(
            f"UDP port {port}, {purpose}, is taken by {holder}; stop it, or choose another --instance"
        )
