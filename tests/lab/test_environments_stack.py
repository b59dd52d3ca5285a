"""The environment around a flight stack over the simulator link: here the built-in one."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from support.airframe_texts import write_based

import sitl_bridge as sb


def test_a_waypoint_is_reached_through_a_flight_stack_and_a_reset_flies_back(tmp_path: Path) -> None:
    task = sb.learning.ReachWaypoint(box=((2, 1, -1), (2, 1, -1)), height=3.0)
    env = sb.learning.StackEnvironment(autopilot="builtin", task=task, runs=tmp_path)
    assert env.observation_space.shape == (len(env.figures),) == (16,)
    assert env.action_space.shape == (4,)
    try:
        observation, _ = env.reset(seed=1)
        directory = env.directory
        total, ends, steps = 0.0, False, 0
        while not ends:
            velocity = np.clip(1.5 * observation[-3:], -2.0, 2.0)
            observation, reward, ends, truncated, _ = env.step([*velocity, 0.0])
            assert not truncated
            total, steps = total + reward, steps + 1
        assert total == pytest.approx(np.sqrt(6.0) + 10.0 - 0.3, abs=0.5)
        assert env.motion.time == pytest.approx(0.02 * steps)
        observation, _ = env.reset()
        assert env.directory == directory
        assert np.linalg.norm(observation[:3] - env.task.home) < 2.0  # the estimate is within 0.3
    finally:
        env.close()


def test_a_vehicle_whose_battery_empties_begins_a_new_flight(tmp_path: Path) -> None:
    # The iris hovers for about a minute with it.
    file = write_based(
        tmp_path,
        'sources: {battery.capacity: "derived: hovers for about a minute"}\nbattery: {capacity: 0.3}\n',
    )
    task = sb.learning.HoldPosition(height=3.0, duration=15.0)
    with contextlib.closing(
        sb.learning.StackEnvironment(
            autopilot="builtin", airframe=str(file), task=task, period=0.2, runs=tmp_path
        )
    ) as env:
        env.reset(seed=1)
        first, flights = env.directory, 0
        while env.directory == first and flights < 10:
            ends = truncated = False
            while not (ends or truncated):
                _, _, ends, truncated, _ = env.step([0.0] * 4)
            env.reset()
            flights += 1
        assert 1 <= flights < 10
        assert env.motion.position[2] < -2.0


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"task": sb.learning.ReachWaypoint}, "is no object of a task; give ReachWaypoint"),
        ({"actions": "motors"}, "a flight stack takes rates, attitude, velocity"),
        ({"period": 0.5}, "period: 0.5 s is no multiple"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_starts(
    choices: dict[str, object], message: str
) -> None:
    with pytest.raises(sb.UserError, match=message):
        sb.learning.StackEnvironment(**choices)  # type: ignore[arg-type]


def test_a_start_on_the_ground_is_refused() -> None:
    with pytest.raises(sb.UserError, match="HoldPosition: height: 0 is not above 0"):
        sb.learning.HoldPosition(height=0.0)


def test_a_step_before_the_first_reset_is_refused() -> None:
    with pytest.raises(sb.UserError, match="reset the environment first"):
        sb.learning.StackEnvironment(autopilot="builtin").step([0.0] * 4)
