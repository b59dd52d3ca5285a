"""A local socket that offers the samples of sensors that see to other programs, such as a bridge to ROS.

Each program that connects receives an MCAP stream (https://mcap.dev/spec) without chunks: magic bytes, then
records of one byte of type, eight of length (little-endian) and content.  Schemas and channels come before
their first message; messages are CDR.  The stream ends with the footer when the simulation does, so what was
received is an MCAP file.
"""

from __future__ import annotations

import contextlib
import io
import queue
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sitl_bridge.errors import UserError
from sitl_bridge.export.live_samples import sample_messages
from sitl_bridge.export.mcap_file import McapChannels
from sitl_bridge.export.ros_topics import RosMessages
from sitl_bridge.files.extras import EXPORT, missing
from sitl_bridge.perception.sensor_runner import SeenSample, SensorRunner
from sitl_bridge.sensors.sensor_host import SensorHost

if TYPE_CHECKING:
    from mcap.writer import Writer

LONGEST = 107
"""Bytes of a Unix socket's path on Linux."""
WAITING = 16
"""Samples that wait for a program; further ones are left out, and sequence numbers show the gap."""
FAREWELL = 2.0
"""s of wall time for a program to take what waits for it when the simulation ends."""


class McapFile(McapChannels):
    """Messages that are written one by one.

    Args:
        writer: of the file, started.
    """

    def __init__(self, writer: Writer) -> None:
        super().__init__(writer)
        self._messages = writer
        self._sequences: dict[int, int] = {}

    def add(self, channel: int, time: int, data: bytes) -> None:
        """Write a message; ``time`` is in ns."""
        sequence = self._sequences[channel] = self._sequences.get(channel, 0) + 1
        self._messages.add_message(channel, time, data, time, sequence)

    def skip(self, topics: Iterable[RosMessages]) -> None:
        """Leave out messages of topics that have a channel: their sequence numbers are missing."""
        for topic in topics:
            if (channel := self.known.get(topic.topic)) is not None:
                self._sequences[channel] = self._sequences.get(channel, 0) + len(topic.time)

    def add_all(self, topics: Iterable[RosMessages]) -> None:
        """Write the messages of one sample."""
        for topic in topics:
            channel = self.channel_of(topic)
            for time, message in zip(topic.time.tolist(), topic.data, strict=True):
                self.add(channel, time, message.tobytes())


class SampleSocket:
    """Sends every sample that is delivered to the programs that are connected.

    Simulated time does not wait for them.

    Args:
        path: of the socket.
        hosts: sensors; those that see are offered.
        names: of the vehicles.
        notify: prints messages for the user.

    Raises:
        UserError: for a path that cannot be used, and without the package mcap.
    """

    def __init__(
        self,
        path: Path,
        hosts: Sequence[SensorHost],
        names: Sequence[str],
        notify: Callable[[str], None] = lambda _line: None,
    ) -> None:
        require_socket(path)
        self.path = path
        self._runners = [host for host in hosts if isinstance(host, SensorRunner)]
        self._names, self._notify = names, notify
        self._readers: list[_Reader] = []
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Listen, from now on.

        Raises:
            UserError: where the socket cannot be made.
        """
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.path.unlink(missing_ok=True)  # require_socket found nobody behind it
            listener.bind(str(self.path))
            listener.listen()
        except OSError as error:
            listener.close()
            raise UserError(f"{self.path}: the socket cannot be made: {error.strerror}") from error
        self._listener = listener
        for runner in self._runners:
            runner.listeners.append(self._listener_of(runner))
        if not self._runners:
            self._notify(f"{self.path}: no vehicle has a sensor that sees; nothing will be sent")
        self._thread = threading.Thread(
            target=self._accept, args=(listener,), name="sample socket", daemon=True
        )
        self._thread.start()

    def _listener_of(self, runner: SensorRunner) -> Callable[[SeenSample], None]:
        def send(sample: SeenSample) -> None:
            if self._readers:  # nothing is encoded for nobody
                name = self._names[runner.vehicle]
                made = list(sample_messages(runner.specification, name, sample.time, sample.arrays))
                with self._lock:
                    self._readers = [reader for reader in self._readers if reader.take(made)]

        return send

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                link, _ = listener.accept()
                with self._lock:
                    self._readers.append(_Reader(link))
                    self._readers[-1].start()

    def close(self) -> None:
        """End all streams and remove the socket; safe to call twice."""
        listener, self._listener = self._listener, None
        if listener is None or self._thread is None:
            return
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        self._thread.join()
        self.path.unlink(missing_ok=True)
        with self._lock:
            for reader in self._readers:
                reader.close()
            self._readers = []


class _Reader:
    """One program: encodes for it, and sends on a thread of its own."""

    def __init__(self, link: socket.socket) -> None:
        from mcap.writer import IndexType, Writer

        self._link = link
        self._out = _Bytes()
        self._writer = Writer(
            self._out,
            use_chunking=False,
            index_types=IndexType.NONE,
            repeat_channels=False,
            repeat_schemas=False,
            use_statistics=False,
            use_summary_offsets=False,
            enable_crcs=False,
        )
        self._writer.start(profile="ros2", library="sitl-bridge")
        self._file = McapFile(self._writer)
        self._queue: queue.Queue[bytes | None] = queue.Queue()
        self._queue.put(self._out.taken())
        self._gone = False
        self._thread = threading.Thread(target=self._send, name="sample reader", daemon=True)

    def start(self) -> None:
        """Send from now on."""
        self._thread.start()

    def take(self, messages: Sequence[RosMessages]) -> bool:
        """Queue messages; returns whether the program is still there."""
        if self._queue.qsize() < WAITING:
            self._file.add_all(messages)
            self._queue.put(self._out.taken())
        else:
            self._file.skip(messages)
        return not self._gone

    def _send(self) -> None:
        try:
            while (data := self._queue.get()) is not None:
                self._link.sendall(data)
        except OSError:
            self._gone = True
        finally:
            self._link.close()

    def close(self) -> None:
        """Send the end of the stream; a program that takes nothing is cut off."""
        self._writer.finish()
        self._queue.put(self._out.taken())
        self._queue.put(None)
        self._thread.join(FAREWELL)
        if self._thread.is_alive():
            with contextlib.suppress(OSError):
                self._link.shutdown(socket.SHUT_RDWR)
            self._thread.join()


class _Bytes(io.BytesIO):
    """What the writer wrote since it was last taken; ``tell`` counts from the start of the stream."""

    def __init__(self) -> None:
        super().__init__()
        self._before = 0

    def tell(self) -> int:
        """Bytes written since the start."""
        return self._before + super().tell()

    def taken(self) -> bytes:
        """Empty it."""
        data = self.getvalue()
        self._before += len(data)
        self.seek(0)
        self.truncate(0)
        return data


def require_socket(path: Path) -> None:
    """Check that a socket can be made.

    Raises:
        UserError: for a path that is too long, in use or in no directory, and without the package mcap.
    """
    try:
        import mcap.writer  # noqa: F401
    except ImportError as error:
        raise missing("mcap", "sample sockets", EXPORT) from error
    if len(str(path).encode()) > LONGEST:
        raise UserError(f"{path}: a socket's path has {LONGEST} bytes at most; choose a shorter one")
    if not path.parent.is_dir():
        raise UserError(f"{path}: there is no directory {path.parent}")
    if not path.exists():
        return
    if not path.is_socket():
        raise UserError(f"{path}: exists and is no socket; choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        if probe.connect_ex(str(path)) == 0:
            raise UserError(f"{path}: another simulation offers its samples there; choose another path")
