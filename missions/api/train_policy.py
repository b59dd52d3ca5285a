"""Trains a small policy to fly to waypoints in wind, by CMA-ES, and flies it on PX4.

pip install 'sitl-bridge[environments]' cma
python missions/api/train_policy.py train policy.npy
python missions/api/train_policy.py fly policy.npy --px4 ~/PX4-Autopilot

The policy sees the way to the goal and the vehicle's velocity, and commands a velocity: 24 figures in all.
Training takes a minute on two cores.  Each candidate flies the same episodes as the others of its generation.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sitl_bridge as sb
from sitl_bridge import learning

Array = NDArray[np.float64]

PERIOD = 0.04
EPISODES, CANDIDATES, GENERATIONS = 12, 16, 40
RANDOM = learning.Randomisation(mass=(0.95, 1.1), rotor=(0.97, 1.03), wind=(0.0, 5.0), turbulence=(0.0, 3.0))
FIGURES = 24


def task() -> learning.Task:
    """Reach a place up to 6 m away; an episode lasts 8 s at most."""
    return learning.ReachWaypoint(box=((-5, -5, -1.5), (5, 5, 1.5)), duration=8.0)


def act(policies: Array, observations: Any) -> Array:
    """Actions (n, 4) of policies (n, 24): a velocity, and the heading north."""
    seen = np.concatenate([observations[:, -3:], observations[:, 3:6]], axis=1) * ([0.5] * 3 + [0.3] * 3)
    seen = np.concatenate([seen, np.tanh(2.0 * seen[:, :2])], axis=1)
    velocity = 3.0 * np.tanh(np.einsum("nij,nj->ni", policies.reshape(-1, 3, 8), seen))
    return np.concatenate([velocity, np.zeros((len(velocity), 1))], axis=1)


def evaluate(env: learning.VectorEnvironment, candidates: Array, seed: int) -> tuple[Array, Array]:
    """Mean return, and share of the episodes that arrive, of each candidate."""
    each = env.num_envs // len(candidates)
    policies = np.repeat(candidates, each, axis=0)
    observation, _ = env.reset(seed=[seed + i for _ in candidates for i in range(each)])
    total, alive = np.zeros(env.num_envs), np.ones(env.num_envs, np.bool_)
    arrived = np.zeros(env.num_envs, np.bool_)
    while alive.any():
        observation, reward, terminated, truncated, _ = env.step(act(policies, observation))
        total += (reward - 0.02) * alive  # time is short
        arrived |= alive & terminated & (reward > 5.0)
        alive &= ~(terminated | truncated)
    return total.reshape(-1, each).mean(axis=1), arrived.reshape(-1, each).mean(axis=1)


def train(file: Path, generations: int = GENERATIONS) -> Array:
    """Search for the best policy, and write it to a file."""
    import cma

    env = learning.VectorEnvironment(
        CANDIDATES * EPISODES, task=task(), actions="velocity", randomisation=RANDOM, period=PERIOD
    )
    search = cma.CMAEvolutionStrategy(
        np.zeros(FIGURES), 0.5, {"popsize": CANDIDATES, "seed": 1, "verbose": -9}
    )
    for generation in range(generations):
        candidates = np.array(search.ask())
        returns, arrived = evaluate(env, candidates, seed=1000 * generation)
        search.tell(candidates, -returns)
        if generation % 5 == 4 or generation == generations - 1:
            print(
                f"generation {generation + 1:3d}: return {returns.mean():6.2f}, arrived {arrived.mean():.0%}"
            )
    policy: Array = np.asarray(search.result.xfavorite)
    np.save(file, policy)
    test = learning.VectorEnvironment(
        200, task=task(), actions="velocity", randomisation=RANDOM, period=PERIOD
    )
    returns, arrived = evaluate(test, policy[None], seed=10**6)
    print(f"200 new episodes: return {returns[0]:.2f}, arrived {arrived[0]:.1%}")
    return policy


def fly(policy: Array, px4: Path | None, episodes: int, wind: str | None) -> float:
    """Fly episodes on PX4; returns the share that arrives."""
    env = learning.StackEnvironment(
        px4=px4, task=task(), actions="velocity", period=PERIOD, world=sb.World(wind=wind), seed=1
    )
    arrived = 0
    try:
        for episode in range(episodes):
            observation, _ = env.reset(seed=episode)
            distance, ends, truncated, reward = math.hypot(*observation[-3:].tolist()), False, False, 0.0
            while not (ends or truncated):
                action = act(policy[None], observation[None])[0]
                observation, reward, ends, truncated, _ = env.step(action)
            good = ends and reward > 5.0
            arrived += good
            how = "arrived" if good else "crashed" if ends else "did not arrive"
            print(f"episode {episode + 1}: {distance:.1f} m, {how} after {env.motion.time[0]:.2f} s")
    finally:
        env.close()
    print(f"{arrived} of {episodes} arrived")
    return arrived / episodes


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("train", "fly"))
    parser.add_argument("file", type=Path, help="of the policy, .npy")
    parser.add_argument("--px4", type=Path, help="PX4 checkout or build")
    parser.add_argument("--episodes", type=int, default=20, help="to fly")
    parser.add_argument("--wind", help="to fly in, such as 4@270,turbulence=light")
    given = parser.parse_args()
    if given.what == "train":
        train(given.file)
    else:
        fly(np.load(given.file), given.px4, given.episodes, given.wind)


if __name__ == "__main__":
    main()
