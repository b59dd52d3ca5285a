"""Flight stacks that are kept or started ahead, so that the next flight is ready at once."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sitl_bridge.api.in_process import FleetPool, InProcessStacks
from sitl_bridge.api.linked import LinkedStacks
from sitl_bridge.api.stacks import Stacks
from sitl_bridge.autopilot.control.gains import ControllerChoice
from sitl_bridge.base.error_log import cause
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.simulation.events import StackEvent
from sitl_bridge.session.instances import Instance, claim_instance
from sitl_bridge.session.ready_session import ReadySession
from sitl_bridge.session.settings import FlightSettings

LOOK = 0.05
"""s of wall time between looks at the sessions that settle or wait."""


@dataclass
class _Waiting:
    """A session of the pool."""

    key: str  # by which it is taken
    session: ReadySession  # begun
    settled: threading.Event = field(default_factory=threading.Event)  # set when it is ready, or has failed
    fault: str = ""  # why it is not to be used; empty while it is


class WarmPool:
    """Keeps sessions ready.  Use one from a single thread, which must outlive it.

    A session of the pool stands still on the ground: its flight stack is connected, its estimator is aligned
    and its parameters are read back.  A flight takes it, and it is never used for a second one.

    Args:
        most: sessions that wait at once; 0 keeps none.
        notify: takes one line for each session that ends while it waits.
    """

    def __init__(self, most: int, notify: Callable[[str], None]) -> None:
        self.most = most
        self._notify = notify
        self._waiting: list[_Waiting] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        """Sessions that wait or settle."""
        return len(self._waiting)

    def __iter__(self) -> Iterator[_Waiting]:
        return iter(self._waiting)

    def holds(self, key: str) -> bool:
        """Whether a session waits or settles under a key."""
        return any(one.key == key for one in self._waiting)

    def prepare(self, key: str, make: Callable[[], ReadySession]) -> bool:
        """Begin a session that settles from now on; the caller does not wait for it.

        Args:
            key: under which it is taken.
            make: begins it, on this thread.

        Returns:
            whether there was room; there is none after ``close``.
        """
        if self._stop.is_set() or len(self._waiting) >= self.most or self.holds(key):
            return False
        one = _Waiting(key, make())
        with self._lock:
            self._waiting.append(one)
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="warm pool", daemon=True)
            self._thread.start()
        return True

    def take(self, key: str) -> ReadySession | None:
        """Take a session, once it has settled; None where none was prepared, or it has failed."""
        one = next((one for one in self._waiting if one.key == key), None)
        if one is None:
            return None
        one.settled.wait()
        with self._lock:
            self._waiting.remove(one)
        if one.fault:
            self._discard(one)
            return None
        return one.session

    def keep(self, key: str) -> None:
        """End those that wait or settle under another key."""
        for one in [one for one in self._waiting if one.key != key]:
            with self._lock:
                self._waiting.remove(one)
            self._discard(one)

    def close(self) -> None:
        """End all; safe to call twice."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        while self._waiting:
            self._discard(self._waiting.pop())

    def _watch(self) -> None:
        """Settle the sessions, and look after those that wait."""
        while not self._stop.wait(LOOK):
            with self._lock:
                for one in self._waiting:
                    if not one.fault:
                        self._look_at(one)

    def _look_at(self, one: _Waiting) -> None:
        try:
            if one.settled.is_set():
                one.session.raise_failure()
            elif one.session.look_whether_ready():
                one.session.hold()
                one.settled.set()
        except Exception as error:  # noqa: BLE001  (reported; the next flight begins its own session)
            state = "waited for its flight" if one.settled.is_set() else "was made ready"
            one.fault = cause(error)
            self._notify(
                f"{one.session.vehicles[0].autopilot.name} ended while it {state}, and another is started:"
                f" {one.fault}"
            )
            one.settled.set()

    def _discard(self, one: _Waiting) -> None:
        """Stop a session that was not flown, and remove its run directory."""
        directory: Path = one.session.directory.path
        one.session.stop()
        shutil.rmtree(directory, ignore_errors=True)


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
        return LinkedStacks(self.waiting.take(_key(settings)) or self._try_settled(settings))

    def _begin(self, settings: FlightSettings) -> ReadySession:
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
            session.__enter__()
        except BaseException:
            for instance in instances:
                instance.release()
            raise
        return session

    def _try_settled(self, settings: FlightSettings) -> ReadySession:
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
        f" {v.controller} {sorted(v.parameters.items())} {v.parameter_file}"
        for v in settings.vehicles
    ]
    others = (settings.name, settings.seed, settings.px4, settings.speed, settings.runs, settings.proximity)
    return "\n".join([*parts, settings.world.model_dump_json(), str((*others, settings.wait))])


def needs_processes(settings: FlightSettings, events: Sequence[object] = ()) -> bool:
    """Whether flight stacks in this process cannot fly it."""
    return any(isinstance(event, StackEvent) for event in (*settings.events, *events))
