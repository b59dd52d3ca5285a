"""Flights of real PX4, and some of the built-in stack, that several tests make."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates

from sitl_bridge.files.airframe_file import load_airframe
from sitl_bridge.record.truth_log import read_truth
from sitl_bridge.report.flight_record import FlightRecord
from sitl_bridge.report.summary import Outcome
from sitl_bridge.run.flight_choices import Choices
from sitl_bridge.run.scenario_settings import scenario_settings
from sitl_bridge.run.session import FleetSession
from sitl_bridge.run.single_vehicle import FlightSession, FlightSettings
from sitl_bridge.vehicle.vehicle_specification import Choice

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


def places(truth: NDArray[np.void]) -> NDArray[np.float64]:
    """(n, 3) m NED."""
    return np.stack([truth[f"position_{axis}"] for axis in ("north", "east", "down")], axis=1)


def over_the_ground(way: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n,) m of places (n, 3) over the terrain of missions/worlds/hills.yaml."""
    with np.load(MISSIONS / "worlds" / "hills.npz") as file:
        (heights,) = (file[name] for name in file.files)
    return np.asarray(
        -way[:, 2] - map_coordinates(heights.astype(float), (way[:, :2].T + 200.0) / 2.0, order=1)
    )


def follow_terrain(autopilot: Choice, runs: Path) -> None:
    """Fly missions/follow_terrain.yaml: 80 m over ground that falls, 5 m over it; check the way in truth."""
    choices = Choices(speed=math.inf, runs=runs, autopilot=autopilot, instance=INSTANCE)
    with FleetSession(scenario_settings(MISSIONS / "follow_terrain.yaml", choices)) as session:
        session.fly_fleet()
    outcome = session.conclude_fleet()
    assert outcome.succeeded, outcome.reason
    way = places(read_truth(session.directory.truth))
    height = over_the_ground(way)
    ahead = (way[:, 0] > 20.0) & (way[:, 0] < 75.0)
    print(f"{height[ahead].min():.1f} to {height[ahead].max():.1f} m over the ground")
    assert np.ptp(way[ahead, 2]) > 5.0, "the ground falls"
    assert height[ahead].min() > 3.0
    assert height[ahead].max() < 7.0
    assert outcome.vehicles[0][0].impact_speed < 1.2
    assert height[-1] < 0.3
