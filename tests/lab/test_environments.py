"""Tasks of environments: goals, rewards, ends, and what an own task must give."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sitl_bridge as sb
from sitl_bridge import learning
from sitl_bridge.lab.environments.tasks import VehicleMotion, judge, observe, prepare

HOMES = np.array([[0.0, 0.0, -5.0], [10.0, 0.0, -5.0]])
BOTH = np.ones(2, np.bool_)


def motion_at(
    positions: Any, time: float = 0.02, rates: float = 0.0, collided: bool = False
) -> VehicleMotion:
    """Two level vehicles at places (2, 3) with a velocity to the north of 1 m/s; ``collided``: the first."""
    truth = np.zeros((2, 13))
    truth[:, 0:3], truth[:, 3], truth[:, 6], truth[:, 12] = positions, 1.0, 1.0, rates
    hit = np.array([collided, False])
    return VehicleMotion(truth, np.full(2, time), np.zeros((2, 4)), np.zeros(2, np.bool_), hit)


def test_holding_the_position_is_rewarded_by_the_distance_and_costs_a_crash_once() -> None:
    task = learning.HoldPosition()
    owner = prepare(task, HOMES)
    rewards, ends = judge(task, owner, motion_at(np.add(HOMES, [[0, 0, 1], [0, 0, 0]]), rates=2.0), BOTH)
    assert rewards == pytest.approx([math.exp(-1.0) - 0.02, 0.98])
    assert not ends.any()
    rewards, ends = judge(task, owner, motion_at(HOMES, collided=True), BOTH)
    assert rewards == pytest.approx([-9.0, 1.0])
    assert ends.tolist() == [True, False]
    assert judge(task, owner, motion_at(np.add(HOMES, [10.1, 0, 0])), BOTH)[1].all()


def test_a_waypoint_is_drawn_from_its_box_and_reaching_it_ends_the_episode_with_a_reward() -> None:
    task = learning.ReachWaypoint(box=((1, 2, -3), (3, 2, -1)))
    owner = prepare(task, HOMES)
    task.begin(BOTH, np.array([[0.0, 0.5, 1.0], [1.0, 0.5, 0.5]]), motion_at(HOMES))
    assert task.goals.tolist() == [[1.0, 2.0, -6.0], [13.0, 2.0, -7.0]]
    away = np.linalg.norm(task.goals - HOMES, axis=1)
    rewards, ends = judge(task, owner, motion_at(np.add(task.goals, [[0.2, 0, 0], [0, 0.5, 0]])), BOTH)
    assert rewards == pytest.approx(away - [0.2, 0.5] + [10.0, 0.0])
    assert ends.tolist() == [True, False]
    assert observe(task, motion_at(HOMES), BOTH).tolist() == (task.goals - HOMES).tolist()


def test_new_goals_are_those_of_the_vehicles_that_begin_alone() -> None:
    task = learning.ReachWaypoint()
    prepare(task, HOMES)
    task.begin(np.array([False, True]), np.ones((2, 3)), motion_at(HOMES))
    assert task.goals.tolist() == [HOMES[0].tolist(), np.add(HOMES[1], [5, 5, 2]).tolist()]


def test_the_figures_goal_moves_with_the_velocity_that_is_seen() -> None:
    task = learning.TrackFigure(size=3.0, lap=10.0)
    prepare(task, HOMES)
    places = []
    for time in (1.0, 1.0 + 1e-4):
        seen = observe(task, motion_at(HOMES, time), BOTH)
        task.distance(motion_at(HOMES, time))
        places.append(task.goals.copy())
    task.distance(motion_at(HOMES, 1.0))
    seen = observe(task, motion_at(HOMES, 1.0), BOTH)
    assert seen[:, 3:] == pytest.approx((places[1] - places[0]) / 1e-4, abs=1e-3)
    assert task.distance(motion_at(HOMES, 10.0)) == pytest.approx([0.0, 0.0], abs=1e-9)


class _Given(learning.Task):
    """Gives what it is told to."""

    def __init__(self, reward: Any, ends: Any, seen: Any) -> None:
        super().__init__(duration=0.04)
        self.given = reward, ends, seen

    def reward(self, motion: VehicleMotion) -> Any:
        return self.given[0](motion)

    def terminated(self, motion: VehicleMotion) -> Any:
        return self.given[1](motion)

    def observe(self, motion: VehicleMotion) -> Any:
        return self.given[2](motion)


def _speed(motion: VehicleMotion) -> Any:
    return motion.velocity[:, 0]


@pytest.mark.parametrize(
    ("part", "given", "message"),
    [
        (
            0,
            lambda _: 1.0,
            r"_Given: reward gives an array \(\) of float64; it needs \(2,\), a number for each",
        ),
        (0, lambda m: m.velocity[:, :1], r"reward gives an array \(2, 1\) of float64"),
        (0, lambda m: m.velocity[:, 1] / 0.0, "reward gives .* for vehicle 0, 0.020 s into its episode"),
        (
            1,
            lambda _: np.array([0, 1]),
            r"terminated gives an array \(2,\) of int64; it needs .* True or False",
        ),
        (2, lambda _: np.full((2, 3), np.nan), "observe gives .*nan.* for vehicle 0, 0.020 s"),
        (2, lambda _: np.zeros((2, 2)), r"observe gives an array \(2, 2\), its figures need \(2, 3\)"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_what_a_task_gives_in_another_form_is_refused(part: int, given: Any, message: str) -> None:
    sound: list[Any] = [_speed, lambda m: m.time > 9.0, lambda _: np.zeros((2, 3))]
    sound[part] = given
    task = _Given(*sound)
    owner = prepare(task, HOMES)
    motion = motion_at(HOMES)
    with pytest.raises(sb.UserError, match=message):
        _ = observe(task, motion, BOTH) if part == 2 else judge(task, owner, motion, BOTH)


def test_a_reward_that_is_a_part_of_the_motion_is_an_array_of_its_own() -> None:
    task = _Given(_speed, lambda m: m.time > 9.0, lambda _: np.zeros((2, 3)))
    motion = motion_at(HOMES)
    rewards, _ = judge(task, prepare(task, HOMES), motion, BOTH)
    motion.truth[:] = 0.0
    assert rewards.tolist() == [1.0, 1.0]


def test_a_task_belongs_to_one_environment() -> None:
    task = learning.ReachWaypoint()
    first = prepare(task, HOMES)
    prepare(task, HOMES)
    with pytest.raises(sb.UserError, match="ReachWaypoint: another environment has taken this task since"):
        judge(task, first, motion_at(HOMES), BOTH)


def test_an_own_task_is_a_small_class() -> None:
    class Climb(learning.Task):
        def reward(self, motion: VehicleMotion) -> NDArray[np.float64]:
            return -motion.velocity[:, 2]

    task = Climb()
    motion = motion_at(HOMES)
    motion.truth[:, 5] = -1.5
    rewards, ends = judge(task, prepare(task, HOMES), motion, BOTH)
    assert (rewards.tolist(), ends.tolist()) == ([1.5, 1.5], [False, False])


@pytest.mark.parametrize("name", ["VectorEnvironment", "Environment", "FleetEnvironment", "Randomisation"])
def test_names_of_former_versions_tell_what_replaces_them(name: str) -> None:
    with pytest.raises(sb.UserError, match=f"learning.{name} is gone: learning.StackEnvironment"):
        getattr(learning, name)
    assert not hasattr(learning, "Elsewhere")
