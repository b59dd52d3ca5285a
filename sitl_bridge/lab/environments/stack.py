"""One vehicle flown by a flight stack, PX4 or the built-in one, as a Gymnasium environment.

Actions are setpoints of Offboard mode.  In lockstep, simulated time stands still until the next action.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from gymnasium import Env
from numpy.typing import ArrayLike, NDArray

from sitl_bridge.api.airframe_choice import AirframeChoice, airframe_of
from sitl_bridge.api.compiling import compilation_shown
from sitl_bridge.api.world_choice import WorldChoice, world_of
from sitl_bridge.base.errors import UserError
from sitl_bridge.lab.environments.action_levels import LEVELS, action_level
from sitl_bridge.lab.environments.records import ATTITUDE, RATES, TRUTH_SIZE
from sitl_bridge.lab.environments.spaces import (
    LIMIT,
    Observation,
    action_space,
    observation_figures,
    observation_space,
)
from sitl_bridge.lab.environments.tasks import HoldPosition, Task, VehicleMotion
from sitl_bridge.link.mavlink import common as mavlink
from sitl_bridge.session.link_commands import LinkCommands
from sitl_bridge.session.ready_session import ReadySession
from sitl_bridge.session.settings import FlightSettings, VehicleSettings

Array: TypeAlias = NDArray[np.float64]

ARRIVAL, STILL = 0.3, 0.2
"""m and m/s within which a vehicle is at the start of an episode."""
ARRIVAL_LIMIT = 90.0
"""s of simulated time to get there."""


class StackEnvironment(Env[Observation, ArrayLike]):
    """The environment of ``Environment``, with a flight stack between the actions and the motors.

    Spaces, task, reward and end of an episode are the same.  A reset flies the vehicle back to the start, and
    begins a new flight where the last episode ended on the ground or disarmed.

    Args:
        autopilot: ``"px4"`` or ``"builtin"``.
        px4: PX4 checkout or build; None looks for one.
        airframe: by name, file or as an object.
        task: goals, reward and end; None for ``HoldPosition()``.
        actions: ``"velocity"``, ``"attitude"`` or ``"rates"``.
        world: where it flies.
        seed: of all random numbers of the simulation.
        period: s between actions, whole steps of 4 ms; 0.4 s at most, for PX4 leaves Offboard after 0.5 s.
        instance: of the flight stack; decides all ports.
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
        instance: int = 0,
        runs: str | Path = "runs",
    ) -> None:
        found = airframe_of(airframe)
        self.task = task or HoldPosition()
        if self.task.height <= 0.0:
            raise UserError("stack environment: the task's height must be above 0; the stack takes off to it")
        if actions not in LEVELS:
            raise UserError(f"actions: a flight stack takes {', '.join(LEVELS)}, not {actions!r}")
        self.level = action_level(actions, len(found.rotors))
        self._steps = round(period / 0.004)
        if not 1 <= self._steps <= 100 or abs(self._steps * 0.004 - period) > 1e-9:
            raise UserError(f"period: {period:g} s is no multiple of 0.004 s from 0.004 to 0.4 s")
        self._settings = FlightSettings(
            (
                VehicleSettings(
                    found, name="0", position=(0.0, 0.0, 0.0), instance=instance, autopilot=autopilot
                ),
            ),
            "environment",
            world=world_of(world).specification,
            seed=seed,
            speed=math.inf,
            px4=None if px4 is None else Path(px4),
            runs=Path(runs),
            on_stall="wait",
        )
        self.figures = observation_figures("truth", self.task)
        self.observation_space = observation_space(self.figures)
        self.action_space = action_space(self.level)
        self._session: ReadySession | None = None
        self._random = np.random.default_rng(seed)
        self._truth = np.zeros((1, TRUTH_SIZE))
        self._action = np.zeros((1, self.level.size))
        self._contacts, self._began, self._failed = 0, 0, False

    # ------------------------------------------------------------------ the flight

    @property
    def directory(self) -> Path:
        """Run directory of the present flight.

        Raises:
            UserError: before the first reset.
        """
        return self._flying().directory.path

    def _flying(self) -> ReadySession:
        if self._session is None:
            raise UserError("reset the environment first")
        return self._session

    def _take_off(self) -> None:
        """Start the flight stack, and climb to the start of the episodes."""
        self.close()
        session = ReadySession(self._settings)
        with compilation_shown():
            session.begin()
        self._session = session
        try:
            session.settle()
            self._commands = LinkCommands(session)
            ground = session.simulation.states["position"][0]
            self.task.prepare(np.array([[ground[0], ground[1], ground[2] - self.task.height]]))
            self._commands.target(0, position=(0.0, 0.0, -self.task.height), yaw=0.0)
            arm = mavlink.MAV_CMD_COMPONENT_ARM_DISARM
            self._commands.command(0, "arm", arm, 1.0, *[0.0] * 6)
        except BaseException:
            self.close()
            raise

    def _return(self) -> None:
        """Fly to the start of the episodes."""
        session = self._flying()
        state, aircraft = session.simulation.states[0], session.vehicles[0]
        self._commands.target(0, position=(0.0, 0.0, -self.task.height), yaw=0.0)

        def arrived() -> bool:
            # By its own estimate, which GPS errors take up to a metre or two from the truth.
            place = np.array(aircraft.monitor.status().position)
            away = np.linalg.norm(place - self._commands.target_of(0))
            return bool(away < ARRIVAL and np.linalg.norm(state["velocity"]) < STILL)

        self._commands.wait(
            arrived, ARRIVAL_LIMIT, "at the start of the episode", lambda: str(state["position"])
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
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
        if self._session is None or self._failed or not self._armed:
            self._take_off()
        self._return()
        session = self._flying()
        self._began, self._failed = session.now, False
        self._contacts = int(session.simulation.proximity[0]["contact_count"])
        draws = self._random.random((1, self.task.draws))
        motion = self.motion
        self.task.begin(np.ones(1, np.bool_), draws, motion)
        return self._observation(motion), {}

    @property
    def _armed(self) -> bool:
        return bool(self._flying().server.status().links[0].armed)

    @property
    def motion(self) -> VehicleMotion:
        """The true state of the vehicle."""
        session = self._flying()
        state, truth = session.simulation.states[0], self._truth[0]
        truth[0:3], truth[3:6] = state["position"], state["velocity"]
        truth[6:10] = state["attitude"] * (-1.0 if state["attitude"][0] < 0.0 else 1.0)
        truth[10:13] = state["angular_velocity"]
        hit = int(session.simulation.proximity[0]["contact_count"]) > self._contacts
        return VehicleMotion(
            self._truth,
            np.array([(session.now - self._began) * 1e-6]),
            self._action,
            np.array([int(state["in_contact"]) > 0]),
            np.array([hit]),
        )

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Fly until the next action.

        Args:
            action: (k,); what is beyond the limits of the space counts as the limit.

        Raises:
            UserError: for an action that does not fit, before the first reset, and when the flight ends.
        """
        given = np.asarray(action, dtype=np.float64)
        if given.shape != (self.level.size,) or not np.isfinite(given).all():
            raise UserError(f"step: action: {self.level.size} finite numbers are needed")
        self._flying()
        self._action[0] = np.clip(given, self.level.low, self.level.high)
        self._command(*self._action[0].tolist())
        self._commands.advance(self._steps)
        motion = self.motion
        terminated = bool(self.task.terminated(motion)[0]) or not self._armed
        truncated = not terminated and bool(motion.time[0] > self.task.duration - 0.5e-6)
        reward = float(self.task.reward(motion)[0])
        self._failed = terminated and bool(motion.on_ground[0] or motion.collided[0])
        return self._observation(motion), reward, terminated, truncated, {}

    def _command(self, *figures: float) -> None:
        if self.level.number == RATES:
            self._commands.attitude_target(0, figures[0], rates=figures[1:])
        elif self.level.number == ATTITUDE:
            roll, pitch, yaw = (0.5 * angle for angle in figures[1:])
            cr, sr, cp, sp = math.cos(roll), math.sin(roll), math.cos(pitch), math.sin(pitch)
            cy, sy = math.cos(yaw), math.sin(yaw)
            attitude = (
                cr * cp * cy + sr * sp * sy,
                sr * cp * cy - cr * sp * sy,
                cr * sp * cy + sr * cp * sy,
                cr * cp * sy - sr * sp * cy,
            )
            self._commands.attitude_target(0, figures[0], attitude=attitude)
        else:
            self._commands.target(0, velocity=figures[:3], yaw=figures[3])

    def _observation(self, motion: VehicleMotion) -> Observation:
        parts = [motion.truth, self.task.observe(motion)]
        seen: Observation = np.concatenate(parts, axis=1, dtype=np.float32)[0]
        return np.clip(seen, -LIMIT, LIMIT, out=seen)

    def close(self) -> None:
        """End the flight stack; safe to call twice."""
        if self._session is not None:
            session, self._session = self._session, None
            session.stop()
