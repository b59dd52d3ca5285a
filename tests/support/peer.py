"""A scripted flight stack on PX4's side of the simulator link: obedient, or at fault on purpose."""

from __future__ import annotations

import socket
import struct
import threading
import time as time_module
from collections.abc import Callable
from typing import Any

from pymavlink.dialects.v20 import common as mavlink

SILENT_FRAMES = 8
"""Frames PX4 leaves unanswered at its start."""


class Peer:
    """Connects like PX4 does: HEARTBEAT, SET_MESSAGE_INTERVAL, a few frames of silence, then one answer each.

    Args:
        port: of the bridge.
        controls: actuator commands for a step, by simulated time in us.
        silent: frames without an answer at the start.
        armed: what its answers say.
        receive_buffer: bytes its socket has room for; None leaves that to the system.
    """

    def __init__(
        self,
        port: int,
        controls: Callable[[int], list[float]] = lambda _time: [0.0] * 16,
        *,
        silent: int = SILENT_FRAMES,
        armed: bool = True,
        receive_buffer: int | None = None,
    ) -> None:
        self.controls = controls
        self.silent = silent
        self.armed = armed
        self.received = bytearray()
        self.times: list[int] = []
        self.messages: list[Any] = []
        self.mute = threading.Event()
        self.halt = threading.Event()
        self.delay = 0.0
        self.answers_every = 1
        self.ahead = 0  # us added to the time stamps of its answers
        self.before_answer: Callable[[Peer], bytes] = lambda _peer: b""
        self._mav = mavlink.MAVLink(None, srcSystem=1, srcComponent=1)
        self._decoder = mavlink.MAVLink(None)
        self._decoder.robust_parsing = True
        self._socket = socket.socket()
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(5.0)
        self._socket.connect(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(0.05)
        self._send(self._mav.heartbeat_encode(2, 12, 0, 0, 3))
        self._send(self._mav.command_long_encode(0, 0, 511, 0, 115, 5000, 0, 0, 0, 0, 0))
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _send(self, message: Any) -> None:
        self.send_bytes(message.pack(self._mav))

    def send_bytes(self, data: bytes) -> None:
        """Send raw bytes."""
        self._socket.sendall(data)

    def answer_frame(self, time: int, controls: list[float] | None = None) -> bytes:
        """A HIL_ACTUATOR_CONTROLS frame."""
        mode = 129 if self.armed else 1
        values = self.controls(time) if controls is None else controls
        message = self._mav.hil_actuator_controls_encode(time + self.ahead, values, mode, 1)
        packed: bytes = message.pack(self._mav)
        return packed

    def _run(self) -> None:
        while not self._closing.is_set():
            if self.halt.is_set():
                self._closing.wait(0.01)
                continue
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                continue
            except OSError:
                return
            if not data:
                return
            self.received += data
            for message in self._decoder.parse_buffer(data) or []:
                self.messages.append(message)
                if message.get_type() == "HIL_SENSOR" and message.id == 0:
                    self._take(message.time_usec)

    def _take(self, time: int) -> None:
        self.times.append(time)
        due = len(self.times) % self.answers_every == 0
        if due and len(self.times) > self.silent and not self.mute.is_set():
            try:
                time_module.sleep(self.delay)
                self.send_bytes(self.before_answer(self) + self.answer_frame(time))
            except OSError:
                self._closing.set()

    def close(self) -> None:
        """Close the connection."""
        self._closing.set()
        self._socket.close()
        self._thread.join(timeout=2.0)

    def reset(self) -> None:
        """Break the connection off, as a killed process does."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
