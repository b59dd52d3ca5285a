"""Login plugin of amqtt for an embedded broker with a password."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from amqtt.plugins.base import BaseAuthPlugin
from amqtt.session import Session

from sitl_bridge.live.bus.address import EMBEDDED_USER


class Login(BaseAuthPlugin):  # type: ignore[misc]
    """Admits clients with the password."""

    @dataclass
    class Config:
        """Configuration of the plugin."""

        digest: str = ""  # SHA-256 of the password, in hexadecimal digits

    async def authenticate(self, *, session: Session) -> bool:
        """Return whether a client may connect."""
        given = (session.password or "").encode()
        digest = hashlib.sha256(given).hexdigest()
        return session.username == EMBEDDED_USER and hmac.compare_digest(digest, self.config.digest)
