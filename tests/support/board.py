"""A made-up flight controller in hardware-in-the-loop, at the far end of a pseudo terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import socket
import threading
import tty
from typing import Any

from sitl_bridge.link.hil.board import FrameStream
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.link.mavlink.decoder import Decoder

HIL, ARMED = 32, 128


class MadeUpBoard:
    """Says that it is in hardware-in-the-loop, and sends constant commands by a clock of its own.

    Attributes:
        port: path of its serial port.
        received: messages that it was sent, oldest first.
        largest: bytes that it read at once.
        silent: whether it sends nothing, with its port in place.

    Args:
        mode: base_mode of its heartbeats.
        command: of each motor; None for a firmware without pwm_out_sim.
        system: its MAVLink system id.
        cable: path of the end of a cable to which it is joined; by default it has a port of its own.
        network: whether it is joined by UDP instead, and answers whoever writes to it first.
    """

    def __init__(
        self,
        mode: int = HIL,
        command: float | None = 0.3,
        system: int = 1,
        cable: str | None = None,
        *,
        network: bool = False,
    ) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM) if network else None
        if self._socket is not None:
            self._socket.bind(("127.0.0.1", 0))
            self.port = f"udp:127.0.0.1:{self._socket.getsockname()[1]}"
            self._end = self._socket.fileno()
        elif cable is None:
            self._end, far = pty.openpty()
            tty.setraw(far)
            self.port = os.ttyname(far)
            os.close(far)
        else:
            self._end = os.open(cable, os.O_RDWR | os.O_NOCTTY)
        os.set_blocking(self._end, False)
        self._mode, self._command = mode, command
        self._mav = mavlink.MAVLink(None, srcSystem=system, srcComponent=1)
        self.received: list[Any] = []
        self.largest = 0
        self.silent = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _send(self, *frames: bytes) -> None:
        if self.silent:
            return
        with contextlib.suppress(OSError):  # nobody has the port open, or nobody reads it
            os.write(self._end, b"".join(frames))

    def _run(self) -> None:
        stream, decoder, step = FrameStream(), Decoder(), 0
        while not self._stop.wait(0.005):
            step += 1
            stamp = 5000 * step + 123_456_789_000  # of another time than the simulation's
            if step % 50 == 0:
                heartbeat = mavlink.MAVLink_heartbeat_message(2, 12, self._mode | ARMED, 0, 4, 3)
                # A message that the dialect does not have lies between others.
                unknown = bytes([0xFD, 3, 0, 0, 0, 1, 1, 0x10, 0x27, 1, 0xFD, 0xFE, 1, 9, 9])
                self._send(heartbeat.pack(self._mav), unknown)
            if self._command is not None:
                controls = [self._command] * 4 + [0.0] * 12
                message = mavlink.MAVLink_hil_actuator_controls_message(
                    stamp, controls, self._mode | ARMED, 0
                )
                self._send(message.pack(self._mav))
            try:
                if self._socket is not None and not self.largest:
                    self._socket.connect(self._socket.recvfrom(1, socket.MSG_PEEK)[1])
                data = os.read(self._end, 65536)
            except OSError:
                continue
            self.largest = max(self.largest, len(data))
            found = (decoder.message(frame) for frame in stream.take(data))
            self.received += [message for message in found if message is not None]

    def names(self) -> set[str]:
        """Names of the messages that it was sent."""
        return {str(message.get_type()) for message in self.received}

    def __enter__(self) -> MadeUpBoard:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._socket is None:
            os.close(self._end)
        else:
            self._socket.close()
