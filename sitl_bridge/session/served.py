"""Serves the simulation to flight stacks that others start: in a debugger, in Docker, on another host."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from sitl_bridge.core.sensors.perception.obstacle_map import reports_obstacles
from sitl_bridge.core.world.world import World
from sitl_bridge.link.hil.link_status import ServerStatus
from sitl_bridge.live.bus.address import is_this_machine
from sitl_bridge.perception.sensor_runner import SensorRunner
from sitl_bridge.session.run import TICK, Run
from sitl_bridge.session.settings import ExternalStacks


class ServedSimulation(Run):
    """Serves the simulation until it is stopped; call :meth:`wait`.

    Settings and errors are those of ``Run``.
    """

    kind = "serve"

    @property
    def _external(self) -> ExternalStacks:
        assert self.settings.external is not None
        return self.settings.external

    def prepare(self) -> None:
        """Write the files that PX4 is started with, where they are asked for."""
        if self._external.startup is not None:
            self._write_startup_files(self._external.startup, battery=self._external.battery)

    def open(self) -> None:
        """Open the links by which PX4 gets the battery, and say what external flight stacks cannot have."""
        if self._external.battery:
            self.open_monitors()
        self._warn()

    def _write_startup_files(self, directory: Path, *, battery: bool) -> None:
        """Write the files that give PX4 the airframe's parameters; any version of PX4 may read them."""
        # Computing parameters imports scipy, which takes time that other runs save.
        from sitl_bridge.link.px4.airframe_parameters import parameters_for
        from sitl_bridge.link.px4.startup import write_startup_files
        from sitl_bridge.link.px4.versions import rename_for

        settings = self.settings
        parameters = parameters_for(
            self.vehicles[0].airframe_for_px4(),
            World(settings.world),
            speed=settings.speed,
            battery_over_mavlink=battery,
        )
        chosen = self.vehicles[0].chosen
        file = write_startup_files(
            directory, rename_for(parameters, None), () if chosen is None else chosen.flown
        )
        count = len(self.vehicles)  # alike, and the files take ports from PX4's instance
        self.say(f"PX4's start-up files{'' if count == 1 else f' of all {count} vehicles'}: {file}")

    def _warn(self) -> None:
        """Say where the recording is, and warn of what external flight stacks cannot have."""
        settings = self.settings
        self.say(f"run directory {self.directory.path}")
        if not is_this_machine(settings.host):
            self.say(
                f"warning: any program that reaches {settings.host}:{settings.ports[0]} can connect as the"
                " flight stack; the link has no password"
            )
        if self._external.battery:
            return
        airframe = settings.vehicles[0].airframe
        if any(reports_obstacles(sensor) for sensor in airframe.perception_sensors()):
            self.say("warning: obstacle distances reach PX4, on this host, with --battery only")
        elif any(isinstance(host, SensorRunner) and host.has_components for host in self.server.hosts):
            self.say("warning: PX4 on this host reaches the camera with --battery only")

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
