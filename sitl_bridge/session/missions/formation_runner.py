"""Flies a formation file with running vehicles: real PX4, the built-in stack, or both.

``python -m sitl_bridge.session.missions.formation_runner FILE --instances 0..8``, or :func:`fly_formation`
with the
connection URLs of the vehicles.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from sitl_bridge.analysis.evaluation.formation import write_result
from sitl_bridge.base.errors import UserError
from sitl_bridge.live.bus.messages import RUN_COMMANDS, VEHICLE_COMMANDS, Abort, FormationTarget, Land
from sitl_bridge.session.missions.mavsdk_fleet import MavsdkFleet
from sitl_bridge.session.missions.mavsdk_vehicle import SETPOINT_RATE, MissionFailedError
from sitl_bridge.session.missions.mission_script import run_coroutine
from sitl_bridge.session.missions.orders_pipe import receive_orders
from sitl_bridge.session.missions.swarm_flight import (
    clear_to_land,
    connect_fleet,
    finish,
    in_the_air,
    parse,
    swarm_command_line,
    until_landed,
)
from sitl_bridge.session.missions.swarm_vehicle import Place, Say
from sitl_bridge.session.scenario import load_formation
from sitl_bridge.swarm.formation.events import EventQueue, LeaveEvent
from sitl_bridge.swarm.formation.leave_and_rejoin import Action
from sitl_bridge.swarm.formation.live_orders import SlotsOrder, redirect, require_free_descent
from sitl_bridge.swarm.formation.patterns import pattern
from sitl_bridge.swarm.formation.specification import FormationPlan
from sitl_bridge.swarm.interface import Setpoints, States, fly_async
from sitl_bridge.swarm.quick_simulation import SETTLING_TIME, FormationRecording, FormationResult

LANDING_SPACING = 3.0
"""m between vehicles that land side by side."""

SLOW_ATTITUDE = 5.0
"""Hz of attitudes that no setpoint depends on."""


async def fly_formation(
    plan: FormationPlan,
    urls: Sequence[str],
    say: Say = print,
    *,
    systems: Sequence[int] | None = None,
    origin: Place | None = None,
    surveyed: bool = False,
    orders: int | None = None,
    flown: Callable[[FormationResult], None] = lambda _result: None,
) -> FormationResult:
    """Fly a formation with vehicles that stand at its starting positions, and land them.

    Of the formation's events, only those that make vehicles leave it are allowed.

    Args:
        plan: of ``load_formation``.
        urls: connection URL of each vehicle, in the formation's order; see ``connect_fleet``.
        say: receives lines for the user.
        systems: MAVLink system id of each vehicle; needed if vehicles share a URL.
        origin: the plan's origin, deg and m AMSL; None computes it from the vehicles' positions.
        surveyed: whether the vehicles stand exactly at the planned starting positions; else their positions
            are those of their own receivers.
        orders: file descriptor of an ``OrdersPipe`` for live orders.
        flown: receives the flight before the vehicles land.

    Returns:
        the flight from the start on, by the vehicles' own estimates.

    Raises:
        MissionFailedError: if the vehicles cannot fly it, with the vehicle and the reason.
    """
    for event in plan.events:
        if not isinstance(event, LeaveEvent):
            raise MissionFailedError(
                f"{event.kind} at {event.at:g} s: in flight a formation cannot silence a vehicle; "
                "let its flight stack fail instead"
            )
    if len(urls) != plan.choreography.count:
        raise MissionFailedError(
            f"the formation has {plan.choreography.count} vehicles, but {len(urls)} are given"
        )
    # The vehicles' headings matter only if another program flies the leader.
    rate = SETPOINT_RATE if plan.specification.leader.flown else SLOW_ATTITUDE
    async with contextlib.AsyncExitStack() as stack:
        fleet = await stack.enter_async_context(connect_fleet(urls, say, systems=systems, attitude_rate=rate))
        say(f"connected to {len(fleet)} vehicles")
        flight = _Flight(plan, fleet)
        if orders is not None:
            await stack.enter_async_context(_receiving_orders(orders, flight))
        yaw = float(plan.path.yaw[0])
        async with in_the_air(fleet, plan.places, yaw, origin=origin, surveyed=surveyed):
            result = await flight.fly()
            flown(result)
    return result


class _Flight:
    """A formation flight, from the starting positions to landing positions side by side."""

    def __init__(self, plan: FormationPlan, fleet: MavsdkFleet) -> None:
        self.plan, self.fleet = plan, fleet
        self.formation = plan.formation()
        self.recording = FormationRecording(self.formation)
        self._events = EventQueue(plan.events)
        self._leaving: list[asyncio.Task[None]] = []
        self._printed = 0
        self._states: States | None = None
        self._phase = "has not started yet"
        self._planned_end = 0

    async def fly(self) -> FormationResult:
        formation, fleet = self.formation, self.fleet
        notice = formation.behaviour.notice
        self._planned_end = round(fleet.time * 1e6) + notice + round(1e6 * self.plan.duration)
        await fleet.steer(formation, self._end, self._watch)
        self._phase = "lands"
        result = self.recording.result(self.plan)
        fleet.say(verdict(result))
        await self._spread()
        for task in self._leaving:
            await task
        return result

    def _end(self) -> int:
        """us of the fleet's clock: end of the plan, of an ordered change, or 0 if all are ordered to land."""
        if self._phase == "lands":
            return 0
        over = self.formation.choreography.moves[-1].over + round(1e6 * SETTLING_TIME)
        return max(self._planned_end, self.formation.started_at + over)

    def execute(self, kind: str, data: Mapping[str, Any], vehicle: int | None) -> None:
        """Execute an order: the data of the bus command of that kind.

        Raises:
            UserError: if it is not possible or not safe.
        """
        if self._phase or self._states is None:
            raise UserError(f"the formation {self._phase or 'has not started yet'}")
        known = RUN_COMMANDS if vehicle is None else VEHICLE_COMMANDS
        try:
            order = known[kind].model_validate_json(json.dumps(data))
        except ValidationError as error:
            raise UserError(str(error)) from error
        match order:
            case FormationTarget():
                redirect(
                    SlotsOrder(order.pattern, order.spacing, order.scale, order.offsets),
                    self.plan,
                    self.formation,
                )
            case Abort() if vehicle is not None:
                require_free_descent(vehicle, order.action, self._states)
                self._abort(vehicle, order.action)
            case Land():
                self.fleet.say("landing of all vehicles was ordered")
                self._phase = "lands"
            case _:
                raise UserError(f"{kind} is not an order for a formation")

    def _watch(self, states: States, setpoints: Setpoints) -> None:
        formation = self.formation
        self._states = states
        if not formation.started_at:
            formation.start()
            self._phase = ""
        for vehicle, event in self._events.take_due((states.time - formation.started_at) / 1e6):
            if isinstance(event, LeaveEvent) and formation.present[vehicle]:
                self._abort(vehicle, event.action)
        self.recording(states, setpoints)
        for note in formation.events[self._printed :]:
            vehicle_name = "" if note.vehicle < 0 else f"vehicle {note.vehicle} "
            self.fleet.say(f"[{note.time * 1e-6:9.2f} s] {vehicle_name}{note.text}")
        self._printed = len(formation.events)

    def _abort(self, vehicle: int, action: Action) -> None:
        self.formation.abort(vehicle, action)
        order = self.fleet.abort(vehicle, action)
        self._leaving.append(asyncio.get_running_loop().create_task(order))

    async def _spread(self) -> None:
        """Move the vehicles apart, into a grid, if they are too close together for landing."""
        states = self.fleet.states()
        members = self.formation.members & states.alive
        if not self.formation.leaders or clear_to_land(states.position[members]):
            return
        side_by_side = pattern("grid", int(members.sum()), LANDING_SPACING)
        move = self.formation.redirect("grid", lambda *_: side_by_side)
        over = self.formation.started_at + move.over + round(1e6 * SETTLING_TIME)
        await fly_async(self.formation, self.fleet, over)


@contextlib.asynccontextmanager
async def _receiving_orders(orders: int, flight: _Flight) -> AsyncIterator[None]:
    """Let a flight execute live orders within a ``with`` block."""
    task = asyncio.create_task(receive_orders(orders, flight.execute))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


# ---------------------------------------------------------------- from the command line


def main(arguments: list[str] | None = None) -> int:
    """Fly a formation; exit codes are those of mission scripts."""
    description = "Fly the formation of a scenario file with running vehicles, and land them."
    parser = swarm_command_line(description, "scenario file with a formation: section")
    parser.add_argument("--seed", type=int, help="seed of the radio's losses (default: the file's)")
    parser.add_argument("--orders", type=int, metavar="FD", help=argparse.SUPPRESS)
    options = parse(parser, arguments)
    return run_coroutine(lambda: _fly(options))


async def _fly(options: argparse.Namespace) -> None:
    # Present objects are permanent: the garbage collector need not examine them in flight.
    gc.freeze()
    flown: list[FormationResult] = []
    landing = await until_landed(
        fly_formation(
            load_formation(options.file, seed=options.seed),
            options.url,
            lambda line: print(line, flush=True),
            systems=options.system,
            origin=options.origin,
            surveyed=options.surveyed,
            orders=options.orders,
            flown=flown.append,
        ),
        flown,
    )
    result = flown[0]
    finish(
        options.output,
        "formation",
        lambda directory: write_result(result, directory),
        succeeded=result.succeeded,
        verdict=verdict(result),
        landing=landing,
    )


def verdict(result: FormationResult) -> str:
    """Result of a flight in one line."""
    return (
        f"worst slot error {result.worst_steady_error:.2f} m while the centre moved steadily, "
        f"{result.worst_settled_error:.2f} m between moves; least separation {result.least_separation:.2f} m"
    )


if __name__ == "__main__":
    sys.exit(main())
