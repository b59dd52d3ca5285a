"""Shows a run to others: the option of each outlet, what keeps it from starting, and its start.

A new outlet is its module and a class here, in ``OUTLETS``.  What an outlet needs is imported when it starts:
MQTT and the page take time to load.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.extras import missing_package

if TYPE_CHECKING:
    from sitl_bridge.live.bus.address import BusAddress
    from sitl_bridge.live.ros2.choices import RosChoices
    from sitl_bridge.live.run.client_link import SimulationSnapshot
    from sitl_bridge.live.run.outlet import RunContext

LAST_DOMAIN = 232
"""Greatest domain of ROS 2 whose ports RTPS can number (OMG DDSI-RTPS, 9.6.1.1)."""


class RunOutput(Protocol):
    """Shows a run to others until it is closed."""

    def start(self) -> None:
        """Begin."""
        ...

    def close(self) -> None:
        """End; safe to call twice."""
        ...


class OutletSettings(ABC):
    """How a run is shown by one outlet."""

    option: ClassVar[str]
    """Of the command line, without its dashes."""
    metavar: ClassVar[str | None] = None
    help: ClassVar[str]
    variable: ClassVar[str | None] = None
    """Of the environment, in place of the option."""
    bare: ClassVar[tuple[str, str] | None] = None
    """Value of the option where none is given, and the pattern of a given one; None: it needs one."""

    @classmethod
    @abstractmethod
    def parse(cls, text: str) -> Self:
        """The settings of the option's value.

        Raises:
            UserError: for any other text.
        """

    def check(self) -> None:  # noqa: B027  (of a user's own outlet nothing is known)
        """Check that it can start.

        Raises:
            UserError: for a missing package or a port in use.
        """

    @abstractmethod
    def make(self, run: RunContext) -> RunOutput:
        """The outlet of a run."""


@dataclass(frozen=True)
class BusSettings(OutletSettings):
    """MQTT."""

    option = "bus"
    help = "publish on MQTT and take commands: embedded, embedded:PORT or mqtt[s]://USER@HOST:PORT"
    variable = "SITL_BRIDGE_BUS"

    address: BusAddress  # of the broker

    @classmethod
    def parse(cls, text: str, password: str | None = None) -> Self:
        """The broker of an address; ``password`` of the broker, unless the address names a file with it."""
        from sitl_bridge.live.bus.address import BusAddress

        return cls(BusAddress.parse(text, password))

    def check(self) -> None:
        """Check the port of an embedded broker."""
        from sitl_bridge.live.bus.broker import require_free

        if self.address.embedded and self.address.port:
            require_free(self.address.port)

    def make(self, run: RunContext) -> RunOutput:
        """The bus."""
        from sitl_bridge.live.bus.bus import Bus

        return Bus(run, self.address)


@dataclass(frozen=True)
class PageSettings(OutletSettings):
    """The live page."""

    option = "view"
    metavar = "[PORT]"
    help = "show the run in the browser, live, and take commands there (port 8080)"
    bare = ("8080", r"\d+")

    port: int  # TCP, of the page on this machine

    @classmethod
    def parse(cls, text: str) -> Self:
        """``PORT``."""
        if not text.isdecimal():
            raise UserError(f"--view {text!r}: write a PORT, such as 8080")
        return cls(check_port(int(text), "--view"))

    def check(self) -> None:
        """Check that viser is there and the port is free."""
        from sitl_bridge.live.view.page_server import require_free_port, require_viser

        require_viser()
        require_free_port(self.port)

    def make(self, run: RunContext) -> RunOutput:
        """The page."""
        from sitl_bridge.live.view.stream import LiveView

        return LiveView(run, self.port)


@dataclass(frozen=True)
class ViewerSettings(OutletSettings):
    """PX4's viewers."""

    option = "viewer"
    metavar = "HOST[:PORT]"
    help = "send the vehicles' states to PX4's viewers, as its SIH does: UDP port 19410 + instance"

    host: str  # to which the states are sent
    port: int = 19410  # UDP, of instance 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """``HOST`` or ``HOST:PORT``."""
        host, colon, port = text.partition(":")
        if not host or (colon and not port.isdecimal()):
            raise UserError(f"--viewer {text!r}: write HOST or HOST:PORT, such as 127.0.0.1")
        return cls(host, check_port(int(port), "--viewer: port")) if colon else cls(host)

    def check(self) -> None:
        """Check that the host is known."""
        import socket

        try:
            socket.getaddrinfo(self.host, self.port, family=socket.AF_INET, type=socket.SOCK_DGRAM)
        except OSError as error:
            raise UserError(f"host {self.host!r} is unknown: {error.strerror}") from error

    def make(self, run: RunContext) -> RunOutput:
        """The state stream."""
        from sitl_bridge.live.view.stream import Stream

        arguments = [self.host, str(self.port), ",".join(str(number) for number in run.instances)]
        module = "sitl_bridge.live.view.viewer_stream"
        return Stream("the state stream for viewers", module, run, "viewer", arguments)


@dataclass(frozen=True)
class FoxgloveSettings(OutletSettings):
    """Foxglove."""

    option = "stream"
    metavar = "[[HOST:]PORT]"
    help = "let Foxglove connect and follow the run (127.0.0.1, port 8765)"
    bare = ("8765", r"([\w.-]+:)?\d+")

    host: str  # address to listen on
    port: int  # TCP

    @classmethod
    def parse(cls, text: str) -> Self:
        """``PORT`` or ``HOST:PORT``."""
        host, colon, port = text.rpartition(":")
        if not port.isdecimal() or (colon and not host):
            raise UserError(f"--stream {text!r}: write PORT or HOST:PORT, such as 8765 or 0.0.0.0:8765")
        return cls(host or "127.0.0.1", check_port(int(port), "--stream: port"))

    def check(self) -> None:
        """Check that Foxglove's SDK is there and the port is free."""
        from sitl_bridge.live.view.page_server import require_foxglove, require_free_port

        require_foxglove()
        require_free_port(self.port, self.host, "the stream")

    def make(self, run: RunContext) -> RunOutput:
        """The stream."""
        from sitl_bridge.live.view.stream import Stream

        module = "sitl_bridge.live.view.foxglove_stream"
        return Stream("the stream for Foxglove", module, run, "stream", [self.host, str(self.port)])


@dataclass(frozen=True)
class Ros2Settings(OutletSettings):
    """ROS 2."""

    option = "ros2"
    metavar = "[DOMAIN]"
    help = "be a node of ROS 2 on this machine: topics and commands (default: ROS_DOMAIN_ID, or 0)"
    bare = ("", r"\d+")

    domain: int = 0  # ROS_DOMAIN_ID
    wait: tuple[str, ...] = ()  # nodes that simulated time waits for
    choices: RosChoices | None = None  # of a scenario

    @classmethod
    def parse(cls, text: str) -> Self:
        """``DOMAIN``; that of ROS_DOMAIN_ID for an empty text."""
        text = text or os.environ.get("ROS_DOMAIN_ID", "") or "0"
        if not text.isdecimal() or int(text) > LAST_DOMAIN:
            raise UserError(f"--ros2: a domain of ROS 2 is 0 to {LAST_DOMAIN}, not {text!r}")
        return cls(int(text))

    def check(self) -> None:
        """Check that the DDS is there."""
        if find_spec("cyclonedds") is None:
            raise missing_package("cyclonedds", "ROS 2 topics", "ros2")

    def make(self, run: RunContext) -> RunOutput:
        """The node."""
        from sitl_bridge.live.ros2.graph import RosGraph

        return RosGraph(run, self.domain, self.wait, self.choices)


class CustomOutlet:
    """Base of a user's own outlet, whose methods are called on a thread of its own."""

    rate: ClassVar[float] = 10.0
    """Hz of wall time."""

    def open(self, names: Sequence[str]) -> None:
        """Begin; ``names`` of the vehicles."""

    def show(self, snapshot: SimulationSnapshot) -> None:
        """Take what is now: ``time`` in s, ``motion``, ``rotors`` and ``health`` of the vehicles, ``clock``,
        ``world`` and ``contacts``."""
        raise NotImplementedError

    def close(self) -> None:
        """End."""


@dataclass(frozen=True)
class CustomSettings(OutletSettings):
    """A user's own outlet."""

    option = "outlet"
    metavar = "FILE.py:CLASS"
    help = "your own outlet, a class of a Python file that takes the run's state"

    outlet: CustomOutlet

    @classmethod
    def parse(cls, text: str) -> Self:
        """``FILE.py:CLASS``; runs the file."""
        from sitl_bridge.base.user_file import UserClass, class_at

        place = class_at(text)
        if place is None:
            raise UserError(f"--outlet {text!r}: write FILE.py:CLASS")
        file, name = place
        made = UserClass.model_validate({"file": file, "class": name}).make(CustomOutlet, "outlet")
        if type(made).show is CustomOutlet.show:
            raise UserError(f"--outlet {text}: the class defines no show")
        if not made.rate > 0.0:
            raise UserError(f"--outlet {text}: its rate of {made.rate:g} Hz is not above 0")
        return cls(made)

    def make(self, run: RunContext) -> RunOutput:
        """Its thread."""
        return _CustomThread(run, self.outlet)


CLOSE_LIMIT = 10.0
"""s that a user's outlet may take to end."""


class _CustomThread:
    def __init__(self, run: RunContext, outlet: CustomOutlet) -> None:
        from sitl_bridge.base.error_log import ErrorLog

        self._run, self._outlet = run, outlet
        self._errors = run.errors or ErrorLog(run.notify)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name=type(outlet).__name__, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_LIMIT)
        if self._thread.is_alive():
            self._add(UserError(f"it has not ended {CLOSE_LIMIT:g} s after the flight"))

    def _add(self, error: Exception) -> None:
        self._errors.add(f"the outlet {type(self._outlet).__name__}", error)

    def _work(self) -> None:
        from sitl_bridge.base.user_file import failure_text

        try:
            self._show()
        except (UserError, OSError) as error:
            self._add(error)
        except Exception as error:  # noqa: BLE001 - the flight goes on, but has failed
            self._add(UserError(failure_text(error)))

    def _show(self) -> None:
        from sitl_bridge.live.run.snapshot import take_snapshot

        self._outlet.open(self._run.source.simulation.names)
        try:
            while not self._closing.wait(1.0 / self._outlet.rate):
                self._outlet.show(take_snapshot(self._run.source))
        finally:
            self._outlet.close()


OUTLETS: tuple[type[OutletSettings], ...] = (
    BusSettings,
    PageSettings,
    ViewerSettings,
    FoxgloveSettings,
    Ros2Settings,
    CustomSettings,
)
"""In the order of their options."""


def parse_outlets(given: Mapping[str, str | None]) -> tuple[OutletSettings, ...]:
    """The outlets of a command line, by option; the password of the bus is that in the environment.

    The password is removed from the environment, so that no child process inherits it.

    Raises:
        UserError: for a value that is none.
    """
    from sitl_bridge.live.bus.address import PASSWORD

    password = os.environ.pop(PASSWORD, None)
    found: list[OutletSettings] = []
    for kind in OUTLETS:
        text = given.get(kind.option)
        if text is not None:
            found.append(kind.parse(text, password) if issubclass(kind, BusSettings) else kind.parse(text))
    return tuple(found)


def check_port(port: int, option: str) -> int:
    """A TCP or UDP port that programs of users may open.

    Raises:
        UserError: for any other number.
    """
    if not 1024 <= port <= 65535:
        raise UserError(f"{option} {port}: give a port from 1024 to 65535")
    return port
