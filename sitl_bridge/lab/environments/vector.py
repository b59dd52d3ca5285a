"""n vehicles as the sub-environments of one Gymnasium vector environment, and one as an environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from gymnasium import Env
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike

from sitl_bridge.api.airframe_choice import AirframeChoice, airframe_of
from sitl_bridge.api.world_choice import WorldChoice
from sitl_bridge.base.arrays import AnyArray, Floats, Mask
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.lab.environments.batch import Randomisation, VehicleBatch
from sitl_bridge.lab.environments.spaces import (
    SENSOR_FIGURES,
    Observation,
    action_level,
    action_space,
    observation_figures,
    observation_space,
    write_figures,
    write_ways,
)
from sitl_bridge.lab.environments.tasks import (
    HoldPosition,
    Task,
    VehicleMotion,
    judged,
    observed,
    refuse_taken,
)

Stepped: TypeAlias = tuple[Observation, Floats, Mask, Mask, JsonObject]


class VectorEnvironment(VectorEnv[Observation, ArrayLike, AnyArray]):
    """n vehicles that share nothing, each with its own episodes, random numbers and clock.

    The same seeds and actions give the same bytes, whatever the number of sub-environments and threads.

    Args:
        num_envs: number of vehicles.
        airframe: of all, by name, file or as an object.
        task: goals, reward and end of the episodes; None for ``HoldPosition()``.
        actions: level: ``"motors"``, ``"rates"``, ``"attitude"`` or ``"velocity"``.
        observations: ``"truth"`` or ``"sensors"``, beside what the task adds.
        world: where each flies; None for calm air over level ground.
        randomisation: of the resets; None for none.
        period: s between actions, whole integration steps.
        step: s of an integration step.
        integrator: ``"runge_kutta"`` of fourth order; or ``"euler"``, which takes one evaluation of the
            forces a step in free air instead of five.
        autoreset_mode: of Gymnasium.
        threads: at most; None for the environment variable ``SITL_BRIDGE_THREADS``, else all cores.

    Attributes:
        task: the task.
        figures: names and units of an observation's figures.
        level: of the actions, with names and units of its figures.

    Raises:
        UserError: for what does not fit together.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        airframe: AirframeChoice = "iris",
        task: Task | None = None,
        actions: str = "rates",
        observations: str = "truth",
        world: WorldChoice = None,
        randomisation: Randomisation | None = None,
        period: float = 0.02,
        step: float = 0.004,
        integrator: str = "runge_kutta",
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
        threads: int | None = None,
    ) -> None:
        if num_envs < 1:
            raise UserError(f"num_envs: {num_envs} is below 1")
        if not isinstance(autoreset_mode, AutoresetMode):
            raise UserError(
                f"autoreset_mode: {autoreset_mode!r} is not one of gymnasium.vector.AutoresetMode"
            )
        found = airframe_of(airframe)
        self.task = task or HoldPosition()
        self.level = action_level(actions, len(found.rotors))
        self.figures = observation_figures(observations, self.task)
        self._batch = VehicleBatch(
            found,
            self.level,
            self.task,
            np.zeros((num_envs, 3)),
            world=world,
            randomisation=randomisation,
            period=period,
            step=step,
            with_sensors=observations == "sensors",
            threads=threads,
            integrator=integrator,
        )
        if observations == "sensors" and self._batch.seen_count != len(SENSOR_FIGURES):
            raise UserError(
                f"{found.name}: observations by sensors need imu, magnetometer, barometer and gps"
            )
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": autoreset_mode, "render_modes": []}
        self._mode = autoreset_mode
        self.single_observation_space = observation_space(self.figures)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.single_action_space = action_space(self.level)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._done = np.zeros(num_envs, np.bool_)
        self._none = np.zeros(num_envs, np.bool_)
        self._limit = self.task.duration - 0.5e-6
        self._begun = False

    # ------------------------------------------------------------------ reset

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: JsonObject | None = None
    ) -> tuple[Observation, JsonObject]:
        """Begin new episodes.

        Args:
            seed: of the first vehicle, the others count on from it; or one for each.  None lets the random
                streams go on, from a seed of the system's at the first reset.
            options: ``{"reset_mask": mask}`` resets the vehicles (n,) where the mask is True; None all.

        Returns:
            observations (n, k), and an empty dictionary.

        Raises:
            UserError: for seeds or a mask that do not fit.
        """
        options = options or {}
        if unknown := options.keys() - {"reset_mask"}:
            raise UserError(f"reset: options: {', '.join(map(str, unknown))}: there is reset_mask alone")
        chosen = self._mask(options.get("reset_mask"))
        if seed is None and not self._begun:
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        if seed is not None:
            seeds = self._seeds(seed)
            super().reset(seed=seeds[0])
            self._batch.seed(seeds, chosen)
        self._begun = True
        self._begin(chosen)
        self._done[chosen] = False
        observation = self._empty()
        self._batch.observe(np.ones(self.num_envs, np.bool_), observation)
        return self._completed(observation, self.motion), {}

    def _seeds(self, seed: int | Sequence[int]) -> list[int]:
        if isinstance(seed, int | np.integer):
            seeds = list(range(int(seed), int(seed) + self.num_envs))
        else:
            seeds = [int(one) for one in seed]
        if len(seeds) != self.num_envs or min(seeds) < 0:
            raise UserError(f"reset: seed: one or {self.num_envs} whole numbers of 0 or more are needed")
        return seeds

    def _mask(self, mask: object) -> Mask:
        if mask is None:
            return np.ones(self.num_envs, np.bool_)
        found = np.array(mask)
        if found.shape != (self.num_envs,) or found.dtype != np.bool_ or not found.any():
            raise UserError(f"reset: reset_mask is {self.num_envs} times True or False, not {mask!r}")
        return found

    def _begin(self, chosen: Mask) -> None:
        refuse_taken(self.task, self._batch.owner)
        self._batch.reset(chosen)
        self.task.begin(chosen, self._batch.draws, self.motion)

    # ------------------------------------------------------------------ step

    def step(self, actions: ArrayLike) -> Stepped:
        """Fly all vehicles until their next actions.

        Args:
            actions: (n, k); what is beyond the limits of the space counts as the limit.

        Returns:
            observations, rewards, terminations, truncations and further information.

        Raises:
            UserError: for actions of another shape, or that are not finite; before the first reset; and for
                an episode that has ended, with autoreset disabled.
        """
        batch = self._batch
        given = np.asarray(actions)
        given = np.ascontiguousarray(given, None if given.dtype == np.float32 else np.float64)
        if given.shape != batch.actions.shape or not np.isfinite(given).all():
            raise UserError(f"step: actions: {batch.actions.shape} finite numbers are needed")
        if not self._begun:
            raise UserError("step: reset the environment first")
        skipped = self._none
        if self._done.any():
            if self._mode == AutoresetMode.DISABLED:
                raise UserError("step: episodes have ended; reset them first, by options={'reset_mask': ...}")
            skipped = self._done.copy()
        observation = self._empty()
        batch.fly(skipped, given, observation)
        motion = self.motion
        reward, terminated = judged(self.task, batch.owner, motion, ~skipped)
        truncated = (motion.time > self._limit) & ~terminated
        info: JsonObject = {}
        if skipped is not self._none:
            reward[skipped] = 0.0
            terminated[skipped] = truncated[skipped] = False
            self._begin(skipped)
            motion = self.motion
            batch.observe(skipped, observation)
        self._done = terminated | truncated
        self._completed(observation, motion)
        if self._mode == AutoresetMode.SAME_STEP and self._done.any():
            observation, info = self._reset_now(observation)
        return observation, reward, terminated, truncated, info

    def _reset_now(self, observation: Observation) -> tuple[Observation, JsonObject]:
        """Reset what has ended; its last observation goes into the information."""
        done = self._done.copy()
        last = np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(done).tolist():
            last[i] = observation[i].copy()
        self._begin(done)
        self._done = np.zeros(self.num_envs, np.bool_)
        info = {"final_obs": last, "_final_obs": done, "final_info": {}, "_final_info": done}
        self._batch.observe(done, observation)
        return self._completed(observation, self.motion), info

    def _empty(self) -> Observation:
        return np.empty((self.num_envs, len(self.figures)), np.float32)

    def _completed(self, observation: Observation, motion: VehicleMotion) -> Observation:
        """Observations with the figures of the task, the last ones."""
        first = self._batch.seen_count
        if type(self.task).observe is Task.observe:
            write_ways(self.task.goals, motion.truth, first, observation)  # the same, without arrays between
            return observation
        write_figures(observed(self.task, motion, np.ones(self.num_envs, np.bool_)), first, observation)
        return observation

    # ------------------------------------------------------------------ inside

    @property
    def motion(self) -> VehicleMotion:
        """The true state of all vehicles; its arrays change with the next step."""
        return self._batch.motion

    @property
    def batch(self) -> VehicleBatch:
        """The vehicles beneath: ``batch.episodes`` holds what they drew."""
        return self._batch


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
