"""Vehicles of one world as the agents of a PettingZoo environment, with contact and downwash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import ArrayLike
from pettingzoo import ParallelEnv

from sitl_bridge.api.airframe_choice import AirframeChoice, airframe_of
from sitl_bridge.api.world_choice import WorldChoice
from sitl_bridge.base.arrays import Mask
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.lab.environments.batch import Randomisation, VehicleBatch
from sitl_bridge.lab.environments.spaces import (
    LIMIT,
    Observation,
    action_level,
    action_space,
    observation_figures,
    observation_space,
)
from sitl_bridge.lab.environments.tasks import (
    ReachWaypoint,
    Task,
    VehicleMotion,
    judged,
    observed,
    refuse_taken,
)

Results: TypeAlias = tuple[
    dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, JsonObject]
]


class FleetEnvironment(ParallelEnv):  # type: ignore[misc]  # PettingZoo has no types
    """n vehicles in one world, each an agent with its own goal.

    An agent whose episode has ended leaves ``agents``; its vehicle falls, with its motors off.

    Args:
        count: of vehicles.
        airframe: of all.
        spacing: m between the starts, on a square grid.
        task: of each agent; None for ``ReachWaypoint()``.
        actions: level.
        neighbours: nearest other vehicles that an agent sees.
        proximity: contact and downwash; None for both.
        world: where they fly.
        randomisation: of the resets; the wind is that of the first vehicle.
        period: s between actions.
        step: s of an integration step.

    Raises:
        UserError: for what does not fit together.
    """

    metadata = {"name": "sitl_bridge_fleet", "render_modes": []}  # noqa: RUF012  (PettingZoo's declaration)
    render_mode = None

    def __init__(
        self,
        count: int = 4,
        *,
        airframe: AirframeChoice = "iris",
        spacing: float = 3.0,
        task: Task | None = None,
        actions: str = "velocity",
        neighbours: int = 3,
        proximity: Proximity | None = None,
        world: WorldChoice = None,
        randomisation: Randomisation | None = None,
        period: float = 0.02,
        step: float = 0.004,
    ) -> None:
        if count < 1 or not spacing > 0.0 or neighbours < 0:
            raise UserError(
                "fleet environment: count must be 1 or more, spacing above 0, neighbours 0 or more"
            )
        found = airframe_of(airframe)
        self.task = task or ReachWaypoint()
        self.level = action_level(actions, len(found.rotors))
        side = int(np.ceil(np.sqrt(count)))
        places = np.zeros((count, 3))
        places[:, 0], places[:, 1] = (spacing * x for x in np.divmod(np.arange(count), side))
        self._batch = VehicleBatch(
            found,
            self.level,
            self.task,
            places,
            world=world,
            randomisation=randomisation,
            period=period,
            step=step,
            proximity=proximity or Proximity(),
        )
        self._seen = min(neighbours, count - 1)
        self.figures = observation_figures("truth", self.task) + tuple(
            f"neighbour {k + 1} {figure}"
            for k in range(self._seen)
            for figure in ("north, m", "east, m", "down, m", *(f"velocity {a}, m/s" for a in ("N", "E", "D")))
        )
        self.possible_agents = [f"vehicle_{i}" for i in range(count)]
        self.agents: list[str] = []
        self._observations = observation_space(self.figures)
        self._actions = action_space(self.level)
        self._begun = False
        self._limit = self.task.duration - 0.5e-6

    def observation_space(self, agent: str) -> Box:
        """Space of an agent's observations, the same for all."""
        del agent
        return self._observations

    def action_space(self, agent: str) -> Box:
        """Space of an agent's actions, the same for all."""
        del agent
        return self._actions

    def reset(
        self, seed: int | None = None, options: JsonObject | None = None
    ) -> tuple[dict[str, Observation], dict[str, JsonObject]]:
        """Begin a new episode of all agents.

        Args:
            seed: of all random numbers from now on; None lets them go on.
            options: none.
        """
        del options
        n = len(self.possible_agents)
        everyone = np.ones(n, np.bool_)
        if seed is None and not self._begun:
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        if seed is not None:
            self._batch.seed(range(seed, seed + n), everyone)
        self._begun = True
        refuse_taken(self.task, self._batch.owner)
        self._batch.reset(everyone)
        self.agents = list(self.possible_agents)
        self.task.begin(everyone, self._batch.draws, self.motion)
        rows = self._rows(everyone)
        return {a: rows[i] for i, a in enumerate(self.agents)}, {a: {} for a in self.agents}

    def step(self, actions: Mapping[str, ArrayLike]) -> Results:
        """Fly until the next actions.

        Args:
            actions: of each agent in ``agents``.

        Raises:
            UserError: for an agent without an action, or one that does not fit.
        """
        if not self._begun:
            raise UserError("step: reset the environment first")
        batch = self._batch
        index = {agent: i for i, agent in enumerate(self.possible_agents)}
        skipped = np.ones(len(index), np.bool_)
        for agent in self.agents:
            action = np.asarray(actions.get(agent), dtype=np.float64)
            if action.shape != (self.level.size,) or not np.isfinite(action).all():
                raise UserError(f"step: {agent}: {self.level.size} finite numbers are needed")
            batch.actions[index[agent]] = np.clip(action, self.level.low, self.level.high)
            skipped[index[agent]] = False
        batch.fly(skipped)
        motion = self.motion
        reward, terminated = judged(self.task, batch.owner, motion, ~skipped)
        truncated = (motion.time > self._limit) & ~terminated
        rows = self._rows(~skipped)
        flown = [(agent, index[agent]) for agent in self.agents]
        self.agents = [agent for agent, i in flown if not (terminated[i] or truncated[i])]
        return (
            {agent: rows[i] for agent, i in flown},
            {agent: float(reward[i]) for agent, i in flown},
            {agent: bool(terminated[i]) for agent, i in flown},
            {agent: bool(truncated[i]) for agent, i in flown},
            {agent: {"collided": bool(motion.collided[i])} for agent, i in flown},
        )

    @property
    def motion(self) -> VehicleMotion:
        """The true state of all vehicles; its arrays change with the next step."""
        return self._batch.motion

    def _rows(self, counted: Mask) -> Observation:
        """(n, k) observations of all vehicles, of which those of the counted ones (n,) are used."""
        motion = self.motion
        parts = [motion.truth, observed(self.task, motion, counted)]
        if self._seen:
            away = motion.position[None, :, :] - motion.position[:, None, :]
            square = np.einsum("ijk,ijk->ij", away, away)
            np.fill_diagonal(square, np.inf)
            nearest = np.argsort(square, axis=1, kind="stable")[:, : self._seen]
            own = np.arange(len(square))[:, None]
            moving = motion.velocity[nearest] - motion.velocity[:, None, :]
            parts.append(np.concatenate([away[own, nearest], moving], axis=2).reshape(len(square), -1))
        seen = np.concatenate(parts, axis=1, dtype=np.float32)
        return np.clip(seen, -LIMIT, LIMIT, out=seen)
