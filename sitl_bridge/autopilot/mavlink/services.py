"""One vehicle's MAVLink services: links that share a commander, each with its own streams and transfers.

A link is one peer at one address.  Without sockets and clock: times are arguments, messages are objects.
``now`` is simulated time; ``wall`` is wall time for retries and time-outs of transfers, because peers run
in wall time (both in us).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sitl_bridge import __version__
from sitl_bridge.autopilot.mavlink.command_protocol import CommandProtocol
from sitl_bridge.autopilot.mavlink.inputs import Inputs
from sitl_bridge.autopilot.mavlink.log_protocol import LogProtocol
from sitl_bridge.autopilot.mavlink.mission_protocol import MissionProtocol, MissionStore
from sitl_bridge.autopilot.mavlink.parameter_protocol import ParameterProtocol
from sitl_bridge.autopilot.mavlink.streams import SECOND, Streams
from sitl_bridge.autopilot.mavlink.telemetry import (
    MESSAGES,
    Snapshot,
    TelemetrySource,
    heartbeat,
    payload_messages,
)
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.decoder import AUTOPILOT
from sitl_bridge.link.mavlink.message import MavlinkMessage

TEXT_LENGTH = 50
"""Text length of one STATUSTEXT, bytes."""

COMPONENTS = {
    "PARAM": (0, AUTOPILOT),
    "MISSION": (0, AUTOPILOT, mavlink.MAV_COMP_ID_MISSIONPLANNER),
    "LOG": (0, AUTOPILOT),
}
"""Components of the vehicle for which its stack takes the protocols' messages, by their beginnings."""

Key = tuple[int, tuple[str, int]]
"""A link: local port and the peer's address."""

STACK_NAME_DELAY = 2 * SECOND
"""Delay of the text with the stack's name, us of wall time: MAVSDK drops texts before its user subscribes."""

REACHED_REPEATS = 10
"""Repetitions of MISSION_ITEM_REACHED, a second apart, as in PX4."""


FAULT_PERIOD = 10 * SECOND
"""us of simulated time within which the same fault is reported once."""


class Link:
    """One link, created by :meth:`Services.link`.

    Args:
        rates: Hz by message id of the streamed messages.
    """

    def __init__(self, services: Services, rates: dict[int, float]) -> None:
        source = services.source
        self._services = services
        self.streams = Streams(rates)
        self._outbox: deque[MavlinkMessage] = deque()
        self.parameters = ParameterProtocol(source.commander.parameters)
        self.missions = MissionProtocol(services.missions)
        self.logs = LogProtocol(services.source.log.parent if services.source.log is not None else None)
        self.commands = CommandProtocol(
            source.commander,
            source.system_id,
            self.streams,
            services.snapshot,
            self.missions.current,
        )
        self._beat = _HeartbeatTimer()
        self._last_heartbeat: Any = None
        """The last HEARTBEAT."""
        self._mission_beat = _HeartbeatTimer()
        self._stack_name_due: int | None = None
        self._stack_name_sent = False
        self._mission_current = -1
        self._reached = -1
        self._reached_left = 0

    def handle(self, message: MavlinkMessage, now: int, wall: int) -> list[MavlinkMessage]:
        """Process and answer a message.

        Args:
            message: from ``Decoder``.
            now: us of simulated time.
            wall: us of wall time.
        """
        kind = message.get_type()
        inputs = self._services.inputs.handlers.get(kind)
        if inputs is not None:
            inputs(message, now)
            return []
        if kind in ("COMMAND_LONG", "COMMAND_INT"):
            return self.commands.handle(message, now, wall)
        family = kind.partition("_")[0]
        if family in COMPONENTS and hasattr(message, "target_system"):
            ours = message.target_system == self._services.source.system_id
            if not ours or message.target_component not in COMPONENTS[family]:
                return []
            if family == "MISSION":
                return self.missions.handle(message, wall)
            if family == "PARAM":
                return self.parameters.handle(message)
            self.logs.handle(message)
            return []
        if kind == "SET_MODE":
            return self._set_mode(message, now)
        return _time_answers(message, now)

    def poll(self, now: int, wall: int, *, ticked: bool = True) -> list[MavlinkMessage]:
        """Return the messages that are due, oldest first; for the arguments see :meth:`Services.poll`."""
        due: list[MavlinkMessage] = []
        before = self._last_heartbeat
        if ticked or before is None:
            self._last_heartbeat = heartbeat(self._services.snapshot(now))
        if self._beat.is_due(now, wall) or _state(self._last_heartbeat) != _state(before):
            due.append(self._last_heartbeat)
        due += self._stack_name(wall)
        due += self._outbox
        self._outbox.clear()
        due += self.missions.poll(wall)
        due += self.parameters.poll()
        due += self.logs.poll(wall)
        due += self._mission_progress(now)
        for number in self.streams.due(now, first=not ticked):
            message = MESSAGES[number](self._services.snapshot(now))
            if message is not None:
                due.append(message)
        return due

    def put(self, message: MavlinkMessage) -> None:
        """Queue a message for the next poll."""
        self._outbox.append(message)

    def report_reached(self, seq: int) -> None:
        """Report a reached mission item now and repeat it for some seconds."""
        self._reached, self._reached_left = seq, REACHED_REPEATS
        self.put(mavlink.MAVLink_mission_item_reached_message(seq))

    def _stack_name(self, wall: int) -> list[MavlinkMessage]:
        if self._stack_name_due is None:
            self._stack_name_due = wall + STACK_NAME_DELAY
        if self._stack_name_sent or wall < self._stack_name_due:
            return []
        self._stack_name_sent = True
        text = f"sitl-bridge {__version__}: built-in flight stack, not PX4"
        return self._services.text_messages(mavlink.MAV_SEVERITY_NOTICE, text)

    def _mission_progress(self, now: int) -> list[MavlinkMessage]:
        commander = self._services.source.commander
        due: list[MavlinkMessage] = []
        again = self._mission_beat.is_due(now, now)
        if again or commander.flight.current != self._mission_current:
            self._mission_current = commander.flight.current
            due.append(self.missions.current())
        if again and self._reached_left and commander.flight.items:
            self._reached_left -= 1
            due.append(mavlink.MAVLink_mission_item_reached_message(self._reached))
        return due

    def _set_mode(self, message: MavlinkMessage, now: int) -> list[MavlinkMessage]:
        source = self._services.source
        if message.target_system == source.system_id:
            custom = message.custom_mode
            params = (float(message.base_mode), float(custom >> 16 & 0xFF), float(custom >> 24), *(0.0,) * 4)
            source.commander.command(mavlink.MAV_CMD_DO_SET_MODE, params, now)
        return []


def _state(beat: MavlinkMessage | None) -> tuple[int, int, int] | None:
    return None if beat is None else (beat.base_mode, beat.custom_mode, beat.system_status)


class _HeartbeatTimer:
    """A trigger once a second of simulated time and at least once a second of wall time.

    At a tenth of real time, peers with a time-out of three seconds would otherwise consider the vehicle
    lost.
    """

    def __init__(self) -> None:
        self._now = self._wall = -SECOND

    def is_due(self, now: int, wall: int) -> bool:
        if now - self._now < SECOND and wall - self._wall < SECOND:
            return False
        self._now, self._wall = now, wall
        return True


def _time_answers(message: MavlinkMessage, now: int) -> list[MavlinkMessage]:
    kind = message.get_type()
    if kind == "PING" and message.target_system == 0 and message.target_component == 0:
        peer = message.get_srcSystem(), message.get_srcComponent()
        return [mavlink.MAVLink_ping_message(message.time_usec, message.seq, *peer)]
    if kind == "TIMESYNC" and message.tc1 == 0:
        return [mavlink.MAVLink_timesync_message(now * 1000, message.ts1)]
    return []


class Services:
    """The services of one vehicle.

    Args:
        source: the vehicle's data.
    """

    def __init__(self, source: TelemetrySource) -> None:
        self.source = source
        self.missions = MissionStore(source.commander)
        self.inputs = Inputs(source.commander, source.estimate, source.system_id)
        self.links: dict[Key, Link] = {}
        self._text_id = 0
        self._faults: dict[str, int] = {}
        self._snapshot: Snapshot | None = None

    def snapshot(self, now: int) -> Snapshot:
        """Return the vehicle's state, read once for all messages of this time step."""
        if self._snapshot is None or self._snapshot.now != now:
            self._snapshot = Snapshot(self.source, now)
        return self._snapshot

    def link(self, key: Key, rates: dict[int, float]) -> Link:
        """Return the link to a peer; create it if it is new."""
        if key not in self.links:
            self.links[key] = Link(self, rates)
        return self.links[key]

    def drop(self, key: Key) -> None:
        """Remove a peer and abort its upload."""
        link = self.links.pop(key)
        if self.missions.upload is not None and self.missions.upload.owner is link.missions:
            self.missions.upload = None

    def handle(self, key: Key, message: MavlinkMessage, now: int, wall: int) -> list[MavlinkMessage]:
        """Process a peer's message and return the answers; see :meth:`Link.handle`."""
        return self.links[key].handle(message, now, wall)

    def poll(self, now: int, wall: int, *, ticked: bool = True) -> list[tuple[Key, list[MavlinkMessage]]]:
        """Return all due messages by peer; call it at least as often as the commander is updated.

        Args:
            now, wall: as of :meth:`Link.handle`.
            ticked: whether the commander has been updated since the last call.  Between updates nothing
                tells of the vehicle's state but what a peer has never received: when such a call comes
                depends on the machine, and programs that fly by what they are told must not.
        """
        self._snapshot = None  # records may have changed since the last call
        commander = self.source.commander
        while commander.texts:
            for message in self.text_messages(*commander.texts.popleft()):
                for link in self.links.values():
                    link.put(message)
        while commander.reached:
            seq = commander.reached.popleft()
            for link in self.links.values():
                link.report_reached(seq)
        for message in payload_messages(commander.navigator.payload, self.source.system_id):
            for link in self.links.values():
                link.put(message)
        due: list[tuple[Key, list[MavlinkMessage]]] = []
        for key, link in self.links.items():
            with self.report_faults(f"Telemetry for {key[1][0]}:{key[1][1]}", now):
                messages = link.poll(now, wall, ticked=ticked)
                if messages:
                    due.append((key, messages))
        return due

    @contextmanager
    def report_faults(self, what: str, now: int) -> Iterator[None]:
        """Report an exception in a status text instead of ending the flight.

        Args:
            what: name of the guarded action for the text, also the key for repeated faults.
            now: us.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001  (reported; no message may end a flight)
            last = self._faults.get(what)
            if last is None or now - last >= FAULT_PERIOD:
                self._faults[what] = now
                fault = f"{type(error).__name__}: {error}"
                text = f"{what} could not be handled ({fault})"
                self.source.commander.send_text(mavlink.MAV_SEVERITY_ERROR, text)

    def text_messages(self, severity: int, text: str) -> list[MavlinkMessage]:
        """Return STATUSTEXT messages, in chunks if the text is long (common.xml: with an id and a short last
        chunk)."""
        data = text.encode()
        if len(data) <= TEXT_LENGTH:
            return [mavlink.MAVLink_statustext_message(severity, data)]
        self._text_id = self._text_id % 0xFFFF + 1
        return [
            mavlink.MAVLink_statustext_message(severity, data[at : at + TEXT_LENGTH], self._text_id, number)
            for number, at in enumerate(range(0, len(data) + 1, TEXT_LENGTH))
        ]
