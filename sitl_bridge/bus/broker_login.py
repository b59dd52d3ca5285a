"""The login of an embedded broker that has a password, as a plugin of amqtt."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from amqtt.plugins.base import BaseAuthPlugin
from amqtt.session import Session

from sitl_bridge.bus.address import EMBEDDED_USER


class Login(BaseAuthPlugin):  # type: ignore[misc]
    """Lets in who knows the password."""

    @dataclass
    class Config:
        """What the plugin is configured with.

        Attributes:
            digest: SHA-256 of the password, in hexadecimal digits.
        """

        digest: str = ""

    async def authenticate(self, *, session: Session) -> bool:
        """Whether a client may connect."""
        given = (session.password or "").encode()
        digest = hashlib.sha256(given).hexdigest()
        return session.username == EMBEDDED_USER and hmac.compare_digest(digest, self.config.digest)
