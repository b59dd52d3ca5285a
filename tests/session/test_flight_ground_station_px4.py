"""A ground station that only listens on 14550, as QGroundControl does, sees a vehicle that another flies."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymavlink import mavutil
from support.paths import MISSIONS
from support.px4_flights import INSTANCE, fly

pytestmark = pytest.mark.px4
PORT = 14550


class GroundStation:
    """Listens; sends a heartbeat a second and asks for one parameter once it has heard the vehicle."""

    def __init__(self) -> None:
        self.link: Any = mavutil.mavlink_connection(f"udpin:127.0.0.1:{PORT}", source_system=255)
        self.heard: dict[str, int] = {}
        self.armed = False
        self.highest = 0.0
        self.parameter: float | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        greeted = 0.0
        while not self._stop.is_set():
            message = self.link.recv_match(blocking=True, timeout=0.2)
            if message is None or message.get_srcSystem() != INSTANCE + 1:
                continue
            kind = message.get_type()
            self.heard[kind] = self.heard.get(kind, 0) + 1
            if kind == "HEARTBEAT" and message.get_srcComponent() == 1:
                self.armed |= bool(message.base_mode & mavutil.mavlink.MAV_MODE_FLAG_SAFETY_ARMED)
            elif kind == "GLOBAL_POSITION_INT":
                self.highest = max(self.highest, message.relative_alt * 1e-3)
            elif kind == "PARAM_VALUE" and message.param_id == "MPC_XY_CRUISE":
                self.parameter = message.param_value
            if time.monotonic() - greeted > 1.0:
                greeted = time.monotonic()
                self.link.mav.heartbeat_send(6, 8, 0, 0, 4)
                self.link.mav.param_request_read_send(INSTANCE + 1, 1, b"MPC_XY_CRUISE", -1)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self.link.close()


@pytest.fixture
def station() -> Iterator[GroundStation]:
    try:
        made = GroundStation()
    except OSError:
        pytest.skip(f"UDP port {PORT} is taken by another ground station")
    yield made
    made.close()


def test_it_sees_the_vehicle_unasked_and_can_talk_to_it(station: GroundStation, tmp_path: Path) -> None:
    outcome, record, _ = fly(MISSIONS / "hover.py", tmp_path, speed=4.0)
    assert outcome.succeeded, outcome.reason
    assert station.armed
    assert station.heard["HEARTBEAT"] > 10
    assert station.heard["ATTITUDE"] > 10
    assert station.heard["SYS_STATUS"] > 3
    assert station.highest == pytest.approx(record.max_height, abs=1.0)
    assert station.parameter == pytest.approx(5.0)
