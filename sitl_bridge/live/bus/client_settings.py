"""Settings with which the bus's client process starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from sitl_bridge.live.bus.address import BusAddress
from sitl_bridge.live.run.client_link import Settings


@dataclass(frozen=True)
class ClientSettings:
    """Settings of the client."""

    address: BusAddress  # of the broker, with its port and the password
    run: str  # name of the run in topics
    vehicles: tuple[str, ...]  # names
    directory: Path  # directory for the embedded broker's log

    def message(self) -> Settings:
        """Make the message to the process."""
        return Settings(_ADAPTER.dump_python(self, mode="json"))

    @classmethod
    def from_message(cls, message: Settings) -> ClientSettings:
        """Undo ``message``.

        Raises:
            ValueError: for other fields.
        """
        return _ADAPTER.validate_python(message.fields)


_ADAPTER = TypeAdapter(ClientSettings)
