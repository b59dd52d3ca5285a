"""Real PX4s in formation: nine in one world, steered by one program over MAVSDK."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from formation_flights import grounded, px4, true_slot_errors

from sitl_bridge.flight.formation.quick import Result
from sitl_bridge.flight.formation.scenario import load_formation

pytestmark = [pytest.mark.px4, pytest.mark.slow, pytest.mark.timeout(900)]

FILE = Path(__file__).resolve().parent.parent / "missions" / "formation_cube.yaml"
INSTANCES = range(11, 20)
SPEED = 1.0
"""Simulated over wall time: the program that steers needs its turns between nine PX4s on two cores."""


def test_nine_take_off_fly_cube_pyramid_triangle_and_cube_on_their_way_and_land(tmp_path: Path) -> None:
    plan = load_formation(FILE)
    directory = tmp_path / "run" / "formation"
    module = "sitl_bridge.flight.formation.fly"
    command = [sys.executable, "-m", module, str(FILE), "--instances", f"{INSTANCES[0]}..{INSTANCES[-1]}"]
    with grounded(plan, INSTANCES, px4, tmp_path / "stacks", speed=SPEED) as run:
        flown = subprocess.run(
            [*command, "--output", str(directory.parent)], capture_output=True, text=True, check=False
        )
        print(flown.stdout, flown.stderr)
        states = run.server.simulation.states
        assert (states["impact_speed"] < 1.0).all()
        assert (states["position"][:, 2] > -0.5).all(), "not on the ground"
    assert flown.stdout.count("landed and disarmed") == 9
    summary = json.loads((directory / "summary.json").read_text())
    assert summary["patterns"] == ["cube", "pyramid", "triangle", "cube", "grid"]
    assert summary["worst_slot_error_steady_m"] < 0.5
    assert summary["least_separation_m"] > 1.0
    assert run.truth.least_separation > 1.0
    assert flown.returncode == 0
    assert (directory / "formation.png").stat().st_size > 10_000
    # In truth the receivers' errors of two vehicles come on top, 0.5 m in height each (airframes/iris.yaml).
    tracks = np.load(directory / "tracks.npz")
    start = summary["started_at_s"]
    columns = (tracks["time"], tracks["position"], tracks["slot_error"], tracks["separation"])
    result = Result(plan, *columns, (0, 0), round(1e6 * start))
    errors = true_slot_errors(result, run.truth.at(result.time + start))
    assert np.percentile(errors[result.steady], 95) < 1.5
