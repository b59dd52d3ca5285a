"""The same formation code on full dynamics, by the built-in flight stack's own estimates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.paths import MISSIONS

from sitl_bridge.api.formation_flight import fly_formation
from sitl_bridge.session.scenario import load_scenario


@pytest.mark.slow
def test_the_nine_fly_unchanged_on_full_dynamics() -> None:
    flown = fly_formation(load_scenario(MISSIONS / "formation_cube.yaml", seed=1))
    result = flown.result
    assert result.summary()["patterns"] == ["cube", "pyramid", "triangle", "cube", "grid"]
    assert result.worst_settled_error < 0.6  # 0.49 to 0.56 m in 15 flights with other noise
    assert result.least_separation > 1.0
    assert flown.separation > 1.0
    assert flown.contacts == 0
    assert flown.worst_steady_error < 0.5


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
    flown = fly_formation(load_scenario(file, seed=1))
    result = flown.result
    assert result.worst_settled_error < 0.5
    assert flown.separation > 1.0
    assert flown.contacts == 0
    assert flown.worst_steady_error < 0.5
    assert np.isfinite(result.position).all()
