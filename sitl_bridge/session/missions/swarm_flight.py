"""Start and end of a flight of several vehicles: take-off, landing and result."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mavsdk.asyncio import MavsdkError
from numpy.typing import NDArray

from sitl_bridge.base.errors import UserError
from sitl_bridge.session.missions.mavsdk_fleet import MavsdkFleet
from sitl_bridge.session.missions.mavsdk_vehicle import MissionFailedError
from sitl_bridge.session.missions.swarm_vehicle import Place


@contextlib.asynccontextmanager
async def in_the_air(
    fleet: MavsdkFleet,
    places: NDArray[np.float64],
    yaw: float | NDArray[np.float64],
    *,
    origin: Place | None,
    surveyed: bool,
) -> AsyncIterator[None]:
    """Take off before the block and land after it.  After an error, vehicles in the air hold their position.

    Args:
        fleet: on the ground.
        places: (n, 3) m NED to which they climb.
        yaw: rad, one for all or (n,).
        origin: of ``places``, deg and m AMSL; None computes it from the vehicles' positions.
        surveyed: whether the vehicles stand exactly below ``places``.
    """
    await fleet.ready()
    await fleet.find_origins(places, origin, surveyed=surveyed)
    try:
        await fleet.take_off(places, yaw)
        yield
    except (asyncio.CancelledError, UserError, MavsdkError):
        fleet.say("vehicles in the air hold their position")
        await asyncio.shield(fleet.hold())
        raise
    await fleet.land()


async def until_landed(flight: Coroutine[Any, Any, Any], flown: Sequence[Any]) -> str:
    """Fly, and return why vehicles did not land after the flight; empty if all did.

    Args:
        flight: of all vehicles, with their landing.
        flown: holds the result once there is one.

    Raises:
        MissionFailedError: if the flight failed before there was a result.
    """
    try:
        await flight
    except MissionFailedError as error:
        if not flown:
            raise
        return str(error)
    return ""


def finish(
    output: Path | None,
    kind: str,
    write: Callable[[Path], None],
    *,
    succeeded: bool,
    verdict: str,
    landing: str = "",
) -> None:
    """Write the result of a flight, and raise an error if it has failed.

    Args:
        output: parent of the result's directory; None writes nothing.
        kind: of flight; the name of the directory.
        write: writes the result into a directory.
        succeeded: whether the flight succeeded.
        verdict: result in one line.
        landing: vehicles that did not land after the flight, with the reasons; empty if all did.

    Raises:
        MissionFailedError: with the verdict if the flight has failed, or with ``landing``.
    """
    if output is not None:
        write(output / kind)
        print(f"written to {output / kind}", flush=True)
    failures = [text for text in ("" if succeeded else verdict, landing) if text]
    if failures:
        raise MissionFailedError("; ".join(failures))
