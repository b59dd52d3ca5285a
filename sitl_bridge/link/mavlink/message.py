"""The type of MAVLink messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class MavlinkMessage(Protocol):
    """A message of the dialect, as pymavlink makes it; its fields are attributes."""

    get_msgId: Callable[[], int]  # noqa: N815
    get_type: Callable[[], str]
    get_srcSystem: Callable[[], int]  # noqa: N815
    get_srcComponent: Callable[[], int]  # noqa: N815
    get_msgbuf: Callable[[], bytes]
    pack: Callable[..., bytes]

    def __getattr__(self, name: str) -> Any: ...
