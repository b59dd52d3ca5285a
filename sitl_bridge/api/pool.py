"""Flight stacks that are kept or started ahead, so that the next flight is ready at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from sitl_bridge.api.in_process import FleetPool, InProcessStacks
from sitl_bridge.api.linked import LinkedStacks
from sitl_bridge.api.stacks import Stacks
from sitl_bridge.autopilot.control.gains import ControllerChoice
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.simulation.events import StackEvent
from sitl_bridge.session.instances import Instance, claim_instance
from sitl_bridge.session.ready_session import ReadySession
from sitl_bridge.session.settings import FlightSettings
from sitl_bridge.session.warm_pool import WarmPool


class FlightPool:
    """Makes the flights of a program, one after another or several at a time.

    Fleets of the built-in stack are reset; of processes, those of the next flights start and settle while
    the present one flies.

    Args:
        warm: flights over a link that are started and settled ahead.
        worker: number of this process among those that fly side by side.
        notify: takes lines for the user.
    """

    def __init__(
        self, warm: int = 0, worker: int = 0, notify: Callable[[str], None] = lambda _line: None
    ) -> None:
        self._fleets = FleetPool()
        self._worker = worker
        self.waiting = WarmPool(warm, notify)

    def close(self) -> None:
        """End what waits; safe to call twice."""
        self.waiting.close()

    def prepare(self, settings: FlightSettings, *, instead: bool = False) -> None:
        """Start a flight over a link that comes next, where there is room.

        Args:
            settings: of the flight.
            instead: whether it takes the place of others that wait.
        """
        if instead:
            self.waiting.keep(_key(settings))
        with contextlib.suppress(UserError):  # the flight itself reports it
            self.waiting.prepare(_key(settings), lambda: self._begin(settings))

    def open(
        self,
        settings: FlightSettings,
        *,
        linked: bool,
        controllers: Sequence[ControllerChoice] | None = None,
        files: bool = True,
        record: bool = True,
    ) -> Stacks:
        """A flight that is ready to arm.

        Args:
            settings: of the flight; over a link, its instances are chosen among the free ones.
            linked: whether flight stacks are processes that are reached over MAVLink.
            controllers: of vehicles flown in this process; None for the settings'.
            files: whether a flight in this process writes a run directory.
            record: whether a flight in this process keeps truth and logs at all.

        Raises:
            UserError: for what cannot be flown, and when a vehicle does not become ready.
        """
        if not linked:
            flight = InProcessStacks(settings, controllers, self._fleets, files=files, record=record)
            try:
                flight.settle()
            except UserError as error:
                if not (files and record):
                    raise
                flight.finish(str(error))
                raise UserError(f"{error}; logs in {flight.directory}") from None
            return flight
        return LinkedStacks(self.waiting.take(_key(settings)) or self._settled(settings))

    def _begin(self, settings: FlightSettings) -> ReadySession:
        """A session that settles from now on.

        Raises:
            UserError: when it cannot be started.
        """
        instances: list[Instance] = []
        try:
            while len(instances) < len(settings.vehicles):
                instances.append(claim_instance(self._worker))
            vehicles = tuple(
                replace(vehicle, instance=instance.number)
                for vehicle, instance in zip(settings.vehicles, instances, strict=True)
            )
            session = ReadySession(replace(settings, vehicles=vehicles))
            for instance in instances:
                session.on_end(instance.release)
            session.begin()
        except BaseException:
            for instance in instances:
                instance.release()
            raise
        return session

    def _settled(self, settings: FlightSettings) -> ReadySession:
        """A session that is ready.

        Raises:
            UserError: when it does not become so, with the place of its logs.
        """
        session = self._begin(settings)
        try:
            session.settle()
        except UserError as error:
            session.end(str(error))
            raise UserError(f"{error}; logs in {session.directory.path}") from None
        except BaseException:
            session.stop()
            raise
        return session


def _key(settings: FlightSettings) -> str:
    """The same for flights that differ in nothing that a flight stack is started with."""
    parts = [
        f"{v.airframe.model_dump_json(exclude_defaults=True)} {v.name} {v.position} {v.yaw} {v.autopilot}"
        f" {v.controller} {sorted(v.parameters.items())}"
        for v in settings.vehicles
    ]
    others = (settings.name, settings.seed, settings.px4, settings.speed, settings.runs, settings.proximity)
    return "\n".join([*parts, settings.world.model_dump_json(), str(others)])


def needs_processes(settings: FlightSettings, events: Sequence[object] = ()) -> bool:
    """Whether flight stacks in this process cannot fly it."""
    return any(isinstance(event, StackEvent) for event in (*settings.events, *events))
