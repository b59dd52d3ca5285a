"""Vehicles that a formation steers, on made-up flight stacks: take-off, set-points, who is lost, landing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.made_up_stacks import GROUND, Ends, MadeUp

from sitl_bridge.base.errors import UserError
from sitl_bridge.session.formation_flight import fly_formation
from sitl_bridge.session.scenario import load_scenario
from sitl_bridge.session.swarm_vehicles import SwarmVehicles
from sitl_bridge.swarm.formation.specification import FormationPlan
from sitl_bridge.swarm.interface import Setpoints, States

INTERVAL = 40_000
PLACES = np.array(GROUND) - (0.0, 0.0, 4.0)


class Eastward:
    """Set-points that move east at 2 m/s from PLACES, but not of vehicles that are gone."""

    def __init__(self, begun: int) -> None:
        self.begun = begun

    def tick(self, states: States) -> Setpoints:
        told = Setpoints.none(3)
        seconds = (states.time - self.begun) * 1e-6
        for i in np.flatnonzero(states.alive).tolist():
            told.position[i] = PLACES[i] + (0.0, 2.0 * seconds, 0.0)
            told.velocity[i] = (0.0, 2.0, 0.0)
        return told


def fleet_in_the_air() -> tuple[SwarmVehicles, MadeUp, list[str]]:
    stacks, said = MadeUp(), list[str]()
    fleet = SwarmVehicles(stacks, said.append, INTERVAL)
    fleet.take_off(PLACES, 0.0)
    said.clear()
    return fleet, stacks, said


def fly(fleet: SwarmVehicles, seconds: float) -> None:
    end = fleet.stacks.now + round(1e6 * seconds)
    fleet.fly(Eastward(fleet.stacks.now), lambda: end)


def test_vehicles_climb_to_their_places_and_fly_by_setpoints_at_equal_times() -> None:
    fleet, stacks, said = fleet_in_the_air()
    assert stacks.position == pytest.approx(PLACES, abs=0.01)
    assert stacks.modes == ["Offboard"] * 3
    stacks.sent.clear()
    fly(fleet, 1.0)
    assert np.diff([time for time, _ in stacks.sent]).tolist() == [INTERVAL] * (len(stacks.sent) - 1)
    # A set-point holds for 40 ms, and is of their middle.
    assert stacks.position[:, 1] - PLACES[:, 1] == pytest.approx(2.0 * (0.96 + 0.02))
    assert not said


def test_setpoints_go_on_while_a_vehicle_is_given_a_command() -> None:
    fleet, stacks, said = fleet_in_the_air()
    fly(fleet, 0.2)
    stacks.sent.clear()
    fleet.leave(1, "hold")
    assert stacks.modes[1] == "Hold"
    assert all(targets[0] is not None and targets[1] is None for _, targets in stacks.sent)
    assert stacks.sent
    assert said == ["vehicle 1 leaves the fleet: hold"]


def test_a_vehicle_that_falls_silent_or_is_taken_over_is_lost_and_named_once() -> None:
    fleet, stacks, said = fleet_in_the_air()
    stacks.names = ("a", "b", "c")
    stacks.silent.add(1)
    stacks.modes[2] = "Return"
    fly(fleet, 0.5)
    changed = "vehicle c changed to Return, by itself or by another's command"
    assert said == ["vehicle b sends no telemetry any more", changed]
    assert fleet.states().alive.tolist() == [True, False, False]
    fleet.leave(1, "land")
    assert said[-1] == "vehicle b cannot be commanded to land: it sends no telemetry"
    stacks.silent.clear()
    assert fleet.states().alive.tolist() == [True, True, False]
    stacks.armed[0] = False
    fly(fleet, 0.5)
    assert said[-1] == "vehicle a disarmed"


def test_a_vehicle_that_another_sends_set_points_does_not_come_back() -> None:
    fleet, stacks, _ = fleet_in_the_air()
    stacks.modes[1] = stacks.modes[2] = "Position"
    fly(fleet, 0.2)
    stacks.taken_over.add(2)
    stacks.modes[1] = stacks.modes[2] = "Offboard"
    fly(fleet, 0.2)
    assert fleet.states().alive.tolist() == [True, True, False]


def test_a_muted_vehicle_comes_back_to_its_setpoints() -> None:
    fleet, stacks, said = fleet_in_the_air()
    fleet.mute(2, stacks.now + 200_000)
    stacks.modes[2] = "Hold"
    fly(fleet, 0.1)
    fleet.unmute()
    assert not fleet.states().alive[2]
    fly(fleet, 0.2)
    fleet.unmute()
    assert fleet.states().alive.all()
    assert stacks.modes[2] == "Offboard"
    assert not said


def test_a_vehicle_that_leaves_offboard_mode_in_the_climb_ends_it() -> None:
    stacks = MadeUp()

    def fail(line: str) -> None:
        if "climbing" in line:
            stacks.modes[1] = "Land"

    fleet = SwarmVehicles(stacks, fail, INTERVAL)
    with pytest.raises(
        UserError, match=r"vehicle 1 \(iris\) left offboard mode or disarmed during the climb"
    ):
        fleet.take_off(PLACES, 0.0)


def test_vehicles_that_refuse_do_not_keep_the_others_from_landing() -> None:
    fleet, stacks, said = fleet_in_the_air()
    stacks.refuses.add((0, "land"))
    with pytest.raises(UserError, match=r"^0\.4 m apart; vehicle 0 \(iris\) refuses to land: denied$"):
        fleet.finish("0.4 m apart")
    assert said == ["landing", "vehicle 1: landed and disarmed", "vehicle 2: landed and disarmed"]
    assert stacks.armed == [True, False, False]


def test_a_vehicle_that_was_taken_out_and_stays_in_the_air_is_told_of() -> None:
    fleet, stacks, said = fleet_in_the_air()
    fleet.leave(1, "hold")
    fleet.land()
    assert not stacks.is_armed(0)
    assert "vehicle 1 stays in the air, in mode Hold: it was taken out" in said


def test_vehicles_in_the_air_hold_when_the_flight_fails() -> None:
    fleet, stacks, said = fleet_in_the_air()
    stacks.refuses.add((0, "switch to Hold"))
    with pytest.raises(UserError, match="lost"), fleet.hold_on_failure():
        raise UserError("lost")
    assert said == ["vehicles in the air hold their position"]
    assert stacks.modes == ["Offboard", "Hold", "Hold"]
    assert stacks.targets == [None] * 3


def formation(file: Path, duration: int, spacing: float) -> FormationPlan:
    """Three in a column of some spacing, m, for some seconds."""
    file.write_text(
        "vehicles: [{airframe: iris, count: 3}]\n"
        f"formation:\n  count: 3\n  start: {{pattern: column, spacing: 5}}\n  duration: {duration}\n"
        f"  leader: {{waypoints: [{{position: [0, 0, -4], hold: {duration}}}]}}\n"
        f"  patterns: [{{at: 0, pattern: column, spacing: {spacing}}}]\n"
    )
    plan = load_scenario(file).formation
    assert plan is not None
    return plan


def test_what_a_formation_flew_before_it_was_broken_off_is_kept(tmp_path: Path) -> None:
    plan, stacks = formation(tmp_path / "line.yaml", 60, 5), Ends()
    with pytest.raises(UserError, match="the simulation stopped"):
        fly_formation(plan, stacks, stacks.say, tmp_path / "formation")
    kept = json.loads((tmp_path / "formation" / "summary.json").read_text())
    assert not kept["succeeded"]
    assert 5.0 < kept["duration_s"] < 40.0
    assert np.load(tmp_path / "formation" / "tracks.npz")["position"].shape[1:] == (3, 3)


@pytest.mark.parametrize("spacing", [5.0, 1.2])
def test_what_a_formation_flew_is_kept_when_it_cannot_land_or_spread_for_it(
    tmp_path: Path, spacing: float
) -> None:
    plan, stacks = formation(tmp_path / "line.yaml", 10, spacing), Ends()
    with pytest.raises(UserError, match="the simulation stopped"):
        fly_formation(plan, stacks, stacks.say, tmp_path / "formation")
    kept = json.loads((tmp_path / "formation" / "summary.json").read_text())
    assert 9.0 < kept["duration_s"] < 15.0
