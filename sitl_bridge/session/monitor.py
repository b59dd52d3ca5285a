"""The monitor of one PX4: reads its payload link while another program flies it, and sends it the battery.

The link is UDP 14030 + instance, to which PX4 sends by itself; 14540 and 14550 stay free for MAVSDK and
QGroundControl.  The monitor never commands the vehicle by itself.  It sets message rates, reads parameters,
and sends BATTERY_STATUS and the messages of a companion computer, which PX4 does not read on the simulator's
link.  It repeats the heartbeats of a user's companion computer by PX4's clock.
"""

from __future__ import annotations

import math
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sitl_bridge.base.error_log import ErrorLog
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.link.hil.ports import PAYLOAD_PORT
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.decoder import AUTOPILOT, Decoder, frames, message_id, sender_ids
from sitl_bridge.link.mavlink.message import MavlinkMessage
from sitl_bridge.link.px4.event_catalogue import ArmingReport, EventCatalogue, EventText
from sitl_bridge.link.px4.read_back import ReadBack
from sitl_bridge.link.px4.vehicle_status import (
    READERS,
    BatterySample,
    TextAssembly,
    VehicleMessage,
    VehicleStatus,
    battery_message,
    status_changes,
)

POLL: Final = 0.015
"""s of wall time between reads of the socket: at 25 times real time the battery is still sent at 2.5 Hz of
simulated time, and the thread wakes 67 times a second."""

FLEET_POLL = 4
"""Longest poll period in units of POLL, for this number of vehicles or more: 60 ms, in which at 3 times real
time less than BATTERY_PERIOD passes."""

BATTERY_PERIOD = 200_000
"""us of simulated time between BATTERY_STATUS messages (5 Hz) if the poll is fast enough."""

STOP_CHECK = 0.1
"""s of wall time after which a wait for PX4's confirmation looks whether the monitor stops."""
CONFIRMATION = 5.0
"""s of wall time within which PX4 confirms the messages of a companion computer: far more than a busy machine
takes, less than what programs on its other links wait before they give it up."""

HEARTBEAT_PERIOD, COMPANION_ALIVE = 1.0, 3.0
"""s of PX4's clock between heartbeats of a user's companion computer, and s of wall time after its last one
in which they are repeated.  Programs send them by wall time; v1.18 misses them after 5 s of PX4's clock."""

FOLLOWED = 1000
"""Messages of an id that wait to be taken; beyond them the oldest are left out."""

SILENCE = 5.0
"""s of wall time without a message after which a vehicle counts as silent."""

DEBUG: int = mavlink.MAV_SEVERITY_DEBUG
"""The level has the same number in events."""

TEXTS = frozenset({mavlink.MAVLINK_MSG_ID_STATUSTEXT, mavlink.MAVLINK_MSG_ID_EVENT})
HEARTBEAT: int = mavlink.MAVLINK_MSG_ID_HEARTBEAT
PARAM_VALUE: int = mavlink.MAVLINK_MSG_ID_PARAM_VALUE
PING: int = mavlink.MAVLINK_MSG_ID_PING
COMMAND_ACK: int = mavlink.MAVLINK_MSG_ID_COMMAND_ACK

RATES = {
    mavlink.MAVLINK_MSG_ID_LOCAL_POSITION_NED: 5.0,
    mavlink.MAVLINK_MSG_ID_SYS_STATUS: 5.0,
    mavlink.MAVLINK_MSG_ID_EXTENDED_SYS_STATE: 5.0,
    mavlink.MAVLINK_MSG_ID_BATTERY_STATUS: 1.0,
    mavlink.MAVLINK_MSG_ID_ESTIMATOR_STATUS: 1.0,
}
"""Hz of PX4's clock that the monitor requests."""

COMPONENT_RATES = {
    mavlink.MAVLINK_MSG_ID_GLOBAL_POSITION_INT: 10.0,
    mavlink.MAVLINK_MSG_ID_ATTITUDE_QUATERNION: 20.0,
    mavlink.MAVLINK_MSG_ID_GIMBAL_DEVICE_SET_ATTITUDE: 20.0,
}
"""Hz likewise, for components on board that share the link."""

FOR_COMPONENTS = frozenset(
    {
        mavlink.MAVLINK_MSG_ID_COMMAND_LONG,
        mavlink.MAVLINK_MSG_ID_COMMAND_INT,
        mavlink.MAVLINK_MSG_ID_CAMERA_TRIGGER,
        mavlink.MAVLINK_MSG_ID_GIMBAL_MANAGER_SET_ATTITUDE,
        mavlink.MAVLINK_MSG_ID_GIMBAL_MANAGER_SET_PITCHYAW,
        *COMPONENT_RATES,
    }
)
"""Messages that components on board read."""

UNWANTED = frozenset(
    {
        mavlink.MAVLINK_MSG_ID_SCALED_PRESSURE,
        mavlink.MAVLINK_MSG_ID_ATTITUDE,
        mavlink.MAVLINK_MSG_ID_ATTITUDE_QUATERNION,
        mavlink.MAVLINK_MSG_ID_GLOBAL_POSITION_INT,
        mavlink.MAVLINK_MSG_ID_SERVO_OUTPUT_RAW,
        mavlink.MAVLINK_MSG_ID_VFR_HUD,
        mavlink.MAVLINK_MSG_ID_ATTITUDE_TARGET,
        mavlink.MAVLINK_MSG_ID_POSITION_TARGET_LOCAL_NED,
        mavlink.MAVLINK_MSG_ID_POSITION_TARGET_GLOBAL_INT,
        mavlink.MAVLINK_MSG_ID_HIGHRES_IMU,
        mavlink.MAVLINK_MSG_ID_TIMESYNC,
        mavlink.MAVLINK_MSG_ID_DISTANCE_SENSOR,
        mavlink.MAVLINK_MSG_ID_ALTITUDE,
        mavlink.MAVLINK_MSG_ID_WIND_COV,
        mavlink.MAVLINK_MSG_ID_OBSTACLE_DISTANCE,
        mavlink.MAVLINK_MSG_ID_ODOMETRY,
        mavlink.MAVLINK_MSG_ID_OPEN_DRONE_ID_LOCATION,
        mavlink.MAVLINK_MSG_ID_OPEN_DRONE_ID_SYSTEM,
    }
)
"""Messages that PX4 sends by itself on this link and the monitor turns off: raw sensors, attitude, odometry,
servo outputs."""


@dataclass
class _Received:
    """Frames that have arrived since the last poll, not yet decoded."""

    latest: dict[int, bytes] = field(default_factory=dict)
    texts: list[bytes] = field(default_factory=list)
    parameters: list[bytes] = field(default_factory=list)
    unwanted: bool = False


class Monitor:
    """Monitors one vehicle, by calls of :meth:`poll`.

    Args:
        instance: of PX4; sets the port.
        catalogue: of the build's events; without it events are skipped and only status texts are reported.
        battery: returns the latest battery sample, or None before the first; without it none is sent.
        on_message: called by :meth:`poll` with each message, e.g. to log it.
        prompt: whether the stack answers a PING at any time, as the built-in one does.
        port: to listen on; None for the payload link's.

    Attributes:
        messages: texts and events, oldest first.
        read_back: parameters to read back as soon as the vehicle is connected; set by the caller.
        acknowledged: last MAV_RESULT of each MAV_CMD that was delivered.
        prompt: whether the stack answers at any time.
    """

    def __init__(
        self,
        instance: int,
        *,
        catalogue: EventCatalogue | None = None,
        battery: Callable[[], BatterySample | None] | None = None,
        on_message: Callable[[VehicleMessage], None] | None = None,
        host: str = "127.0.0.1",
        prompt: bool = False,
        port: int | None = None,
    ) -> None:
        self.port = PAYLOAD_PORT + instance if port is None else port
        self.host = host
        self.system_id = instance + 1
        self.messages: list[VehicleMessage] = []
        self._catalogue = catalogue
        self._battery = battery
        self._on_message = on_message
        self._status = VehicleStatus()
        self._report = ArmingReport()
        self._custom_mode = 0
        self._received = _Received()
        self._texts = TextAssembly()
        self._peer: tuple[str, int] | None = None
        self._last_heard = 0.0
        self._asked = 0.0
        self._battery_time: int | None = None
        self._sender = mavlink.MAVLink(
            None, srcSystem=self.system_id, srcComponent=mavlink.MAV_COMP_ID_BATTERY
        )
        self._companion = mavlink.MAVLink(
            None, srcSystem=self.system_id, srcComponent=mavlink.MAV_COMP_ID_ONBOARD_COMPUTER
        )
        self._user_companion: mavlink.MAVLink | None = None
        self._user_companion_heard = -math.inf
        self._beat = -math.inf
        self._components: PayloadLink | None = None
        self._unwanted = UNWANTED
        self._rates = RATES
        self._kept: set[int] = set()
        self._last: dict[int, bytes] = {}
        self._followed: dict[int, deque[bytes]] = {}
        self.pings_sent = 0
        """Number of the last PING sent."""
        self.pings_answered = 0
        """Number of the last PING that PX4 answered."""
        self._prompt = self.prompt = prompt
        """Whether PX4 answers a PING at once."""
        self._decoder = Decoder()
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._stop = threading.Event()
        self.read_back: ReadBack | None = None
        self.acknowledged: dict[int, int] = {}

    # ---------------------------------------------------------------- for the session

    def open(self) -> None:
        """Open the port; the caller then calls :meth:`poll` often.

        Raises:
            UserError: when another program has the port.
        """
        listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            # Room for a whole second of PX4's default rates at 25 times real time.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            listener.bind((self.host, self.port))
        except OSError as error:
            listener.close()
            raise UserError(
                f"UDP port {self.port}, on which PX4's messages arrive, cannot be opened ({error.strerror}); "
                "another simulation of the same instance may be running (use another --instance)"
            ) from error
        listener.setblocking(False)
        self._socket = listener

    def stop(self) -> None:
        """Close the port; does nothing before :meth:`open`."""
        self._stop.set()
        with self._lock:  # not while messages of a companion are under way
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def status(self) -> VehicleStatus:
        """The latest values that the vehicle reported; never blocks."""
        status = self._status
        silent = status.heard and time.monotonic() - self._last_heard > SILENCE
        return replace(status, silent=silent) if silent else status

    def take_mode(self, name: str) -> None:
        """Note a flight mode that the flight stack has agreed to, of which the next HEARTBEAT tells."""
        with self._lock:
            self._status = replace(self._status, mode=name)

    def poll(self) -> None:
        """Read what has arrived, answer it, and send the battery if it is due; from any thread."""
        with self._lock:
            self._poll()

    def deliver(self, messages: Sequence[MavlinkMessage]) -> None:
        """Send messages of a companion computer, and wait until PX4 has read them; from any thread.

        PX4 reads a link in order, on a thread that does not wait for simulated time, and answers a PING from
        there.  Between two steps of the lockstep, the messages thus arrive at the simulated time at which
        they are sent, however slow the machine is.  This function does not wait while PX4 starts, nor after
        message rates were set, because that thread then waits for simulated time.  If PX4 does not answer, a
        warning is printed, and messages are sent without waiting until it answers again.
        """
        if messages:
            deliver_all([(self, messages)])

    def post(self, messages: Sequence[MavlinkMessage]) -> None:
        """Send messages of a companion computer, and wait only for a stack that answers at any time.

        For what PX4 hands to its storage: that needs simulated time, for which PX4 then waits with the link.
        """
        if self.prompt:
            self.deliver(messages)
        else:
            self.send_as(self._companion, messages)

    def send_with_ping(self, messages: Sequence[MavlinkMessage]) -> None:
        """Send messages and a PING; see ``deliver_all``."""
        with self._lock:
            if self._peer is None:
                self._poll()
            if self._socket is None or self._peer is None:
                return
            self.pings_sent += 1
            ping = mavlink.MAVLink_ping_message(0, self.pings_sent, 0, 0)
            for message in (*messages, ping):
                self._send(message, self._companion)

    def wait_for_answer(self, what: str) -> None:
        """Wait for the answer to the last PING, where one is to be expected; ``what`` was sent with it."""
        with self._lock:
            if self._socket is None or self._peer is None or not self._prompt:
                return
            end = time.monotonic() + CONFIRMATION
            while self.pings_answered < self.pings_sent and (left := end - time.monotonic()) > 0.0:
                if self._stop.is_set():
                    return
                select.select([self._socket], [], [], min(left, STOP_CHECK))
                self._poll()
            if self.pings_answered < self.pings_sent:
                self._prompt = False
                self._add_message(
                    mavlink.MAV_SEVERITY_WARNING,
                    f"the flight stack has not confirmed {what} within {CONFIRMATION:g} s on UDP port"
                    f" {self.port}; until it does, it may read the message later than at its time",
                )

    def open_components(self) -> PayloadLink:
        """The link for components on board, to be opened before the port is."""
        if self._components is None:
            self._components = PayloadLink(self)
            self._rates = RATES | COMPONENT_RATES
            self._unwanted = UNWANTED - COMPONENT_RATES.keys()
        return self._components

    def keep(self, *numbers: int) -> None:
        """Keep the last message of these ids for :meth:`take` from now on."""
        self._kept.update(numbers)
        self._unwanted = self._unwanted - self._kept

    def follow(self, number: int, rate: float) -> None:
        """Keep every message of an id for :meth:`take_all`, requested at a rate in Hz of PX4's clock."""
        self._followed[number] = deque(maxlen=FOLLOWED)
        self.request_rates({number: rate})

    def take_all(self, number: int) -> list[MavlinkMessage]:
        """The messages that have arrived since the last time of an id that :meth:`follow` names."""
        frames, decoder = self._followed[number], Decoder()
        arrived = (decoder.message(frames.popleft()) for _ in range(len(frames)))
        return [message for message in arrived if message is not None]

    def request_rates(self, rates: dict[int, float]) -> None:
        """Request messages at rates in Hz of PX4's clock, instead of those at which the monitor has them."""
        with self._lock:
            self._rates = self._rates | rates
            self._unwanted = self._unwanted - rates.keys()
            self._asked = -math.inf
            self._set_rates(unwanted=True)
        if self.prompt:
            deliver_all([(self, ())])

    def take(self, number: int, *, forget: bool = True) -> MavlinkMessage | None:
        """The last message of an id that :meth:`keep` names; None if there is none since it was forgotten."""
        frame = self._last.pop(number, None) if forget else self._last.get(number)
        return None if frame is None else Decoder().message(frame)

    def send_as(self, sender: mavlink.MAVLink, messages: Sequence[MavlinkMessage]) -> None:
        """Send messages of a component; from any thread."""
        with self._lock:
            for message in messages:
                self._send(message, sender)

    def _poll(self) -> None:
        listener = self._socket
        if listener is None:
            return
        arrived = False
        while True:
            try:
                datagram, self._peer = listener.recvfrom(65535)
            except BlockingIOError:
                break
            except ConnectionError:
                continue  # an earlier battery message met a closed port: PX4 has ended
            arrived = True
            self._sort(datagram)
        received, self._received = self._received, _Received()
        if arrived:
            self._last_heard = time.monotonic()
            self._update_status(received)
            self._set_rates(received.unwanted)
        self._read_back(received.parameters)
        self._send_battery()
        self._repeat_heartbeat()

    def _sort(self, datagram: bytes) -> None:
        """Keep the latest frame of each status message, and all texts and parameters.

        Frames are decoded once a poll: at 20 times real time most of them are replaced before.
        """
        received = self._received
        for frame in frames(datagram, checked=False):
            if self._components is not None and message_id(frame) in FOR_COMPONENTS:
                self._components.put(frame)
            system, component = sender_ids(frame)
            number = message_id(frame)
            if (system, component) != (self.system_id, AUTOPILOT):
                if system == self.system_id and number == HEARTBEAT:
                    self._take_companion(frame, component)
                continue
            if number in self._kept:
                self._last[number] = frame
            if number in self._followed:
                self._followed[number].append(frame)
            if number in self._unwanted:
                received.unwanted = True
            elif number in READERS:
                received.latest[number] = frame
            elif number in TEXTS:
                received.texts.append(frame)
            elif number == PARAM_VALUE:
                received.parameters.append(frame)
            elif number == PING:
                self._take_pong(frame)
            elif number == COMMAND_ACK:
                self._take_ack(frame)

    def _take_companion(self, frame: bytes, component: int) -> None:
        """Note the heartbeat of a user's companion computer, which PX4 forwards from another link."""
        message = self._decoder.message(frame)
        if message is not None and message.type == mavlink.MAV_TYPE_ONBOARD_CONTROLLER:
            self._user_companion_heard = time.monotonic()
            if self._user_companion is None or self._user_companion.srcComponent != component:
                self._user_companion = mavlink.MAVLink(None, srcSystem=self.system_id, srcComponent=component)

    def _repeat_heartbeat(self) -> None:
        now = self._status.time
        alive = time.monotonic() - self._user_companion_heard < COMPANION_ALIVE
        if self._user_companion is None or not alive or not now - self._beat >= HEARTBEAT_PERIOD:
            return
        self._beat = now
        self._send(
            mavlink.MAVLink_heartbeat_message(
                mavlink.MAV_TYPE_ONBOARD_CONTROLLER,
                mavlink.MAV_AUTOPILOT_INVALID,
                0,
                0,
                mavlink.MAV_STATE_ACTIVE,
                3,
            ),
            self._user_companion,
        )

    def _take_pong(self, frame: bytes) -> None:
        """Note the answer to a PING of the companion computer's; PX4 also sends PINGs of its own."""
        message = self._decoder.message(frame)
        if message is not None and message.target_component == self._companion.srcComponent:
            self.pings_answered = max(self.pings_answered, message.seq)
            self._prompt = self.pings_answered == self.pings_sent

    def _take_ack(self, frame: bytes) -> None:
        message = self._decoder.message(frame)
        if message is not None:
            self.acknowledged[message.command] = message.result

    def _update_status(self, received: _Received) -> None:
        changes: JsonObject = {"heard": True}
        for number, frame in received.latest.items():
            message = self._decoder.message(frame)
            if message is None:
                continue
            changes.update(status_changes(number, message))
            if number == HEARTBEAT:
                self._custom_mode = message.custom_mode
        self._status = replace(self._status, **changes)
        for frame in received.texts:
            self._take_text(frame)
        self._status = replace(self._status, waits_for=tuple(self._waits_for()))

    # ---------------------------------------------------------------- texts

    def _take_text(self, frame: bytes) -> None:
        message = self._decoder.message(frame)
        if message is None:
            return
        if message.get_type() == "EVENT":
            event = self._event(message)
            if event is not None:
                self._report.take(event)
                if event.group == "default" and event.level < DEBUG:
                    self._add_message(event.level, event.text, event=True)
            return
        for level, text in self._texts.take(message):
            # PX4 ends a text with a tab if it sends the same as an event.
            self._add_message(level, text.strip())

    def _event(self, message: MavlinkMessage) -> EventText | None:
        if self._catalogue is None:
            return None
        return self._catalogue.decode(message.id, message.log_levels, bytes(message.arguments))

    def _add_message(self, level: int, text: str, event: bool = False) -> None:
        message = VehicleMessage(self._status.time, level, text, event)
        # Most texts arrive twice, as text and as event.
        if any(m.text == text and m.event != event for m in self.messages[-8:]):
            return
        self.messages.append(message)
        if self._on_message is not None:
            self._on_message(message)

    def _waits_for(self) -> list[str]:
        status = self._status
        if status.armed or status.can_arm:
            return []
        mode_bit = self._catalogue.mode_bit(self._custom_mode) if self._catalogue else 0
        reasons = self._report.reasons(mode_bit)
        if reasons:
            return reasons
        missing = [f"{name} to become healthy" for name in status.unhealthy]
        missing += [f"the {name} estimate" for name in status.estimates]
        return missing or ["the flight stack's own checks"]

    # ---------------------------------------------------------------- what is sent

    def _send(self, message: MavlinkMessage, sender: mavlink.MAVLink | None = None) -> None:
        if self._socket is None or self._peer is None:
            return
        sender = sender or self._sender
        try:
            self._socket.sendto(message.pack(sender), self._peer)
            sender.seq = (sender.seq + 1) % 256
        except (BlockingIOError, ConnectionError):
            return  # PX4 is not running; its silence is reported

    def _set_rates(self, unwanted: bool) -> None:
        """Set the message rates, once a second of wall time as long as unwanted messages arrive."""
        now = time.monotonic()
        if not unwanted or now - self._asked < 1.0:
            return
        self._asked = now
        self._prompt = self.prompt
        wanted = [(number, 1e6 / rate) for number, rate in self._rates.items()]
        for number, interval in [(number, -1.0) for number in sorted(self._unwanted)] + wanted:
            self._send(
                mavlink.MAVLink_command_long_message(
                    self.system_id,
                    AUTOPILOT,
                    mavlink.MAV_CMD_SET_MESSAGE_INTERVAL,
                    0,
                    number,
                    interval,
                    *(0.0,) * 5,
                )
            )

    def _read_back(self, answers: list[bytes]) -> None:
        """Compare the parameters that have arrived, and request the next."""
        if self.read_back is None or self._peer is None:
            return
        now = time.monotonic()
        for frame in answers:
            message = self._decoder.message(frame)
            if message is not None:  # a damaged answer is requested again
                self.read_back.take(message, now)
        for name in self.read_back.requests(now):
            self._send(
                mavlink.MAVLink_param_request_read_message(
                    self.system_id, AUTOPILOT, name.encode("ascii"), -1
                )
            )

    def _send_battery(self) -> None:
        if self._battery is None or self._peer is None:
            return
        sample = self._battery()
        if sample is None:
            return
        if self._battery_time is not None and sample.time - self._battery_time < BATTERY_PERIOD:
            return
        self._battery_time = sample.time
        self._send(battery_message(sample))


def deliver_all(links: Sequence[tuple[Monitor, Sequence[MavlinkMessage]]]) -> None:
    """Send messages of companion computers, and wait until all have read theirs; see ``Monitor.deliver``.

    Without messages for a stack that answers a PING at any time, read all that it has sent until now.
    """
    for monitor, messages in links:
        monitor.send_with_ping(messages)
    for monitor, messages in links:
        monitor.wait_for_answer(messages[0].get_type() if messages else "PING")


class PayloadLink:
    """The payload link as the components on board use it; see ``ComponentLink``.

    Args:
        monitor: that has the port.
    """

    def __init__(self, monitor: Monitor) -> None:
        self.system_id = monitor.system_id
        self._monitor = monitor
        self._inbox: deque[bytes] = deque(maxlen=10_000)
        self._decoder = Decoder()
        self._senders: dict[int, mavlink.MAVLink] = {}

    def put(self, frame: bytes) -> None:
        """Take a frame that has arrived."""
        self._inbox.append(frame)

    def receive(self) -> list[MavlinkMessage]:
        """Messages that have arrived, oldest first."""
        self._monitor.poll()
        found = []
        while self._inbox:
            message = self._decoder.message(self._inbox.popleft())
            if message is not None:
                found.append(message)
        return found

    def send(self, component: int, messages: Sequence[MavlinkMessage]) -> None:
        """Send messages of a component."""
        sender = self._senders.setdefault(
            component, mavlink.MAVLink(None, srcSystem=self.system_id, srcComponent=component)
        )
        self._monitor.send_as(sender, messages)


class MonitorThread:
    """Polls all monitors; less often for several vehicles, because their simulated time runs slower.

    Args:
        monitors: opened.
        errors: receives errors of reading; polling continues after them.
    """

    def __init__(self, monitors: list[Monitor], errors: ErrorLog) -> None:
        self._monitors = monitors
        self._errors = errors
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="monitors", daemon=True)

    def start(self) -> None:
        """Start polling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop polling."""
        self._stop.set()
        self._thread.join(timeout=5.0)

    def _run(self) -> None:
        while not self._stop.wait(POLL * min(len(self._monitors), FLEET_POLL)):
            for monitor in self._monitors:
                with self._errors.guard(f"reading of telemetry on UDP port {monitor.port}"):
                    monitor.poll()
