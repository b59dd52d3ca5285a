"""Which broker: the embedded one, or any other by its URL."""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
import stat
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from sitl_bridge.bus.messages import IDENTIFIER
from sitl_bridge.errors import UserError

PORTS = {"mqtt": 1883, "mqtts": 8883}
OPTIONS = ("ca", "password_file", "rate", "run")
FORMS = (
    "write embedded, embedded:PORT or mqtt[s]://[USER@]HOST[:PORT], each with any of "
    "?ca=FILE&password_file=FILE&rate=HZ&run=NAME"
)
PASSWORD = "SITL_BRIDGE_BUS_PASSWORD"  # noqa: S105  (its name)
"""Environment variable with the password of the broker, or with that of an embedded one for its clients."""
EMBEDDED_USER = "sitl"
"""User name with which clients log in to an embedded broker that has a password."""
LONGEST_PASSWORD = 4096
"""Bytes of a file with a password."""


@dataclass(frozen=True)
class BusAddress:
    """Where the broker is and how it is spoken to.

    Attributes:
        embedded: one of our own is started on this machine.
        host: name or address.
        port: TCP port; 0 for an embedded broker that takes a free one.
        user: and ``password``: None for none.  An embedded broker with a password lets nobody in without it.
        tls: the connection is encrypted, and the broker's certificate is checked.
        ca: file of the authorities to trust, PEM; None for the system's.
        rate: Hz of wall time of each vehicle's state.
        run: name of the run in topics; None for the run directory's.
    """

    embedded: bool
    host: str
    port: int
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    ca: Path | None = None
    rate: float = 10.0
    run: str | None = None

    @property
    def user_name(self) -> str | None:
        """With which the bus logs in."""
        return EMBEDDED_USER if self.embedded and self.password else self.user

    @property
    def warning(self) -> str:
        """What a user should know of the way to the broker; empty where it is safe."""
        if self.embedded or self.tls or is_this_machine(self.host):
            return ""
        return (
            f"warning: commands{' and the password' if self.password else ''} go to {self.host} unencrypted; "
            "use mqtts:// where the network is not yours alone"
        )

    @classmethod
    def parse(cls, text: str, password: str | None = None) -> BusAddress:
        """Read what a user wrote.

        Args:
            text: of the form FORMS.
            password: of the broker, where it has one and ``text`` names no file with it.

        Raises:
            UserError: for anything that is not of the form, a password in it, or a file that cannot be used.
        """
        embedded = text.split(":")[0].split("?")[0] == "embedded"
        url = urlsplit(text.replace("embedded", "embedded://127.0.0.1", 1) if embedded else text)
        if not embedded and (url.scheme not in PORTS or not url.hostname):
            raise UserError(f"--bus {_hidden(text)!r}: {FORMS}")
        if url.path not in ("", "/") or url.fragment:
            raise UserError(f"--bus {_hidden(text)!r}: nothing may follow the port but ?options; {FORMS}")
        if url.password is not None:
            raise UserError(
                f"--bus {_hidden(text)!r}: a command line can be read by everybody on this machine; give the "
                f"password in the environment variable {PASSWORD}, or with ?password_file=FILE"
            )
        options = _options(text, url)
        if "password_file" in options:
            password = _read_password(Path(options["password_file"]))
        tls = url.scheme == "mqtts"
        ca = Path(options["ca"]) if "ca" in options else None
        if ca is not None and not tls:
            raise UserError(f"--bus {_hidden(text)!r}: a CA file is for mqtts://, which encrypts")
        address = cls(
            embedded=embedded,
            host=url.hostname or "127.0.0.1",
            port=_port(text, url),
            user=unquote(url.username) if url.username else None,
            password=password or None,
            tls=tls,
            ca=ca,
            rate=_rate(text, options.get("rate", "10")),
            run=options.get("run"),
        )
        if address.run is not None and not re.match(IDENTIFIER, address.run):
            raise UserError(f"--bus: run={address.run}: use up to 64 letters, digits, '_', '.' and '-'")
        address.tls_context()
        return address

    def tls_context(self) -> ssl.SSLContext | None:
        """What checks the broker's certificate; None where nothing is encrypted.

        Raises:
            UserError: for a CA file that cannot be used.
        """
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca)
        except (OSError, ssl.SSLError) as error:
            raise UserError(f"--bus: {self.ca}: cannot be used as a file of authorities: {error}") from error
        context.sslsocket_class = _ClosingSocket
        return context

    def __str__(self) -> str:
        """Without the password."""
        who = f"{self.user}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.tls else 'mqtt'}://{who}{host}:{self.port}"


class _ClosingSocket(ssl.SSLSocket):
    """Closes itself when the broker cannot be trusted, which paho leaves to the garbage collector."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except OSError:
            self.close()
            raise


def is_this_machine(host: str) -> bool:
    """Whether a broker's name is that of this machine's own network."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _read_password(file: Path) -> str:
    """The first line of a file that only its owner may read.

    Raises:
        UserError: when it cannot be read, holds none, or others may read it.
    """
    try:
        with file.open("rb") as opened:
            status = os.fstat(opened.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UserError(f"--bus: password_file {file}: is no file")
            if status.st_mode & 0o077:
                raise UserError(f"--bus: password_file {file}: others may read it; type: chmod 600 {file}")
            lines = opened.read(LONGEST_PASSWORD).decode().splitlines()
    except OSError as error:
        raise UserError(f"--bus: password_file {file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"--bus: password_file {file}: is no text in UTF-8") from error
    if not lines or not lines[0]:
        raise UserError(f"--bus: password_file {file}: its first line is empty")
    return lines[0]


def _hidden(text: str) -> str:
    """A URL without its password."""
    return re.sub(r"(://[^/@:]*):[^@]*@", r"\1:***@", text)


def _options(text: str, url: SplitResult) -> dict[str, str]:
    pairs = parse_qsl(url.query, keep_blank_values=True)
    options = dict(pairs)
    unknown = [name for name in options if name not in OPTIONS]
    if unknown or len(options) != len(pairs) or "" in options.values():
        raise UserError(f"--bus {_hidden(text)!r}: the options are {', '.join(OPTIONS)}, each once; {FORMS}")
    return options


def _port(text: str, url: SplitResult) -> int:
    try:
        given = url.port
    except ValueError as error:
        raise UserError(f"--bus {_hidden(text)!r}: a port is a number up to 65535") from error
    return given if given is not None else PORTS.get(url.scheme, 0)


def _rate(text: str, value: str) -> float:
    try:
        rate = float(value)
    except ValueError:
        rate = 0.0
    if not 0.1 <= rate <= 100.0:
        raise UserError(f"--bus {_hidden(text)!r}: a rate is from 0.1 to 100 Hz, not {value}")
    return rate
