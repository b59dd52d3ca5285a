"""The same formation code on full dynamics, by the built-in flight stack's own estimates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sitl_bridge.autopilot.fleet import Fleet, Member
from sitl_bridge.config.airframe import load_airframe
from sitl_bridge.flight.formation.built_in import BuiltInFlock
from sitl_bridge.flight.formation.flock import Setpoints, States, fly
from sitl_bridge.flight.formation.patterns import closest_pair
from sitl_bridge.flight.formation.quick import Recording, Result
from sitl_bridge.flight.formation.scenario import FormationPlan, load_formation
from sitl_bridge.world.world import World

MISSIONS = Path(__file__).resolve().parent.parent / "missions"


def fly_built_in(plan: FormationPlan, seed: int = 1) -> tuple[Result, float]:
    """Take off and fly; the result by the vehicles' estimates, and the least true separation in m."""
    ground = plan.places * (1.0, 1.0, 0.0)
    frame = load_airframe("iris")
    members = [
        Member(frame, name=str(i), position=(float(p[0]), float(p[1]), 0.0)) for i, p in enumerate(ground)
    ]
    with Fleet(World(), members, seed=seed) as fleet:
        flock = BuiltInFlock(fleet, ground)
        flock.take_off(plan.places, float(plan.path.yaw[0]))
        formation = plan.formation()
        recording = Recording(formation)
        separation = []

        def watch(states: States, told: Setpoints) -> None:
            if not formation.started_at:
                formation.start()
            recording(states, told)
            separation.append(closest_pair(fleet.simulation.states["position"])[0])

        until = fleet.time + formation.conduct.notice + round(1e6 * plan.duration)
        fly(formation, flock, until, 50_000, watch)
        return recording.result(plan), min(separation)


def test_the_nine_fly_unchanged_on_full_dynamics() -> None:
    result, separation = fly_built_in(load_formation(MISSIONS / "formation_cube.yaml"))
    assert result.summary()["patterns"] == ["cube", "pyramid", "triangle", "cube", "grid"]
    assert result.worst_settled_error < 0.5
    assert result.least_separation > 1.0
    assert separation > 1.0


@pytest.mark.slow
def test_a_hundred_fly_unchanged_on_full_dynamics(tmp_path: Path) -> None:
    file = tmp_path / "hundred.yaml"
    file.write_text(
        "formation:\n"
        "  count: 100\n"
        "  start: {pattern: grid, spacing: 4}\n"
        "  leader: {yaw: 0, waypoints: [{position: [0, 0, -25], hold: 12}, {position: [10, 0, -25]}]}\n"
        "  patterns: [{at: 0, pattern: cube, spacing: 6}]\n"
    )
    result, separation = fly_built_in(load_formation(file))
    assert result.worst_settled_error < 0.5
    assert separation > 1.0
    assert np.isfinite(result.position).all()
