"""Opens and ends the flights of a test session, and decides where each is flown."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sitl_bridge.base.errors import UserError
from sitl_bridge.session.ready_session import ReadySession
from sitl_bridge.session.warm_pool import WarmPool
from sitl_bridge.testing.built_in_flight import BuiltInFlight, BuiltInFlights
from sitl_bridge.testing.flight_choice import FlightChoice
from sitl_bridge.session.instances import Instance, claim_instance
from sitl_bridge.testing.linked_flight import LinkedFlight, session_settings
from sitl_bridge.testing.sitl_flight import SitlFlight


class FlightDesk:
    """The flights of one process of a test session.

    Args:
        runs: directory of the run directories.
        worker: number of this process among those that run tests side by side.
        warm: sessions that wait ahead for the next tests.
        notify: takes lines for the user.
    """

    def __init__(
        self,
        runs: Path,
        worker: int = 0,
        warm: int = 0,
        notify: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self.runs, self._worker = runs, worker
        self._built_in = BuiltInFlights()
        self.pool = WarmPool(warm, notify)

    def close(self) -> None:
        """End what waits; safe to call twice."""
        self.pool.close()

    def prepare(self, choice: FlightChoice, name: str) -> None:
        """Start a session for a test that comes next and is reached over MAVLink, where there is room."""
        with contextlib.suppress(UserError):  # the test itself reports it
            self.pool.prepare(_key(choice, name), lambda: self._begin(choice, name))

    def open(self, choice: FlightChoice, name: str, *, linked: bool) -> SitlFlight:
        """Begin a flight that is ready to arm.

        Args:
            choice: what is flown.
            name: of the run.
            linked: whether it must be reached over MAVLink.

        Raises:
            UserError: when it does not become ready.
        """
        if not linked and not choice.needs_processes and choice.speed == float("inf"):
            return BuiltInFlight(choice, self.runs, name, self._built_in)
        session = self.pool.take(_key(choice, name)) or self._settled(choice, name)
        return LinkedFlight(choice, session)

    def _begin(self, choice: FlightChoice, name: str) -> ReadySession:
        """A session that settles from now on.

        Raises:
            UserError: when it cannot be started.
        """
        instances: list[Instance] = []
        try:
            while len(instances) < len(choice.airframes):
                instances.append(claim_instance(self._worker))
            settings = session_settings(choice, self.runs, name, [i.number for i in instances])
            session = ReadySession(settings)
            for instance in instances:
                session.on_end(instance.release)
            session.begin()
        except BaseException:
            for instance in instances:
                instance.release()
            raise
        return session

    def _settled(self, choice: FlightChoice, name: str) -> ReadySession:
        """A session that is ready.

        Raises:
            UserError: when it does not become so, with the place of its logs.
        """
        session = self._begin(choice, name)
        try:
            session.settle()
        except UserError as error:
            session.end(str(error))
            raise UserError(f"{error}; logs in {session.directory.path}") from None
        except BaseException:
            session.stop()
            raise
        return session


def _key(choice: FlightChoice, name: str) -> str:
    return f"{name}\n{choice.key}"


class DeferredFlight:
    """A flight that begins when it is first used.

    Where ``url`` is used first, it is flown with MAVLink; else in this process where that is possible.

    Args:
        begin: begins it, with MAVLink or without.
    """

    def __init__(self, begin: Callable[[bool], SitlFlight]) -> None:
        self._begin = begin
        self.begun: SitlFlight | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self.begun is None:
            self.begun = self._begin(name in ("url", "urls"))
        return getattr(self.begun, name)

    def end(self, *, keep: bool) -> None:
        """End it; safe to call twice.

        Args:
            keep: whether its run directory stays.
        """
        if self.begun is None:
            return
        if keep:
            self.begun.finish("")
        self.begun.close()
        if not keep:
            shutil.rmtree(self.begun.directory, ignore_errors=True)
