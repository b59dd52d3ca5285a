"""Flights of real PX4 that several tests make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sitl_bridge.files.airframe_file import load_airframe
from sitl_bridge.report.flight_record import FlightRecord
from sitl_bridge.report.summary import Outcome
from sitl_bridge.run.single_vehicle import FlightSession, FlightSettings

MISSIONS = Path(__file__).parent.parent / "missions"
INSTANCE = 21
"""Two digits: its offboard link is the one that all from 10 on share."""
SPEED = 10.0


def settings(mission: Path, runs: Path, airframe: str = "iris", **changes: Any) -> FlightSettings:
    values: dict[str, Any] = {
        "speed": SPEED,
        "instance": INSTANCE,
        "runs": runs,
        "time_limit": 900.0,
        "autopilot": "px4",
    }
    return FlightSettings(mission, load_airframe(airframe), **(values | changes))


def fly(
    mission: Path, runs: Path, airframe: str = "iris", **changes: Any
) -> tuple[Outcome, FlightRecord, FlightSession]:
    """Fly and conclude; fails where PX4 left no log."""
    with FlightSession(settings(mission, runs, airframe, **changes)) as session:
        session.fly()
    outcome, record = session.conclude()
    assert record is not None, outcome.reason
    return outcome, record, session
