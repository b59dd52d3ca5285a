"""Where orders are carried out: by the simulation between two of its steps, or by what flies a formation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from sitl_bridge.bus.command_queue import Order, Result
from sitl_bridge.bus.messages import FormationCommand
from sitl_bridge.bus.run_source import Source
from sitl_bridge.bus.simulation_commands import OnFormation, steer_run, steer_vehicle
from sitl_bridge.errors import UserError

PATIENCE = 5.0
"""s of wall time within which the simulation must take a batch, or its commands are withdrawn and refused."""
FORMATION_PATIENCE = 6.0
"""s of wall time within which whoever flies a formation must answer; a second more than it may take."""


@dataclass
class Batch:
    """Orders on their way to the simulation: executed there, or withdrawn here, never both."""

    orders: list[Order]
    source: Source
    expires: float
    results: list[Result] = field(default_factory=list)
    done: bool = False
    _claim: threading.Lock = field(default_factory=threading.Lock)

    def claim(self) -> bool:
        """Whether the caller is the first to ask, and may execute or withdraw."""
        return self._claim.acquire(blocking=False)

    def run(self) -> None:
        """Execute everything; on the simulation's thread, between two steps."""
        if not self.claim():
            return
        simulation = self.source.simulation
        seconds = (simulation.time - simulation.start) * 1e-6
        for order in self.orders:
            self.results.append(Result(order, seconds, self._execute(order)))
        self.done = True

    def _execute(self, order: Order) -> str | None:
        """Why it was refused; None when it was done."""
        try:
            if order.address.vehicle is None:
                steer_run(order.command, self.source)
            else:
                simulation = self.source.simulation
                vehicle = simulation.names.index(order.address.vehicle)
                steer_vehicle(order.command, simulation, vehicle)
        except UserError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001  (no message, whatever is in it, ends the simulation)
            return f"failed: {error!r}"
        return None


class Execution:
    """Carries out orders that were checked.

    Args:
        source: what runs the simulation.
        on_formation: takes what is for a formation; None refuses it.
        now: s of wall time.
    """

    def __init__(
        self,
        source: Source,
        on_formation: OnFormation | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._on_formation, self._now = source, on_formation, now
        self._batches: list[Batch] = []
        self._asked: list[tuple[Order, Future[None], float]] = []

    @property
    def busy(self) -> bool:
        """Whether anything is under way."""
        return bool(self._batches or self._asked)

    def take(self, orders: list[Order]) -> None:
        """Begin to carry out orders; what comes of it, ``turn`` tells."""
        for order in orders:
            if isinstance(order.command, FormationCommand):
                answer = self._ask(order, order.command)
                self._asked.append((order, answer, self._now() + FORMATION_PATIENCE))
        rest = [order for order in orders if not isinstance(order.command, FormationCommand)]
        if rest:
            batch = Batch(rest, self._source, self._now() + PATIENCE)
            self._batches.append(batch)
            self._source.call(batch.run)

    def turn(self) -> list[Result]:
        """What became of orders since the last turn."""
        results = [result for batch in tuple(self._batches) for result in self._collect(batch)]
        now, seconds = self._now(), self._source.status().time
        over = [asked for asked in self._asked if asked[1].done() or now > asked[2]]
        self._asked = [asked for asked in self._asked if asked not in over]
        return results + [Result(order, seconds, _why_not(answer)) for order, answer, _ in over]

    def _collect(self, batch: Batch) -> list[Result]:
        if batch.done:
            self._batches.remove(batch)
            return batch.results
        if self._now() < batch.expires or not batch.claim():
            return []
        self._batches.remove(batch)
        reason = f"the simulation did not take it within {PATIENCE:g} s"
        seconds = self._source.status().time
        return [Result(order, seconds, reason, withdrawn=True) for order in batch.orders]

    def _ask(self, order: Order, command: FormationCommand) -> Future[None]:
        """Formations are flown outside the simulation's thread, and are told here."""
        answer: Future[None] = Future()
        try:
            if self._on_formation is None:
                raise UserError("nothing in this run flies a formation")
            name = order.address.vehicle
            vehicle = None if name is None else self._source.simulation.names.index(name)
            data = command.model_dump(mode="json", exclude_unset=True)
            answer = self._on_formation(order.address.kind, data, vehicle)
        except Exception as error:  # noqa: BLE001  (the user's code; the bus goes on)
            answer.set_exception(error)
        return answer


def _why_not(answer: Future[None]) -> str | None:
    """Why a formation does not do it; None when it does."""
    if not answer.done():
        return f"the formation has not answered within {FORMATION_PATIENCE:g} s"
    error = answer.exception()
    return None if error is None else str(error) if isinstance(error, UserError) else f"failed: {error!r}"
