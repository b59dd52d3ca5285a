"""Messages to the components on board: triggers of the camera, and commands passed on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sitl_bridge.autopilot.modes.payload_control import REGIONS, PayloadControl
from sitl_bridge.link.mavlink import common as mavlink

CAMERA_COMMANDS = range(2000, 3000)


def payload_messages(payload: PayloadControl, system: int) -> Iterator[Any]:
    """CAMERA_TRIGGER and commands that are waiting; those with a place as COMMAND_INT.

    Args:
        payload: emptied.
        system: MAVLink id of the vehicle.
    """
    while payload.triggers:
        time, number = payload.triggers.popleft()
        yield mavlink.MAVLink_camera_trigger_message(time, number)
    while payload.commands:
        command, params = payload.commands.popleft()
        component = int(mavlink.MAV_COMP_ID_CAMERA) if command in CAMERA_COMMANDS else 0
        if command in REGIONS:
            latitude, longitude = (v if abs(v) <= 180.0 else 0.0 for v in params[4:6])
            place = (round(latitude * 1e7), round(longitude * 1e7), params[6])
            frame = mavlink.MAV_FRAME_GLOBAL
            yield mavlink.MAVLink_command_int_message(
                system, component, frame, command, 0, 0, *params[:4], *place
            )
        else:
            yield mavlink.MAVLink_command_long_message(system, component, command, 0, *params)
