"""Waiting for what other threads and processes bring about."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil
import pytest


def wait_until(condition: Callable[[], object], what: str = "what is tested", seconds: float = 60.0) -> None:
    """Wait until a condition holds; fails, naming what was waited for."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"waited {seconds:g} s for {what}")
        time.sleep(0.005)


def is_gone(pid: int) -> bool:
    """Whether a process has ended, even if nobody has asked how."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
