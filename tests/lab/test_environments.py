"""Tasks of environments: goals, rewards, ends, and what an own task must give."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import sitl_bridge as sb
from sitl_bridge import learning
from sitl_bridge.lab.environments.tasks import VehicleMotion, validate_figures

HOME = np.array([10.0, 0.0, -5.0])


def motion_at(position: Any, time: float = 0.02, rates: float = 0.0, collided: bool = False) -> VehicleMotion:
    """A level vehicle at a place (3,) with a velocity to the north of 1 m/s, that turns at some rad/s."""
    return VehicleMotion(
        position=np.array(position, np.float64),
        velocity=np.array([1.0, 0.0, 0.0]),
        attitude=np.array([1.0, 0.0, 0.0, 0.0]),
        angular_velocity=np.array([0.0, 0.0, rates]),
        time=time,
        action=np.zeros(4),
        on_ground=False,
        collided=collided,
    )


def test_holding_the_position_is_rewarded_by_the_distance_and_costs_a_crash_once() -> None:
    task = learning.HoldPosition()
    task.prepare(HOME)
    below = motion_at(np.add(HOME, [0, 0, 1]), rates=2.0)
    assert task.reward(below) == pytest.approx(math.exp(-1.0) - 0.02)
    assert not task.terminated(below)
    assert task.reward(motion_at(HOME, rates=2.0)) == pytest.approx(0.98)
    crash = motion_at(HOME, collided=True)
    assert task.reward(crash) == pytest.approx(-9.0)
    assert task.terminated(crash)
    assert task.terminated(motion_at(np.add(HOME, [10.1, 0, 0])))


@pytest.mark.parametrize(
    ("draws", "goal"), [((0.0, 0.5, 1.0), (11.0, 2.0, -6.0)), ((1.0, 0.5, 0.5), (13.0, 2.0, -7.0))]
)
def test_a_waypoint_is_drawn_from_its_box_and_reaching_it_ends_the_episode_with_a_reward(
    draws: tuple[float, ...], goal: tuple[float, ...]
) -> None:
    task = learning.ReachWaypoint(box=((1, 2, -3), (3, 2, -1)))
    task.prepare(HOME)
    task.begin(np.array(draws), motion_at(HOME))
    assert task.goal.tolist() == list(goal)
    assert np.array_equal(task.observe(motion_at(HOME)), goal - HOME)
    away = float(np.linalg.norm(goal - HOME))
    near, there = (motion_at(np.add(task.goal, [0.0, off, 0.0])) for off in (0.5, 0.2))
    assert task.reward(near) == pytest.approx(away - 0.5)
    assert not task.terminated(near)
    assert task.reward(there) == pytest.approx(0.3 + 10.0)
    assert task.terminated(there)
    assert task.reward(motion_at(np.add(task.goal, [0.0, 0.5, 0.0]), collided=True)) == pytest.approx(
        -0.3 - 10.0
    )


def test_the_figures_goal_moves_with_the_velocity_that_is_seen() -> None:
    task = learning.TrackFigure(size=3.0, lap=10.0)
    task.prepare(HOME)
    places = []
    for time in (1.0, 1.0 + 1e-4):
        task.distance(motion_at(HOME, time))
        places.append(task.goal)
    seen = np.asarray(task.observe(motion_at(HOME, 1.0)))
    assert seen[3:] == pytest.approx((places[1] - places[0]) / 1e-4, abs=1e-3)
    assert task.distance(motion_at(HOME, 10.0)) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("given", "shape", "message"),
    [
        (
            np.ones(2),
            (),
            r"Own: reward gives \[1. 1.\], 0.020 s into an episode; it must give a finite number",
        ),
        (math.nan, (), "Own: reward gives nan"),
        (
            np.full(3, np.nan),
            (3,),
            "gives .*nan.*; it must give 3 finite numbers, one for each of its figures",
        ),
        (np.zeros(2), (3,), "it must give 3 finite numbers"),
    ],
)
def test_what_a_task_gives_in_another_form_is_refused(
    given: Any, shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(sb.UserError, match=message):
        validate_figures("Own: reward", given, shape, motion_at(HOME))


def test_each_environment_has_a_task_of_its_own() -> None:
    task = learning.ReachWaypoint()
    first, second = (learning.StackEnvironment(autopilot="builtin", task=task) for _ in range(2))
    first.task.prepare(HOME)
    assert np.array_equal(second.task.home, np.zeros(3))


def test_an_own_task_is_a_small_class() -> None:
    class Climb(learning.Task):
        def reward(self, motion: VehicleMotion) -> float:
            return float(-motion.velocity[2])

    task, climbs = Climb(), motion_at(np.zeros(3))
    climbs.velocity[2] = -1.5
    assert (task.reward(climbs), task.terminated(climbs)) == (1.5, False)


@pytest.mark.parametrize("name", ["VectorEnvironment", "Environment", "FleetEnvironment", "Randomisation"])
def test_names_of_former_versions_tell_what_replaces_them(name: str) -> None:
    with pytest.raises(sb.UserError, match=f"learning.{name} is gone: learning.StackEnvironment"):
        getattr(learning, name)
    assert not hasattr(learning, "Elsewhere")
