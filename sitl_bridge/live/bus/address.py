"""Address of the broker: the embedded one or any other by its URL."""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
import stat
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from sitl_bridge.base.errors import UserError, mask_passwords
from sitl_bridge.live.run.messages import IDENTIFIER

PORTS = {"mqtt": 1883, "mqtts": 8883}
OPTIONS = ("ca", "password_file", "rate", "run")
FORMS = (
    "use embedded, embedded:PORT or mqtt[s]://[USER@]HOST[:PORT], each with any of "
    "?ca=FILE&password_file=FILE&rate=HZ&run=NAME"
)
PASSWORD = "SITL_BRIDGE_BUS_PASSWORD"  # noqa: S105  (its name)
"""Environment variable with the password of the broker, or of the embedded broker for its clients."""
EMBEDDED_USER = "sitl"
"""User name of clients of an embedded broker with a password."""
MAX_PASSWORD_SIZE = 4096
"""Largest size of a password file, bytes."""


@dataclass(frozen=True)
class BusAddress:
    """Address and connection settings of the broker."""

    embedded: bool  # whether an embedded broker is started on this machine
    host: str  # name or address
    port: int  # TCP port; 0 for an embedded broker on a free port
    # and ``password``: None for none.  An embedded broker with a password rejects clients without it.
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False  # whether the connection is encrypted and the broker's certificate is checked
    ca: Path | None = None  # PEM file of trusted authorities; None for the system's
    rate: float = 10.0  # rate of each vehicle's state, Hz of wall time
    run: str | None = None  # name of the run in topics; None for the name of the run directory

    @property
    def user_name(self) -> str | None:
        """User name of the bus."""
        return EMBEDDED_USER if self.embedded and self.password else self.user

    @property
    def warning(self) -> str:
        """Warning about an insecure connection to the broker; empty if it is secure."""
        if self.embedded or self.tls or is_this_machine(self.host):
            return ""
        return (
            f"warning: commands{' and the password' if self.password else ''} go to {self.host} unencrypted; "
            "use mqtts:// on a shared network"
        )

    @classmethod
    def parse(cls, text: str, password: str | None = None) -> BusAddress:
        """Parse an address given by the user.

        Args:
            text: of the form FORMS.
            password: of the broker, unless ``text`` names a file with it.

        Raises:
            UserError: for any other form, a password in the text, or an unusable file.
        """
        embedded = text.split(":")[0].split("?")[0] == "embedded"
        url = urlsplit(text.replace("embedded", "embedded://127.0.0.1", 1) if embedded else text)
        if not embedded and (url.scheme not in PORTS or not url.hostname):
            raise UserError(f"--bus {mask_passwords(text)!r}: {FORMS}")
        if url.path not in ("", "/") or url.fragment:
            raise UserError(f"--bus {mask_passwords(text)!r}: only ?options may follow the port; {FORMS}")
        if url.password is not None:
            raise UserError(
                f"--bus {mask_passwords(text)!r}: other users of this machine can read a command line; give "
                f"the password in the environment variable {PASSWORD}, or with ?password_file=FILE"
            )
        options = _options(text, url)
        if "password_file" in options:
            password = _read_password(Path(options["password_file"]))
        tls = url.scheme == "mqtts"
        ca = Path(options["ca"]) if "ca" in options else None
        if ca is not None and not tls:
            raise UserError(f"--bus {mask_passwords(text)!r}: a CA file needs mqtts://")
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
        """Return the TLS context that checks the broker's certificate; None without TLS.

        Raises:
            UserError: if the CA file cannot be used.
        """
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca)
        except (OSError, ssl.SSLError) as error:
            raise UserError(f"--bus: {self.ca}: not a valid CA file: {error}") from error
        context.sslsocket_class = _ClosingSocket
        return context

    def __str__(self) -> str:
        """The URL without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.tls else 'mqtt'}://{host}:{self.port}"


class _ClosingSocket(ssl.SSLSocket):
    """A socket that closes itself after a failed handshake, unlike paho."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except OSError:
            self.close()
            raise


def is_this_machine(host: str) -> bool:
    """Return whether a broker's host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _read_password(file: Path) -> str:
    """Read the first line of a file that only its owner may read."""
    try:
        with file.open("rb") as opened:
            status = os.fstat(opened.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UserError(f"--bus: password_file {file}: not a file")
            if status.st_mode & 0o077:
                raise UserError(f"--bus: password_file {file}: readable by others; run: chmod 600 {file}")
            lines = opened.read(MAX_PASSWORD_SIZE).decode().splitlines()
    except OSError as error:
        raise UserError(f"--bus: password_file {file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"--bus: password_file {file}: not a UTF-8 text file") from error
    if not lines or not lines[0]:
        raise UserError(f"--bus: password_file {file}: its first line is empty")
    return lines[0]


def _options(text: str, url: SplitResult) -> dict[str, str]:
    pairs = parse_qsl(url.query, keep_blank_values=True)
    options = dict(pairs)
    unknown = [name for name in options if name not in OPTIONS]
    if unknown or len(options) != len(pairs) or "" in options.values():
        raise UserError(
            f"--bus {mask_passwords(text)!r}: the options are {', '.join(OPTIONS)}, each once; {FORMS}"
        )
    return options


def _port(text: str, url: SplitResult) -> int:
    try:
        given = url.port
    except ValueError as error:
        raise UserError(f"--bus {mask_passwords(text)!r}: the port must be a number up to 65535") from error
    return given if given is not None else PORTS.get(url.scheme, 0)


def _rate(text: str, value: str) -> float:
    try:
        rate = float(value)
    except ValueError:
        rate = 0.0
    if not 0.1 <= rate <= 100.0:
        raise UserError(f"--bus {mask_passwords(text)!r}: the rate must be 0.1 to 100 Hz, not {value}")
    return rate
