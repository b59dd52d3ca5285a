"""MAVSDK's own log lines: which are printed, by one subscription of the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mavsdk.logging import LogLevel

from sitl_bridge.session.missions import connection
from sitl_bridge.session.missions.connection import MavsdkLog


def test_one_subscription_prints_warnings_until_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    subscribed: list[Callable[..., Any]] = []
    monkeypatch.setattr(connection, "log_subscribe", subscribed.append)
    log = MavsdkLog()
    for _ in range(2):  # two connections of one process
        log.begin()
        for level, line in (
            (LogLevel.INFO, "a note"),
            (LogLevel.WARN, "a warning"),
            (LogLevel.WARN, "a warning"),
            (LogLevel.ERROR, "MAVLink: critical: seen by the vehicle"),
        ):
            assert subscribed[0](level, line, None, 0) is True
        log.end()
        subscribed[0](LogLevel.ERROR, "a socket is closed", None, 0)
    assert len(subscribed) == 1, "a second one would free the first while MAVSDK calls it"
    assert capsys.readouterr().err.splitlines() == ["mavsdk warn: a warning"] * 2
