"""One vehicle of a flight: what it is, who flies it, its flight stack's process, its monitor, its mission.

The simulation all vehicles share, and the order in which things start and stop, are in fleet.py.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sitl_bridge.autopilot.mavlink.metadata import EVENTS, event_catalogue
from sitl_bridge.autopilot.stack_process import LOG_ENDED, Configuration, StackProcess
from sitl_bridge.error_log import ErrorLog
from sitl_bridge.errors import UserError, did_you_mean, faults_of
from sitl_bridge.files.plan import Plan
from sitl_bridge.hil.ports import offboard_port
from sitl_bridge.hil.server import LockstepServer
from sitl_bridge.mapping.map_building import MapBuilder, seeing_runners
from sitl_bridge.mission_link.time_gate import MissionGate
from sitl_bridge.offboard.live_map import MAP_VARIABLE
from sitl_bridge.offboard.mission_script import SYSTEM_VARIABLE, URL_VARIABLE
from sitl_bridge.output_file import write_whole
from sitl_bridge.perception.payload_runner import PayloadRunner
from sitl_bridge.perception.sensor_runner import SensorRunner
from sitl_bridge.px4.airframe_parameters import parameters_for
from sitl_bridge.px4.event_catalogue import EventCatalogue
from sitl_bridge.px4.px4_process import Px4Process
from sitl_bridge.px4.vehicle_status import VehicleMessage
from sitl_bridge.report.flight_record import FlightRecord
from sitl_bridge.report.summary import Outcome, summarise, write_json
from sitl_bridge.report.ulog_analysis import read_flight
from sitl_bridge.run.autopilot_choice import AutopilotChoice, choose_autopilot
from sitl_bridge.run.battery_feed import battery_sample
from sitl_bridge.run.mission_process import MissionProcess, check_mission
from sitl_bridge.run.monitor import Monitor
from sitl_bridge.sensors.custom import CustomSensorHost
from sitl_bridge.sensors.perception.obstacle_map import reports_obstacles
from sitl_bridge.sensors.perception.payload_camera import PayloadCameraSpecification
from sitl_bridge.sensors.sensor_host import SensorHost
from sitl_bridge.simulation import Simulation
from sitl_bridge.system.child_process import ChildProcess
from sitl_bridge.system.port_holder import holder_of
from sitl_bridge.vehicle.airframe import Airframe
from sitl_bridge.vehicle.controller import BUILT_IN, own_controller
from sitl_bridge.vehicle.vehicle_specification import LAST_INSTANCE, Choice
from sitl_bridge.world.world import World, WorldSpecification

Position = tuple[float, float, float]


@dataclass(frozen=True)
class SessionVehicle:
    """The settings of one vehicle of a session: loaded airframe, place, flight stack, instance and mission.

    A ``vehicle.VehicleSpecification`` is a line of a scenario file, which may stand for several of them.

    Attributes:
        airframe: what it is.
        name: names it and its random streams.
        position: m NED of the point on the ground it stands on.
        yaw: rad.
        instance: of the flight stack, decides all ports.
        autopilot: who flies.
        controller: of the built-in stack, None for the airframe's.
        parameters: of the flight stack, on top of what follows from the airframe.
        mission: a plan or a script of its own; None where something flies all vehicles.
        arguments: handed to the script.
        python: interpreter of the script; None for this program's.
    """

    airframe: Airframe
    name: str = "0"
    position: Position = (0.0, 0.0, 0.0)
    yaw: float = 0.0
    instance: int = 0
    autopilot: Choice = "auto"
    controller: str | None = None
    parameters: Mapping[str, int | float] = field(default_factory=dict)
    mission: Path | None = None
    arguments: tuple[str, ...] = ()
    python: Path | None = None

    @property
    def offboard_port(self) -> int:
        """UDP port of the offboard link's far end."""
        return offboard_port(self.instance)

    @property
    def url(self) -> str:
        """Where MAVSDK hears the vehicle."""
        return f"udpin://127.0.0.1:{self.offboard_port}"

    def check(
        self, world: WorldSpecification, px4: Path | None
    ) -> tuple[AutopilotChoice | None, Plan | None, list[str]]:
        """Look for everything that would go wrong later.

        Returns:
            who flies, the plan where it flies one of its own, and what is wrong.
        """
        faults = []
        if not 0 <= self.instance <= LAST_INSTANCE:
            faults.append(f"--instance: {self.instance} is not within 0..{LAST_INSTANCE}")
        plan: Plan | None = None
        flown_by: AutopilotChoice | None = None
        try:
            if self.mission is not None:
                plan = check_mission(self.mission, self.arguments, world.origin, self.python)
        except UserError as error:
            faults += faults_of(error)
        try:
            flown_by = choose_autopilot(self.autopilot, px4)
        except UserError as error:
            faults += faults_of(error)
        if self.controller is None:
            return flown_by, plan, faults
        if flown_by is not None and flown_by.px4 is not None:
            faults.append("--controller: is for the built-in stack, and PX4 flies; add --autopilot builtin")
        else:
            faults += [
                f"--controller: {fault}" for fault in controller_faults(self.controller, self.airframe)
            ]
        return flown_by, plan, faults


def controller_faults(law: str, airframe: Airframe) -> list[str]:
    """What is wrong with a controller's name; what its file holds shows when the stack loads it."""
    own = own_controller(law)
    if own is not None:
        return [] if own[0].is_file() else [f"{own[0]}: no such file"]
    if law not in BUILT_IN:
        near = did_you_mean(law, BUILT_IN)
        return [f"there is no {law!r}{near}; give {', '.join(BUILT_IN)} or FILE.py:CLASS"]
    if law == "rotors" and airframe.controller.rotors is None:
        return [f"RotorS publishes no gains for {airframe.name}; lee flies it"]
    return []


def sensor_hosts(
    vehicles: Sequence[SessionVehicle], simulation: Simulation, directory: Path, errors: ErrorLog
) -> list[SensorHost]:
    """Hosts of all vehicles' sensors that run between steps.

    Args:
        vehicles: checked.
        simulation: where they fly.
        directory: of the run, for the tables of users' own sensors and for recordings.
        errors: takes the end of a recording that cannot go on.
    """
    hosts: list[SensorHost] = []
    for number, vehicle in enumerate(vehicles):
        for sensor in vehicle.airframe.custom_sensors():
            name = sensor.name if len(vehicles) == 1 else f"{vehicle.name}-{sensor.name}"
            table = directory / f"{name}.csv"
            host = CustomSensorHost(
                sensor, vehicle=number, name=vehicle.name, seed=simulation.seed, table=table, errors=errors
            )
            hosts.append(host)
        prefix = "" if len(vehicles) == 1 else f"{vehicle.name}-"
        hosts += seeing_runners(
            vehicle.airframe.seeing_sensors(),
            simulation,
            vehicle=number,
            directory=directory,
            title=prefix.__add__,
            errors=errors,
        )
    return hosts


class VehicleRun:
    """The processes of one vehicle of a session while it flies: flight stack, monitor and mission.

    Its settings are a ``SessionVehicle``, made of a line (``vehicle.VehicleSpecification``) of a scenario.

    Args:
        settings: checked.
        flown_by: who flies.
        number: in the simulation.
        directory: the flight stack's working directory, which exists and is fresh.
        say: takes lines for the user.
        keep: takes lines for the log alone.
        errors: takes what the flight outlives.
    """

    def __init__(
        self,
        settings: SessionVehicle,
        flown_by: AutopilotChoice,
        number: int,
        directory: Path,
        say: Callable[[str], None],
        keep: Callable[[str], None],
        errors: ErrorLog,
    ) -> None:
        self.settings = settings
        self.flown_by = flown_by
        self.number = number
        self.directory = directory
        self.messages: list[VehicleMessage] = []
        self.lost = ""
        """How its flight stack ended, while the others fly on."""
        self.summary: dict[str, Any] = {}
        """What summary.json says of it, once the flight is concluded."""
        self.mission: MissionProcess | None = None
        self.flight_stack: ChildProcess | None = None
        self._say = say
        self._keep = keep
        self._errors = errors

    @property
    def lost_in_short(self) -> str:
        """How its flight stack ended, without its last words."""
        return self.lost.partition("; its last words")[0]

    # ---------------------------------------------------------------- start and stop

    def start_builtin(self, world: WorldSpecification, step: int) -> None:
        """Start the built-in flight stack."""
        settings = self.settings
        configuration = Configuration(
            airframe=settings.airframe,
            world=world,
            instance=settings.instance,
            step=step,
            controller=settings.controller,
            parameters=dict(settings.parameters),
        )
        self.flight_stack = StackProcess(configuration, self.directory, self._stack_line)

    def px4_parameters(self, world: World, speed: float) -> dict[str, int | float]:
        """What PX4 is told."""
        return dict(parameters_for(self._airframe_for_px4(), world, speed))

    def start_px4(self, world: World, speed: float, *, lean: bool = False, expose: bool = False) -> None:
        """Start PX4; ``lean`` and ``expose`` as of Px4Process."""
        assert self.flown_by.px4 is not None
        airframe = self._airframe_for_px4()
        # A camera needs the link to the payload as PX4 has it.
        lean = lean and not any(isinstance(s, PayloadCameraSpecification) for s in airframe.seeing_sensors())
        process = Px4Process(
            self.flown_by.px4,
            self.settings.instance,
            self.directory,
            parameters_for(airframe, world, speed),
            self._stack_line,
            given=airframe.px4.parameters,
            lean=lean,
            expose=expose,
        )
        if process.unchanged:
            lines = ", ".join(process.unchanged)
            self._say(f"px4-rc.mavlink of this PX4 has no line for {lines}; it sends more than a fleet needs")
        if process.exposed:
            self._say(f"other machines can reach PX4's MAVLink ports and its files: {process.exposed}")
        self.flight_stack = process
        self.monitor.read_back = process.read_back()

    @property
    def parameters_pending(self) -> bool:
        """Whether PX4 has not yet confirmed all parameters it was given."""
        read_back = self.monitor.read_back
        return read_back is not None and not read_back.done

    @property
    def parameter_fault(self) -> str:
        """Which parameters did not reach PX4; empty where all did."""
        read_back = self.monitor.read_back
        return "" if read_back is None else read_back.fault()

    def _airframe_for_px4(self) -> Airframe:
        airframe = self.settings.airframe
        given = {**airframe.px4.parameters, **self.settings.parameters}
        section = airframe.px4.model_copy(update={"parameters": given})
        return airframe.model_copy(update={"px4": section})

    def open_monitor(self, server: LockstepServer) -> Monitor:
        """Listen to the vehicle; the caller polls, or starts the monitor's own thread."""
        self.monitor = Monitor(
            self.settings.instance,
            catalogue=self._catalogue(),
            battery=lambda: battery_sample(server, self.settings.airframe.battery.cells, self.number),
            on_message=self._hear,
        )
        self._open_companion(server.hosts)
        return self.monitor

    def _open_companion(self, hosts: Sequence[SensorHost]) -> None:
        """Let the sensors' companion computer speak to PX4 over the monitor's link."""
        own = [h for h in hosts if isinstance(h, SensorRunner) and h.vehicle == self.number]
        for runner in own:
            if isinstance(runner, PayloadRunner):
                runner.connect(self.monitor.open_components())
        if self.flown_by.px4 is not None:
            for runner in own:
                runner.companion = self.monitor.deliver
        elif any(reports_obstacles(runner.specification) for runner in own):
            self._say("the built-in stack has no collision prevention; obstacle distances are not sent to it")

    def start_mission(self, variables: Mapping[str, str], server: LockstepServer) -> None:
        """Start the mission of its own, where it has one, with more variables in its environment."""
        settings = self.settings
        if settings.mission is None:
            return
        if settings.mission.suffix == ".plan":
            command = ["-m", "sitl_bridge.offboard.plan_runner", str(settings.mission), "--url", settings.url]
        else:
            command = [str(settings.mission), *settings.arguments]
        environment = {URL_VARIABLE: settings.url, SYSTEM_VARIABLE: str(settings.instance + 1), **variables}
        built = [h.mapper for h in server.hosts if isinstance(h, SensorRunner) and h.vehicle == self.number]
        for builder in built:
            if isinstance(builder, MapBuilder) and builder.file is not None:
                environment[MAP_VARIABLE] = str(builder.file.resolve())
        gate, python = MissionGate(server.limit_time()), settings.python
        self.mission = MissionProcess(command, environment, self._say, gate=gate, python=python)

    def stop_mission(self) -> None:
        """End its mission."""
        if self.mission is not None:
            self.mission.stop()

    def stop(self) -> None:
        """Stop the flight stack."""
        if self.flight_stack is not None:
            self.flight_stack.stop()

    # ---------------------------------------------------------------- what is heard

    def _catalogue(self) -> EventCatalogue | None:
        if self.flown_by.px4 is None:
            path = self.directory / EVENTS
            return EventCatalogue(write_whole(path, json.dumps(event_catalogue())))
        path = self.flown_by.px4.etc / "extras" / "all_events.json.xz"
        return EventCatalogue(path) if path.is_file() else None

    def _stack_line(self, line: str) -> None:
        self._keep(f"autopilot: {line}")
        if line.startswith(LOG_ENDED) and self.flown_by.px4 is None:
            self._errors.add("recording of the flight log", UserError(line.removeprefix(LOG_ENDED)))

    def _hear(self, message: VehicleMessage) -> None:
        self.messages.append(message)
        self._keep(f"[{message.time:9.2f} s] autopilot says: {message.text}")

    # ---------------------------------------------------------------- afterwards

    def description(self, world: World, speed: float) -> dict[str, Any]:
        """The vehicle's mission and its flight stack as plain values, for the run's description.

        Args:
            world: it flies in.
            speed: simulated over wall time.
        """
        settings, build = self.settings, self.flown_by.px4
        autopilot: dict[str, Any] = {"name": self.flown_by.name}
        if build is not None:
            parameters = self.px4_parameters(world, speed)
            autopilot |= {"root": str(build.root), "version": build.version, "parameters": parameters}
        else:
            autopilot["controller"] = settings.controller or settings.airframe.controller.kind
        mission = settings.mission
        plan = mission is not None and mission.suffix == ".plan"
        return {
            "mission": None if mission is None else str(mission),
            "plan": json.loads(mission.read_text(encoding="utf-8")) if mission is not None and plan else None,
            "arguments": list(settings.arguments),
            "instance": settings.instance,
            "autopilot": autopilot,
        }

    def outcome(self, mission: str, reason: str, **figures: Any) -> Outcome:
        """How its flight ended.

        Args:
            mission: what was flown, in words.
            reason: why it did not succeed; empty where it did.
            figures: of the whole flight, for Outcome.
        """
        return Outcome(
            mission,
            self.settings.airframe.name,
            not reason,
            reason,
            flown_by=self.flown_by.name,
            **figures,
        )

    def conclude(
        self, outcome: Outcome, directory: Path, logs: dict[str, Path], *, picture: bool
    ) -> tuple[Outcome, FlightRecord | None]:
        """Read the flight stack's log; write summary.json, and a picture, into a directory.

        Args:
            outcome: what the session knows.
            directory: for the files.
            logs: what is where so far.
            picture: whether to draw one.

        Returns:
            the complete outcome, and the figures of the last log; None where it left none.
        """
        errors = self._errors
        record: FlightRecord | None = None
        ulogs = self.flight_stack.ulogs() if self.flight_stack is not None else []
        if ulogs:
            logs = {**logs, "flight log": ulogs[-1]}
            with errors.guard("reading of the flight log"):
                record = read_flight(ulogs[-1])
        if picture and record is not None and record.air_time > 0:
            # matplotlib takes 0.4 s, which no flight waits for at its start.
            from sitl_bridge.report.plot_flight import draw

            path = directory / "flight.png"
            with errors.guard("drawing of the picture"):
                draw(record, path, f"{outcome.mission}, {outcome.airframe}")
                logs = {**logs, "picture": path}
        outcome = _with_errors(replace(outcome, logs=logs), errors)
        self.summary = summarise(outcome, record, self.messages)
        with errors.guard("writing of the summary"):
            write_json(self.summary, directory / "summary.json")
        return _with_errors(outcome, errors), record


def _with_errors(outcome: Outcome, errors: ErrorLog) -> Outcome:
    """An outcome with the errors of the flight, which has not succeeded where there are any."""
    return replace(outcome, errors=tuple(errors.lines), succeeded=outcome.succeeded and not errors.lines)


def require_free_udp(port: int, what_for: str) -> None:
    """See that nobody listens on a UDP port of this machine.

    Raises:
        UserError: when somebody does.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise UserError(
                f"UDP port {port}, {what_for}, is taken by {holder_of(port, 'udp')}; "
                "stop it, or choose another --instance"
            ) from error
