"""Beginning and end of a flight of several vehicles: into the air, back to the ground, and its result."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import numpy as np
from mavsdk.asyncio import MavsdkError
from numpy.typing import NDArray

from sitl_bridge.errors import UserError
from sitl_bridge.offboard.mavsdk_fleet import MavsdkFleet
from sitl_bridge.offboard.mavsdk_vehicle import MissionFailedError
from sitl_bridge.offboard.swarm_vehicle import Place


@contextlib.asynccontextmanager
async def in_the_air(
    fleet: MavsdkFleet,
    places: NDArray[np.float64],
    yaw: float | NDArray[np.float64],
    *,
    origin: Place | None,
    surveyed: bool,
) -> AsyncIterator[None]:
    """Take vehicles off; after the block, land them.  If anything fails, those in the air hold position.

    Args:
        fleet: on the ground.
        places: (n, 3) m NED, to which they climb.
        yaw: rad, of all or of each.
        origin: of ``places``, deg and m AMSL; None takes it from where the vehicles stand.
        surveyed: whether the vehicles stand exactly below ``places``.
    """
    await fleet.ready()
    await fleet.find_origins(places, origin, surveyed=surveyed)
    try:
        await fleet.take_off(places, yaw)
        yield
        await fleet.land()
    except (asyncio.CancelledError, UserError, MavsdkError):
        fleet.say("vehicles in the air hold their position")
        await asyncio.shield(fleet.hold())
        raise


def finish(
    output: Path | None, kind: str, write: Callable[[Path], None], *, succeeded: bool, verdict: str
) -> None:
    """Keep the result of a flight, and report a failed one.

    Args:
        output: directory below which it is written, beside the bridge's own summary; None keeps nothing.
        kind: of flight; names the directory.
        write: writes the result into a directory.
        succeeded: whether the flight did.
        verdict: in a line.

    Raises:
        MissionFailedError: with the verdict, when it has not succeeded.
    """
    if output is not None:
        write(output / kind)
        print(f"written to {output / kind}", flush=True)
    if not succeeded:
        raise MissionFailedError(verdict)
