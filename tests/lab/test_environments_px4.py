"""The environment with PX4 in the loop: actions of each level, a task, and a reset that flies back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sitl_bridge as sb

pytestmark = pytest.mark.px4


def test_a_figure_is_tracked_by_velocity_actions_and_again_after_a_reset(tmp_path: Path) -> None:
    env = sb.learning.StackEnvironment(task=sb.learning.TrackFigure(duration=20.0), runs=tmp_path)
    try:
        for _ in range(2):
            observation, _ = env.reset(seed=1)
            rewards, ends, truncated = [], False, False
            while not truncated:
                velocity = observation[-3:] + 1.0 * observation[-6:-3]
                observation, reward, ends, truncated, _ = env.step([*velocity, 0.0])
                assert not ends
                rewards.append(reward)
            assert len(rewards) == 1000
            assert np.mean(rewards[200:]) > 0.3  # 1.2 m
    finally:
        env.close()


@pytest.mark.parametrize("level", ["attitude", "rates"])
def test_attitude_and_rate_actions_reach_px4(level: str, tmp_path: Path) -> None:
    """A tilt to the right accelerates the vehicle to the east; a height of its own keeps it up."""
    task = sb.learning.HoldPosition(duration=3.0, reach=30.0)
    env = sb.learning.StackEnvironment(actions=level, task=task, runs=tmp_path)
    try:
        observation, _ = env.reset(seed=1)
        for _ in range(60):
            climb = -0.15 * observation[15] + 0.1 * observation[5]
            roll = 2.0 * observation[7]
            action = [0.43 + climb, 0.15, 0.0, 0.0]
            if level == "rates":
                action = [0.43 + climb, 3.0 * (0.15 - roll), -3.0 * 2.0 * observation[8], 0.0]
            observation, _, ends, _, _ = env.step(action)
            assert not ends
        assert observation[4] > 0.5
        assert abs(observation[3]) < 0.5
        assert 2.0 * observation[7] == pytest.approx(0.15, abs=0.06)
    finally:
        env.close()
