"""Execution of orders: by the simulation between two steps, a formation or a flight stack."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeAlias

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import ReadJson
from sitl_bridge.core.simulation.events import apply_event, event_of_command
from sitl_bridge.link.hil.run_clock import RunClock
from sitl_bridge.live.run.command_queue import Order, Result
from sitl_bridge.live.run.messages import (
    BusCommand,
    DelegatedCommand,
    FlightCommand,
    Pause,
    Resume,
    SetPace,
    SetWind,
    Step,
)

OnCommand: TypeAlias = Callable[[str, ReadJson, int | None], "Future[None]"]
"""Executes a delegated command, given its kind, its data, and the vehicle's number (None: all); the future
completes with the execution.  Raises UserError to refuse it, at once or in the future."""
CommandListener: TypeAlias = Callable[[int, str, int | None, ReadJson, str | None], None]
"""Takes each command that was carried out or refused: us of simulated time, the last level of its topic, the
vehicle's number (None: the whole run), its message, and the reason of a refusal (None: carried out)."""

EXECUTION_TIMEOUT = 5.0
"""Time in which the simulation must start a batch, s of wall time; then its commands are withdrawn and
refused."""
DELEGATED_TIMEOUT = 6.0
"""Time in which a formation or a flight stack must answer, s of wall time; one second more than their own
limits."""


@dataclass
class Batch:
    """Orders passed to the simulation, which are either executed there or withdrawn here."""

    orders: list[Order]
    source: RunClock
    expires: float
    listener: CommandListener
    results: list[Result] = field(default_factory=list)
    done: bool = False
    _claim: threading.Lock = field(default_factory=threading.Lock)

    def claim(self) -> bool:
        """Return whether the caller is the first, and so may execute or withdraw the batch."""
        return self._claim.acquire(blocking=False)

    def run(self) -> None:
        """Execute all orders, on the simulation's thread between two steps."""
        if not self.claim():
            return
        simulation = self.source.simulation
        seconds = (simulation.time - simulation.start) * 1e-6
        for order in self.orders:
            time_us, refused = simulation.time, self._execute(order)
            report_result(self.listener, order, time_us, simulation.names, refused)
            self.results.append(Result(order, seconds, refused))
        self.done = True

    def _execute(self, order: Order) -> str | None:
        try:
            if order.address.vehicle is None:
                execute_for_run(order.command, self.source)
            else:
                simulation = self.source.simulation
                vehicle = simulation.names.index(order.address.vehicle)
                data = order.command.model_dump(exclude_unset=True)
                event, begins = event_of_command(order.address.kind, data)
                apply_event(event, begins, simulation, [vehicle])
        except UserError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001  (no message may end the simulation)
            return f"failed: {error!r}"
        return None


def execute_for_run(command: BusCommand, source: RunClock) -> None:
    """Execute a command for the whole run.

    Raises:
        UserError: if it is impossible.
    """
    match command:
        case SetWind():
            source.simulation.world.set_wind(command.wind, source.simulation.time)
        case SetPace():
            source.set_speed(math.inf if command.speed == "max" else float(command.speed))
        case Pause():
            source.pause()
        case Resume():
            source.resume()
        case Step():
            source.step(command.count)


def report_result(
    listener: CommandListener, order: Order, time_us: int, names: Sequence[str], refused: str | None
) -> None:
    """Pass an order that was carried out or refused to a listener."""
    address = order.address
    vehicle = None if address.vehicle is None else names.index(address.vehicle)
    data = order.command.model_dump(mode="json", exclude_unset=True)
    listener(time_us, address.kind, vehicle, data, refused)


class Execution:
    """Executes validated orders.

    Args:
        on_formation: executes formation commands; None refuses them.
        now: wall time, s.
        on_flight: executes commands for flight stacks; None refuses them.
        listener: takes each command that was carried out or refused.
    """

    def __init__(
        self,
        source: RunClock,
        on_formation: OnCommand | None = None,
        now: Callable[[], float] = time.monotonic,
        on_flight: OnCommand | None = None,
        listener: CommandListener = lambda _time, _name, _vehicle, _data, _refused: None,
    ) -> None:
        self._source, self._on_formation, self._now = source, on_formation, now
        self._on_flight = on_flight
        self._listener = listener
        self._batches: list[Batch] = []
        self._asked: list[tuple[Order, Future[None], float]] = []

    @property
    def busy(self) -> bool:
        """Whether an order is in progress."""
        return bool(self._batches or self._asked)

    def take(self, orders: list[Order]) -> None:
        """Start the execution of orders; ``poll`` returns the results."""
        for order in orders:
            if isinstance(order.command, DelegatedCommand):
                answer = self._ask(order, order.command)
                self._asked.append((order, answer, self._now() + DELEGATED_TIMEOUT))
        rest = [order for order in orders if not isinstance(order.command, DelegatedCommand)]
        if rest:
            batch = Batch(rest, self._source, self._now() + EXECUTION_TIMEOUT, self._listener)
            self._batches.append(batch)
            self._source.call(batch.run)

    def poll(self) -> list[Result]:
        """Return the results since the last call."""
        results = [result for batch in tuple(self._batches) for result in self._collect(batch)]
        now, seconds = self._now(), self._source.status().seconds
        over = [asked for asked in self._asked if asked[1].done() or now > asked[2]]
        self._asked = [asked for asked in self._asked if asked not in over]
        for order, answer, _ in over:
            refused = _refusal_reason(answer)
            simulation = self._source.simulation
            report_result(self._listener, order, simulation.time, simulation.names, refused)
            results.append(Result(order, seconds, refused))
        return results

    def _collect(self, batch: Batch) -> list[Result]:
        if batch.done:
            self._batches.remove(batch)
            return batch.results
        if self._now() < batch.expires or not batch.claim():
            return []
        self._batches.remove(batch)
        reason = f"the simulation did not start it within {EXECUTION_TIMEOUT:g} s"
        seconds = self._source.status().seconds
        return [Result(order, seconds, reason, withdrawn=True) for order in batch.orders]

    def _ask(self, order: Order, command: DelegatedCommand) -> Future[None]:
        """Pass a command to the formation or the flight stacks, outside the simulation's thread."""
        answer: Future[None] = Future()
        flight = isinstance(command, FlightCommand)
        execute = self._on_flight if flight else self._on_formation
        try:
            if execute is None:
                missing = "no link to its flight stacks for commands" if flight else "no formation"
                raise UserError(f"this run has {missing}")
            name = order.address.vehicle
            vehicle = None if name is None else self._source.simulation.names.index(name)
            data = command.model_dump(mode="json", exclude_unset=True)
            answer = execute(order.address.kind, data, vehicle)
        except Exception as error:  # noqa: BLE001  (the user's code; the bus goes on)
            answer.set_exception(error)
        return answer


def _refusal_reason(answer: Future[None]) -> str | None:
    """Return the reason of a refusal; None if the command was accepted."""
    if not answer.done():
        return f"no answer within {DELEGATED_TIMEOUT:g} s"
    error = answer.exception()
    return None if error is None else str(error) if isinstance(error, UserError) else f"failed: {error!r}"
