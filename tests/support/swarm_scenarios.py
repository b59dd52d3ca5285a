"""Formations and avoidance of scenario files."""

from __future__ import annotations

from pathlib import Path

from sitl_bridge.session.scenario import load_scenario
from sitl_bridge.swarm.avoidance.specification import AvoidanceSpecification
from sitl_bridge.swarm.formation.specification import FormationPlan


def load_formation(file: Path) -> FormationPlan:
    found = load_scenario(file).formation
    assert found is not None
    return found


def load_avoidance(file: Path) -> AvoidanceSpecification:
    found = load_scenario(file).avoidance
    assert found is not None
    return found
