"""A formation flight on the quick simulator, and its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sitl_bridge.base.arrays import Columns, Floats, Ints, Mask
from sitl_bridge.core.simulation.events import OnEvent, ignore_event
from sitl_bridge.swarm.formation.events import EventQueue, LeaveEvent, StallEvent
from sitl_bridge.swarm.formation.formation import Formation, FormationLogEntry
from sitl_bridge.swarm.formation.leave_and_rejoin import Action
from sitl_bridge.swarm.formation.patterns import closest_pair
from sitl_bridge.swarm.formation.specification import FormationPlan
from sitl_bridge.swarm.interface import States
from sitl_bridge.swarm.point_mass import PointMassFleet

PERIOD = 20_000
"""Interval between two setpoints, us."""

ROW_INTERVAL = 100_000
"""Interval between two rows of a recording, us."""

SETTLING_TIME = 2.0
"""Time after a move within which every vehicle must reach its slot, s."""

STEADY_ACCELERATION, STEADY_TURN = 0.05, 0.02
"""Acceleration (m/s^2) and turn rate (rad/s) below which the centre is steady: within SETTLING_TIME they move
a vehicle by less than 0.1 m and a slot at ten metres by less than 0.4 m."""

MAX_SLOT_ERROR = 0.5
"""Largest distance from the slot after that time, m."""


class FormationRecording:
    """Records a formation flight, ten rows a second; for any fleet, as the ``watch`` of ``fly``."""

    def __init__(self, formation: Formation) -> None:
        self.formation = formation
        self._next = 0
        # time in us, positions, slots and errors, closest pair, leader
        self._rows: list[tuple[int, Floats, Floats, Floats, tuple[float, int, int], int]] = []

    def __call__(self, states: States) -> bool:
        """Store a row when it is due; return whether it was."""
        if states.time < self._next:
            return False
        self._next = states.time + ROW_INTERVAL
        slots = self.formation.slots(states)
        errors = self.formation.slot_errors(states, slots)
        who = np.flatnonzero(states.alive)
        distance, i, j = closest_pair(states.position[who])
        closest = (distance, int(who[i]), int(who[j])) if len(who) > 1 else (distance, 0, 0)
        leader = next(iter(self.formation.leaders), -1)
        self._rows.append((states.time, states.position, slots, errors, closest, leader))
        return True

    @property
    def has_flown(self) -> bool:
        """Whether there is a row."""
        return bool(self._rows)

    def result(self, plan: FormationPlan, *, ended: bool = True) -> FormationResult:
        """Return the result of a flight; ended: whether it was flown to its end."""
        start = self.formation.started_at
        time, position, slot, error, closest, leader = zip(*self._rows, strict=True)
        distance = np.array([row[0] for row in closest])
        return FormationResult(
            plan,
            (np.array(time) - start) * 1e-6,
            np.stack(position),
            np.stack(error),
            distance,
            closest[int(np.argmin(distance))][1:],
            start,
            tuple(self.formation.events),
            np.stack(slot),
            np.array(leader),
            ended,
        )


@dataclass(frozen=True)
class FormationResult:
    """FormationResult of a formation flight."""

    plan: FormationPlan  # the plan
    time: Floats  # (k,) s since the start
    position: Floats  # (k, n, 3) m NED
    error: Floats  # (k, n) m from the slot, relative to the leader's position; nan outside the formation
    separation: Floats  # (k,) m between the closest pair
    nearest: tuple[int, int]  # the closest pair of the flight
    start: int  # us of the fleet's clock
    events: tuple[FormationLogEntry, ...] = field(default=())  # events of the formation
    # (k, n, 3) m NED, slots relative to the leader's position
    slot: Floats = field(default_factory=lambda: np.zeros((0, 0, 3)))
    leader: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # (k,) leading vehicle, -1 for none
    ended: bool = True  # whether it was flown to its end

    @property
    def settled(self) -> Mask:
        """(k,) rows at which all must be in their slots: no move, and none ended within SETTLING_TIME."""
        free = self.time >= 0.0
        for move in self.plan.choreography.moves[1:]:
            free &= (self.time < move.start * 1e-6) | (self.time >= move.over * 1e-6 + SETTLING_TIME)
        return free

    @property
    def steady(self) -> Mask:
        """(k,) settled rows whose centre has not accelerated or turned for SETTLING_TIME."""
        moments = np.arange(-SETTLING_TIME, self.plan.duration, 0.05)
        centre = self.plan.path.at(np.clip(moments, self.plan.path.time[0], self.plan.path.time[-1]))
        restless = (np.linalg.norm(centre.acceleration, axis=1) > STEADY_ACCELERATION) | (
            np.abs(centre.yaw_rate) > STEADY_TURN
        )
        last = np.maximum.accumulate(np.where(restless, moments, -np.inf))
        row = np.clip(np.searchsorted(moments, self.time, side="right") - 1, 0, len(moments) - 1)
        steady: Mask = self.settled & (self.time - last[row] >= SETTLING_TIME)
        return steady

    @property
    def worst_steady_error(self) -> float:
        """Largest error with a steady centre, m; nan if there was no such time."""
        return worst(self.error[self.steady])

    @property
    def worst_settled_error(self) -> float:
        """Largest error in settled rows, m; nan if there was no such time."""
        return worst(self.error[self.settled])

    @property
    def least_separation(self) -> float:
        """m."""
        return float(self.separation.min())

    @property
    def reason(self) -> str:
        """Why it has failed: vehicles out of their slots when required, or two too close; else empty.

        Those in formation are required to be in their slots while the centre is steady; if none ever is,
        whenever no move is in progress; a formation that is ordered down before that never.
        """
        steady = self.worst_steady_error
        error = steady if np.isfinite(steady) else self.worst_settled_error
        near, least = self.least_separation, self.plan.limits.separation
        found = [] if self.ended else [f"it was broken off {self.time[-1]:.0f} s after its start"]
        found += [] if near >= least else [f"two vehicles were {near:.2f} m apart, less than {least:g} m"]
        if error > MAX_SLOT_ERROR:
            found.append(f"a vehicle was {error:.2f} m from its slot, more than {MAX_SLOT_ERROR:g} m")
        elif np.isnan(error) and self.settled.any():
            found.append("no vehicle was in the formation any more")
        return "; ".join(found)

    @property
    def succeeded(self) -> bool:
        """Whether all vehicles were in their slots when required, and no two too close."""
        return not self.reason

    def summary(self) -> dict[str, float | int | bool | list[str]]:
        """Return the summary for display and for ``summary.json``."""
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

    def tracks(self) -> Columns:
        """Return the columns of the tracks file."""
        return {
            "time": self.time, "position": self.position, "slot_error": self.error,
            "separation": self.separation, "slot": self.slot, "leader": self.leader,
            "steady": self.steady, "settled": self.settled,
        }  # fmt: skip


def worst(errors: Floats) -> float:
    """Return the largest of slot errors in m; nan if none is known."""
    return float(np.nanmax(errors)) if np.isfinite(errors).any() else float("nan")


def _who(event: FormationLogEntry) -> str:
    return "" if event.vehicle < 0 else f"vehicle {event.vehicle}: "


def play_due(
    events: EventQueue,
    formation: Formation,
    now: int,
    stop: Callable[[int, int | None], None],
    abort: Callable[[int, Action], None],
    on_event: OnEvent = ignore_event,
) -> None:
    """Execute the events that are due at ``now`` (us).

    Args:
        now: us of the fleet's clock.
        stop: makes a vehicle silent and without setpoints until a time in us, None for ever.
        abort: makes a vehicle leave.
        on_event: notes that a vehicle falls silent.
    """
    for vehicle, event in events.take_due((now - formation.started_at) / 1e6):
        if isinstance(event, LeaveEvent):
            if formation.present[vehicle]:
                abort(vehicle, event.action)
        else:
            on_event(event, True, [vehicle])
            stop(vehicle, now + round(1e6 * event.lasts) if isinstance(event, StallEvent) else None)


def fly_quick(plan: FormationPlan) -> FormationResult:
    """Fly a formation with its events on point masses, which start in their slots in the air."""
    formation = plan.formation()
    fleet = PointMassFleet(plan.places, yaw=float(plan.path.yaw[0]))
    recording = FormationRecording(formation)
    events = EventQueue(plan.events)
    until = formation.behaviour.notice + round(1e6 * plan.duration)

    while True:
        states = fleet.states()
        setpoints = formation.tick(states)
        if not formation.started_at:
            formation.start()
        play_due(events, formation, states.time, fleet.stop, formation.abort)
        recording(states)
        if states.time >= until:
            return recording.result(plan)
        fleet.command(setpoints)
        fleet.advance(min(states.time + PERIOD, until))
