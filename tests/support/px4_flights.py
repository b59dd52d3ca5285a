"""Flights of real PX4, and some of the built-in stack, that several tests make."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates

from sitl_bridge.analysis.evaluation.flight_record import FlightRecord
from sitl_bridge.analysis.evaluation.summary import Outcome
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.vehicle.stack_choice import Choice
from sitl_bridge.core.world.world_file import load_world
from sitl_bridge.link.px4.airframe_parameters import reach
from sitl_bridge.record.truth_log import read_truth
from sitl_bridge.session.outcome import FlightOutcome
from sitl_bridge.session.scenario_settings import scenario_settings
from sitl_bridge.session.session import Session
from sitl_bridge.session.settings import FlightOptions, FlightSettings
from support.paths import MISSIONS

INSTANCE = 21 if os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0" else 140
"""Several files of tests fly here, perhaps side by side."""
"""Two digits: its offboard link is the one that all from 10 on share."""
SPEED = 10.0
WALL = 30.0
"""m north of the start, missions/worlds/wall.yaml."""
SPEEDS = tuple(0.25 * k for k in range(1, 21))
"""m/s"""
HOLD = 40.0 + 15.0
"""s from the start of missions/without_gps*.yaml at which the hover begins: GPS is jammed at 40 s."""


def settings(mission: Path, runs: Path, airframe: str = "iris", **changes: Any) -> FlightSettings:
    values: dict[str, Any] = {
        "speed": SPEED,
        "instance": INSTANCE,
        "runs": runs,
        "time_limit": 900.0,
        "autopilot": "px4",
    }
    options = FlightOptions(airframe=load_airframe(airframe), **(values | changes))
    return FlightSettings.from_mission(mission, options)


def fly(
    mission: Path, runs: Path, airframe: str = "iris", **changes: Any
) -> tuple[Outcome, FlightRecord, Session]:
    """Fly and conclude; fails where PX4 left no log."""
    with Session(settings(mission, runs, airframe, **changes)) as session:
        session.fly()
    outcome, record = session.conclude().vehicles[0]
    assert record is not None, outcome.reason
    return outcome, record, session


def places(truth: NDArray[np.void]) -> NDArray[np.float64]:
    """(n, 3) m NED."""
    return np.stack([truth[f"position_{axis}"] for axis in ("north", "east", "down")], axis=1)


def approach_the_wall(autopilot: Choice, runs: Path, speeds: Sequence[float]) -> None:
    """Fly missions/stick_approach.py at speeds in m/s; the hull has to stay off the wall."""
    outcome, _, session = fly(
        MISSIONS / "stick_approach.py",
        runs,
        "iris_scanner",
        world=load_world(MISSIONS / "worlds" / "wall.yaml"),
        arguments=("--speeds", *(f"{speed:g}" for speed in speeds)),
        speed=math.inf,
        time_limit=2000.0,
        autopilot=autopilot,
    )
    assert outcome.succeeded, outcome.reason
    truth = read_truth(session.directory.truth)
    nearest = WALL - float(truth["position_north"].max()) - reach(load_airframe("iris_scanner"))
    print(f"nearest {nearest:.2f} m, fastest {float(truth['velocity_north'].max()):.2f} m/s")
    assert nearest > 0.3
    # At 5 m/s of stick, PX4 slows down on the way: 4.6 to 4.8 m/s were measured.
    assert float(truth["velocity_north"].max()) > 0.9 * max(speeds)


def fly_scenario(scenario: str, autopilot: Choice, runs: Path) -> tuple[Session, FlightOutcome]:
    """Fly a shipped scenario as fast as it goes."""
    choices = FlightOptions(speed=math.inf, runs=runs, autopilot=autopilot, instance=INSTANCE)
    with Session(scenario_settings(MISSIONS / scenario, choices)) as session:
        session.fly()
    return session, session.conclude()


WITHOUT_GPS = (
    ("without_gps.yaml", 0.5, 10.0, 3),
    ("without_gps_flow.yaml", 1.5, 10.0, 3),  # flow measures velocity alone
    ("without_gps_lidar.yaml", 0.5, 4.0, 3),
)
"""Scenario, limit of the hover in m, side of the square in m, axes."""


def fly_without_gps(case: tuple[str, float, float, int], autopilot: Choice, runs: Path) -> None:
    """Hover for a minute and fly a square while GPS is jammed, by a case of WITHOUT_GPS."""
    scenario, limit, side, axes = case
    session, outcome = fly_scenario(scenario, autopilot, runs)
    assert outcome.succeeded, outcome.reason
    truth = read_truth(session.directory.truth)
    seconds = (truth["time"] - truth["time"][0]) * 1e-6
    hover = places(truth[(seconds > HOLD) & (seconds < HOLD + 60.0)])
    off = float(np.linalg.norm((hover - hover[0])[:, :axes], axis=1).max())
    print(f"{off:.2f} m off in a minute")
    assert off < limit
    square = places(truth[seconds > HOLD + 60.0])
    for corner in [(side, 0.0), (side, side), (0.0, side), (0.0, 0.0)]:
        assert np.linalg.norm(square[:, :2] - hover[0, :2] - corner, axis=1).min() < 1.2


def land_on_the_marker(autopilot: Choice, runs: Path, seed: int = 2) -> None:
    """Fly missions/land_on_marker.plan; the marker lies 1.8 m from the plan's place."""
    outcome, _, session = fly(
        MISSIONS / "land_on_marker.plan", runs, "iris_marker", seed=seed, autopilot=autopilot
    )
    assert outcome.succeeded, outcome.reason
    landed = places(read_truth(session.directory.truth))[-1, :2]
    print(f"{math.dist(landed, (10.0, 5.0)):.2f} m off the marker")
    assert math.dist(landed, (10.0, 5.0)) < 0.3


def over_the_ground(way: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n,) m of places (n, 3) over the terrain of missions/worlds/hills.yaml."""
    with np.load(MISSIONS / "worlds" / "hills.npz") as file:
        (heights,) = (file[name] for name in file.files)
    return np.asarray(
        -way[:, 2] - map_coordinates(heights.astype(float), (way[:, :2].T + 200.0) / 2.0, order=1)
    )


def follow_terrain(autopilot: Choice, runs: Path) -> None:
    """Fly missions/follow_terrain.yaml: 80 m over ground that falls, 5 m over it; check the way in truth."""
    session, outcome = fly_scenario("follow_terrain.yaml", autopilot, runs)
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
