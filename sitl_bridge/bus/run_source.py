"""What the bus needs from whatever runs a simulation.

``LockstepServer`` offers it, and ``FleetRun`` does for a fleet in this process.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sitl_bridge.hil.link_state import LinkState
from sitl_bridge.hil.link_status import LinkStatus, ServerStatus
from sitl_bridge.quantities import FASTEST_PACE, SLOWEST_PACE
from sitl_bridge.simulation import Simulation

if TYPE_CHECKING:
    from sitl_bridge.autopilot.stack_fleet import StackFleet


class Source(Protocol):
    """A simulation that runs, looked at and steered from another thread."""

    @property
    def simulation(self) -> Simulation:
        """World and vehicles; read at any time, changed only by what ``call`` runs."""
        ...

    @property
    def speed(self) -> float:
        """Simulated over wall time that is asked for; inf for no limit."""
        ...

    def status(self) -> ServerStatus:
        """What is going on, without stopping it."""
        ...

    def call(self, action: Callable[[], None]) -> None:
        """Run ``action`` between two steps, as soon as possible."""
        ...

    def set_speed(self, speed: float) -> None:
        """Simulated over wall time from now on."""
        ...

    def pause(self) -> None:
        """Hold simulated time."""
        ...

    def resume(self) -> None:
        """Let time run on."""
        ...

    def step(self, count: int = 1) -> None:
        """Pause, and take ``count`` steps more."""
        ...


class FleetRun:
    """An in-process fleet that can be looked at, paced, paused and steered while its owner advances it.

    A step here is an update of the fleet's commanders, some 50 ms of simulated time.

    Args:
        fleet: flown by :meth:`advance` alone from now on.
        speed: simulated over wall time; inf for as fast as it goes.
    """

    def __init__(self, fleet: StackFleet, speed: float = math.inf) -> None:
        self.fleet = fleet
        self.speed = speed
        self._condition = threading.Condition()
        self._calls: list[Callable[[], None]] = []
        self._paused = False
        self._steps_left = 0
        self._steps = 0
        self._due = time.monotonic()
        self._rate = (self._due, fleet.time, 0.0)

    @property
    def simulation(self) -> Simulation:
        """The fleet's."""
        return self.fleet.simulation

    def advance(self, ticks: int = 1) -> None:
        """Fly on by so many updates of the commanders, on the owner's thread."""
        for _ in range(ticks):
            self.advance_steps(self.fleet.steps_to_update)

    def advance_steps(self, count: int) -> None:
        """Fly on by so many steps, waiting while paused and keeping the pace; on the owner's thread."""
        self._wait_for_turn()
        before = self.fleet.time
        self.fleet.advance_steps(count)
        self._steps += 1
        self._keep_pace((self.fleet.time - before) * 1e-6)

    def _wait_for_turn(self) -> None:
        while True:
            with self._condition:
                while self._paused and not self._steps_left and not self._calls:
                    self._condition.wait()
                    self._due = time.monotonic()
                actions, self._calls = self._calls, []
            for action in actions:
                action()
            with self._condition:
                if not self._paused:
                    return
                if self._steps_left:
                    self._steps_left -= 1
                    return

    def _keep_pace(self, seconds: float) -> None:
        now = time.monotonic()
        wall, simulated, _ = self._rate
        if now - wall >= 1.0:
            self._rate = (now, self.fleet.time, (self.fleet.time - simulated) * 1e-6 / (now - wall))
        if math.isinf(self.speed):
            return
        self._due = max(self._due + seconds / self.speed, now - 0.5)
        if self._due > now:
            time.sleep(self._due - now)

    def call(self, action: Callable[[], None]) -> None:
        """Run ``action`` on the owner's thread before the next update."""
        with self._condition:
            self._calls.append(action)
            self._condition.notify()

    def set_speed(self, speed: float) -> None:
        """Simulated over wall time from now on.

        Raises:
            ValueError: for a finite speed outside SLOWEST_PACE to FASTEST_PACE.
        """
        if not (SLOWEST_PACE <= speed <= FASTEST_PACE or speed == math.inf):
            raise ValueError(f"a speed factor is {SLOWEST_PACE:g} to {FASTEST_PACE:g} or inf, not {speed}")
        self.speed, self._due = speed, time.monotonic()

    def pause(self) -> None:
        """Hold time after the present update."""
        with self._condition:
            self._paused, self._steps_left = True, 0

    def resume(self) -> None:
        """Let time run on."""
        with self._condition:
            self._paused = False
            self._condition.notify()

    def step(self, count: int = 1) -> None:
        """Pause, and take ``count`` updates more.

        Raises:
            ValueError: for a count below 1.
        """
        if count < 1:
            raise ValueError(f"a number of steps is at least 1, not {count}")
        with self._condition:
            self._steps_left = count + (self._steps_left if self._paused else 0)
            self._paused = True
            self._condition.notify()

    def status(self) -> ServerStatus:
        """What is going on; the figures may be an update apart."""
        simulation, states = self.simulation, self.simulation.states
        capacity = simulation.vehicles["battery_capacity"]
        left = np.ones(len(states))
        np.divide(states["battery_charge"], capacity, out=left, where=np.isfinite(capacity))
        links = tuple(
            LinkStatus(port=0, state=LinkState.LOCKSTEP, answers=self._steps, armed=bool(armed))
            for armed in simulation.armed
        )
        return ServerStatus(
            time=(simulation.time - simulation.start) * 1e-6,
            steps=self._steps,
            real_time_factor=self._rate[2],
            paused=self._paused,
            links=links,
            position=states["position"].copy(),
            velocity=states["velocity"].copy(),
            battery=np.stack([states["battery_voltage"], states["battery_current"], left], axis=1),
        )
