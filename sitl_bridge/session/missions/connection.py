"""Connecting to one vehicle over MAVSDK."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mavsdk.asyncio import ComponentType, Configuration, Mavsdk, MavsdkConnectionError, System
from mavsdk.logging import LogLevel, log_subscribe

from sitl_bridge.session.missions.mavsdk_vehicle import SETPOINT_RATE, MissionFailedError, Vehicle
from sitl_bridge.session.missions.time_gate import in_real_time, time_gate

URL_FORMS = (
    "udpin://HOST:PORT, udpout://HOST:PORT, tcpin://HOST:PORT, tcpout://HOST:PORT or serial://DEVICE:BAUD"
)

DROPPED_LINES = ("MAVLink:", "Dropping subscription callbacks")
"""Beginnings of MAVSDK's log lines that are dropped; among them status texts, which Vehicle prints itself."""


CONNECTIONS = 16
"""Connections that a program can hold at a time.  MAVSDK takes a channel of MAVLink's library for each, which
has 16 (MAVLINK_COMM_NUM_BUFFERS).  Beyond them mavsdk 4.1.0 overwrites other memory: with 21 of them, nine
of nine programs ended with SIGABRT or SIGSEGV."""
TOO_MANY = (
    f"MAVSDK holds {CONNECTIONS} connections in one program; let several scripts fly these vehicles"
    " (`mission:` of each), or fly them by `sb.Sitl`, which has no such limit"
)


class MavsdkLog:
    """MAVSDK's own log lines: those of level warning and above go to stderr, repeated ones once.

    MAVSDK's warning about a slow subscriber is dropped: such a subscriber gets only the newest values, and
    only these are used.

    One subscription lasts as long as the process.  ``log_subscribe`` frees the function of the one before
    while MAVSDK's threads may be calling it (mavsdk 4.1.0).  When it was called again at the end, 1 of some
    230 missions ended with SIGSEGV.
    """

    def __init__(self) -> None:
        self._subscribed, self._quiet, self._last = False, True, ""

    def begin(self) -> None:
        """Print lines from now on."""
        self._quiet, self._last = False, ""
        if not self._subscribed:
            self._subscribed = True
            log_subscribe(self._on_line)

    def end(self) -> None:
        """Drop all lines from now on, such as warnings about sockets that MAVSDK closes itself."""
        self._quiet = True

    def _on_line(self, level: LogLevel, message: str, _file: str | None, _line: int) -> bool:
        if self._quiet or level < LogLevel.WARN or message.startswith(DROPPED_LINES) or message == self._last:
            return True
        self._last = message
        print(f"mavsdk {level.name.lower()}: {message}", file=sys.stderr, flush=True)
        return True


mavsdk_log = MavsdkLog()
_held: set[Mavsdk] = set()


@asynccontextmanager
async def connect(url: str, limit: float = 30.0, system_id: int | None = None) -> AsyncIterator[Vehicle]:
    """Connect to the autopilot at ``url`` and yield it, with its attributes kept up to date.

    Args:
        url: MAVSDK connection URL, e.g. ``udpin://127.0.0.1:14540``.
        limit: s of wall time to wait for the autopilot's first heartbeat.
        system_id: MAVLink system id of the autopilot; None takes the first one found.  By default, all
            simulated PX4s from the eleventh on send to one port.

    Raises:
        MissionFailedError: if the URL is wrong, its port is taken, no autopilot is found in time, or this
            program holds CONNECTIONS already.
    """
    if len(_held) == CONNECTIONS:
        raise MissionFailedError(TOO_MANY)
    mavsdk_log.begin()
    mavsdk = Mavsdk(Configuration.create_with_component_type(ComponentType.GROUND_STATION))
    _held.add(mavsdk)
    try:
        # Faster than real time, telemetry would accumulate in MAVSDK before it is read.
        async with time_gate().request():
            try:
                await mavsdk.add_any_connection(url)
            except MavsdkConnectionError as error:
                raise MissionFailedError(
                    f"cannot open {url}: {error}. It must be one of {URL_FORMS}, "
                    "and no other program may use its port"
                ) from error
            if system_id is None:
                system = await mavsdk.first_autopilot(timeout_s=limit)
            else:
                system = await _find(mavsdk, system_id, limit)
        if system is None:
            which = "autopilot" if system_id is None else f"autopilot with system id {system_id}"
            raise MissionFailedError(
                f"found no {which} on {url} within {limit:.0f} s: is it running, "
                "and does its offboard link send there (14540 + instance in simulation)?"
            )
        vehicle = Vehicle(mavsdk, system, await system.get_system_id(), url)
        watcher = asyncio.create_task(vehicle.watch())
        try:
            await _set_rates(vehicle)
            yield vehicle
            if watcher.done():
                watcher.result()
        finally:
            watcher.cancel()
            await asyncio.wait([watcher])
            vehicle.gate.allow(vehicle, None)
    finally:
        mavsdk_log.end()
        mavsdk.destroy()
        _held.remove(mavsdk)


async def _find(mavsdk: Mavsdk, system_id: int, limit: float) -> System | None:
    """The autopilot with a system id, or None if it is not found within ``limit`` s of wall time."""
    end = asyncio.get_running_loop().time() + limit
    while asyncio.get_running_loop().time() < end:
        for system in await mavsdk.get_systems():
            if await system.has_autopilot() and await system.get_system_id() == system_id:
                return system
        await asyncio.sleep(0.05)
    return None


async def _set_rates(vehicle: Vehicle) -> None:
    """Request what setpoints and checks need; PX4's defaults of up to 100 Hz would take most of the time."""
    rates = in_real_time(vehicle.telemetry, vehicle.gate)
    async with vehicle.gate.request():
        # With turns, one message in each.
        least = 2e6 / vehicle.gate.turn if vehicle.gate.turn else 0.0
        await rates.set_rate_attitude_euler(max(SETPOINT_RATE, least))
        await rates.set_rate_position_velocity_ned(SETPOINT_RATE)
        await rates.set_rate_position(5.0)
