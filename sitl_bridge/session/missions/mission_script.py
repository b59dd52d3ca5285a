"""Common parts of mission scripts: command line, connection, Ctrl-C and exit code.

A mission is a coroutine that gets a vehicle and the parsed options.  Exit codes: 0 the mission succeeded,
1 it failed (the reason is on stderr), 2 the command line is wrong, 130 it was interrupted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import os
import selectors
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeAlias

from mavsdk.asyncio import MavsdkError

from sitl_bridge.base.error_log import cause
from sitl_bridge.base.errors import UserError
from sitl_bridge.session.missions.connection import connect
from sitl_bridge.session.missions.environment import (
    FAILED,
    INTERRUPTED,
    SUCCEEDED,
    SYSTEM_VARIABLE,
    URL_VARIABLE,
)
from sitl_bridge.session.missions.mavsdk_vehicle import Vehicle, reason, within
from sitl_bridge.session.missions.time_gate import TimeGate, time_gate

DEFAULT_URL = "udpin://127.0.0.1:14540"
"""Connection URL of the offboard link of PX4's first simulated instance."""

Mission: TypeAlias = Callable[[Vehicle, argparse.Namespace], Awaitable[None]]


def command_line(description: str | None, url: str = "url") -> argparse.ArgumentParser:
    """Parser with the connection options; a mission adds its own options to it.

    Args:
        description: docstring of the mission, whose first paragraph is shown.
        url: ``url`` for an argument, ``--url`` for an option.
    """
    parser = argparse.ArgumentParser(
        description=(description or "").split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        url,
        default=os.environ.get(URL_VARIABLE) or DEFAULT_URL,
        help=f"connection URL of the vehicle, e.g. udpin://0.0.0.0:14540 (${URL_VARIABLE} sets the default)",
        **({} if url.startswith("--") else {"nargs": "?"}),  # type: ignore[arg-type]
    )
    parser.add_argument(
        "--connect-limit",
        type=positive,
        default=30.0,
        metavar="S",
        help="time limit in s for finding the vehicle",
    )
    parser.add_argument(
        "--system",
        type=int,
        default=os.environ.get(SYSTEM_VARIABLE) or None,
        metavar="ID",
        help=f"MAVLink system id of the vehicle, if several send there (${SYSTEM_VARIABLE} sets the default)",
    )
    return parser


def positive(text: str) -> float:
    """Argument type: a finite number above 0.

    Raises:
        argparse.ArgumentTypeError: for anything else.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number above 0")
    return value


def run(mission: Mission, parser: argparse.ArgumentParser, arguments: list[str] | None = None) -> int:
    """Parse the command line, connect, fly the mission.

    Ctrl-C (or SIGTERM) ends the mission; a vehicle in the air is commanded to hold its position.

    Returns:
        The exit code.
    """
    options = parser.parse_args(arguments)
    return run_coroutine(lambda: _fly(mission, options))


def run_coroutine(fly: Callable[[], Coroutine[None, None, None]]) -> int:
    """Run a flight to its end; returns the exit code, and prints the reason of a failure to stderr."""
    # MAVSDK calls back from its own threads, which wait up to this long for the interpreter.  Python's
    # default of 5 ms is 0.1 s for a vehicle at 20 times real time, and MAVSDK drops callbacks that queue up.
    sys.setswitchinterval(0.0005)
    gate = time_gate()  # reports that this mission uses it, so that simulated time is not limited otherwise
    try:
        with asyncio.Runner(loop_factory=(lambda: TurnLoop(gate)) if gate.turn else None) as runner:
            return runner.run(_main(fly))
    except KeyboardInterrupt:
        return INTERRUPTED


async def _main(fly: Callable[[], Coroutine[None, None, None]]) -> int:
    flight = asyncio.ensure_future(fly())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, flight.cancel)
    try:
        await flight
    except asyncio.CancelledError:
        print("interrupted", file=sys.stderr, flush=True)
        return INTERRUPTED
    except UserError as error:
        print(f"mission failed: {error}", file=sys.stderr, flush=True)
        return FAILED
    except OSError as error:
        print(f"mission failed: {cause(error)}", file=sys.stderr, flush=True)
        return FAILED
    except MavsdkError as error:
        origin = getattr(error, "origin", "MAVSDK")
        print(f"mission failed: {origin}: {reason(error)}", file=sys.stderr, flush=True)
        return FAILED
    print("mission succeeded", flush=True)
    return SUCCEEDED


async def _fly(mission: Mission, options: argparse.Namespace) -> None:
    async with connect(options.url, options.connect_limit, options.system) as vehicle:
        vehicle.say(f"connected on {options.url}")
        try:
            await mission(vehicle, options)
        except (asyncio.CancelledError, UserError, MavsdkError):
            await leave_safely(vehicle)
            raise


async def leave_safely(vehicle: Vehicle) -> None:
    """Command a vehicle in the air to hold its position; if it does not answer, its failsafes act."""
    if vehicle.armed and vehicle.height > 0.5:
        print(f"{vehicle.prefix}commanding the vehicle to hold its position", file=sys.stderr, flush=True)
        with contextlib.suppress(asyncio.CancelledError):
            await within(3.0, vehicle.action.hold())


class _Selector(selectors.DefaultSelector):
    """A selector that ends the turn before it waits: the loop lets it wait only if no callback is ready."""

    def __init__(self, gate: TimeGate) -> None:
        super().__init__()
        self._gate = gate

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0.0:
            self._gate.idle()
        return super().select(timeout)


class TurnLoop(asyncio.SelectorEventLoop):
    """An event loop of a mission that takes turns; calls in executors, as all of MAVSDK's, belong to them.

    Args:
        gate: of this process.
    """

    def __init__(self, gate: TimeGate) -> None:
        super().__init__(_Selector(gate))
        self._gate = gate

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Hold simulated time until the call has returned."""
        self._gate.hold()
        try:
            future: asyncio.Future[Any] = super().run_in_executor(executor, func, *args)
        except BaseException:
            self._gate.release()
            raise
        future.add_done_callback(lambda _: self._gate.release())
        return future
