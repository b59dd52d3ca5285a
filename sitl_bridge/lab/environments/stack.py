"""One vehicle flown by a flight stack, PX4 or the built-in one, as a Gymnasium environment.

Actions are setpoints of Offboard mode.  In lockstep, simulated time stands still until the next action.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Literal

import numpy as np
from gymnasium import Env
from numpy.typing import ArrayLike

from sitl_bridge.api.airframe_choice import AirframeChoice, airframe_of
from sitl_bridge.api.sitl import Sitl
from sitl_bridge.api.vehicles import Vehicles
from sitl_bridge.api.world_choice import WorldChoice
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.lab.environments.spaces import (
    LEVELS,
    LIMIT,
    TRUTH_FIGURES,
    Observation,
    action_space,
    observation_space,
)
from sitl_bridge.lab.environments.tasks import (
    HoldPosition,
    Task,
    VehicleMotion,
    validate_figures,
)

ARRIVAL, STILL = 0.3, 0.2
"""m and m/s within which a vehicle is at the start of an episode."""
ARRIVAL_LIMIT = 90.0
"""s of simulated time to get there."""


class StackEnvironment(Env[Observation, ArrayLike]):
    """A vehicle with a flight stack between the actions and the motors; rewards follow from the true motion.

    A reset flies the vehicle back to the start, and begins a new flight where the last episode ended on the
    ground or disarmed, or its battery is empty.

    Args:
        autopilot: ``"px4"`` or ``"builtin"``.
        px4: PX4 checkout or build; None looks for one.
        airframe: by name, file or as an object.
        task: goals, reward and end, of which the environment keeps a copy; None for ``HoldPosition()``.
        actions: ``"velocity"``, ``"attitude"`` or ``"rates"``.
        world: where it flies.
        seed: of all random numbers of the simulation.
        period: s between actions, whole steps of 4 ms; 0.4 s at most, for PX4 leaves Offboard after 0.5 s.
        warm: PX4s that start and settle in the background for episodes after a crash.
        runs: where run directories are made.

    Attributes:
        figures: names and units of an observation's figures.
        directory: run directory of the present flight.

    Raises:
        UserError: for what does not fit together.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  (Gymnasium's declaration)

    def __init__(
        self,
        *,
        autopilot: Literal["px4", "builtin"] = "px4",
        px4: str | Path | None = None,
        airframe: AirframeChoice = "iris",
        task: Task | None = None,
        actions: str = "velocity",
        world: WorldChoice = None,
        seed: int = 0,
        period: float = 0.02,
        warm: int = 1,
        runs: str | Path = "runs",
    ) -> None:
        found = airframe_of(airframe)
        self.task = copy.deepcopy(task) or HoldPosition()
        if not isinstance(self.task, Task):
            raise UserError(f"task: {self.task!r} is no object of a task; give ReachWaypoint()")
        if actions not in LEVELS:
            raise UserError(f"actions: a flight stack takes {', '.join(LEVELS)}, not {actions!r}")
        self.level = LEVELS[actions]
        self._steps = round(period / 0.004)
        if not 1 <= self._steps <= 100 or abs(self._steps * 0.004 - period) > 1e-9:
            raise UserError(f"period: {period:g} s is no multiple of 0.004 s from 0.004 to 0.4 s")
        self._arguments: JsonObject = {
            "airframes": found,
            "autopilot": autopilot,
            "px4": px4,
            "world": world,
            "seed": seed,
            "runs": runs,
            "name": "environment",
            "warm": warm,
        }
        self.figures = (*TRUTH_FIGURES, *self.task.figures)
        self.observation_space = observation_space(self.figures)
        self.action_space = action_space(self.level)
        self._sitl: Sitl | None = None
        self._random = np.random.default_rng(seed)
        self._action = np.zeros(self.level.size)
        self._contacts, self._began, self._failed = 0, 0, False

    # ------------------------------------------------------------------ the flight

    @property
    def directory(self) -> Path:
        """Run directory of the present flight.

        Raises:
            UserError: before the first reset.
        """
        return self._require_flying().directory

    def _require_flying(self) -> Sitl:
        if self._sitl is None:
            raise UserError("reset the environment first")
        return self._sitl

    @property
    def _vehicle(self) -> Vehicles:
        return self._require_flying().vehicle

    def _take_off(self) -> None:
        """Start the flight stack, and climb to the start of the episodes."""
        if self._sitl is None:
            self._sitl = Sitl(**self._arguments)
        else:
            self._sitl.reset()
        self.task.prepare(self._vehicle.position - (0.0, 0.0, self.task.height))
        self._vehicle.arm()

    def _return(self) -> None:
        """Fly to the start of the episodes."""
        # By its own estimate, which GPS errors take up to a metre or two from the truth.
        self._vehicle.go_to((0.0, 0.0, -self.task.height), yaw=0.0, within=ARRIVAL, limit=ARRIVAL_LIMIT)
        self._vehicle.run_until(
            lambda vehicle: vehicle.distance_left < ARRIVAL and np.linalg.norm(vehicle.velocity) < STILL,
            ARRIVAL_LIMIT,
        )

    def reset(
        self, *, seed: int | None = None, options: JsonObject | None = None
    ) -> tuple[Observation, JsonObject]:
        """Fly to the start, and begin an episode.

        Args:
            seed: of the task's random numbers; None lets them go on.
            options: none.

        Raises:
            UserError: when the flight stack does not get there.
        """
        del options
        super().reset(seed=seed)
        if seed is not None:
            self._random = np.random.default_rng(seed)
        begun = self._sitl is None or self._failed or not self._vehicle.armed
        try:
            if begun:
                self._take_off()
            self._return()
        except UserError:
            if begun:
                raise
            self._take_off()  # it has landed for its battery, or been lost, on the way
            self._return()
        stacks = self._require_flying().stacks
        self._began, self._failed = stacks.now, False
        self._contacts = int(stacks.simulation.proximity[0]["contact_count"])
        motion = self.motion
        self.task.begin(self._random.random(self.task.draws), motion)
        return self._observation(motion), {}

    @property
    def motion(self) -> VehicleMotion:
        """The true state of the vehicle."""
        stacks = self._require_flying().stacks
        state = stacks.simulation.states[0]
        attitude = np.array(state["attitude"])
        return VehicleMotion(
            position=np.array(state["position"]),
            velocity=np.array(state["velocity"]),
            attitude=-attitude if attitude[0] < 0.0 else attitude,
            angular_velocity=np.array(state["angular_velocity"]),
            time=(stacks.now - self._began) * 1e-6,
            action=self._action,
            on_ground=int(state["in_contact"]) > 0,
            collided=int(stacks.simulation.proximity[0]["contact_count"]) > self._contacts,
        )

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, JsonObject]:
        """Fly until the next action.

        Args:
            action: (k,); what is beyond the limits of the space counts as the limit.

        Raises:
            UserError: for an action that does not fit, before the first reset, and when the flight ends.
        """
        given = np.asarray(action, dtype=np.float64)
        if given.shape != (self.level.size,) or not np.isfinite(given).all():
            raise UserError(f"step: action: {self.level.size} finite numbers are needed")
        self._require_flying()
        self._action = np.clip(given, self.level.low, self.level.high)
        self._command(*self._action.tolist())
        self._require_flying().step(self._steps)
        motion, task = self.motion, self.task
        ends = task.terminated(motion)
        reward = validate_figures(f"{type(task).__name__}: reward", task.reward(motion), (), motion)
        terminated = bool(ends) or not self._vehicle.armed
        truncated = not terminated and motion.time > task.duration - 0.5e-6
        self._failed = terminated and (motion.on_ground or motion.collided)
        return self._observation(motion), float(reward), terminated, truncated, {}

    def _command(self, *figures: float) -> None:
        vehicle = self._vehicle
        if self.level.name == "rates":
            vehicle.set_rates(*figures[1:], thrust=figures[0])
        elif self.level.name == "attitude":
            vehicle.set_attitude(*figures[1:], thrust=figures[0])
        else:
            vehicle.set_velocity(figures[:3], yaw=figures[3])

    def _observation(self, motion: VehicleMotion) -> Observation:
        task = self.task
        what, shape = f"{type(task).__name__}: observe", (len(task.figures),)
        own = validate_figures(what, task.observe(motion), shape, motion)
        truth = (motion.position, motion.velocity, motion.attitude, motion.angular_velocity)
        seen: Observation = np.concatenate([*truth, own], dtype=np.float32)
        return np.clip(seen, -LIMIT, LIMIT, out=seen)

    def close(self) -> None:
        """End the flight stack; safe to call twice."""
        if self._sitl is not None:
            self._sitl.close()
            self._sitl = None
