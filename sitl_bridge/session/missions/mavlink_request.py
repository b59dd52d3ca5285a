"""Requests to an autopilot for which MAVSDK has no function: a message, repeated until it is answered."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from mavsdk.plugins.mavlink_direct import MavlinkMessage

from sitl_bridge.base.json_data import ReadJson
from sitl_bridge.link.px4.vehicle_status import RESULTS
from sitl_bridge.session.missions.mavsdk_vehicle import MissionFailedError, Vehicle

AUTOPILOT = 1
"""MAV_COMP_ID_AUTOPILOT1."""
ATTEMPTS = 5
"""The number that QGroundControl and MAVSDK use for a mission transfer."""
INTERVAL = 1.0
"""s of wall time between attempts."""
GLOBAL_INT = 5
"""MAV_FRAME_GLOBAL_INT: height above mean sea level."""
DO_ORBIT, DO_REPOSITION = 34, 192
"""MAV_CMD."""

Fields = ReadJson


async def request(
    vehicle: Vehicle, name: str, fields: Fields, answer: str, fits: Callable[[Fields], bool], what: str
) -> Fields:
    """Send a message until the autopilot answers.

    Args:
        fields: of the message; the target is added.
        answer: name of the message that answers.
        fits: whether such a message answers this request.
        what: is requested, for the error message.

    Returns:
        the fields of the answer.

    Raises:
        MissionFailedError: if there is no answer.
    """
    target = {"target_system": vehicle.system_id, "target_component": AUTOPILOT}
    message = MavlinkMessage(name, 0, 0, vehicle.system_id, AUTOPILOT, json.dumps(target | dict(fields)))
    answers = vehicle.mavlink.subscribe_message(answer)
    async with vehicle.gate.request(), aclosing(answers):
        waiting = asyncio.ensure_future(_first(answers, fits))
        for _ in range(ATTEMPTS):
            await vehicle.mavlink.send_message(message)
            await asyncio.wait([waiting], timeout=INTERVAL)
            if waiting.done():
                break
        else:
            waiting.cancel()
            await asyncio.wait([waiting])
            vehicle.fail(f"the autopilot did not answer {ATTEMPTS} requests {what}")
    return waiting.result()


async def _first(answers: AsyncGenerator[MavlinkMessage, None], fits: Callable[[Fields], bool]) -> Fields:
    async for answer in answers:
        fields: Fields = json.loads(answer.fields_json)
        if fits(fields):
            return fields
    raise MissionFailedError("the stream of answers ended")


async def goto(vehicle: Vehicle, latitude: float, longitude: float, altitude: float, yaw: float) -> None:
    """Let the vehicle fly to a point and hold there.

    Args:
        vehicle: in the air.
        latitude, longitude: deg of the point.
        altitude: m above mean sea level.
        yaw: deg, heading from north at the point.

    Raises:
        MissionFailedError: if the autopilot refuses.
    """
    params = (-1.0, 1.0, 0.0, math.radians(yaw))  # speed as it is, MAV_DO_REPOSITION_FLAGS_CHANGE_MODE
    await _place_command(vehicle, DO_REPOSITION, params, latitude, longitude, altitude, "to fly to a point")


async def orbit(
    vehicle: Vehicle, radius: float, speed: float, latitude: float, longitude: float, altitude: float
) -> None:
    """Let the vehicle orbit a point, facing the centre.

    Args:
        vehicle: in the air.
        radius: m, clockwise if positive.
        speed: m/s along the circle.
        latitude, longitude: deg of the centre.
        altitude: m above mean sea level.

    Raises:
        MissionFailedError: if the autopilot refuses.
    """
    params = (radius, speed, 0.0, 0.0)
    await _place_command(vehicle, DO_ORBIT, params, latitude, longitude, altitude, "to orbit")


async def _place_command(
    vehicle: Vehicle,
    command: int,
    params: tuple[float, float, float, float],
    latitude: float,
    longitude: float,
    altitude: float,
    what: str,
) -> None:
    """Send a command with a position.

    MAVSDK sends such commands in MAV_FRAME_GLOBAL, which PX4 of February and March 2026 refuses (PX4 pull
    requests 26408 and 26577); every version accepts MAV_FRAME_GLOBAL_INT.
    """
    fields: dict[str, float] = {"frame": GLOBAL_INT, "command": command, "current": 0, "autocontinue": 0}
    fields |= {f"param{i + 1}": value for i, value in enumerate(params)}
    fields |= {"x": round(latitude * 1e7), "y": round(longitude * 1e7), "z": altitude}
    answer = await request(
        vehicle, "COMMAND_INT", fields, "COMMAND_ACK", lambda ack: ack["command"] == command, what
    )
    if answer["result"] != 0:
        why = RESULTS.get(answer["result"], f"MAV_RESULT {answer['result']}")
        vehicle.fail(f"the autopilot refuses {what}: {why}")
