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
import selectors
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

from sitl_bridge.analysis.export.live_samples import sample_messages
from sitl_bridge.analysis.export.ros_definitions import schema_name, schema_text
from sitl_bridge.analysis.export.ros_topics import RosMessages
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.extras import EXPORT, missing
from sitl_bridge.base.system import launch
from sitl_bridge.core.sensors.sensor_host import SensorHost
from sitl_bridge.perception.sensor_runner import SeenSample, SensorRunner

if TYPE_CHECKING:
    from mcap.writer import Writer

LONGEST = 107
"""Bytes of a Unix socket's path on Linux."""
WAITING = 16
"""Samples that wait for a program; further ones are left out, and sequence numbers show the gap."""
MOST = 32
"""Programs that are connected at a time; each takes a thread."""
FAREWELL = 2.0
"""s of wall time for a program to take what waits for it when the simulation ends."""


class _McapStream:
    """Messages that are written one by one; schemas and channels come before their first message.

    Args:
        writer: of the stream, started.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._schemas: dict[str, int] = {}
        self._channels: dict[str, int] = {}
        self._sequences: Counter[int] = Counter()

    def _channel(self, topic: RosMessages) -> int:
        name = schema_name(topic.name)
        if name not in self._schemas:
            text = schema_text(topic.name).encode()
            self._schemas[name] = self._writer.register_schema(name=name, encoding="ros2msg", data=text)
        if topic.topic not in self._channels:
            self._channels[topic.topic] = self._writer.register_channel(
                topic=topic.topic, message_encoding="cdr", schema_id=self._schemas[name]
            )
        return self._channels[topic.topic]

    def skip(self, topics: Iterable[RosMessages]) -> None:
        """Leave out messages of topics that have a channel: their sequence numbers are missing."""
        for topic in topics:
            if (channel := self._channels.get(topic.topic)) is not None:
                self._sequences[channel] += len(topic.time)

    def add(self, topics: Iterable[RosMessages]) -> None:
        """Write the messages of one sample."""
        for topic in topics:
            channel = self._channel(topic)
            for time, message in zip(topic.time.tolist(), topic.data, strict=True):
                self._sequences[channel] += 1
                self._writer.add_message(channel, time, message.tobytes(), time, self._sequences[channel])


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
        self._remover: subprocess.Popen[bytes] | None = None

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
        self._remover = subprocess.Popen(
            launch.command("remove", [str(self.path.absolute())]),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
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
        """Take up programs that connect, and let go of those that leave, until the listener is shut down."""
        with selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            while self._listener is not None:
                for key, _ in selector.select():
                    if key.data is not None:
                        if key.data.has_left():
                            selector.unregister(key.fileobj)
                            self._let_go(key.data)
                        continue
                    reader = self._next(listener)
                    if reader is not None:
                        selector.register(reader.link, selectors.EVENT_READ, reader)
                        reader.start()

    def _next(self, listener: socket.socket) -> _Reader | None:
        """Accept a program; None if there are too many, or the listener was shut down."""
        try:
            link, _ = listener.accept()
        except OSError as error:
            if self._listener is not None:
                self._notify(f"{self.path}: a program cannot be taken up: {error.strerror}")
                sleep(1.0)
            return None
        with self._lock:
            self._readers = [reader for reader in self._readers if not reader.gone]
            if len(self._readers) < MOST:
                self._readers.append(_Reader(link))
                return self._readers[-1]
        self._notify(f"{self.path}: {MOST} programs are connected; a further one was refused")
        link.close()
        return None

    def _let_go(self, reader: _Reader) -> None:
        with self._lock:
            if reader in self._readers:
                self._readers.remove(reader)
        reader.cut_off()

    def close(self) -> None:
        """End all streams and remove the socket; safe to call twice."""
        listener, self._listener = self._listener, None
        if listener is None or self._thread is None:
            return
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        listener.close()
        self.path.unlink(missing_ok=True)
        if self._remover is not None:
            self._remover.kill()
            self._remover.wait()
        with self._lock:
            for reader in self._readers:
                reader.close()
            self._readers = []


class _Reader:
    """One program: encodes for it, and sends on a thread of its own."""

    def __init__(self, link: socket.socket) -> None:
        from mcap.writer import IndexType, Writer

        self.link = link
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
        self._file = _McapStream(self._writer)
        self._queue: queue.Queue[bytes | None] = queue.Queue()
        self._queue.put(self._out.taken())
        self.gone = False
        self._thread = threading.Thread(target=self._send, name="sample reader", daemon=True)

    def start(self) -> None:
        """Send from now on."""
        self._thread.start()

    def take(self, messages: Sequence[RosMessages]) -> bool:
        """Queue messages; returns whether the program is still there."""
        if self._queue.qsize() < WAITING:
            self._file.add(messages)
            self._queue.put(self._out.taken())
        else:
            self._file.skip(messages)
        return not self.gone

    def _send(self) -> None:
        try:
            while (data := self._queue.get()) is not None:
                self.link.sendall(data)
        except OSError:
            self.gone = True

    def has_left(self) -> bool:
        """Whether a program that can be read from has closed its end; what it sends is thrown away."""
        try:
            return not self.link.recv(4096)
        except OSError:
            return True

    def cut_off(self) -> None:
        """End the thread and close the connection, whatever waits."""
        self.gone = True
        with contextlib.suppress(OSError):
            self.link.shutdown(socket.SHUT_RDWR)
        self._queue.put(None)
        self._thread.join()
        self.link.close()

    def close(self) -> None:
        """Send the end of the stream; a program that takes nothing is cut off."""
        self._writer.finish()
        self._queue.put(self._out.taken())
        self._queue.put(None)
        self._thread.join(FAREWELL)
        self.cut_off()


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
