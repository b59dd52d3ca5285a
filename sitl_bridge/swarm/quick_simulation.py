"""A formation's flight on the quick simulator, and how well it went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.swarm.formation.conduct import Event
from sitl_bridge.swarm.formation.formation import Formation
from sitl_bridge.swarm.formation.formation_events import EventQueue, LeaveEvent, StallEvent
from sitl_bridge.swarm.formation.formation_specification import FormationPlan
from sitl_bridge.swarm.formation.patterns import closest_pair
from sitl_bridge.swarm.interface import Setpoints, States, fly
from sitl_bridge.swarm.point_mass import PointMassFleet

Array: TypeAlias = NDArray[np.float64]

ROW = 100_000
"""us between two rows of a recording."""

SETTLED = 2.0
"""s after a move by which every vehicle has to be in its slot."""

STEADY_ACCELERATION, STEADY_TURN = 0.05, 0.02
"""m/s^2 and rad/s below which the centre counts as steady: what moves a vehicle by less than 0.1 m and a slot
ten metres off by less than 0.4 m within SETTLED."""

SLOT_ERROR = 0.5
"""m from its slot that a vehicle may then be."""


class FormationRecording:
    """Keeps what a formation did, ten rows a second; works for any fleet, as the ``watch`` of ``fly``."""

    def __init__(self, formation: Formation) -> None:
        self.formation = formation
        self._next = 0
        self._time: list[int] = []
        self._position: list[Array] = []
        self._error: list[Array] = []
        self._separation: list[tuple[float, int, int]] = []
        self._slot: list[Array] = []
        self._leader: list[int] = []

    def __call__(self, states: States, told: Setpoints) -> bool:
        """Take a row when it is due; whether it was."""
        del told
        if states.time < self._next:
            return False
        self._next = states.time + ROW
        self._time.append(states.time)
        self._position.append(states.position)
        self._error.append(self.formation.slot_errors(states))
        self._slot.append(self.formation.slots(states))
        self._leader.append(next(iter(self.formation.leaders), -1))
        who = np.flatnonzero(states.alive)
        distance, i, j = closest_pair(states.position[who])
        self._separation.append((distance, int(who[i]), int(who[j])) if len(who) > 1 else (distance, 0, 0))
        return True

    def result(self, plan: FormationPlan) -> FormationResult:
        """What came of it."""
        start = self.formation.started_at
        distance = np.array([row[0] for row in self._separation])
        worst = int(np.argmin(distance))
        return FormationResult(
            plan,
            (np.array(self._time) - start) * 1e-6,
            np.stack(self._position),
            np.stack(self._error),
            distance,
            self._separation[worst][1:],
            start,
            tuple(self.formation.events),
            np.stack(self._slot),
            np.array(self._leader),
        )


@dataclass(frozen=True)
class FormationResult:
    """How a formation flew.

    Attributes:
        plan: what was to be flown.
        time: (k,) s since the start.
        position: (k, n, 3) m NED.
        error: (k, n) m from the slot, as the leader's place has it; nan for who is not in formation.
        separation: (k,) m between the nearest two.
        nearest: the two that came nearest.
        start: us of the fleet's clock.
        events: what happened.
        slot: (k, n, 3) m NED, where each had its slot, as the leader's place has it.
        leader: (k,) who led, -1 nobody.
    """

    plan: FormationPlan
    time: Array
    position: Array
    error: Array
    separation: Array
    nearest: tuple[int, int]
    start: int
    events: tuple[Event, ...] = field(default=())
    slot: Array = field(default_factory=lambda: np.zeros((0, 0, 3)))
    leader: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def settled(self) -> NDArray[np.bool_]:
        """(k,) rows at which all have to be in their slots: no move, and none over for less than SETTLED."""
        free = self.time >= 0.0
        for move in self.plan.choreography.moves[1:]:
            free &= (self.time < move.start * 1e-6) | (self.time >= move.over * 1e-6 + SETTLED)
        return free

    @property
    def steady(self) -> NDArray[np.bool_]:
        """(k,) rows that are settled and whose centre has neither sped up nor turned for SETTLED."""
        moments = np.arange(-SETTLED, self.plan.duration, 0.05)
        centre = self.plan.path.at(np.clip(moments, self.plan.path.time[0], self.plan.path.time[-1]))
        restless = (np.linalg.norm(centre.acceleration, axis=1) > STEADY_ACCELERATION) | (
            np.abs(centre.yaw_rate) > STEADY_TURN
        )
        last = np.maximum.accumulate(np.where(restless, moments, -np.inf))
        row = np.clip(np.searchsorted(moments, self.time, side="right") - 1, 0, len(moments) - 1)
        steady: NDArray[np.bool_] = self.settled & (self.time - last[row] >= SETTLED)
        return steady

    @property
    def worst_steady_error(self) -> float:
        """m; nan where there was no such moment."""
        rows = self.error[self.steady]
        return float(np.nanmax(rows)) if np.isfinite(rows).any() else float("nan")

    @property
    def worst_settled_error(self) -> float:
        """m; nan where there was no such moment."""
        rows = self.error[self.settled]
        return float(np.nanmax(rows)) if np.isfinite(rows).any() else float("nan")

    @property
    def least_separation(self) -> float:
        """m."""
        return float(self.separation.min())

    @property
    def succeeded(self) -> bool:
        """Whether all were in their slots when they had to be, and nobody came too close.

        They have to be when the centre is steady; where it never is, whenever no move is on.
        """
        separate = self.least_separation >= self.plan.limits.separation
        error = self.worst_steady_error if self.steady.any() else self.worst_settled_error
        return separate and error <= SLOT_ERROR

    def summary(self) -> dict[str, float | int | bool | list[str]]:
        """For people and machines."""
        moves = self.plan.choreography.moves[1:]
        return {
            "vehicles": self.position.shape[1],
            "started_at_s": self.start * 1e-6,
            "duration_s": float(self.time[-1]),
            "patterns": [move.name for move in moves],
            "succeeded": self.succeeded,
            "worst_slot_error_settled_m": self.worst_settled_error,
            "worst_slot_error_steady_m": self.worst_steady_error,
            "least_separation_m": self.least_separation,
            "events": [f"{(e.time - self.start) * 1e-6:.2f} s: {_who(e)}{e.text}" for e in self.events],
        }

    def tracks(self) -> dict[str, NDArray[Any]]:
        """Columns of the tracks, as they are written."""
        return {
            "time": self.time, "position": self.position, "slot_error": self.error,
            "separation": self.separation, "slot": self.slot, "leader": self.leader,
            "steady": self.steady, "settled": self.settled,
        }  # fmt: skip


def _who(event: Event) -> str:
    return "" if event.vehicle < 0 else f"vehicle {event.vehicle}: "


def play_due(
    events: EventQueue, formation: Formation, now: int, stop: Callable[[int, int | None], None]
) -> None:
    """Carry out the events that are due at ``now`` (us) in a simulation.

    Args:
        events: to come.
        formation: whose vehicles leave.
        now: us of the fleet's clock.
        stop: lets a vehicle send nothing and take no setpoints until a time in us, None for good.
    """
    for vehicle, event in events.take_due((now - formation.started_at) / 1e6):
        if isinstance(event, LeaveEvent):
            if formation.present[vehicle]:
                formation.abort(vehicle, event.action)
        else:
            stop(vehicle, now + round(1e6 * event.lasts) if isinstance(event, StallEvent) else None)


def fly_quick(plan: FormationPlan, progress: Callable[[float], None] | None = None) -> FormationResult:
    """Fly a formation with its events on point masses, which begin in their places in the air.

    Args:
        plan: of ``load_formation`` or ``plan_formation``.
        progress: called with the time in s since the start, ten times a second.
    """
    formation = plan.formation()
    quick = plan.specification.quick
    fleet = PointMassFleet(plan.places, quick.model(), yaw=float(plan.path.yaw[0]))
    recording = FormationRecording(formation)
    events = EventQueue(plan.specification.events)
    until = formation.conduct.notice + round(1e6 * plan.duration)

    def watch(states: States, told: Setpoints) -> None:
        if not formation.started_at:
            formation.start()
        play_due(events, formation, states.time, fleet.stop)
        recording(states, told)
        if progress is not None and states.time % ROW == 0:
            progress((states.time - formation.started_at) * 1e-6)

    fly(formation, fleet, until, round(1e6 / quick.rate), watch)
    return recording.result(plan)
