"""Relays the simulator link to a flight controller in hardware-in-the-loop, over a serial port or UDP.

A program that stands where PX4 stands in SITL: it connects to the simulator link, answers every frame at once
with the newest commands of the board, and has PX4's UDP ports for ground station, scripts and this package's
monitor.  The board runs by its own clock, so time stamps are never compared: what it sent last holds.
PX4 stamps samples when they arrive.  A steady delay is harmless to it, samples in a burst are not: when
simulated time catches up, only the newest sample goes out.

What PX4 reads and sends in hardware-in-the-loop: src/modules/mavlink/mavlink_receiver.cpp
(handle_message_hil_*), streams/HIL_ACTUATOR_CONTROLS.hpp, src/modules/simulation/pwm_out_sim.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import select
import signal
import socket
import struct
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from sitl_bridge.base.closing import Closing
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.system.launch import schedule_in_real_time
from sitl_bridge.link.hil.ports import FIRST_PORT, GROUND_STATION_PORT, STACK_PORTS, remote_ports
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.decoder import (
    AUTOPILOT,
    checksum_fits,
    frame_size,
    frames,
    message_id,
    sender_ids,
)

STEP = 0.004
"""s between inertial samples."""
NEAREST = 0.5 * STEP
"""s after a sample within which no other one goes out."""
UNSENT = 512
"""Bytes that wait for the port beyond which no sample is added: it would be old when it arrives."""
HEARD = 10.0
"""s within which a board must be heard, and s between reports."""
CHECKED = 2.0
"""s after which a report comes early where something is wrong: before the vehicle falls."""
COMMANDED = 5.0
"""s of samples after which a board must have sent commands."""
SILENT = 2.0
"""s without a byte, of heartbeats every second, after which a board has gone: adapters and networks stay."""
REOPENED = 60.0
"""s for which a board that has gone is looked for, while it starts again."""
LATE = 0.010
"""s by which a sample may be late; and s within which commands that come in bursts bunch."""
GAP = 0.1
"""s between two samples or two commands that are worth a note; after 0.3 s PX4 gives up magnetometer and
barometer."""
COMMAND_RATE, SELDOM = 200.0, 0.9
"""Hz at which PX4 sends HIL_ACTUATOR_CONTROLS (set_hil_enabled of mavlink_main.cpp), and the share below
which samples reach it unevenly: measured 0.95 to 1 on a quiet link, 0.75 to 0.84 where two came at a time."""
BUNCHED = 0.2
"""Share of samples late, or of commands in bursts, that is worth a note."""

_ANSWER = struct.Struct("<QQ16fB")
"""HIL_ACTUATOR_CONTROLS in wire order: time_usec, flags, controls, mode."""
_SENSOR_ID, _GPS_ID = 64, 36
"""Offsets of ``id`` in HIL_SENSOR and HIL_GPS."""
HIL_ENABLED: int = mavlink.MAV_MODE_FLAG_HIL_ENABLED
TO_BOARD = {
    mavlink.MAVLINK_MSG_ID_HIL_SENSOR: _SENSOR_ID,
    mavlink.MAVLINK_MSG_ID_HIL_GPS: _GPS_ID,
    mavlink.MAVLINK_MSG_ID_DISTANCE_SENSOR: 11,
    mavlink.MAVLINK_MSG_ID_HIL_OPTICAL_FLOW: None,
    mavlink.MAVLINK_MSG_ID_ODOMETRY: None,
}
"""Messages of the simulator link that a board reads, with the offset of ``id``: of each kind it knows
one sensor.

Not HIL_STATE_QUATERNION: in hardware-in-the-loop PX4 takes it for its own estimate, against EKF2's.
"""
NETWORK = "udp:"
"""Beginning of the address of a board with a network."""
MARKERS = (mavlink.PROTOCOL_MARKER_V1, mavlink.PROTOCOL_MARKER_V2)
"""Bytes with which a frame begins."""
OURS = {*TO_BOARD, mavlink.MAVLINK_MSG_ID_HIL_STATE_QUATERNION, mavlink.MAVLINK_MSG_ID_HIL_ACTUATOR_CONTROLS}
"""Messages that pass between simulation and board alone."""

LONG_ON = 600_000_000
"""us on a board's clock, since it started, from which its estimator is late by more than half a minute."""
LATE_ESTIMATOR = (
    "the board has been on for {} min; if these are its first samples since then, PX4's estimator begins"
    " late, by 5 % of that time, and the vehicle cannot arm before: restart the board"
)
"""PX4's first sample lasts as long as the board has been on; its ImuDownSampler takes a tenth of that for
the mean interval, and waits for half of it.  Measured: 90 to 117 s at 30 to 38 min (v1.16.0, July 2026)."""

NO_HIL = (
    "the board is not in hardware-in-the-loop: in QGroundControl choose the airframe HIL Quadcopter X (1001),"
    " or load the parameters that `sitl-bridge px4-files DIR --board` writes, and restart the board"
)
NO_COMMANDS = (
    "the board sends no HIL_ACTUATOR_CONTROLS, so no motor turns: its firmware lacks pwm_out_sim"
    " (docs/hitl.md names boards), so build it with CONFIG_MODULES_SIMULATION_PWM_OUT_SIM=y; or this link"
    " carries less than 5000 B/s: use 921600 Bd"
)


def open_serial(path: Path, baud: int) -> int:
    """Open a serial port for this program alone: raw, without the delay of an adapter's latency timer.

    Returns:
        its descriptor, which does not block.

    Raises:
        UserError: for what is no serial port, is not there, in use or not permitted; and for an unknown rate.
    """
    speed = getattr(termios, f"B{baud}", None)
    if speed is None:
        raise UserError(f"--baud {baud}: this system has no such rate; boards use 921600 (USB: any)")
    try:
        port = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    except PermissionError:
        raise UserError(
            f"{path}: no permission; add yourself to the group dialout and log in again"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be opened: {os.strerror(error.errno or 0)}") from None
    try:
        fcntl.flock(port, fcntl.LOCK_EX | fcntl.LOCK_NB)
        attributes = termios.tcgetattr(port)
        attributes[:4] = [0, 0, termios.CS8 | termios.CREAD | termios.CLOCAL, 0]
        attributes[4:6] = [speed, speed]
        termios.tcsetattr(port, termios.TCSANOW, attributes)
        fcntl.ioctl(port, termios.TIOCEXCL)
        termios.tcflush(port, termios.TCIOFLUSH)  # what came while nobody listened
    except BlockingIOError:
        os.close(port)
        raise UserError(
            f"{path}: in use by another program (QGroundControl, ModemManager, mavlink-router?)"
        ) from None
    except (OSError, termios.error):
        os.close(port)
        raise UserError(f"{path}: is no serial port") from None
    _ask_low_latency(port)
    return port


def _ask_low_latency(port: int) -> None:
    """Ask an adapter's driver for low latency: an FTDI one holds bytes back for 16 ms by default."""
    low_latency, flags_at = 1 << 13, 16  # ASYNC_LOW_LATENCY; struct serial_struct of linux/serial.h
    settings = bytearray(128)
    with contextlib.suppress(OSError):  # USB devices of boards have no such setting, and need none
        fcntl.ioctl(port, termios.TIOCGSERIAL, settings)
        flags = struct.unpack_from("<i", settings, flags_at)[0] | low_latency
        struct.pack_into("<i", settings, flags_at, flags)
        fcntl.ioctl(port, termios.TIOCSSERIAL, bytes(settings))


class FrameStream:
    """Cuts a stream of bytes into frames.

    Frames of messages that the dialect does not have cannot be verified; they count where the next frame
    follows them.
    """

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> Iterator[bytes]:
        """Whole frames up to the end of ``data``; an unfinished one waits for more."""
        given, at = self._rest + data, 0
        while at < len(given):
            if given[at] not in MARKERS:
                at += 1
                continue
            size = frame_size(given, at)
            end = at + size
            frame = given[at:end]
            is_known = size > 0 and message_id(frame) in mavlink.mavlink_map
            if size == 0 or end + (not is_known) > len(given):
                break  # it goes on
            if checksum_fits(frame) if is_known else given[end] in MARKERS:
                yield frame
                at = end
            else:
                at += 1
        self._rest = given[at:]


def payload_of(frame: bytes, size: int) -> bytes:
    """The payload of a frame of MAVLink 2, with the zeros that its sender cut off."""
    return frame[10 : 10 + frame[1]].ljust(size, b"\0")[:size]


class Traffic:
    """Samples and commands since the last report, on ``time.monotonic()``."""

    def __init__(self, sample: float = 0.0, command: float = 0.0) -> None:
        self.since = time.monotonic()
        self.sample, self.command = sample, command  # the last one; 0 for none yet
        self.samples: list[float] = []  # s between those that went out
        self.commands: list[float] = []  # s between those that came
        self.waited: list[float] = []  # s from the last sample to a command
        self.left_out = self.read = self.written = 0  # samples, bytes, bytes

    def note_sample(self, now: float) -> None:
        """A sample went out."""
        if self.sample:
            self.samples.append(now - self.sample)
        self.sample = now

    def note_command(self, now: float) -> None:
        """A command came."""
        if self.command:
            self.commands.append(now - self.command)
        if self.sample:
            self.waited.append(now - self.sample)
        self.command = now

    def describe(self) -> str:
        """Rates and latency."""
        seconds = time.monotonic() - self.since
        waited = sorted(self.waited) or [0.0]
        middle, high = (1e3 * waited[int(share * (len(waited) - 1))] for share in (0.5, 0.99))
        return (
            f"board: {len(self.samples) / seconds:.0f} samples/s, {self.left_out} left out;"
            f" {len(self.commands) / seconds:.0f} commands/s, {middle:.1f} ms after the last sample"
            f" (99 %: {high:.1f}); {self.written / seconds / 1e3:.1f} kB/s to it,"
            f" {self.read / seconds / 1e3:.1f} kB/s from it"
        )

    def describe_faults(self) -> list[str]:
        """Describe what is wrong with the times."""
        sent, commands, found = self.samples, self.commands, []
        late = sum(each > STEP + LATE for each in sent)
        if sent and (late > 0.01 * len(sent) or max(sent) > GAP or self.left_out > BUNCHED * len(sent)):
            found.append(
                f"note: {late} samples were over {1e3 * LATE:.0f} ms late, up to {1e3 * max(sent):.0f} ms,"
                f" and {self.left_out} were left out: this computer is too busy, PX4 may lose its estimate"
            )
        bursts = sum(each < 1e-3 for each in commands)
        if commands and bursts > BUNCHED * len(commands):
            found.append(
                f"note: the board's commands come in bursts ({bursts} of {len(commands)} within 1 ms of"
                " another): an adapter's latency timer or a hub holds bytes back; PX4 does not fly with"
                " samples in bursts"
            )
        if commands and max(commands) > GAP:
            found.append(
                f"note: no command came for {1e3 * max(commands):.0f} ms: bytes were held up on the way to"
                " the board or back, and PX4 gives its sensors up after 300 ms"
            )
        rate = len(commands) / sum(commands) if len(commands) >= COMMAND_RATE else COMMAND_RATE
        if rate < SELDOM * COMMAND_RATE:
            found.append(
                f"note: {rate:.0f} commands/s of PX4's {COMMAND_RATE:.0f}: samples do not reach it evenly, so"
                " it may lose its estimate; or the link carries too little"
            )
        return found


class Relay(Closing):
    """The relay between a simulator link and a board; use it in a ``with`` block.

    Args:
        device: serial port, or ``udp:HOST:PORT`` of a board with a network.
        baud: of a serial port.
        instance: decides the ports and the system id that the board must have.
        station: address of the ground station.
    """

    def __init__(self, device: str, baud: int, instance: int, station: tuple[str, int]) -> None:
        self.device, self.baud, self.instance = device, baud, instance
        self._links: dict[socket.socket, tuple[str, int]] = {}
        for name, port in remote_ports(instance).items():
            address = station if name == "ground station" else ("127.0.0.1", port)
            link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            local = "" if name == "ground station" and not address[0].startswith("127.") else "127.0.0.1"
            link.bind((local, STACK_PORTS[name] + instance))
            link.setblocking(False)
            self._links[link] = address
        self._mav = mavlink.MAVLink(None, srcSystem=instance + 1, srcComponent=AUTOPILOT)
        self._station = mavlink.MAVLink(
            None, srcSystem=instance + 1, srcComponent=mavlink.MAV_COMP_ID_ONBOARD_COMPUTER
        )
        self._simulator: socket.socket | None = None
        self._controls, self._mode, self._flags = (0.0,) * 16, 0, 0
        self._commanded = False
        self._is_new = True
        self._traffic = Traffic()

    def close(self) -> None:
        """Close the links."""
        for link in self._links:
            link.close()

    # ---------------------------------------------------------------- the board

    def run(self) -> None:
        """Relay until the simulation closes its link.

        Raises:
            UserError: for a board that is not there, not heard, or not in hardware-in-the-loop.
        """
        until = 0.0  # by when a board that has gone must be heard again
        while True:
            try:
                if self._serve_board():
                    return
            except UserError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.5)
            else:
                print(f"warning: {self.device} has gone; waiting for the board", flush=True)
                until = time.monotonic() + REOPENED

    def _serve_board(self) -> bool:
        """Greet the board and relay; False if it goes."""
        port = self._open()
        try:
            self._await_heartbeat(port)
            return self._relay(port)
        finally:
            os.close(port)
            self._leave_simulation()

    def _open(self) -> int:
        if not self.device.startswith(NETWORK):
            return open_serial(Path(self.device), self.baud)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as board:
            try:
                board.connect(parse_address(self.device.removeprefix(NETWORK)))
            except OSError as error:
                raise UserError(f"{self.device}: cannot be reached: {error.strerror}") from None
            board.setblocking(False)
            return board.detach()

    def _await_heartbeat(self, port: int) -> None:
        """Wait for the board's heartbeat and look at it."""
        end, next_greeting, heard, found = time.monotonic() + HEARD, 0.0, 0, False
        self._stream = FrameStream()
        while (now := time.monotonic()) < end:
            if now >= next_greeting:
                self._write(port, self._heartbeat())
                next_greeting = now + 1.0
            if not select.select([port], [], [], 0.1)[0]:
                continue
            data = _read(port)
            if data is None:
                raise UserError(f"{self.device} has gone")
            heard += len(data)
            for frame in self._stream.take(data):
                if (
                    message_id(frame) == mavlink.MAVLINK_MSG_ID_HEARTBEAT
                    and sender_ids(frame)[1] == AUTOPILOT
                ):
                    found = True
                    if self._is_ready(frame):
                        return
        if found:
            raise UserError(f"{self.device}: {NO_HIL}")
        received = f"{heard} bytes, but no heartbeat," if heard else "nothing"
        where, what = f" at {self.baud} Bd", "is the rate right (SER_TELn_BAUD)"
        if self.device.startswith(NETWORK):
            where, what = "", "is its address right (MAV_n_UDP_PRT)"
        raise UserError(
            f"{self.device}: {received} within {HEARD:.0f} s{where}: is it the board's MAVLink port, {what},"
            " does the board run?"
        )

    def _is_ready(self, heartbeat: bytes) -> bool:
        """Whether the board is in hardware-in-the-loop, which it says once its commander runs."""
        system = sender_ids(heartbeat)[0]
        if system != self.instance + 1:
            raise UserError(
                f"{self.device}: the board's MAVLink system id is {system}; set MAV_SYS_ID to"
                f" {self.instance + 1}, or give --instance {system - 1}"
            )
        # custom_mode (4), type, autopilot, base_mode
        _, kind, base_mode = payload_of(heartbeat, 9)[4:7]
        if kind != mavlink.MAV_AUTOPILOT_PX4:
            raise UserError(f"{self.device}: the board does not run PX4 (MAV_AUTOPILOT {kind})")
        return bool(base_mode & HIL_ENABLED)

    def _heartbeat(self) -> bytes:
        message = mavlink.MAVLink_heartbeat_message(
            mavlink.MAV_TYPE_ONBOARD_CONTROLLER, mavlink.MAV_AUTOPILOT_INVALID, 0, 0, 0, 3
        )
        return bytes(message.pack(self._station))

    # ---------------------------------------------------------------- the relay

    def _join_simulation(self) -> socket.socket:
        simulator = socket.create_connection(("127.0.0.1", FIRST_PORT + self.instance))
        simulator.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._simulator = simulator
        return simulator

    def _leave_simulation(self) -> None:
        if self._simulator is not None:
            self._simulator.close()
            self._simulator = None
        self._controls, self._mode = (0.0,) * 16, 0

    def _relay(self, port: int) -> bool:
        """Relay until the simulation closes its link, or port or board go: then it is False."""
        simulator = self._join_simulation()
        self._traffic = Traffic()
        self._unsent = b""
        self._from_simulation = b""
        self._samples_since = next_heartbeat = time.monotonic()
        self._heard, next_check = next_heartbeat, next_heartbeat + CHECKED
        poll = select.poll()
        for each in (simulator.fileno(), *(link.fileno() for link in self._links)):
            poll.register(each, select.POLLIN)
        links = {link.fileno(): link for link in self._links}
        while True:
            poll.register(port, select.POLLIN | (select.POLLOUT if self._unsent else 0))
            for number, event in poll.poll(500):
                if number == simulator.fileno():
                    if not self._take_samples(simulator):
                        return True
                elif number == port:
                    data = _read(port) if event & ~select.POLLOUT else b""
                    if data is None:
                        return False
                    self._take_from_board(data)
                else:
                    self._take_from_ground(links[number])
            now = time.monotonic()
            if now >= next_heartbeat:
                self._unsent += self._heartbeat()
                next_heartbeat = now + 1.0
            before = len(self._unsent)
            self._unsent = self._write(port, self._unsent)
            self._traffic.written += before - len(self._unsent)
            if now - self._heard > SILENT:
                return False
            if now >= next_check:
                next_check = now + CHECKED
                if now - self._traffic.since > HEARD or self._traffic.describe_faults():
                    self.report()

    def _take_samples(self, simulator: socket.socket) -> bool:
        """Answer the frames of a step, and hand the board what it reads; False where the link is closed."""
        try:
            data = simulator.recv(65536)
        except ConnectionError:
            return False
        if not data:
            return False
        self._from_simulation += data
        used, now = 0, time.monotonic()
        for frame in frames(self._from_simulation, checked=False):
            used += len(frame)
            number = message_id(frame)
            if number not in TO_BOARD:
                continue
            at = TO_BOARD[number]
            if at is not None and at < frame[1] and frame[10 + at] != 0:
                continue  # of a second sensor
            if number != mavlink.MAVLINK_MSG_ID_HIL_SENSOR:
                self._unsent += frame
                continue
            if now - self._traffic.sample < NEAREST or len(self._unsent) > UNSENT:
                self._traffic.left_out += 1
            else:
                self._unsent += frame
                self._traffic.note_sample(now)
            simulator.sendall(self._answer(payload_of(frame, 8)))
        self._from_simulation = self._from_simulation[used:]
        if not self._commanded and now - self._samples_since > COMMANDED:
            self._commanded = True  # it is said once
            print(f"warning: {NO_COMMANDS}", flush=True)
        return True

    def _answer(self, stamp: bytes) -> bytes:
        """Return the answer of a flight stack in lockstep to the frame of a time."""
        message = mavlink.MAVLink_hil_actuator_controls_message(
            int.from_bytes(stamp, "little"), self._controls, self._mode, self._flags
        )
        return bytes(message.pack(self._mav))

    def _take_from_board(self, data: bytes) -> None:
        if data:
            self._heard = time.monotonic()
        self._traffic.read += len(data)
        passed = []
        for frame in self._stream.take(data):
            if message_id(frame) == mavlink.MAVLINK_MSG_ID_HIL_ACTUATOR_CONTROLS:
                clock, self._flags, *controls, self._mode = _ANSWER.unpack(payload_of(frame, _ANSWER.size))
                self._controls = tuple(controls)
                self._commanded = True
                if self._is_new and clock > LONG_ON:
                    print(f"note: {LATE_ESTIMATOR.format(clock // 60_000_000)}", flush=True)
                self._is_new = False
                self._traffic.note_command(time.monotonic())
            elif message_id(frame) not in OURS:
                passed.append(frame)
        datagram = b"".join(passed)
        for link, address in self._links.items():
            if datagram:
                with contextlib.suppress(OSError):  # nobody listens there
                    link.sendto(datagram, address)

    def _take_from_ground(self, link: socket.socket) -> None:
        try:
            datagram, address = link.recvfrom(65536)
        except OSError:  # nobody listens where the last datagram went
            return
        self._links[link] = address  # who writes first becomes the partner, as with PX4
        for frame in frames(datagram, checked=False):
            if message_id(frame) not in OURS:
                self._unsent += frame

    def _write(self, port: int, data: bytes) -> bytes:
        """Write as much as the port takes, to a network one frame a datagram; returns the rest."""
        if not self.device.startswith(NETWORK):
            return _write(port, data)
        for frame in frames(data, checked=False):
            _write(port, frame)  # a datagram that finds no room is lost, as on its way
        return b""

    # ---------------------------------------------------------------- what it says

    def report(self) -> None:
        """Print rates, latency and what is wrong with the times, and count anew."""
        traffic = self._traffic
        if traffic.sample:
            print(traffic.describe(), *traffic.describe_faults(), sep="\n", flush=True)
            self._traffic = Traffic(traffic.sample, traffic.command)


def _read(port: int) -> bytes | None:
    """Return what has arrived; None where the port has gone."""
    try:
        return os.read(port, 65536) or None
    except (BlockingIOError, ConnectionRefusedError):  # of a network: nobody listens there yet
        return b""
    except OSError:
        return None


def _write(port: int, data: bytes) -> bytes:
    """Write as much as the port takes; returns the rest."""
    if not data:
        return b""
    try:
        return data[os.write(port, data) :]
    except BlockingIOError:
        return data
    except OSError:
        return b""  # it has gone, which reading shows


def parse_address(text: str) -> tuple[str, int]:
    """``HOST:PORT``.

    Raises:
        UserError: for anything else.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise UserError(f"{text}: is no HOST:PORT, such as 127.0.0.1:{GROUND_STATION_PORT}")
    return host, int(port)


def main(arguments: Sequence[str] | None = None) -> int:
    """Relay as the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("device")
    parser.add_argument("--baud", type=int, default=921600)
    parser.add_argument("--instance", type=int, default=0)
    parser.add_argument("--gcs", type=parse_address, default=("127.0.0.1", GROUND_STATION_PORT))
    given = parser.parse_args(arguments)
    if not schedule_in_real_time():
        print(
            "note: without real-time priority; as root, or with a rtprio line in limits.conf, other programs"
            " disturb the flight less",
            flush=True,
        )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with Relay(given.device, given.baud, given.instance, given.gcs) as relay:
            try:
                relay.run()
            finally:
                relay.report()
    except UserError as error:
        print(error, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
