"""Base of MAVLink components on board: commands, requested messages, heartbeats.

Without sockets and clock: messages are handed in and taken out, times are arguments.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.decoder import AUTOPILOT
from sitl_bridge.link.mavlink.message import MavlinkMessage

ACCEPTED: int = mavlink.MAV_RESULT_ACCEPTED
DENIED: int = mavlink.MAV_RESULT_DENIED
UNSUPPORTED: int = mavlink.MAV_RESULT_UNSUPPORTED
BEAT = 1_000_000
"""us of simulated time between heartbeats."""
REMEMBERED = 32
"""Commands that are recognised when they are repeated."""

Parameters = Sequence[float]
Handler = Callable[[Parameters, MavlinkMessage, int], int]
"""Executes a command's seven parameters from a message at a time in us; returns MAV_RESULT."""
Reply = Callable[[Parameters, int], MavlinkMessage | None]
"""Makes a requested message from the request's seven parameters; None where there is no such thing."""


class ComponentLink(Protocol):
    """The MAVLink link of the components of one vehicle."""

    @property
    def system_id(self) -> int:
        """MAVLink id of the vehicle."""
        ...

    def receive(self) -> list[MavlinkMessage]:
        """Messages that have arrived, oldest first."""
        ...

    def send(self, component: int, messages: Sequence[MavlinkMessage]) -> None:
        """Send messages of a component."""
        ...


class MavlinkComponent:
    """A component.

    Args:
        system: MAVLink id of the vehicle.
        component: id of the component.
        kind: MAV_TYPE.

    Attributes:
        outbox: messages to be sent.
    """

    def __init__(self, system: int, component: int, kind: int) -> None:
        self.system = system
        self.component = component
        self.outbox: deque[MavlinkMessage] = deque()
        self.handlers: dict[int, Handler] = {mavlink.MAV_CMD_REQUEST_MESSAGE: self._request}
        self.replies: dict[int, Reply] = {}
        self._kind = kind
        self._beat = -BEAT
        self._done: dict[tuple[int, int, int], tuple[tuple[float, ...], int]] = {}
        """Parameters and result of the last command of each number and sender."""

    def update(self, now: int) -> None:
        """Send what is due at a time in us."""
        if now - self._beat >= BEAT:
            self._beat = now
            self.outbox.append(
                mavlink.MAVLink_heartbeat_message(
                    self._kind, mavlink.MAV_AUTOPILOT_INVALID, 0, 0, mavlink.MAV_STATE_ACTIVE, 3
                )
            )

    def handle(self, message: MavlinkMessage, now: int) -> None:
        """Process a message that has arrived."""
        if message.get_type() not in ("COMMAND_LONG", "COMMAND_INT"):
            return
        if message.target_system not in (0, self.system) or message.target_component not in (
            0,
            self.component,
        ):
            return
        self._command(message, now)

    def _command(self, message: MavlinkMessage, now: int) -> None:
        handler = self.handlers.get(message.command)
        everybody = message.target_component == 0
        if handler is None and everybody:
            return
        sender = (message.get_srcSystem(), message.get_srcComponent())
        key, parameters = (message.command, *sender), parameters_of(message)
        known = self._done.get(key)
        if getattr(message, "confirmation", 0) and known is not None and repr(known[0]) == repr(parameters):
            result = known[1]
        else:
            result = UNSUPPORTED if handler is None else handler(parameters, message, now)
            self._done[key] = (parameters, result)
            while len(self._done) > REMEMBERED:
                del self._done[next(iter(self._done))]
        if result == UNSUPPORTED and everybody:
            return
        self.outbox.append(mavlink.MAVLink_command_ack_message(message.command, result, 0, 0, *sender))

    def _request(self, parameters: Parameters, _message: MavlinkMessage, now: int) -> int:
        reply = self.replies.get(whole(parameters[0]))
        if reply is None:
            return UNSUPPORTED
        answer = reply(parameters, now)
        if answer is None:
            return DENIED
        self.outbox.append(answer)
        return ACCEPTED


def from_autopilot(message: MavlinkMessage) -> bool:
    """Whether a flight stack sent a message."""
    return bool(message.get_srcComponent() == AUTOPILOT)


def parameters_of(message: MavlinkMessage) -> tuple[float, ...]:
    """The seven parameters of a command; of a COMMAND_INT, x and y as degrees."""
    first = (message.param1, message.param2, message.param3, message.param4)
    if message.get_type() == "COMMAND_INT":
        return (*first, message.x * 1e-7, message.y * 1e-7, message.z)
    return (*first, message.param5, message.param6, message.param7)


def whole(value: float) -> int:
    """A parameter that stands for an integer; -1 where it is none."""
    return round(value) if math.isfinite(value) else -1


def name_bytes(text: str, length: int) -> list[int]:
    """A name as MAVLink's array of bytes."""
    return list(text.encode("ascii")[:length].ljust(length, b"\0"))
