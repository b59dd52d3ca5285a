"""Concurrent work for several vehicles: errors name the vehicle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from mavsdk import MavsdkError

from sitl_bridge.session.missions.mavsdk_vehicle import SILENCE_LIMIT, MissionFailedError, reason
from sitl_bridge.session.missions.swarm_vehicle import SwarmVehicle


async def named(member: SwarmVehicle, work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a vehicle's work; a failure names the vehicle."""
    try:
        return await work
    except MissionFailedError as error:
        raise MissionFailedError(f"vehicle {member.number}: {error}") from error


async def together(work: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Results of all; the first failure cancels the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in work]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


async def each(
    members: Iterable[SwarmVehicle], work: Callable[[SwarmVehicle], Coroutine[Any, Any, None]]
) -> None:
    """Do the work of every vehicle; the failure of one ends no other's.

    Raises:
        MissionFailedError: at the end, with every vehicle whose work failed or that refused, and the reason.
    """

    async def failure(member: SwarmVehicle) -> str:
        try:
            await work(member)
        except MissionFailedError as error:
            return f"vehicle {member.number}: {error}"
        except MavsdkError as refusal:
            return f"vehicle {member.number}: {reason(refusal)}"
        return ""

    failures = [text for text in await asyncio.gather(*map(failure, members)) if text]
    if failures:
        raise MissionFailedError("; ".join(failures))


async def ended_by(stream: asyncio.Task[None], work: Coroutine[Any, Any, None]) -> None:
    """Do ``work``, and cancel it if the stream of setpoints fails."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait([stream, task], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            stream.result()
        await task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(condition: Callable[[], bool], what: str, progress: Callable[[], Any] = lambda: None) -> None:
    """Wait for a condition.

    Raises:
        MissionFailedError: after ``SILENCE_LIMIT`` s of wall time in which ``progress()`` did not change.
    """
    loop = asyncio.get_running_loop()
    last, since = progress(), loop.time()
    while not condition():
        await asyncio.sleep(0.01)
        if progress() != last:
            last, since = progress(), loop.time()
        elif loop.time() - since > SILENCE_LIMIT:
            raise MissionFailedError(f"waited for {what}, but received nothing for {SILENCE_LIMIT:.0f} s")
