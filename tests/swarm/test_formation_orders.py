"""Orders to a formation in flight: other slots, vehicles that leave, and how orders get there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from support.fleet_loop import fly

from sitl_bridge.base.errors import UserError
from sitl_bridge.live.run.messages import FormationTarget
from sitl_bridge.session.formation_flight import FormationFlight
from sitl_bridge.session.live_orders import Orders
from sitl_bridge.session.swarm_vehicles import SwarmVehicles
from sitl_bridge.swarm.formation.formation import Formation
from sitl_bridge.swarm.formation.live_orders import redirect, require_free_descent
from sitl_bridge.swarm.formation.patterns import closest_pair, pattern
from sitl_bridge.swarm.formation.specification import (
    FormationPlan,
    FormationSection,
    LimitsSpecification,
    MoveSection,
    PathSection,
    PatternSection,
    Waypoint,
    plan_formation,
)
from sitl_bridge.swarm.interface import States
from sitl_bridge.swarm.point_mass import PointMassFleet

Array = NDArray[np.float64]


def target(**values: object) -> FormationTarget:
    return FormationTarget.model_validate({"version": 1, "request_id": "r"} | values)


@pytest.fixture
def plan() -> FormationPlan:
    """Nine that stand 10 m up in a grid, and are to be a column after 30 s."""
    return plan_formation(
        FormationSection(
            start=PatternSection(pattern="grid", spacing=3.0),
            leader=PathSection(waypoints=(Waypoint(position=(0.0, 0.0, -10.0), hold=60.0),)),
            patterns=(MoveSection(at=30.0, pattern="column", spacing=3.0),),
            limits=LimitsSpecification(height=(2.0, 15.0)),
        ),
        9,
        Path(),
    )


class Flown:
    """A formation under way on the quick simulator."""

    def __init__(self, plan: FormationPlan) -> None:
        self.plan, self.formation = plan, plan.formation()
        self.fleet = PointMassFleet(plan.places)
        self.states: States = self.fleet.states()
        self.least = np.inf
        self.fly(5.0)

    def fly(self, seconds: float) -> None:
        fly(self.formation, self.fleet, self.states.time + round(seconds * 1e6), self._watch)

    def _watch(self, states: States) -> None:
        if not self.formation.started_at:
            self.formation.start()
        self.states = states
        self.least = min(self.least, closest_pair(states.position)[0])

    def obey(self, **values: Any) -> None:
        redirect(self.plan, self.formation, **values)

    def slots(self) -> Array:
        """(n, 3) m of the vehicles from their middle, in the order of their places."""
        return ordered(self.states.position)


def ordered(slots: Array) -> Array:
    away = slots - slots.mean(axis=0)
    rows: Array = away[np.lexsort(np.round(away, 1).T)]
    return rows


def test_an_order_takes_the_place_of_changes_that_are_planned(plan: FormationPlan) -> None:
    flown = Flown(plan)
    flown.obey(pattern="cube", spacing=5.0)
    flown.fly(15.0)
    assert flown.slots() == pytest.approx(ordered(pattern("cube", 9, 5.0)), abs=0.1)
    flown.obey(scale=1.2)
    flown.fly(25.0)  # the planned column would have been taken meanwhile
    assert flown.slots() == pytest.approx(ordered(pattern("cube", 9, 6.0)), abs=0.1)
    line = [[0.0, 2.0 * k, 0.0] for k in range(9)]
    flown.obey(offsets=line)
    flown.fly(20.0)
    assert flown.slots() == pytest.approx(ordered(np.array(line)), abs=0.1)
    assert flown.least > 1.0


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"pattern": "cube", "spacing": 0.5}, "widen the spacing"),
        ({"pattern": "blob"}, "no pattern is called"),
        ({"scale": 0.1}, "m apart"),
        ({"offsets": [[0.0, 0.0, 0.0]]}, "1 slots for 9 vehicles"),
        ({"pattern": "cube", "spacing": 12.0}, "height"),
        ({"offsets": [[0.0, 2.0 * k, 9.0 if k == 4 else 0.0] for k in range(9)]}, "height"),
    ],
)
def test_an_unsafe_order_is_refused_and_the_plan_stays(
    plan: FormationPlan, values: dict[str, object], reason: str
) -> None:
    flown = Flown(plan)
    with pytest.raises(UserError, match=reason):
        flown.obey(**values)
    assert [move.name for move in plan.choreography.moves] == ["start", "column"]


def test_those_that_are_left_take_another_pattern(plan: FormationPlan) -> None:
    flown = Flown(plan)
    flown.formation.abort(4, "hold")
    flown.obey(pattern="column", spacing=3.0)
    flown.fly(25.0)
    rest = np.delete(flown.states.position, 4, axis=0)
    assert ordered(rest) == pytest.approx(ordered(pattern("column", 8, 3.0)), abs=0.1)


def test_nobody_is_sent_down_onto_another(plan: FormationPlan) -> None:
    states = Flown(plan).states
    require_free_descent(0, "land", states)
    states.position[3] = states.position[0] + (0.5, 0.0, 4.0)
    with pytest.raises(UserError, match=r"vehicle 3 flies 4\.0 m below"):
        require_free_descent(0, "land", states)
    require_free_descent(0, "hold", states)
    require_free_descent(3, "land", states)
    with pytest.raises(UserError, match=r"vehicle 0 flies 4\.0 m above"):
        require_free_descent(3, "return", states)


@pytest.mark.parametrize(
    "values",
    [{}, {"pattern": "cube", "scale": 2.0}, {"scale": 0.0}, {"scale": 2.0, "spacing": 3.0}],
)
def test_an_order_says_one_thing(values: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"give exactly one of|greater than 0|spacing applies only"):
        target(**values)


def test_orders_are_carried_out_or_refused_between_two_ticks_of_the_formation() -> None:
    orders = Orders()
    with pytest.raises(UserError, match="not started"):
        orders.ask("land", {}, None)
    taken: list[tuple[str, Mapping[str, Any], int | None]] = []

    def execute(kind: str, data: Mapping[str, Any], vehicle: int | None) -> None:
        if kind == "land":
            raise UserError("not now")
        taken.append((kind, data, vehicle))

    orders.open(execute)
    away = {"version": 1, "request_id": "a", "action": "return"}
    answers = [orders.ask("abort", away, 7), orders.ask("land", {}, None)]
    assert not any(answer.done() for answer in answers)
    orders.serve()
    assert answers[0].result(0.0) is None
    assert taken == [("abort", away, 7)]
    with pytest.raises(UserError, match="not now"):
        answers[1].result(0.0)


def test_orders_to_a_formation_that_ends_are_refused_also_those_that_wait() -> None:
    orders = Orders()
    orders.open(lambda _kind, _data, _vehicle: None)
    waits = orders.ask("formation", {"pattern": "cube"}, None)
    orders.close("the formation lands")
    with pytest.raises(UserError, match="lands"):
        waits.result(0.0)
    with pytest.raises(UserError, match="lands"):
        orders.ask("formation", {"pattern": "cube"}, None)


def test_the_lines_of_a_flight_name_the_vehicles(plan: FormationPlan) -> None:
    said: list[str] = []

    def fly_two_ticks(
        formation: Formation, _end: object, each: Callable[..., None], _between: object
    ) -> None:
        states = PointMassFleet(plan.places).states()
        for now in (states, replace(states, alive=np.arange(9) != 1)):
            formation.tick(now)
            each(now)

    names = tuple("abcdefghi")
    vehicles = SimpleNamespace(say=said.append, fly=fly_two_ticks, stacks=SimpleNamespace(now=0, names=names))
    FormationFlight(plan, cast("SwarmVehicles", vehicles)).fly()
    assert said[1:] == ["vehicle b is gone"]
