"""The type of MAVLink messages, and frames of those that users' own sensors make."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from sitl_bridge.base.errors import UserError

if TYPE_CHECKING:
    from pymavlink.dialects.v20 import common as pymavlink


class MavlinkMessage(Protocol):
    """A message of the dialect, as pymavlink makes it; its fields are attributes."""

    get_type: Callable[[], str]
    get_srcSystem: Callable[[], int]  # noqa: N815
    get_srcComponent: Callable[[], int]  # noqa: N815
    get_msgbuf: Callable[[], bytes]
    pack: Callable[..., bytes]

    def __getattr__(self, name: str) -> Any: ...


def pack(message: MavlinkMessage, encoder: pymavlink.MAVLink, sequence: int, sensor: str) -> bytes:
    """The frame of a message.

    Args:
        message: of pymavlink, unchecked.
        encoder: with the sender's ids.
        sequence: number of the frame on its link.
        sensor: file and name, for the error.

    Raises:
        UserError: for what is no message, or has values that its fields cannot hold.
    """
    if not callable(getattr(message, "pack", None)):
        raise UserError(f"{sensor} failed: messages returned {message!r}, which is no pymavlink message")
    encoder.seq = sequence & 0xFF
    try:
        return bytes(message.pack(encoder))
    except Exception as error:
        raise UserError(f"{sensor} failed: its message cannot be packed: {error!r}") from error
