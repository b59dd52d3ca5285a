"""Refusals of MAVSDK's requests: their reason in words, and requests whose refusal does not matter."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from mavsdk.asyncio import MavsdkError


def reason(refusal: MavsdkError) -> str:
    """Short reason of a refusal by MAVSDK, without the arguments in its messages."""
    result = getattr(refusal, "result", None)
    return result.name.lower().replace("_", " ") if result is not None else str(refusal)


async def within(seconds: float, work: Coroutine[Any, Any, Any]) -> Any:
    """Result of ``work``, or None if it takes longer than ``seconds`` of wall time or MAVSDK refuses."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except (TimeoutError, MavsdkError):
        return None
