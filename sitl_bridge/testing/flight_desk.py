"""Opens and ends the flights of a test session, and decides where each is flown."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sitl_bridge.errors import UserError
from sitl_bridge.run.ready_session import ReadySession
from sitl_bridge.testing.built_in_flight import BuiltInFlight, BuiltInFlights
from sitl_bridge.testing.flight_choice import FlightChoice
from sitl_bridge.testing.instances import Instance, claim_instance
from sitl_bridge.testing.linked_flight import LinkedFlight, session_settings
from sitl_bridge.testing.sitl_flight import SitlFlight


class FlightDesk:
    """The flights of one process of a test session.

    Args:
        runs: directory of the run directories.
        worker: number of this process among those that run tests side by side.
    """

    def __init__(self, runs: Path, worker: int = 0) -> None:
        self.runs, self._worker = runs, worker
        self._built_in = BuiltInFlights()

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
        try:
            session.settle()
        except UserError as error:
            session.end(str(error))
            raise UserError(f"{error}; logs in {session.directory.path}") from None
        except BaseException:
            session.stop()
            raise
        return LinkedFlight(choice, session)


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
