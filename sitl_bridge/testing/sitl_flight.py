"""A flight that a test flies: commands by their meaning, the truth, statements about it, its run directory.

Simulated time stands still between commands.  The two ways to fly are built_in_flight.py, in this process,
and linked_flight.py, with processes of PX4 or the built-in stack.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sitl_bridge.analysis.evaluation.verdict import Verdict
from sitl_bridge.base.error_log import ErrorLog, print_error
from sitl_bridge.base.errors import UserError
from sitl_bridge.testing.flight_assertions import Array, FlightAssertions
from sitl_bridge.testing.flight_choice import FlightChoice

LAST_MESSAGES = 12
SLOW = 0.5
"""m/s below which a vehicle counts as having come to a halt; from there PX4 stops within 0.05 m
(MPC_ACC_HOR, 3 m/s^2)."""


class SitlFlight(FlightAssertions):
    """Vehicles on the ground that are ready to arm, and what a test does with them.

    Positions are NED in m from the world's origin.  States have one row a vehicle; a flight of one vehicle
    (``sitl``) has no first axis.

    Attributes:
        choice: what is flown.
        directory: of the run, with its logs.
        verdict: on the flight, once it is finished.
    """

    choice: FlightChoice
    directory: Path
    verdict: Verdict | None = None

    # ------------------------------------------------------------------ to be given by the way to fly

    @property
    @abstractmethod
    def flown_by(self) -> str:
        """The flight stack, in words."""

    @property
    @abstractmethod
    def time(self) -> float:
        """s of simulated time since the test took the flight over."""

    @abstractmethod
    def _state(self, name: str) -> Any:
        """(n, ...) a column of the true states."""

    @property
    @abstractmethod
    def _modes(self) -> tuple[str, ...]: ...

    @property
    @abstractmethod
    def urls(self) -> tuple[str, ...]:
        """Where MAVSDK reaches each vehicle; from the first use on, simulated time passes by itself."""

    @abstractmethod
    def run(self, seconds: float) -> None:
        """Let simulated time pass."""

    @abstractmethod
    def arm(self) -> None:
        """Arm all vehicles."""

    @abstractmethod
    def disarm(self, *, force: bool = False) -> None:
        """Stop the motors; ``force`` does so in the air, too."""

    @abstractmethod
    def takeoff(self, height: float, *, limit: float = 60.0) -> None:
        """Climb by ``height`` m, and wait until the vehicles hold there."""

    @abstractmethod
    def _lead(self, positions: Array | None, velocities: Array | None, yaw: float) -> None:
        """Fly to places or with velocities, (n, 3); yaw in rad, nan keeps the heading."""

    @property
    @abstractmethod
    def _distance_left(self) -> Array:
        """(n,) m to the places that the vehicles fly to, by their own estimates."""

    @abstractmethod
    def hold(self) -> None:
        """Stop and hold."""

    @abstractmethod
    def land(self, *, limit: float = 120.0) -> None:
        """Land here, and wait until the vehicles have disarmed."""

    @abstractmethod
    def return_home(self, *, limit: float = 300.0) -> None:
        """Fly to the place of take-off, land there, and wait until the vehicles have disarmed."""

    @abstractmethod
    def messages(self) -> list[str]:
        """Texts of the flight stacks with their times, oldest first."""

    @abstractmethod
    def finish(self, reason: str) -> list[tuple[str, Path]]:
        """End the flight and write its summary; safe to call twice.

        Args:
            reason: why the test failed; empty where it passed.

        Returns:
            what is where.
        """

    @abstractmethod
    def close(self) -> None:
        """End the flight without a summary; safe to call twice."""

    # ------------------------------------------------------------------ states

    def _shown(self, rows: Any) -> Any:
        return rows[0] if len(self.names) == 1 else rows

    @property
    def position(self) -> Array:
        """(n, 3) m NED from the world's origin; true, not estimated."""
        return self._shown(self._state("position"))  # type: ignore[no-any-return]

    @property
    def velocity(self) -> Array:
        """(n, 3) m/s NED, true."""
        return self._shown(self._state("velocity"))  # type: ignore[no-any-return]

    @property
    def attitude(self) -> Array:
        """(n, 4) quaternion w, x, y, z, body FRD to NED, true."""
        return self._shown(self._state("attitude"))  # type: ignore[no-any-return]

    @property
    def armed(self) -> Any:
        """Whether the motors may turn, by vehicle."""
        return self._shown(self._armed)

    @property
    def mode(self) -> Any:
        """Flight mode, by vehicle."""
        return self._shown(self._modes)

    @property
    def url(self) -> str:
        """Where MAVSDK reaches the vehicle; of a fleet use ``urls``."""
        if len(self.names) != 1:
            raise UserError("url: these are several vehicles; use urls")
        return self.urls[0]

    @property
    def says(self) -> Sequence[str]:
        """Texts of the flight stacks so far, with their times."""
        return self.messages()

    # ------------------------------------------------------------------ commands that all ways share

    def goto(
        self,
        position: ArrayLike,
        yaw: float | None = None,
        *,
        within: float = 0.5,
        limit: float = 60.0,
        fly_by: bool = False,
        wait: bool = True,
    ) -> None:
        """Fly to a place and stop there.

        Args:
            position: m NED from the world's origin; (n, 3) gives each vehicle its own.
            yaw: rad from north, clockwise; None keeps the heading.
            within: m of the place, by the vehicles' own estimates, where they have arrived.
            limit: s of simulated time for that.
            fly_by: whether to return as soon as each vehicle has been there, whatever its speed; otherwise
                each has also slowed down to less than 0.5 m/s there.
            wait: whether to wait for that at all.

        Raises:
            UserError: for a vehicle that refuses, or has not arrived in time.
        """
        targets = self._places(position)
        self._lead(targets, None, math.nan if yaw is None else yaw)
        if not wait:
            return
        arrived = np.zeros(len(self.names), np.bool_)

        def done() -> bool:
            speeds = np.linalg.norm(self._state("velocity"), axis=-1)
            arrived[(self._distance_left <= within) & (fly_by | (speeds < SLOW))] = True
            return bool(arrived.all())

        self._wait_until(
            done,
            limit,
            lambda: (
                f"not {'' if fly_by else 'slow and '}within {within:g} m of the place within {limit:g} s: "
                f"{', '.join(f'{x:.2f} m' for x in self._distance_left)} away, {self.state_in_words}"
            ),
        )

    def set_velocity(self, velocity: ArrayLike, yaw: float | None = None) -> None:
        """Fly with a velocity in m/s NED; returns at once, ``run`` lets time pass."""
        self._lead(None, self._places(velocity), math.nan if yaw is None else yaw)

    def run_until(self, condition: Callable[[Self], Any], limit: float = 60.0) -> None:
        """Let simulated time pass until ``condition(flight)`` holds, looked at every 48 ms.

        Raises:
            UserError: when it has not become true within ``limit`` s.
        """
        self._wait_until(
            lambda: bool(np.all(condition(self))),
            limit,
            lambda: f"the condition has not become true within {limit:g} s; {self.state_in_words}",
        )

    def _wait_until(self, done: Callable[[], bool], limit: float, why_not: Callable[[], str]) -> None:
        end = self.time + limit
        while not done():
            if self.time >= end:
                raise UserError(why_not())
            self.run(0.048)

    @property
    def state_in_words(self) -> str:
        """Armed or not, mode and place of each vehicle."""
        words = []
        for i, name in enumerate(self.names):
            who = f"vehicle {name}: " if len(self.names) > 1 else ""
            north, east, down = self._state("position")[i]
            armed = "armed" if self._armed[i] else "disarmed"
            words.append(f"{who}{armed}, in {self._modes[i]}, at ({north:.2f}, {east:.2f}, {down:.2f})")
        return "; ".join(words)

    def describe(self) -> list[str]:
        """What a person who looks at a failed test wants to know, in lines."""
        lines = [
            f"flown by {self.flown_by}, seed {self.choice.seed}",
            f"at {self.time:.1f} s: {self.state_in_words}",
        ]
        said = self.messages()[-LAST_MESSAGES:]
        return [*lines, *(["last messages:", *[f"  {line}" for line in said]] if said else ["no messages"])]


def report_page(directory: Path) -> list[tuple[str, Path]]:
    """Write the report of a run that has ended: what it is, and the file; nothing where that fails."""
    # Plots take half a second to load, which only a test that fails waits for.
    from sitl_bridge.analysis.evaluation.run_record import read_run
    from sitl_bridge.analysis.report.report_page import write_report
    from sitl_bridge.analysis.report.reported_run import report

    written: list[tuple[str, Path]] = []
    with ErrorLog(print_error).guard(f"writing of the report of {directory}"):
        page = write_report(report([read_run(directory)]), directory / "report.html")
        written.append(("report", page))
    return written
