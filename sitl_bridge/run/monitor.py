"""Listens to one PX4 on its payload link while others fly it, and feeds it our battery.

UDP 14030 + instance, where PX4 sends unasked; 14540 and 14550 stay free for MAVSDK and QGroundControl.
Nothing here commands the vehicle: it asks for message rates and sends BATTERY_STATUS, which PX4 does not
read on the simulator's link.
"""

from __future__ import annotations

import math
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pymavlink.dialects.v20 import common as mavlink
from pymavlink.mavutil import x25crc

from sitl_bridge.errors import UserError
from sitl_bridge.px4.read_back import ReadBack
from sitl_bridge.run.px4_events import ArmingReport, Event, EventCatalogue

PAYLOAD_PORT = 14030
"""Where PX4's instance 0 sends its payload link (px4-rc.mavlink)."""

POLL: Final = 0.015
"""s of wall time between looks at the socket: at 25 times real time the battery still goes out at 2.5 Hz of
simulated time, and the thread wakes 67 times a second."""

BATTERY_PERIOD = 200_000
"""us of simulated time between BATTERY_STATUS messages (5 Hz) where the poll is fast enough."""

SILENCE = 5.0
"""s of wall time after which a vehicle that was heard counts as silent."""

HEARTBEAT, SYS_STATUS, SYSTEM_TIME, PARAM_VALUE, GPS_RAW_INT = 0, 1, 2, 22, 24
LOCAL_POSITION, BATTERY, ESTIMATOR = 32, 147, 230
EXTENDED_STATE, STATUSTEXT, EVENT = 245, 253, 410
DEBUG = 7
"""MAV_SEVERITY_DEBUG, and the same in events."""

EVENT_CRC = 160
"""CRC_EXTRA of EVENT, which pymavlink's dialects do not have yet (mavlink/common.xml)."""

RATES = {
    LOCAL_POSITION: 5.0,
    SYS_STATUS: 5.0,
    EXTENDED_STATE: 5.0,
    BATTERY: 1.0,
    ESTIMATOR: 1.0,
    GPS_RAW_INT: 1.0,
}
"""Hz of PX4's clock that are asked for."""

UNWANTED = frozenset({29, 30, 31, 33, 36, 74, 83, 85, 87, 105, 111, 132, 141, 231, 330, 331, 12901, 12904})
"""Messages PX4 sends there by itself that only cost time: raw sensors, attitude, odometry, servo outputs."""

DECODED = frozenset({HEARTBEAT, SYSTEM_TIME, *RATES})

PREARM_CHECK = mavlink.MAV_SYS_STATUS_PREARM_CHECK

MAIN_MODES = {1: "Manual", 2: "Altitude", 3: "Position", 5: "Acro", 6: "Offboard", 7: "Stabilized"}
AUTO_MODES = {
    1: "Ready",
    2: "Takeoff",
    3: "Hold",
    4: "Mission",
    5: "Return",
    6: "Land",
    8: "Follow",
    9: "Precision land",
}
"""px4_custom_mode.h: main mode in the third byte of custom_mode, sub-mode of mode 4 (auto) in the fourth."""

LANDED_STATES = {0: "unknown", 1: "on ground", 2: "in air", 3: "taking off", 4: "landing"}

SENSORS = {
    mavlink.MAV_SYS_STATUS_SENSOR_3D_GYRO: "gyroscope",
    mavlink.MAV_SYS_STATUS_SENSOR_3D_ACCEL: "accelerometer",
    mavlink.MAV_SYS_STATUS_SENSOR_3D_MAG: "magnetometer",
    mavlink.MAV_SYS_STATUS_SENSOR_ABSOLUTE_PRESSURE: "barometer",
    mavlink.MAV_SYS_STATUS_SENSOR_DIFFERENTIAL_PRESSURE: "airspeed sensor",
    mavlink.MAV_SYS_STATUS_SENSOR_GPS: "GPS",
    mavlink.MAV_SYS_STATUS_SENSOR_OPTICAL_FLOW: "optical flow",
    mavlink.MAV_SYS_STATUS_SENSOR_LASER_POSITION: "range finder",
    mavlink.MAV_SYS_STATUS_AHRS: "attitude estimate",
    mavlink.MAV_SYS_STATUS_SENSOR_BATTERY: "battery",
    mavlink.MAV_SYS_STATUS_SENSOR_MOTOR_OUTPUTS: "motors",
}

ESTIMATES = {
    mavlink.ESTIMATOR_ATTITUDE: "attitude",
    mavlink.ESTIMATOR_VELOCITY_HORIZ: "horizontal velocity",
    mavlink.ESTIMATOR_VELOCITY_VERT: "vertical velocity",
    mavlink.ESTIMATOR_POS_HORIZ_ABS: "position",
    mavlink.ESTIMATOR_POS_VERT_ABS: "height",
}


@dataclass(frozen=True)
class BatterySample:
    """What the battery sensor of the simulation read last.

    Attributes:
        time: us of simulated time.
        voltage: V of the pack.
        current: A.
        remaining: share 0..1.
        consumed: A s.
        cells: in series.
    """

    time: int
    voltage: float
    current: float
    remaining: float
    consumed: float
    cells: int


@dataclass(frozen=True)
class Message:
    """Something PX4 said in words.

    Attributes:
        time: s on PX4's clock when it was heard.
        level: 0 emergency ... 6 info, 7 debug (MAV_SEVERITY).
        text: without PX4's mark for texts that are also events.
        event: whether it came as an event.
    """

    time: float
    level: int
    text: str
    event: bool = False


@dataclass(frozen=True)
class Status:
    """A vehicle as it reported itself last; nan and empty where it has not yet.

    Attributes:
        heard: whether anything was heard, ever.
        silent: whether it was heard and then fell silent.
        time: s on PX4's clock.
        mode: in PX4's words.
        armed: whether the motors may turn.
        landed: e.g. ``on ground``.
        position: m north, east, down.
        velocity: m/s north, east, down.
        battery_voltage, battery_current, battery_remaining: V, A, share 0..1, as PX4 has them.
        satellites: seen by the first GPS receiver, -1 unknown.
        unhealthy: sensors that PX4 has enabled and finds unhealthy.
        estimates: what the estimator does not have yet, in words.
        can_arm: PX4's own prearm check.
        waits_for: what PX4 still waits for before it can arm, in words.
    """

    heard: bool = False
    silent: bool = False
    time: float = math.nan
    mode: str = ""
    armed: bool = False
    landed: str = ""
    position: tuple[float, float, float] = (math.nan, math.nan, math.nan)
    velocity: tuple[float, float, float] = (math.nan, math.nan, math.nan)
    battery_voltage: float = math.nan
    battery_current: float = math.nan
    battery_remaining: float = math.nan
    satellites: int = -1
    unhealthy: tuple[str, ...] = ()
    estimates: tuple[str, ...] = ()
    can_arm: bool = False
    waits_for: tuple[str, ...] = ("the first heartbeat",)


@dataclass
class _Heard:
    """Raw state between polls."""

    latest: dict[int, bytes] = field(default_factory=dict)
    texts: list[bytes] = field(default_factory=list)
    parameters: list[bytes] = field(default_factory=list)
    partial: dict[int, dict[int, str]] = field(default_factory=dict)


class Monitor:
    """Watches one vehicle, in a thread of its own or as it is polled.

    Args:
        instance: of PX4; sets the port.
        catalogue: of the build's events, for events in words; without it only status texts are.
        battery: gives the latest battery sample, or None while there is none; without it no battery is sent.
        on_message: called in the monitor's thread with each message, e.g. to log it.
        host: address to listen on.

    Raises:
        UserError: from :meth:`open`, when the port is taken.
    """

    def __init__(
        self,
        instance: int,
        *,
        catalogue: EventCatalogue | None = None,
        battery: Callable[[], BatterySample | None] | None = None,
        on_message: Callable[[Message], None] | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.port = PAYLOAD_PORT + instance
        self.host = host
        self.system_id = instance + 1
        self.messages: deque[Message] = deque(maxlen=10_000)
        self._catalogue = catalogue
        self._battery = battery
        self._on_message = on_message
        self._status = Status()
        self._report = ArmingReport()
        self._custom_mode = 0
        self._heard = _Heard()
        self._peer: tuple[str, int] | None = None
        self._last_heard = 0.0
        self._asked = 0.0
        self._battery_time: int | None = None
        self._sender = mavlink.MAVLink(
            None, srcSystem=self.system_id, srcComponent=mavlink.MAV_COMP_ID_BATTERY
        )
        self._parser = mavlink.MAVLink(None)
        self._parser.robust_parsing = False
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self.failure: BaseException | None = None
        self.read_back: ReadBack | None = None
        """Parameters to read back as soon as the vehicle is there; set by the caller."""

    # ---------------------------------------------------------------- from outside

    def start(self) -> None:
        """Open the port and listen in a thread of its own.

        Raises:
            UserError: when another program has the port.
        """
        self.open()
        self._thread = threading.Thread(target=self._run, name=f"monitor-{self.port}", daemon=True)
        self._thread.start()

    def open(self) -> None:
        """Open the port; whoever does not :meth:`start` a thread calls :meth:`poll` often.

        Raises:
            UserError: when another program has the port.
        """
        listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            # A burst of a whole second of PX4's own default rates at 25 times real time fits.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            listener.bind((self.host, self.port))
        except OSError as error:
            listener.close()
            raise UserError(
                f"UDP port {self.port}, on which the monitor hears PX4, cannot be opened: {error.strerror}; "
                "another simulation of the same instance may be running (use another --instance)"
            ) from error
        listener.setblocking(False)
        self._socket = listener

    def stop(self) -> None:
        """Stop listening and close the port; harmless when not started."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def status(self) -> Status:
        """What the vehicle reported last; never blocks."""
        status = self._status
        silent = status.heard and time.monotonic() - self._last_heard > SILENCE
        return replace(status, silent=silent) if silent else status

    # ---------------------------------------------------------------- the thread

    def _run(self) -> None:
        try:
            while not self._stop.wait(POLL):
                self.poll()
        except Exception as error:  # noqa: BLE001 (kept for the session, which reports it)
            self.failure = error

    def poll(self) -> None:
        """Take in what has come, answer, and send the battery when it is due."""
        listener = self._socket
        if listener is None:
            return
        came = False
        unwanted = False
        while True:
            try:
                datagram, self._peer = listener.recvfrom(65535)
            except BlockingIOError:
                break
            except ConnectionError:
                continue  # an earlier battery message met a closed port: PX4 has ended
            came = True
            unwanted |= self._split(datagram)
        if came:
            self._last_heard = time.monotonic()
            self._digest()
            self._ask(unwanted)
        self._read_back()
        self._send_battery()

    def _split(self, datagram: bytes) -> bool:
        """Keep the latest frame of each wanted message, and all texts; True when unwanted ones come."""
        unwanted = False
        start, end = 0, len(datagram)
        while start + 12 <= end:
            if datagram[start] != 0xFD:
                start += 1
                continue
            length = datagram[start + 1] + 12 + (13 if datagram[start + 2] & 1 else 0)
            if start + length > end:
                break
            frame = datagram[start : start + length]
            start += length
            if frame[5] != self.system_id or frame[6] != mavlink.MAV_COMP_ID_AUTOPILOT1:
                continue
            number = int.from_bytes(frame[7:10], "little")
            if number in DECODED:
                self._heard.latest[number] = frame
            elif number in (STATUSTEXT, EVENT):
                self._heard.texts.append(frame)
            elif number == PARAM_VALUE:
                self._heard.parameters.append(frame)
            elif number in UNWANTED:
                unwanted = True
        return unwanted

    def _digest(self) -> None:
        heard = self._heard
        latest, heard.latest = heard.latest, {}
        texts, heard.texts = heard.texts, []
        changes: dict[str, Any] = {"heard": True}
        for number, frame in latest.items():
            try:
                message = self._parser.decode(bytearray(frame))
            except mavlink.MAVError:
                continue  # a damaged frame
            changes.update(self._take(number, message))
        self._status = replace(self._status, **changes)
        for frame in texts:
            self._take_text(frame)
        self._status = replace(self._status, waits_for=tuple(self._waits_for()))

    def _take(self, number: int, m: Any) -> dict[str, Any]:
        """Fields of Status that a message changes."""
        if number == HEARTBEAT:
            self._custom_mode = m.custom_mode
            armed = bool(m.base_mode & mavlink.MAV_MODE_FLAG_SAFETY_ARMED)
            return {"mode": mode_name(m.custom_mode), "armed": armed}
        if number == LOCAL_POSITION:
            return {
                "time": m.time_boot_ms * 1e-3,
                "position": (m.x, m.y, m.z),
                "velocity": (m.vx, m.vy, m.vz),
            }
        if number == SYSTEM_TIME:
            return {"time": m.time_boot_ms * 1e-3}
        if number == EXTENDED_STATE:
            return {"landed": LANDED_STATES.get(m.landed_state, "unknown")}
        if number == SYS_STATUS:
            sick = m.onboard_control_sensors_enabled & ~m.onboard_control_sensors_health
            return {
                "unhealthy": tuple(name for bit, name in SENSORS.items() if sick & bit),
                "can_arm": bool(m.onboard_control_sensors_health & PREARM_CHECK),
            }
        if number == BATTERY:
            cells = [v for v in m.voltages if v != 0xFFFF]
            return {
                "battery_voltage": sum(cells) * 1e-3 if cells else math.nan,
                "battery_current": m.current_battery * 1e-2 if m.current_battery >= 0 else math.nan,
                "battery_remaining": m.battery_remaining * 1e-2 if m.battery_remaining >= 0 else math.nan,
            }
        if number == ESTIMATOR:
            return {"estimates": tuple(name for bit, name in ESTIMATES.items() if not m.flags & bit)}
        return {"satellites": m.satellites_visible if m.satellites_visible != 255 else -1}

    # ---------------------------------------------------------------- words

    def _take_text(self, frame: bytes) -> None:
        if int.from_bytes(frame[7:10], "little") == EVENT:
            event = self._event(frame)
            if event is not None:
                self._report.take(event)
                if event.group == "default" and event.level < DEBUG:
                    self._say(event.level, event.text, event=True)
            return
        try:
            message = self._parser.decode(bytearray(frame))
        except mavlink.MAVError:
            return
        text = self._whole_text(message)
        if text is not None:
            # PX4 ends a text with a tab when it sends the same as an event.
            self._say(message.severity, text.strip())

    def _whole_text(self, message: Any) -> str | None:
        """A text, put together where it came in chunks of 50; None while parts are missing."""
        part: str = message.text
        if not message.id:
            return part
        chunks = self._heard.partial.setdefault(message.id, {})
        chunks[message.chunk_seq] = part
        last = max(chunks)
        if len(chunks[last]) == 50 or len(chunks) != last + 1:
            return None
        del self._heard.partial[message.id]
        return "".join(chunks[k] for k in sorted(chunks))

    def _event(self, frame: bytes) -> Event | None:
        if self._catalogue is None:
            return None
        length = frame[1]
        crc = x25crc(frame[1 : 10 + length])
        crc.accumulate(bytes([EVENT_CRC]))
        if crc.crc != int.from_bytes(frame[10 + length : 12 + length], "little"):
            return None
        # id, time, sequence, destination component and system, log levels, arguments; zeros are cut off
        payload = frame[10 : 10 + length].ljust(53, b"\0")
        number, _time, _sequence, _component, _system, levels = struct.unpack_from("<IIHBBB", payload)
        return self._catalogue.decode(number, levels, payload[13:])

    def _say(self, level: int, text: str, event: bool = False) -> None:
        message = Message(self._status.time, level, text, event)
        # Most texts come twice, as text and as event.
        if any(m.text == text and m.event != event for m in list(self.messages)[-8:]):
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
        return missing or ["PX4's own checks"]

    # ---------------------------------------------------------------- what is sent

    def _send(self, message: Any) -> None:
        if self._socket is None or self._peer is None:
            return
        try:
            self._socket.sendto(message.pack(self._sender), self._peer)
            self._sender.seq = (self._sender.seq + 1) % 256
        except (BlockingIOError, ConnectionError):
            return  # PX4 is not there (any more); what it says, or does not, shows that

    def _ask(self, unwanted: bool) -> None:
        """Ask for the rates once a second of wall time, as long as PX4 sends what is not wanted."""
        now = time.monotonic()
        if not unwanted or now - self._asked < 1.0:
            return
        self._asked = now
        wanted = [(number, 1e6 / rate) for number, rate in RATES.items()]
        for number, interval in [(number, -1.0) for number in sorted(UNWANTED)] + wanted:
            self._send(
                mavlink.MAVLink_command_long_message(
                    self.system_id,
                    mavlink.MAV_COMP_ID_AUTOPILOT1,
                    mavlink.MAV_CMD_SET_MESSAGE_INTERVAL,
                    0,
                    number,
                    interval,
                    *(0.0,) * 5,
                )
            )

    def _read_back(self) -> None:
        """Compare the parameters that came, and ask for the next."""
        frames, self._heard.parameters = self._heard.parameters, []
        if self.read_back is None or self._peer is None:
            return
        now = time.monotonic()
        for frame in frames:
            try:
                self._parser.decode(bytearray(frame))
            except mavlink.MAVError:
                continue  # a damaged frame; it is asked for again
            self.read_back.take(frame[10 : 10 + frame[1]], now)
        for name in self.read_back.requests(now):
            self._send(
                mavlink.MAVLink_param_request_read_message(
                    self.system_id, mavlink.MAV_COMP_ID_AUTOPILOT1, name.encode("ascii"), -1
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


def battery_message(sample: BatterySample) -> Any:
    """BATTERY_STATUS of a sample.  PX4 adds up the cells; of more than ten it would read only ten."""
    shown = min(sample.cells, 10)
    cell = min(max(round(sample.voltage / shown * 1000), 0), 0xFFFE)
    return mavlink.MAVLink_battery_status_message(
        id=0,
        battery_function=mavlink.MAV_BATTERY_FUNCTION_ALL,
        type=mavlink.MAV_BATTERY_TYPE_LIPO,
        temperature=0x7FFF,  # unknown
        voltages=[cell] * shown + [0xFFFF] * (10 - shown),
        current_battery=min(max(round(sample.current * 100), 0), 0x7FFF),
        current_consumed=min(round(sample.consumed / 3.6), 0x7FFFFFFF),
        energy_consumed=-1,
        battery_remaining=min(max(round(sample.remaining * 100), 0), 100),
    )


def mode_name(custom_mode: int) -> str:
    """PX4's flight mode in words, from HEARTBEAT.custom_mode."""
    main, sub = custom_mode >> 16 & 0xFF, custom_mode >> 24 & 0xFF
    if main == 3 and sub == 1:
        return "Orbit"
    if main == 4:
        return AUTO_MODES.get(sub, f"Auto {sub}")
    return MAIN_MODES.get(main, f"Mode {main}")
