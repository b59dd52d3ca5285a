"""One vehicle as a Gymnasium environment."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Env
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike

from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.lab.environments.spaces import Observation
from sitl_bridge.lab.environments.vector import VectorEnvironment


class Environment(Env[Observation, ArrayLike]):
    """One vehicle; the same steps as of a ``VectorEnvironment`` with one sub-environment.

    Args:
        choices: of ``VectorEnvironment``, but for the number and the autoreset mode.

    Attributes:
        vector: the environment beneath.
        figures: names of the figures of an observation.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  (Gymnasium's declaration)

    def __init__(self, **choices: Any) -> None:
        self.vector = VectorEnvironment(1, autoreset_mode=AutoresetMode.DISABLED, **choices)
        self.figures = self.vector.figures
        self.observation_space = self.vector.single_observation_space
        self.action_space = self.vector.single_action_space
        self.task = self.vector.task

    def reset(
        self, *, seed: int | None = None, options: JsonObject | None = None
    ) -> tuple[Observation, JsonObject]:
        """Begin a new episode.

        Args:
            seed: of all random numbers from now on; None lets them go on.
            options: none.
        """
        del options
        super().reset(seed=seed)
        observation, info = self.vector.reset(seed=seed)
        return observation[0], info

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, JsonObject]:
        """Fly until the next action, (k,)."""
        observation, reward, terminated, truncated, info = self.vector.step(np.asarray(action)[None])
        return observation[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), info
