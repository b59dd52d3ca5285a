"""The command protocol: commands about the link are executed here, all others by the commander.

Each command is acknowledged with its result.  A command repeated after a lost acknowledgement is acknowledged
again but not executed again.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from sitl_bridge.autopilot.commander import Commander
from sitl_bridge.autopilot.commander_data import (
    ACCEPTED,
    DENIED,
    FAILED,
    UNSUPPORTED,
)
from sitl_bridge.autopilot.mavlink.streams import Streams
from sitl_bridge.autopilot.mavlink.telemetry import MESSAGES, Snapshot
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.decoder import AUTOPILOT
from sitl_bridge.link.mavlink.message import MavlinkMessage

KEPT_ANSWERS = 16
"""Number of acknowledgements kept for repeated commands."""

REPEAT_WINDOW = 5_000_000
"""Time in which a confirmation counts as a repeat, us of wall time: MAVSDK and QGroundControl give up after
three to five tries, half a second to three seconds apart."""

IN_ANY_COMPONENT = frozenset({mavlink.MAV_CMD_REQUEST_MESSAGE, mavlink.MAV_CMD_REQUEST_PROTOCOL_VERSION})
"""Commands that PX4 also accepts for all systems or for another component of this one."""

NOT_SET = 2**31 - 1
"""INT32_MAX in x and y of COMMAND_INT and MISSION_ITEM_INT: not set."""

NAN_AS_INTEGER = 0x7FF80000
"""A nan sent as an integer by mistake, detected as in PX4."""

# Commands for requesting messages that precede MAV_CMD_REQUEST_MESSAGE.
REQUESTS = {
    mavlink.MAV_CMD_REQUEST_AUTOPILOT_CAPABILITIES: mavlink.MAVLINK_MSG_ID_AUTOPILOT_VERSION,
    mavlink.MAV_CMD_REQUEST_PROTOCOL_VERSION: mavlink.MAVLINK_MSG_ID_PROTOCOL_VERSION,
    mavlink.MAV_CMD_GET_HOME_POSITION: mavlink.MAVLINK_MSG_ID_HOME_POSITION,
}

Params = tuple[float, ...]


class CommandProtocol:
    """Commands on one link.

    Args:
        snapshot: returns the vehicle's state at a time.
        mission_current: makes MISSION_CURRENT.
    """

    def __init__(
        self,
        commander: Commander,
        system_id: int,
        streams: Streams,
        snapshot: Callable[[int], Snapshot],
        mission_current: Callable[[], MavlinkMessage],
    ) -> None:
        self._commander = commander
        self._system_id = system_id
        self._streams = streams
        self._snapshot = snapshot
        self._mission_current = mission_current
        self._answered: deque[tuple[tuple[object, ...], int, int]] = deque(maxlen=KEPT_ANSWERS)
        self._own: dict[int, Callable[[Params, int], tuple[int, list[MavlinkMessage]]]] = {
            mavlink.MAV_CMD_REQUEST_MESSAGE: self._request_message,
            mavlink.MAV_CMD_SET_MESSAGE_INTERVAL: self._set_interval,
            mavlink.MAV_CMD_GET_MESSAGE_INTERVAL: self._get_interval,
        }

    def handle(self, message: MavlinkMessage, now: int, wall: int) -> list[MavlinkMessage]:
        """Execute and acknowledge a COMMAND_LONG or COMMAND_INT that is for this vehicle."""
        command = message.command
        if not self._is_for_us(command, message.target_system, message.target_component):
            return []
        peer = (message.get_srcSystem(), message.get_srcComponent())
        params = _long_params(message) if message.get_type() == "COMMAND_LONG" else _int_params(message)
        if params is None or any(math.isinf(value) for value in params):
            return [_ack(command, DENIED, peer)]
        key = (peer, message.get_type(), command, tuple(map(_comparable, params)))
        if getattr(message, "confirmation", 0):
            for known, result, at in self._answered:
                if known == key and wall - at <= REPEAT_WINDOW:
                    return [_ack(command, result, peer)]
        result, messages = self._do(command, params, now)
        self._answered.append((key, result, wall))
        return [_ack(command, result, peer), *messages]

    def _is_for_us(self, command: int, system: int, component: int) -> bool:
        if command in IN_ANY_COMPONENT:
            return system in (0, self._system_id)
        return system == self._system_id and component in (0, AUTOPILOT)

    def _do(self, command: int, params: Params, now: int) -> tuple[int, list[MavlinkMessage]]:
        if command in REQUESTS:
            return self._request_message((REQUESTS[command], 0.0), now)
        own = self._own.get(command)
        if own is not None:
            return own(params, now)
        return self._commander.command(command, params, now), []

    # ------------------------------------------------------------------ commands about the link

    def _request_message(self, params: Params, now: int) -> tuple[int, list[MavlinkMessage]]:
        number = _message_number(params[0])
        if number == mavlink.MAVLINK_MSG_ID_MISSION_CURRENT:
            return ACCEPTED, [self._mission_current()]
        if number not in MESSAGES:
            return UNSUPPORTED, []
        message = MESSAGES[number](self._snapshot(now))
        return (ACCEPTED, [message]) if message is not None else (DENIED, [])

    def _set_interval(self, params: Params, _now: int) -> tuple[int, list[MavlinkMessage]]:
        interval = params[1] if math.isfinite(params[1]) else 0.0
        return (ACCEPTED if self._streams.set_interval(_message_number(params[0]), interval) else FAILED), []

    def _get_interval(self, params: Params, _now: int) -> tuple[int, list[MavlinkMessage]]:
        number = _message_number(params[0])
        interval = self._streams.interval(number)
        return ACCEPTED, [mavlink.MAVLink_message_interval_message(number & 0xFFFF, interval)]


def _long_params(message: MavlinkMessage) -> Params | None:
    m = message
    if _is_integer_maximum(m.param5) and _is_integer_maximum(m.param6):
        return None  # INT32_MAX is valid only in COMMAND_INT; PX4 denies it
    return (m.param1, m.param2, m.param3, m.param4, m.param5, m.param6, m.param7)


def _is_integer_maximum(value: float) -> bool:
    return abs(value - NOT_SET) <= 256.0  # float32 neighbours of 2^31


def _int_params(message: MavlinkMessage) -> Params | None:
    m = message
    if m.x == NAN_AS_INTEGER and m.y == NAN_AS_INTEGER:
        return None
    x, y = (math.nan, math.nan) if m.x == NOT_SET and m.y == NOT_SET else (m.x / 1e7, m.y / 1e7)
    return (m.param1, m.param2, m.param3, m.param4, x, y, m.z)


def _message_number(value: float) -> int:
    return round(value) if math.isfinite(value) else -1


def _comparable(value: float) -> float | None:
    return None if math.isnan(value) else value


def _ack(command: int, result: int, peer: tuple[int, int]) -> MavlinkMessage:
    return mavlink.MAVLink_command_ack_message(command, result, 0, 0, *peer)
