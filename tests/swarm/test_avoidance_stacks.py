"""Avoidance flown by flight stacks: on their own estimates, by offboard setpoints, judged by the truth."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from support.paths import MISSIONS
from support.swarm_scenarios import load_avoidance

from sitl_bridge.api.in_process import InProcessStacks
from sitl_bridge.base.errors import ConfigurationError
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.session.avoidance_flight import GRACE, EndCondition, summary, write
from sitl_bridge.session.identified_models import identified_model
from sitl_bridge.session.scenario_settings import scenario_settings
from sitl_bridge.session.session import Session
from sitl_bridge.session.settings import FlightOptions, FlightSettings, VehicleSettings
from sitl_bridge.session.swarm_vehicles import SwarmVehicles
from sitl_bridge.swarm.avoidance.agent import ControlCommand
from sitl_bridge.swarm.avoidance.closed_loop import Flight, has_succeeded
from sitl_bridge.swarm.avoidance.solver import PlanStatus
from sitl_bridge.swarm.avoidance.specification import (
    AvoidanceSpecification,
    RouteSpecification,
    check_launch,
    lasting_deviation,
)
from sitl_bridge.swarm.avoidance.swarm import Swarm, commanded_acceleration, rehearse
from sitl_bridge.swarm.formation.patterns import closest_pair
from sitl_bridge.swarm.interface import States

DEVIATION = 0.03
TICK = 48_000
"""us, how often the built-in stack takes up what it is told."""


def planned(name: str) -> AvoidanceSpecification:
    scenario = load_avoidance(MISSIONS / f"{name}.yaml")
    known = identified_model("iris_rtk", "builtin")
    assert known is not None
    return scenario.with_model(known.model)


def fly_in_process(scenario: AvoidanceSpecification, seed: int) -> tuple[Flight, float, float]:
    """A flight on built-in stacks in this process; the least true distance, and the farthest from a goal."""
    plans = scenario.plans()
    places = np.array([plan.start() for plan in plans])
    ground = places * (1.0, 1.0, 0.0)
    airframe = load_airframe("iris_rtk")
    vehicles = tuple(
        VehicleSettings(airframe, p.name, (g[0], g[1], 0.0)) for p, g in zip(plans, ground, strict=True)
    )
    stacks = InProcessStacks(FlightSettings(vehicles, "avoidance", seed=seed), record=False)
    fleet = SwarmVehicles(stacks.commands, lambda _line: None, TICK)
    fleet.take_off(places, np.array([plan.heading for plan in plans]))
    swarm = Swarm(scenario, stacks.now + 1_000_000, DEVIATION, seed)
    true = stacks.simulation.states["position"]
    least = [math.inf]

    def watch(_states: States) -> None:
        least[0] = min(least[0], closest_pair(true)[0])

    end = swarm.start + round(1e6 * scenario.duration)
    fleet.fly(swarm, lambda: end, watch)
    goals = np.array([plan.goal() for plan in plans])
    away = float(np.linalg.norm(true - goals, axis=1).max())
    stacks.close()
    return swarm.flight(), least[0], away


def test_a_flight_ends_when_all_have_stayed_at_their_goals_for_a_while() -> None:
    scenario = planned("crossing_pair")
    goals = np.array([plan.goal() for plan in scenario.plans()])
    begun, planned_end = 5_000_000, 5_000_000 + round(1e6 * scenario.duration)
    latest = planned_end + round(1e6 * GRACE)
    end = EndCondition(scenario, begun)
    zero = np.zeros((2, 3))

    def at(time: int, beside: float, alive: tuple[bool, bool] = (True, True)) -> int:
        position = goals + (beside * scenario.tolerance, 0.0, 0.0) * np.array([[0.0], [1.0]])
        end.update(States(time, position, zero, np.zeros(2), np.array(alive), np.zeros((2, 2))))
        return end()

    assert at(planned_end, 1.1) == latest
    assert at(planned_end + 100_000, 0.9) == latest, "it has only come there"
    assert at(planned_end + 1_000_000, 0.9) == latest
    assert at(planned_end + 1_100_000, 0.9) == planned_end
    assert at(planned_end + 1_140_000, 1.1) == latest, "it has swung out again"
    assert at(planned_end + 2_000_000, 3.0, (True, False)) == latest
    assert at(planned_end + 3_000_000, 3.0, (True, False)) == planned_end, (
        "one that is gone is not waited for"
    )


def test_a_pair_crosses_on_the_built_in_stack_and_the_flight_is_the_same_when_flown_again() -> None:
    scenario = planned("crossing_pair").model_copy(update={"duration": 8.0})
    flight, distance, away = fly_in_process(scenario, 1)
    assert distance > scenario.controller.distances.threshold
    assert away < 0.5  # 0.3 m by their own estimates, and what these are wrong by
    assert has_succeeded(flight)
    assert set(flight.statuses) == {PlanStatus.SOLVED}
    again, _, _ = fly_in_process(scenario, 1)
    assert np.array_equal(flight.state, again.state)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_six_swap_places_on_the_built_in_stack(seed: int) -> None:
    scenario = planned("swap_six").model_copy(update={"duration": 15.0})
    flight, distance, away = fly_in_process(scenario, seed)
    assert distance > scenario.controller.distances.minimum
    assert away < 0.5
    assert has_succeeded(flight)


def test_the_commanded_acceleration_is_that_of_the_attitude_and_thrust() -> None:
    tilted = ControlCommand(0.0, -0.1, 0.0, 0.0, 9.80665 / math.cos(0.1), PlanStatus.SOLVED)
    # Nose down by 0.1 rad with the weight carried: g tan 0.1 along the heading.
    forward = 9.80665 * math.tan(0.1)
    assert commanded_acceleration(tilted, 0.0) == pytest.approx((forward, 0.0, 0.0), abs=1e-12)
    assert commanded_acceleration(tilted, math.pi / 2) == pytest.approx((0.0, forward, 0.0), abs=1e-12)
    banked = ControlCommand(0.1, 0.0, 0.0, 0.0, 9.80665 / math.cos(0.1), PlanStatus.SOLVED)
    assert commanded_acceleration(banked, 0.0) == pytest.approx((0.0, forward, 0.0), abs=1e-12)


def test_lasting_errors_of_two_vehicles_widen_their_distance() -> None:
    scenario = planned("crossing_pair")
    sure, unsure = (Swarm(scenario, 0, deviation) for deviation in (0.0, 0.1))
    zero, yaw, two = np.zeros((2, 3)), np.zeros(2), np.ones(2, np.bool_)
    place = np.array([plan.start() for plan in scenario.plans()])
    for swarm in (sure, unsure):
        for k in range(10):
            swarm.tick(States(k * 50_000, place, zero, yaw, two, np.zeros((2, 2))))
    found = [
        swarm.agents[0].neighbourhood.entities(500_000)[0]["position_variance"] for swarm in (sure, unsure)
    ]
    assert np.sqrt(found[1]) - np.sqrt(found[0]) == pytest.approx([0.2] * 3)


def test_a_vehicle_that_is_gone_is_told_nothing_and_tells_nothing() -> None:
    scenario = planned("crossing_pair")
    swarm = Swarm(scenario, 0, DEVIATION)
    place = np.array([plan.start() for plan in scenario.plans()])
    alive = np.array([True, False])
    for k in range(10):
        states = States(k * 50_000, place, np.zeros((2, 3)), np.zeros(2), alive, np.zeros((2, 2)))
        told = swarm.tick(states)
    assert np.isnan(told.position[1]).all()
    assert np.isfinite(told.position[0]).all()
    assert len(swarm.agents[0].neighbourhood.entities(500_000)) == 0


def test_the_certainty_follows_from_the_receiver_unless_the_scenario_says_it() -> None:
    scenario = planned("crossing_pair")
    assert 0.03 < lasting_deviation(scenario, load_airframe("iris_rtk")) < 0.04
    # 0.2 m/s at 5 Hz over a correlation time of 60 s makes 0.49 m of height (airframes/iris.yaml).
    assert lasting_deviation(scenario, load_airframe("iris")) == pytest.approx(0.49, abs=0.01)
    given = scenario.model_copy(update={"position_deviation": 0.2})
    assert lasting_deviation(given, load_airframe("iris")) == 0.2


def pair(*routes: tuple[tuple[float, float, float], ...]) -> AvoidanceSpecification:
    plans = tuple(RouteSpecification(name=f"v{i}", points=route) for i, route in enumerate(routes))
    return AvoidanceSpecification(name="pair", duration=20.0, routes=plans)


@pytest.mark.parametrize(
    ("scenario", "deviation", "words"),
    [
        (pair(((0, 0, -5), (9, 0, -5)), ((0, 0, -8), (9, 5, -8))), 0.03, "stand 0.00 m apart"),
        (pair(((0, 0, -5), (9, 0, -0.5)), ((0, 5, -5), (9, 5, -5))), 0.03, "leads 0.5 m above the ground"),
        (pair(((0, 0, -5), (9, 0, -5)), ((0, 3, -5), (9, 5, -5))), 0.49, "start 3.00 m apart; 3.84 m keep"),
        (pair(((0, 0, -5), (9, 0, -5)), ((0, 5, -5), (9, 1, -5))), 0.03, "end 1.00 m apart; 1.08 m keep"),
    ],
)
def test_what_cannot_begin_or_end_safely_is_refused(
    scenario: AvoidanceSpecification, deviation: float, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        check_launch(scenario, deviation, "here")


def test_the_shipped_scenarios_become_fleets_that_stand_below_their_first_points() -> None:
    for name, count in (("swap_six", 6), ("crossing_pair", 2), ("priority_swap", 6), ("gate_swarm", 4)):
        settings = scenario_settings(MISSIONS / f"{name}.yaml", FlightOptions(autopilot="builtin", seed=5))
        assert len(settings.vehicles) == count
        assert settings.limits["separation"] == 0.9
        assert settings.avoidance == planned(name)
        assert settings.seed == 5
        starts = [plan.start() for plan in load_avoidance(MISSIONS / f"{name}.yaml").plans()]
        assert [v.position for v in settings.vehicles] == [(n, e, 0.0) for n, e, _ in starts]


def test_a_flight_is_kept_as_summary_and_tracks(tmp_path: Path) -> None:
    scenario = planned("crossing_pair")
    rehearse(scenario, DEVIATION)
    swarm = Swarm(scenario, 0, DEVIATION)
    place = np.array([plan.start() for plan in scenario.plans()])
    for k in range(5):
        swarm.tick(
            States(k * 50_000, place, np.zeros((2, 3)), np.zeros(2), np.ones(2, np.bool_), np.zeros((2, 2)))
        )
    flight = swarm.flight()
    write(flight, tmp_path)
    kept = json.loads((tmp_path / "summary.json").read_text())
    assert kept == summary(flight)
    assert kept["plans"] == {"solved": 10}
    assert kept["least_distance_m"] == pytest.approx(math.hypot(5.0, 5.0))
    assert np.load(tmp_path / "tracks.npz")["state"].shape == (5, 2, 9)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_pair_crosses_on_two_built_in_stacks_over_their_links(tmp_path: Path) -> None:
    choices = FlightOptions(autopilot="builtin", speed=2.0, instance=72, runs=tmp_path, seed=1)
    least = fly_fleet(MISSIONS / "crossing_pair.yaml", choices)
    assert least > 1.2


def fly_fleet(file: Path, choices: FlightOptions) -> float:
    """Fly as ``sitl-bridge fly`` does, with success; m between the nearest two in truth."""
    session = Session(scenario_settings(file, choices), print)
    with session:
        session.fly()
    outcome = session.conclude()
    assert outcome.succeeded, outcome.reason
    assert outcome.closest is not None
    kept = json.loads((session.directory.path / "summary.json").read_text())
    assert kept["closest"]["distance_m"] == outcome.closest.distance
    flown = json.loads((session.directory.path / "avoidance" / "summary.json").read_text())
    assert None not in flown["arrival_s"]
    assert all(record is not None and one.impact_speed < 1.0 for one, record in outcome.vehicles)
    return outcome.closest.distance


@pytest.mark.px4
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_six_real_px4s_swap_places(seed: int, tmp_path: Path) -> None:
    choices = FlightOptions(autopilot="px4", speed=1.0, instance=62, runs=tmp_path, seed=seed)
    assert fly_fleet(MISSIONS / "swap_six.yaml", choices) > 0.9


@pytest.mark.px4
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["crossing_pair", "priority_swap", "gate_swarm", "poles_swap"])
def test_real_px4s_fly_the_other_scenarios(name: str, tmp_path: Path) -> None:
    choices = FlightOptions(autopilot="px4", speed=1.0, instance=62, runs=tmp_path)
    assert fly_fleet(MISSIONS / f"{name}.yaml", choices) > 0.9
