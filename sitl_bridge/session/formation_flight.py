"""Formations flown by flight stacks, PX4 or the built-in one, from the ground to the ground."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from sitl_bridge.analysis.evaluation.formation import write_result
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import ReadJson
from sitl_bridge.core.simulation.events import OnEvent, ignore_event
from sitl_bridge.live.run.messages import RUN_COMMANDS, VEHICLE_COMMANDS, Abort, FormationTarget, Land
from sitl_bridge.session.live_orders import Orders
from sitl_bridge.session.stacks import FlightStacks
from sitl_bridge.session.swarm_vehicles import SwarmVehicles, is_clear_to_land
from sitl_bridge.swarm.formation.events import EventQueue
from sitl_bridge.swarm.formation.leave_and_rejoin import Action
from sitl_bridge.swarm.formation.live_orders import redirect, require_free_descent
from sitl_bridge.swarm.formation.patterns import pattern
from sitl_bridge.swarm.formation.specification import FormationPlan
from sitl_bridge.swarm.interface import States
from sitl_bridge.swarm.quick_simulation import SETTLING_TIME, FormationRecording, FormationResult, play_due

LANDING_SPACING = 3.0
"""m between vehicles that land side by side."""
INTERVAL = 20_000
"""us between set-points over a link; the built-in stack reads them every BUILTIN_INTERVAL."""
BUILTIN_INTERVAL = 48_000
"""us likewise within this process."""
POSITIONS, HEADINGS = 25.0, 5.0
"""Hz of positions and attitudes over a link."""


class FormationFlight:
    """A formation flight, from the starting places to landing places side by side.

    Live orders change a copy of the plan.  ``on_event`` notes vehicles that fall silent.
    """

    def __init__(
        self,
        plan: FormationPlan,
        vehicles: SwarmVehicles,
        orders: Orders | None = None,
        on_event: OnEvent = ignore_event,
    ) -> None:
        self.plan = copy.deepcopy(plan)
        self.vehicles, self._orders, self._on_event = vehicles, orders or Orders(), on_event
        self.formation = self.plan.formation()
        self.recording = FormationRecording(self.formation)
        self._events = EventQueue(plan.events)
        self._printed = 0
        self._states: States | None = None
        self._ordered_down = self._ended = False
        self._planned_end = 0

    def fly(self, watch: Callable[[bool], None] = lambda _stored: None) -> FormationResult:
        """Fly from the starting places to the end of the plan, or of what is ordered.

        Args:
            watch: called each tick; True with those that the recording has stored.

        Raises:
            UserError: when the simulation fails, or a vehicle refuses to leave.
        """
        vehicles, formation = self.vehicles, self.formation

        def each(states: States) -> None:
            self._states = states
            if not formation.started_at:
                formation.start()
                self._orders.open(self.execute)
            stored = self.recording(states)
            for note in formation.events[self._printed :]:
                name = "" if note.vehicle < 0 else f"vehicle {vehicles.stacks.names[note.vehicle]} "
                vehicles.say(f"{name}{note.text}")
            self._printed = len(formation.events)
            watch(stored)

        notice = formation.behaviour.notice
        self._planned_end = vehicles.stacks.now + notice + round(1e6 * self.plan.duration)
        try:
            vehicles.fly(formation, self._end, each, self._between)
        finally:
            self._orders.close("the formation lands")
        self._ended = True
        return self.result()

    def result(self) -> FormationResult:
        """Result of what was flown so far."""
        return self.recording.result(self.plan, ended=self._ended)

    def _end(self) -> int:
        """us: end of the plan, of an ordered change, or 0 if all are ordered to land."""
        if self._ordered_down:
            return 0
        over = self.formation.choreography.moves[-1].over + round(1e6 * SETTLING_TIME)
        return max(self._planned_end, self.formation.started_at + over)

    def _between(self) -> None:
        vehicles = self.vehicles
        now = vehicles.stacks.now
        play_due(self._events, self.formation, now, vehicles.mute, self._abort, self._on_event)
        vehicles.unmute()
        self._orders.serve()

    def execute(self, kind: str, data: ReadJson, vehicle: int | None) -> None:
        """Execute an order: the data of the bus command of that kind.

        Raises:
            UserError: if it is not possible or not safe.
        """
        assert self._states is not None
        if self._ordered_down:
            raise UserError("the formation lands")
        known = RUN_COMMANDS if vehicle is None else VEHICLE_COMMANDS
        try:
            order = known[kind].model_validate_json(json.dumps(dict(data)))
        except ValidationError as error:
            raise UserError(str(error)) from error
        match order:
            case FormationTarget():
                slots = order.model_dump(include={"pattern", "spacing", "scale", "offsets"})
                redirect(self.plan, self.formation, **slots)
            case Abort() if vehicle is not None:
                require_free_descent(vehicle, order.action, self._states)
                self._abort(vehicle, order.action)
            case Land():
                self.vehicles.say("landing of all vehicles was ordered")
                self._ordered_down = True
            case _:
                raise UserError(f"{kind} is not an order for a formation")

    def _abort(self, vehicle: int, action: Action) -> None:
        self.formation.abort(vehicle, action)
        self.vehicles.leave(vehicle, action)

    def spread(self) -> None:
        """Move the vehicles apart, into a grid, if they are too close together for landing.

        Raises:
            UserError: when the simulation fails.
        """
        states = self.vehicles.states()
        members = self.formation.members & states.alive
        if not self.formation.leaders or is_clear_to_land(states.position[members]):
            return
        side_by_side = pattern("grid", int(members.sum()), LANDING_SPACING)
        move = self.formation.redirect("grid", lambda *_: side_by_side)
        over = self.formation.started_at + move.over + round(1e6 * SETTLING_TIME)
        self.vehicles.fly(self.formation, lambda: over)


def fly_formation(
    plan: FormationPlan,
    stacks: FlightStacks,
    say: Callable[[str], None],
    directory: Path,
    orders: Orders | None = None,
    on_event: OnEvent = ignore_event,
) -> FormationResult:
    """Fly a formation with vehicles that stand at its starting places, land them, and write the result.

    Args:
        stacks: of the vehicles, in the formation's order.
        directory: of the result; a vehicle that does not land, or a flight that has failed or was broken off,
            is in it, too.
        on_event: notes vehicles that fall silent.

    Raises:
        UserError: if the vehicles cannot fly it, with the vehicle and the reason, or have not flown it well.
    """
    vehicles = SwarmVehicles(stacks, say, INTERVAL)
    flight = FormationFlight(plan, vehicles, orders, on_event)
    try:
        with vehicles.hold_on_failure():
            vehicles.take_off(plan.places, float(plan.path.yaw[0]))
            result = flight.fly()
            say(verdict(result))
            flight.spread()
        vehicles.finish(result.reason)
    finally:
        if flight.recording.has_flown:
            write_result(flight.result(), directory)
    return result


def verdict(result: FormationResult) -> str:
    """Result of a flight in one line."""
    worst = {
        "while the centre moved steadily": result.worst_steady_error,
        "between moves": result.worst_settled_error,
    }
    errors = ", ".join(f"{error:.2f} m {when}" for when, error in worst.items() if np.isfinite(error))
    least = f"least separation {result.least_separation:.2f} m"
    return f"worst slot error {errors}; {least}" if errors else least
