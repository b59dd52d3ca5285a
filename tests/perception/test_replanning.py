"""Flight through a world known by a map alone: newly seen walls, moving objects, goals beyond the map."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import sitl_bridge as sb
from sitl_bridge import planning
from sitl_bridge.perception.mapping.clearance import MapObstacles
from sitl_bridge.perception.mapping.moving_cells import MovingCells

CELL = 0.5
LOW, SHAPE = np.array([-10.0, -12.0, -10.0]), (80, 48, 16)
BOUNDS = ((-4.0, -11.0, -7.0), (28.0, 11.0, -3.0))
START, GOAL = (0.0, 0.0, -5.0), (24.0, 0.0, -5.0)
RADIUS = 0.4
"""m, a little more than the iris's."""
Boxes = list[tuple[tuple[float, float, float], tuple[float, float, float]]]
"""Least and greatest corners, m NED."""


def map_with(boxes: Boxes, time: float = 0.0) -> planning.OccupancyMap:
    """A map of a free world with boxes in it."""
    made = planning.OccupancyMap(CELL)
    made.first = np.rint(LOW / CELL).astype(np.int64)
    made.log_odds = np.full(SHAPE, -2.0, np.float32)
    centers = made.centers(made.free).reshape(*SHAPE, 3)
    for low, high in boxes:
        made.log_odds[((centers > low) & (centers < high)).all(axis=-1)] = 2.0
    made.time = time
    return made


def away(place: NDArray[np.float64], boxes: Boxes) -> float:
    """m of a place from the nearest box."""
    distances = [
        float(np.linalg.norm(np.maximum(np.maximum(np.array(low) - place, place - np.array(high)), 0.0)))
        for low, high in boxes
    ]
    return min(distances, default=math.inf)


def flown(
    replanner: planning.Replanner,
    world: Callable[[float], Boxes],
    limit: float = 120.0,
    period: float = 0.5,
) -> float:
    """Fly with a map every ``period`` seconds; returns the least distance from a box."""
    least = math.inf
    for k in range(int(limit / 0.05)):
        time = 0.05 * k
        if k % round(period / 0.05) == 0:
            replanner.update(time, map_with(world(time), time))
        least = min(least, away(np.asarray(replanner.at(time).position), world(time)))
        if replanner.phase == "arrived":
            return least
    pytest.fail(f"has not arrived; {replanner.phase}")


def test_a_wall_that_is_seen_late_is_flown_around() -> None:
    wall: Boxes = [((10.0, -8.0, -10.0), (11.0, 3.0, -2.0))]
    replanner = planning.Replanner(START, GOAL, bounds=BOUNDS, margin=1.0)
    least = flown(replanner, lambda time: wall if time > 4.0 else [])
    assert replanner.plans == 2
    assert least > RADIUS + 0.5 - CELL
    assert np.linalg.norm(replanner.at(1e3).position - GOAL) < 1e-6


def test_what_crosses_the_way_is_kept_clear_of() -> None:
    def world(time: float) -> Boxes:
        east = -9.0 + min(0.8 * time, 18.0)
        return [((11.0, east - 1.0, -10.0), (13.0, east + 1.0, -2.0))]

    replanner = planning.Replanner(START, GOAL, bounds=BOUNDS, margin=1.0)
    assert flown(replanner, world) > 0.9
    assert replanner.plans > 1


def test_a_vehicle_in_the_way_of_something_retreats() -> None:
    def world(time: float) -> Boxes:
        north = 14.0 - min(0.7 * time, 12.0)
        closed = ((16.0, -12.0, -10.0), (17.0, 12.0, -2.0))
        return [((north, -1.0, -10.0), (north + 2.0, 1.0, -2.0)), *([closed] if time < 30.0 else [])]

    replanner = planning.Replanner((2.0, 0.0, -5.0), GOAL, bounds=BOUNDS, margin=1.0)
    assert flown(replanner, world) > 0.6


def test_the_motion_is_smooth_and_keeps_its_limits_when_it_brakes() -> None:
    wall: Boxes = [((12.0, -8.0, -10.0), (13.0, 3.0, -2.0))]
    replanner = planning.Replanner(START, GOAL, bounds=BOUNDS, margin=1.0, speed=2.0, acceleration=1.5)
    for k in range(12):
        replanner.update(0.5 * k, map_with([]))
    before = replanner.at(6.0)
    replanner.update(5.75, map_with(wall))
    replanner.update(6.0, map_with(wall))
    assert replanner.phase == "braking"
    assert replanner.at(6.0).position == pytest.approx(before.position)
    times = np.linspace(6.0, 9.0, 301)
    moments = [replanner.at(float(time)) for time in times]
    positions = np.array([moment.position for moment in moments])
    velocities = np.array([moment.velocity for moment in moments])
    assert np.diff(positions, axis=0) / 0.01 == pytest.approx(velocities[1:], abs=0.03)
    assert np.linalg.norm(np.diff(velocities, axis=0), axis=1).max() / 0.01 < 2.0 * 1.5
    assert np.linalg.norm(velocities[-1]) == 0.0


def test_a_goal_beyond_the_map_is_reached() -> None:
    far = (60.0, 0.0, -5.0)
    replanner = planning.Replanner(START, far, bounds=((-4, -11, -7), (64, 11, -3)), margin=1.0)
    replanner.update(0.0, map_with([]))
    assert replanner.phase == "flying"
    obstacles = MapObstacles(map_with([((10.0, -8.0, -10.0), (11.0, 3.0, -2.0))]), unknown_is_free=True)
    corner = LOW + CELL * np.array(SHAPE)
    assert obstacles.clearance(np.array([far]), 99.0)[0] >= far[0] - corner[0] - 1e-9


def test_a_group_of_cells_that_advances_counts_as_moving() -> None:
    moving = MovingCells(1.0)
    for k in range(9):  # a face of 2 m x 2 m that moves south to north at 1 m/s
        north = 10.0 + 0.5 * k
        moving.update(0.5 * k, map_with([((north - 1.0, 0.0, -6.0), (north, 2.0, -4.0))]))
    (front,) = moving.fronts
    assert front.velocity == pytest.approx([1.0, 0.0, 0.0], abs=0.15)
    place = np.array([[18.0, 1.0, -5.0]])  # 4 m ahead of the front
    near = moving.clearances(place, np.array([0.0]))[0]
    assert 3.0 < near < 4.0
    assert moving.clearances(place, np.array([2.0]))[0] < near - 2.0
    assert moving.clearances(place, np.array([8.0]))[0] < 0.0
    behind = np.array([[8.0, 1.0, -5.0]])
    assert moving.clearances(behind, np.array([8.0]))[0] > 1.0
    swept = moving.swept(map_with([]), 3.0)
    assert swept.centers(swept.occupied)[:, 0].max() == pytest.approx(14.0 + 3.0, abs=1.2)
    moving.update(9.0, map_with([((13.0, 0.0, -6.0), (14.0, 2.0, -4.0))]))
    assert moving.fronts == []


def test_cells_beside_a_wall_that_scans_show_free_and_occupied_in_turn_do_not_move() -> None:
    moving, random = MovingCells(1.0), np.random.default_rng(1)
    wall = ((10.0, -6.0, -8.0), (11.0, 6.0, -2.0))
    for k in range(40):
        seen = map_with([wall])
        edge = map_with([((9.5, -6.0, -8.0), (10.0, 6.0, -2.0))]).occupied
        seen.log_odds[edge & (random.random(edge.shape) < 0.3)] = 2.0
        moving.update(0.25 * k, seen)
        assert moving.fronts == [], k


def test_cells_that_come_and_go_in_the_open_do_not_move() -> None:
    moving, random = MovingCells(1.0), np.random.default_rng(1)
    for k in range(40):
        seen = map_with([])
        patch = map_with([((10.0, -2.0, -7.0), (11.0, 2.0, -4.0))]).occupied
        if k % 4 == 0:
            seen.log_odds[patch & (random.random(patch.shape) < 0.2)] = 2.0
        moving.update(0.25 * k, seen)
        assert moving.fronts == [], k


def test_the_vehicle_waits_on_its_path_and_goes_on_along_it() -> None:
    def world(time: float) -> Boxes:
        east = -11.0 + min(0.8 * time, 21.0)
        return [((9.0, east - 1.0, -10.0), (11.0, east + 1.0, -2.0))]

    lines: list[str] = []
    replanner = planning.Replanner(
        (0.0, 6.0, -5.0), (24.0, 6.0, -5.0), bounds=BOUNDS, margin=1.0, say=lines.append
    )
    assert flown(replanner, world, period=0.25) > 0.9
    assert replanner.plans <= 3, lines


def test_without_a_new_map_the_vehicle_brakes() -> None:
    replanner = planning.Replanner(START, GOAL, bounds=BOUNDS, margin=1.0)
    for k in range(7):
        replanner.update(float(k), map_with([]))
    assert np.linalg.norm(replanner.at(7.5).velocity) > 1.0
    assert np.linalg.norm(replanner.at(11.0).velocity) == 0.0
    stopped = replanner.at(11.0).position
    replanner.update(12.0, map_with([]))
    assert np.linalg.norm(replanner.at(12.0).position - stopped) < 1e-6
    assert np.linalg.norm(replanner.at(13.4).velocity) > 1.0


def test_figures_that_make_no_sense_are_one_message() -> None:
    for bounds in (((0, 0), (1, 1)), BOUNDS[::-1]):
        with pytest.raises(sb.UserError, match="bounds: give the least and the greatest"):
            planning.Replanner(START, GOAL, bounds=bounds)
    with pytest.raises(sb.UserError, match=r"the goal .* within the bounds"):
        planning.Replanner(START, (999.0, 0.0, -5.0), bounds=BOUNDS)
    with pytest.raises(sb.UserError, match="must be above 0"):
        planning.Replanner(START, GOAL, bounds=BOUNDS, acceleration=0.0)
