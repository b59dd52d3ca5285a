"""Which broker: the embedded one, or any other by its URL."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from sitl_bridge.bus.messages import IDENTIFIER
from sitl_bridge.errors import UserError

PORTS = {"mqtt": 1883, "mqtts": 8883}
OPTIONS = ("ca", "rate", "run")
FORMS = "write embedded, embedded:PORT or mqtt[s]://[USER:PASSWORD@]HOST[:PORT][?ca=FILE&rate=HZ&run=NAME]"


@dataclass(frozen=True)
class BusAddress:
    """Where the broker is and how it is spoken to.

    Attributes:
        embedded: one of our own is started on this machine.
        host: name or address.
        port: TCP port; 0 for an embedded broker that takes a free one.
        user: and ``password``: None for none.
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

    @classmethod
    def parse(cls, text: str) -> BusAddress:
        """Read what a user wrote.

        Raises:
            UserError: for anything that is not of the form, or a CA file that cannot be used.
        """
        embedded = text.split(":")[0].split("?")[0] == "embedded"
        url = urlsplit(text.replace("embedded", "embedded://127.0.0.1", 1) if embedded else text)
        if not embedded and (url.scheme not in PORTS or not url.hostname):
            raise UserError(f"--bus {_hidden(text)!r}: {FORMS}")
        if url.path not in ("", "/") or url.fragment:
            raise UserError(f"--bus {_hidden(text)!r}: nothing may follow the port but ?options; {FORMS}")
        options = _options(text, url)
        tls = url.scheme == "mqtts"
        ca = Path(options["ca"]) if "ca" in options else None
        if ca is not None and not tls:
            raise UserError(f"--bus {_hidden(text)!r}: a CA file is for mqtts://, which encrypts")
        address = cls(
            embedded=embedded,
            host=url.hostname or "127.0.0.1",
            port=_port(text, url),
            user=unquote(url.username) if url.username else None,
            password=unquote(url.password) if url.password else None,
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
