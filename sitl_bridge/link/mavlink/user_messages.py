"""Messages that users' own sensors make, as frames of the simulator link."""

from __future__ import annotations

from pymavlink.dialects.v20 import common as pymavlink

from sitl_bridge.base.errors import UserError
from sitl_bridge.link.mavlink.message import MavlinkMessage


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
