from __future__ import annotations

from sitl_bridge.flight.avoidance.closed_loop import fly
from sitl_bridge.flight.avoidance.scenario import Scenario, VehiclePlan
from sitl_bridge.flight.avoidance.solver import Status

CROSSING = Scenario(
    name="crossing",
    duration=8.0,
    vehicles=(
        VehiclePlan(name="a", route=((-5.0, 0.0, -5.0), (5.0, 0.0, -5.0))),
        VehiclePlan(name="b", route=((0.0, -5.0, -5.0), (0.0, 5.0, -5.0))),
    ),
)


def test_a_crossing_pair_keeps_its_distance_by_the_potential_alone() -> None:
    flight = fly(CROSSING)
    assert flight.distances().min() > CROSSING.controller.distances.threshold
    assert not flight.active.any()
    assert set(flight.statuses) == {Status.SOLVED}
    assert flight.arrival().max() < 7.0
