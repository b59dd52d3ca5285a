"""The simulation alone, on the simulator link, for a flight stack that is started separately."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.base.kernels.announcement import announced
from sitl_bridge.core.sensors.custom import CustomSensorHost
from sitl_bridge.core.sensors.perception.obstacle_map import reports_obstacles
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.world.world import World, WorldSpecification
from sitl_bridge.link.hil.link_sockets import require_free_link
from sitl_bridge.link.hil.link_state import OnStall
from sitl_bridge.link.hil.link_status import ServerStatus
from sitl_bridge.link.hil.ports import FIRST_PORT
from sitl_bridge.link.hil.server import LockstepServer
from sitl_bridge.link.px4.vehicle_status import VehicleMessage
from sitl_bridge.live.bus.address import BusAddress, is_this_machine
from sitl_bridge.perception.mapping.map_building import seeing_runners
from sitl_bridge.perception.payload_runner import PayloadRunner
from sitl_bridge.record.run_description import describe_simulation
from sitl_bridge.record.run_directory import RunDirectory
from sitl_bridge.record.run_recorder import RunRecorder
from sitl_bridge.session.battery_feed import battery_sample
from sitl_bridge.session.flight_commands import FlightCommands, StackLink, stack_reports
from sitl_bridge.session.monitor import Monitor
from sitl_bridge.session.outlet_choices import OutletChoices
from sitl_bridge.session.outlets import ShownRun, start_outlets

SPACING = 3.0
"""m between vehicles at the start."""
TICK = 0.1
"""s of wall time between checks of the server."""


@dataclass(frozen=True)
class ServeSettings:
    """Settings of a served simulation.

    Attributes:
        airframe: of each vehicle.
        world: around them.
        seed: of all random streams.
        speed: simulated over wall time; inf for as fast as possible.
        host: address to listen on.
        instance: of the flight stack; the port is 4560 + instance.
        on_stall: reaction of the link to a flight stack that stops answering.
        battery: whether PX4 on this host gets the simulated battery.
        bus: broker to publish on; None for none.
        outlets: pages and streams that show the simulation.
        runs: parent of the run directories.
        vehicles: number of vehicles, in a line to the east; each has the port of its own instance.
        startup: directory for PX4's start-up files; None for none.
    """

    airframe: Airframe
    world: WorldSpecification = field(default_factory=WorldSpecification)
    seed: int = 0
    speed: float = 1.0
    host: str = "127.0.0.1"
    instance: int = 0
    on_stall: OnStall = "continue"
    battery: bool = False
    bus: BusAddress | None = None
    outlets: OutletChoices = field(default_factory=OutletChoices)
    runs: Path = Path("runs")
    vehicles: int = 1
    startup: Path | None = None

    @property
    def instances(self) -> range:
        """Instances of the flight stacks, one a vehicle."""
        return range(self.instance, self.instance + self.vehicles)

    @property
    def ports(self) -> list[int]:
        """TCP ports of the simulator links."""
        return [FIRST_PORT + instance for instance in self.instances]


class ServeSession:
    """A simulation that is served within a ``with`` block.

    Args:
        settings: of the simulation.
        notify: receives lines for the user.
        warn: receives warnings; None passes them to ``notify``.

    Raises:
        UserError: for a port that is taken, or a custom sensor that fails.
    """

    def __init__(
        self,
        settings: ServeSettings,
        notify: Callable[[str], None] = lambda _line: None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self.settings = settings
        self._notify = notify
        self._warn = warn or notify
        self._stack = contextlib.ExitStack()
        self._stacks: list[StackLink] = []
        """Links to the flight stacks on this host, with ``battery`` alone."""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving, finish the logs; safe to call twice."""
        self._stack.close()

    def _start(self) -> None:
        settings, stack = self.settings, self._stack
        faults = settings.outlets.faults()
        if faults:
            raise ConfigurationError("cannot serve", faults)
        frame, host = settings.airframe, settings.host
        for port in settings.ports:
            require_free_link(host, port)
        if settings.startup is not None:
            self._write_startup_files(settings.startup)
        with announced(self._notify, "the simulation and its link"):
            setups = [
                VehicleSetup.from_airframe(frame, (0.0, SPACING * number, 0.0), name=str(number))
                for number in range(settings.vehicles)
            ]
            self.simulation = Simulation(World(settings.world), setups, seed=settings.seed)
            self.server = LockstepServer(
                self.simulation,
                ports=settings.ports,
                host=host,
                speed=settings.speed,
                on_stall=settings.on_stall,
                notify=self._notify,
                note_stall=self._note_stall,
            )
            stack.callback(self.server.close)
            self.server.prepare()
        self.directory = RunDirectory(settings.runs, f"serve-{frame.name}")
        stack.callback(self.directory.close)
        self._open_logs()
        self._notify(f"run directory {self.directory.path}")
        if not is_this_machine(host):
            self._warn(
                f"warning: any program that reaches {host}:{settings.ports[0]} can connect as the flight"
                " stack; the link has no password"
            )
        if settings.battery:
            for number in range(settings.vehicles):
                self._start_monitor(number)
        elif any(reports_obstacles(sensor) for sensor in frame.seeing_sensors()):
            self._warn("warning: obstacle distances reach PX4, on this host, with --battery only")
        elif any(isinstance(runner, PayloadRunner) for runners in self._seeing for runner in runners):
            self._warn("warning: PX4 on this host reaches the camera with --battery only")
        self._start_outlets()
        self.server.start()

    def _note_stall(self, vehicle: int, begins: bool) -> None:
        self.recorder.note(self.simulation.time, "stall", vehicle=vehicle, begins=begins)

    def _write_startup_files(self, directory: Path) -> None:
        """Write the files that give PX4 the airframe's parameters; any version of PX4 may read them."""
        # Computing parameters imports scipy, which takes time that other runs save.
        from sitl_bridge.link.px4.airframe_parameters import parameters_for
        from sitl_bridge.link.px4.startup import write_startup_files
        from sitl_bridge.link.px4.versions import named_for

        settings = self.settings
        parameters = parameters_for(
            settings.airframe,
            World(settings.world),
            speed=settings.speed,
            battery_over_mavlink=settings.battery,
        )
        self._notify(f"PX4's start-up files: {write_startup_files(directory, named_for(parameters, None))}")

    def _start_monitor(self, number: int) -> None:
        """Start the MAVLink link to the PX4 of a vehicle: for its battery and its camera's components."""
        cells = self.settings.airframe.battery.cells
        messages: list[VehicleMessage] = []
        monitor = Monitor(
            self.settings.instances[number],
            battery=lambda: battery_sample(self.server, cells, number),
            on_message=messages.append,
        )
        self._stacks.append(StackLink(monitor, messages))
        self._stack.callback(monitor.stop)
        monitor.start()
        for runner in self._seeing[number]:
            runner.companion = monitor.deliver
            if isinstance(runner, PayloadRunner):
                runner.connect(monitor.open_components())

    def _open_logs(self) -> None:
        settings, server, directory = self.settings, self.server, self.directory.path
        prefixes = ["" if settings.vehicles == 1 else f"{number}-" for number in range(settings.vehicles)]
        self._seeing = [
            seeing_runners(
                settings.airframe.seeing_sensors(),
                server.simulation,
                vehicle=number,
                directory=directory,
                title=prefix.__add__,
                errors=server.errors,
            )
            for number, prefix in enumerate(prefixes)
        ]
        custom = [
            CustomSensorHost(
                sensor,
                vehicle=number,
                name=str(number),
                seed=settings.seed,
                table=directory / f"{prefix}{sensor.name}.csv",
                errors=server.errors,
            )
            for number, prefix in enumerate(prefixes)
            for sensor in settings.airframe.custom_sensors()
        ]
        server.hosts = (*custom, *(runner for runners in self._seeing for runner in runners))
        facts = describe_simulation("serve", self.simulation, [settings.airframe] * settings.vehicles, None)
        self.directory.describe(speed=str(settings.speed), **facts)
        self.recorder = self._stack.enter_context(RunRecorder(self.directory.path, server.errors))
        server.recorder = self.recorder
        server.on_restart = lambda vehicle: self.recorder.restart(self.simulation.time, vehicle)
        # In every case the server writes its last rows before the log is closed.
        self._stack.callback(server.close)

    def _start_outlets(self) -> None:
        on_flight = None
        if self._stacks:
            commands = FlightCommands(self._stacks)
            self._stack.callback(commands.close)
            on_flight = commands.ask
        shown = ShownRun(
            self.server,
            self.directory.path,
            self.recorder.command,
            self.server.errors,
            self._notify,
            tuple(self.settings.instances),
            self.server.hosts,
            on_flight=on_flight,
            stacks=lambda: stack_reports(self._stacks),
        )
        settings = self.settings
        start_outlets(
            shown, settings.bus, settings.outlets, lambda outlet: self._stack.callback(outlet.close)
        )

    @property
    def status(self) -> ServerStatus:
        """State of the server, without stopping it; from any thread."""
        return self.server.status()

    def wait(self, on_status: Callable[[ServerStatus], None] | None = None) -> None:
        """Serve until the server ends by itself.

        Args:
            on_status: called about 10 times per second of wall time.

        Raises:
            UserError: if the server has failed.
        """
        while self.server.running:
            if on_status is not None:
                on_status(self.status)
            time.sleep(TICK)
        if self.server.failure is not None:
            raise self.server.failure
