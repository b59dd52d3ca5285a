"""One flight from beginning to end: simulation, link, PX4, monitor, mission, summary.

``FlightSettings`` is checked whole before anything starts; ``FlightSession`` starts everything in order,
watches it, and leaves nothing behind.  What is shown on the terminal is ``cli/fly.py``.
"""

from __future__ import annotations

import ast
import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from sitl_bridge.autopilot.mavlink.metadata import EVENTS, event_catalogue
from sitl_bridge.autopilot.stack_process import Configuration, StackProcess
from sitl_bridge.bus.address import BusAddress
from sitl_bridge.child_process import ChildProcess
from sitl_bridge.compiled import announced
from sitl_bridge.config.airframe import Airframe
from sitl_bridge.config.controller import BUILT_IN, own_controller
from sitl_bridge.errors import ConfigurationError, UserError, did_you_mean
from sitl_bridge.flight.battery_feed import battery_sample
from sitl_bridge.flight.events import EventCatalogue
from sitl_bridge.flight.flown_by import Choice, FlownBy, who_flies
from sitl_bridge.flight.monitor import Message, Monitor
from sitl_bridge.flight.monitor import Status as VehicleStatus
from sitl_bridge.flight.plan import MAX_LEG, Plan, distance, load_plan
from sitl_bridge.flight.script import INTERRUPTED, SUCCEEDED, SYSTEM_VARIABLE, URL_VARIABLE
from sitl_bridge.flight.summary import Outcome, summarise, write_json
from sitl_bridge.flight.ulog import FlightRecord, read_flight
from sitl_bridge.hil.server import FIRST_PORT, LockstepServer, OnStall
from sitl_bridge.hil.server import Status as ServerStatus
from sitl_bridge.px4.parameters import parameters_for
from sitl_bridge.px4.process import Px4Process
from sitl_bridge.record.run_directory import RunDirectory
from sitl_bridge.record.truth_log import TruthLog
from sitl_bridge.sensors.custom import CustomSensorHost
from sitl_bridge.simulation import Simulation, VehicleSetup
from sitl_bridge.world.world import World, WorldSpecification

LAST_INSTANCE = 254
"""PX4's instance i has the MAVLink system id i + 1, and ids end at 255."""

OFFBOARD_PORT, SHARED_OFFBOARD_PORT = 14540, 14549
"""Where instances send their offboard link: 14540 + i, and all from 10 on the last (px4-rc.mavlink)."""

STANDSTILL = 60.0
"""s of wall time without a step after which the run is given up: far above the link's own patience, and above
the pauses of a loaded machine."""

MISSION_STOP = 4.0
"""s of wall time a mission script is given to end after SIGTERM: it may tell the vehicle to hold first."""

TICK = 0.05
"""s of wall time between looks at everything."""

COMPILE_LIMIT = 300.0
"""s of wall time to the first connection of the built-in stack, which may be compiled first."""

STEP = 4000
"""us between inertial samples, PX4's 250 Hz."""

READY_LIMIT = 30.0
"""s of wall time to the first connection of PX4, which takes well under one."""


@dataclass(frozen=True)
class FlightSettings:
    """What is flown, with what, where and how.

    Attributes:
        mission: a plan of QGroundControl or a Python script that uses MAVSDK.
        airframe: the vehicle.
        world: where it flies.
        seed: of all random streams.
        speed: simulated over wall time; inf for as fast as it goes.
        autopilot: who flies.
        px4: PX4 to fly with; None looks for it.
        controller: of the built-in stack, None for the airframe's.
        instance: of the flight stack, decides all ports.
        runs: where run directories are made.
        arguments: handed to a mission script.
        time_limit: s of simulated time after which the flight is ended as failed; inf for none.
        on_stall: what the link does when PX4 stops answering.
        bus: broker to publish the flight on; None for none.
    """

    mission: Path
    airframe: Airframe
    world: WorldSpecification = field(default_factory=WorldSpecification)
    seed: int = 0
    speed: float = 1.0
    autopilot: Choice = "auto"
    px4: Path | None = None
    controller: str | None = None
    instance: int = 0
    runs: Path = Path("runs")
    arguments: tuple[str, ...] = ()
    time_limit: float = math.inf
    on_stall: OnStall = "continue"
    bus: BusAddress | None = None

    def check(self) -> tuple[FlownBy, Plan | None]:
        """Look for everything that would go wrong later.

        Returns:
            who flies, and the plan where one is flown.

        Raises:
            ConfigurationError: with all faults of the settings.
        """
        faults = []
        if not 0 <= self.instance <= LAST_INSTANCE:
            faults.append(f"--instance: {self.instance} is not within 0..{LAST_INSTANCE}")
        if not self.speed > 0:
            faults.append(f"--speed: {self.speed:g} is not above 0")
        if self.seed < 0:
            faults.append(f"--seed: {self.seed} is negative")
        if not self.time_limit > 0:
            faults.append(f"--time-limit: {self.time_limit:g} s is not above 0")
        plan: Plan | None = None
        try:
            plan = self._check_mission()
        except ConfigurationError as error:
            faults += [f"{error.source}: {fault}" for fault in error.faults]
        except UserError as error:
            faults.append(str(error))
        flown_by: FlownBy | None = None
        try:
            flown_by = who_flies(self.autopilot, self.px4)
        except UserError as error:
            faults.append(str(error))
        if flown_by is not None and flown_by.px4 is not None and self.controller is not None:
            faults.append("--controller: is for the built-in stack, and PX4 flies; add --autopilot builtin")
        elif self.controller is not None:
            faults += self._controller_faults(self.controller)
        try:
            self.world.wind.load_series()
        except UserError as error:
            faults.append(str(error))
        if faults or flown_by is None:
            raise ConfigurationError("cannot fly", faults)
        return flown_by, plan

    def _controller_faults(self, law: str) -> list[str]:
        """What is wrong with a controller's name; what its file holds shows when the stack loads it."""
        own = own_controller(law)
        if own is not None:
            return [] if own[0].is_file() else [f"--controller: {own[0]}: no such file"]
        if law not in BUILT_IN:
            near = did_you_mean(law, BUILT_IN)
            return [f"--controller: there is no {law!r}{near}; give {', '.join(BUILT_IN)} or FILE.py:CLASS"]
        if law == "rotors" and self.airframe.controller.rotors is None:
            return [f"--controller: RotorS publishes no gains for {self.airframe.name}; lee flies it"]
        return []

    def _check_mission(self) -> Plan | None:
        path = self.mission
        if not path.is_file():
            raise UserError(f"{path}: no such mission file")
        if path.suffix == ".plan":
            plan = load_plan(path)
            origin = self.world.origin
            away = distance((origin.latitude, origin.longitude), plan.legs[0].point)
            if away > MAX_LEG:
                raise UserError(
                    f"{path}: begins {away / 1000:.1f} km from the world's origin ({origin.latitude:.5f}, "
                    f"{origin.longitude:.5f}); give a --world whose origin is near the plan's home "
                    f"({plan.home[0]:.5f}, {plan.home[1]:.5f})"
                )
            if self.arguments:
                raise UserError(f"{path}: a plan takes no arguments ({' '.join(self.arguments)})")
            return plan
        if path.suffix == ".py":
            try:
                ast.parse(path.read_bytes(), str(path))
            except (SyntaxError, ValueError) as error:
                raise UserError(f"{path}: is not a Python program: {error}") from error
            return None
        raise UserError(f"{path}: a mission is a .plan of QGroundControl or a .py that uses MAVSDK")

    @property
    def url(self) -> str:
        """Where MAVSDK hears the vehicle."""
        return f"udpin://127.0.0.1:{self.offboard_port}"

    @property
    def offboard_port(self) -> int:
        """UDP port of the offboard link's far end."""
        return OFFBOARD_PORT + self.instance if self.instance <= 9 else SHARED_OFFBOARD_PORT


@dataclass(frozen=True)
class Progress:
    """What a pilot wants to know while it flies."""

    server: ServerStatus
    vehicle: VehicleStatus


class FlightSession:
    """A flight; use it in a ``with`` block, call :meth:`fly`, then :meth:`conclude`.

    Args:
        settings: checked here, before anything starts.
        notify: takes lines for the user: of the mission, the link and the session.

    Raises:
        UserError: for everything the user can mend: settings, ports that are taken, PX4.
    """

    def __init__(self, settings: FlightSettings, notify: Callable[[str], None] = lambda _line: None) -> None:
        self.settings = settings
        self.flown_by, self.plan = settings.check()
        self._notify = notify
        self._lock = threading.Lock()
        self._stack = contextlib.ExitStack()
        self._mission: subprocess.Popen[bytes] | None = None
        self._mission_lines: threading.Thread | None = None
        self._mission_error = ""
        self._outcome: Outcome | None = None
        self._begun = time.monotonic()
        self._stopped = False
        self.messages: list[Message] = []

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
        settings = self.settings
        _require_free_udp(settings.offboard_port, "on which the mission hears PX4")
        self.directory = RunDirectory(settings.runs, settings.mission.stem)
        self._stack.callback(self.directory.close)
        self.directory.autopilot.mkdir()
        self.world = World(settings.world)
        builtin = self._start_builtin() if self.flown_by.px4 is None else None
        with announced(self.say):
            self._build_simulation()
        self.monitor = Monitor(
            settings.instance,
            catalogue=self._catalogue(),
            battery=lambda: battery_sample(self.server, settings.airframe.battery.cells),
            on_message=self._hear,
        )
        self._stack.callback(self.monitor.stop)
        self.monitor.start()
        self.server.start()
        if settings.bus is not None:
            self._start_bus(settings.bus)
        self.flight_stack = builtin or self._start_px4()
        self._begun = time.monotonic()
        if builtin is not None:
            self._wait_for(builtin)

    def _start_bus(self, address: BusAddress) -> None:
        from sitl_bridge.bus.bus import Bus  # MQTT costs start-up time only where it is wanted

        place = self.directory.path
        bus = Bus(self.server, address, run=place.name, directory=place / "bus", notify=self.say)
        self._stack.callback(bus.close)
        bus.start()

    def _start_builtin(self) -> ChildProcess:
        """First of all, so that what there is to compile is compiled beside the simulation."""
        settings = self.settings
        configuration = Configuration(
            airframe=settings.airframe,
            world=settings.world,
            instance=settings.instance,
            step=STEP,
            controller=settings.controller,
        )
        self._describe({"name": self.flown_by.name})
        process = StackProcess(configuration, self.directory.autopilot, self._flight_stack_line)
        self._stack.callback(process.stop)
        return process

    def _wait_for(self, builtin: ChildProcess) -> None:
        """Until it has connected: it may have to be compiled first.

        Raises:
            UserError: when it ends instead, or does not connect.
        """
        while not self.server.status().links[0].connected:
            ended = builtin.ended()
            if ended:
                raise UserError(ended)
            if time.monotonic() - self._begun > COMPILE_LIMIT:
                raise UserError(f"{self.flown_by.name} has not connected within {COMPILE_LIMIT:.0f} s")
            time.sleep(TICK)

    def _start_px4(self) -> ChildProcess:
        settings = self.settings
        build = self.flown_by.px4
        assert build is not None
        parameters = parameters_for(settings.airframe, self.world, settings.speed)
        self._describe({"root": str(build.root), "version": build.version, "parameters": parameters})
        process = Px4Process(
            build,
            settings.instance,
            self.directory.autopilot,
            parameters,
            self._flight_stack_line,
            given=settings.airframe.px4.parameters,
        )
        self._stack.callback(process.stop)
        return process

    def _build_simulation(self) -> None:
        settings = self.settings
        setup = VehicleSetup(settings.airframe.vehicle(), settings.airframe.sensor_records())
        self.simulation = Simulation(self.world, [setup], seed=settings.seed, step=STEP)
        self.truth = self._stack.enter_context(TruthLog(self.directory.truth))
        self.server = LockstepServer(
            self.simulation,
            ports=[FIRST_PORT + settings.instance],
            speed=settings.speed,
            on_stall=settings.on_stall,
            recorder=self.truth,
            custom=[
                CustomSensorHost(sensor, seed=settings.seed, table=self.directory.path / f"{sensor.name}.csv")
                for sensor in settings.airframe.custom_sensors()
            ],
            notify=self._link_says,
        )
        self._stack.callback(self.server.close)
        self.server.prepare()

    def _catalogue(self) -> EventCatalogue | None:
        if self.flown_by.px4 is None:
            path = self.directory.autopilot / EVENTS
            path.write_text(json.dumps(event_catalogue()), encoding="utf-8")
            return EventCatalogue(path)
        path = self.flown_by.px4.etc / "extras" / "all_events.json.xz"
        return EventCatalogue(path) if path.is_file() else None

    def _describe(self, autopilot: dict[str, Any]) -> None:
        settings = self.settings
        self.directory.describe(
            mission=str(settings.mission),
            arguments=list(settings.arguments),
            airframe=settings.airframe.model_dump(mode="json"),
            world=settings.world.model_dump(mode="json"),
            seed=settings.seed,
            speed=str(settings.speed),
            instance=settings.instance,
            autopilot=autopilot,
        )

    def stop(self) -> None:
        """Stop everything, the mission first, PX4 while its clock still runs; safe to call twice."""
        if self._stopped:
            return
        with unbroken():
            self._stopped = True
            try:
                self._end_mission()
            finally:
                self._stack.close()

    def _end_mission(self) -> None:
        mission = self._mission
        if mission is None:
            return
        for number, limit in ((signal.SIGTERM, MISSION_STOP), (signal.SIGKILL, 2.0)):
            if mission.poll() is None:
                _signal_group(mission, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    mission.wait(limit)
        # What the script itself started and left behind.
        _signal_group(mission, signal.SIGKILL)
        if self._mission_lines is not None:
            self._mission_lines.join(timeout=2.0)

    # ---------------------------------------------------------------- what is heard

    def say(self, line: str) -> None:
        """A line for the user and the console log; from any thread."""
        with self._lock:
            self.directory.say(line)
        self._notify(line)

    def _link_says(self, line: str) -> None:
        if not self._stopped:  # that PX4 leaves when it is told to is no news
            self.say(line)

    def _flight_stack_line(self, line: str) -> None:
        with self._lock:
            self.directory.say(f"autopilot: {line}")

    def _hear(self, message: Message) -> None:
        self.messages.append(message)
        with self._lock:
            self.directory.say(f"[{message.time:9.2f} s] autopilot says: {message.text}")

    def progress(self) -> Progress:
        """How it stands; from any thread."""
        return Progress(self.server.status(), self.monitor.status())

    # ---------------------------------------------------------------- the flight

    def fly(self, on_progress: Callable[[Progress], None] = lambda _progress: None) -> Outcome:
        """Start the mission and watch everything until it has ended or failed.

        Args:
            on_progress: called some 20 times a second of wall time.

        Returns:
            how it ended; :meth:`conclude` completes it.

        Raises:
            KeyboardInterrupt: on Ctrl-C; leave the ``with`` block then.
        """
        self._start_mission()
        last_steps, moved = -1, time.monotonic()
        while True:
            progress = self.progress()
            on_progress(progress)
            now = time.monotonic()
            if progress.server.steps != last_steps or progress.server.paused:
                last_steps, moved = progress.server.steps, now
            reason = self._trouble(progress, now - moved)
            status = self._mission.poll() if self._mission is not None else None
            if reason or status is not None:
                break
            time.sleep(TICK)
        succeeded = not reason and status == SUCCEEDED
        if not succeeded and not reason:
            reason = self._mission_reason(status)
        state = self.simulation.states[0]
        self._outcome = Outcome(
            mission=str(self.settings.mission),
            airframe=self.settings.airframe.name,
            flown_by=self.flown_by.name,
            succeeded=succeeded,
            reason=reason,
            seed=self.settings.seed,
            simulated_seconds=progress.server.time,
            wall_seconds=time.monotonic() - self._begun,
            impact_speed=float(state["impact_speed"]),
            battery_used=1.0 - float(progress.server.battery[0, 2]),
        )
        return self._outcome

    def _start_mission(self) -> None:
        settings = self.settings
        if self.plan is not None:
            command = ["-m", "sitl_bridge.flight.fly_plan", str(settings.mission), "--url", settings.url]
        else:
            command = [str(settings.mission), *settings.arguments]
        with unbroken():
            self._mission = subprocess.Popen(
                [sys.executable, "-u", *command],
                env=os.environ | {URL_VARIABLE: settings.url, SYSTEM_VARIABLE: str(settings.instance + 1)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._mission_lines = threading.Thread(target=self._read_mission, name="mission", daemon=True)
        self._mission_lines.start()

    def _read_mission(self) -> None:
        assert self._mission is not None
        assert self._mission.stdout is not None
        with self._mission.stdout as stream:
            for raw in stream:
                line = raw.decode("utf-8", "replace").rstrip()
                if line:
                    self._mission_error = line
                    self.say(line)

    def _mission_reason(self, status: int | None) -> str:
        if self._mission_lines is not None:
            self._mission_lines.join(timeout=2.0)
        if status == INTERRUPTED:
            return "the mission was interrupted"
        if self._mission_error.startswith("mission failed: "):
            return self._mission_error.removeprefix("mission failed: ")
        how = (
            f"was ended by {signal.Signals(-status).name}"
            if status and status < 0
            else f"exited with {status}"
        )
        return f"the mission {how}; its last words: {self._mission_error or 'none'}"

    def _trouble(self, progress: Progress, standing: float) -> str:
        """What makes going on pointless; empty when nothing does."""
        ended = self.flight_stack.ended()
        if ended:
            return ended
        if self.server.failure is not None:
            return f"the simulation stopped: {self.server.failure!r}"
        if not self.server.running:
            return "the simulation stopped"
        if self.monitor.failure is not None:
            return f"the monitor stopped: {self.monitor.failure!r}"
        if standing > STANDSTILL:
            return (
                f"simulated time has stood still for {STANDSTILL:.0f} s: {self.flown_by.name} does not answer"
            )
        waited = time.monotonic() - self._begun
        if not progress.server.links[0].connected and progress.server.steps == 0 and waited > READY_LIMIT:
            port = self.server.ports[0]
            return f"{self.flown_by.name} has not connected to port {port} within {READY_LIMIT:.0f} s"
        if progress.server.time > self.settings.time_limit:
            return f"the time limit of {self.settings.time_limit:g} s of simulated time has passed"
        return ""

    # ---------------------------------------------------------------- afterwards

    def conclude(self) -> tuple[Outcome, FlightRecord | None]:
        """Stop everything, read PX4's log, write summary.json and the picture into the run directory.

        Returns:
            the complete outcome, and the figures of PX4's last log; None where it left none.
        """
        self.stop()
        outcome = self._outcome or Outcome(
            str(self.settings.mission),
            self.settings.airframe.name,
            False,
            "the flight was interrupted",
            flown_by=self.flown_by.name,
        )
        logs = {"run directory": self.directory.path}
        record: FlightRecord | None = None
        ulogs = self.flight_stack.ulogs()
        if ulogs:
            logs["flight log"] = ulogs[-1]
            try:
                record = read_flight(ulogs[-1])
            except UserError as error:
                outcome = _failed(outcome, str(error))
        logs["console log"] = self.directory.path / "console.log"
        logs["ground truth"] = self.directory.truth
        if record is not None and record.air_time > 0:
            picture = self.directory.path / "flight.png"
            from sitl_bridge.flight.picture import draw  # matplotlib takes half a second to load

            draw(record, picture, f"{outcome.mission}, {outcome.airframe}")
            logs["picture"] = picture
        outcome = _with_logs(outcome, logs)
        write_json(summarise(outcome, record, self.messages), self.directory.path / "summary.json")
        return outcome, record


@contextlib.contextmanager
def unbroken() -> Iterator[None]:
    """Let no Ctrl-C (or SIGTERM, SIGHUP) come between the lines of the block; it comes after it.

    Between the start of a process and the note that it must be stopped, and while things are being stopped,
    an exception out of nowhere would leave something behind.  Outside the main thread it has no effect.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    before = {
        number: signal.signal(number, lambda *what: came.append(what))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for caught, frame in came[:1]:
        handler = before[signal.Signals(caught)]
        if callable(handler):
            handler(caught, frame)
        elif handler == signal.SIG_DFL:
            raise KeyboardInterrupt


def _with_logs(outcome: Outcome, logs: dict[str, Path]) -> Outcome:
    values: dict[str, Any] = {**outcome.__dict__, "logs": logs}
    return Outcome(**values)


def _failed(outcome: Outcome, reason: str) -> Outcome:
    reasons = "; ".join(part for part in (outcome.reason, reason) if part)
    values: dict[str, Any] = {**outcome.__dict__, "reason": reasons}
    return Outcome(**values)


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _require_free_udp(port: int, what_for: str) -> None:
    """See that nobody listens on a UDP port of this machine.

    Raises:
        UserError: when somebody does.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise UserError(
                f"UDP port {port}, {what_for}, is taken: {error.strerror}; "
                "stop the program that has it, or choose another --instance"
            ) from error
