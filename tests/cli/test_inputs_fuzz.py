"""Broken input files are taken, or refused with file and place; nothing else ever comes of them.

The shipped files are changed at random; ``-m slow`` tries more of them.
"""

from __future__ import annotations

import shutil
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.mutations import EXTREMES, mutate
from support.paths import AIRFRAMES, MISSIONS, ROOT
from support.swarm_scenarios import load_avoidance, load_formation

from sitl_bridge.base.errors import UserError
from sitl_bridge.cli.facts import derive_facts
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.wind import WindSpecification
from sitl_bridge.core.world.world import World
from sitl_bridge.core.world.world_file import load_world
from sitl_bridge.live.run.messages import RUN_COMMANDS, VEHICLE_COMMANDS
from sitl_bridge.session.scenario_settings import scenario_settings
from sitl_bridge.session.settings import FlightOptions

WORLD = """
origin: {latitude: 47.397742, longitude: 8.545594, altitude: 488}
year: 2025.5
sea_level_temperature: 288.0
sea_level_pressure: 101325.0
wind:
  steady: {speed: 5, direction: 200, upward: 0.1}
  log_profile: {speed: 3, direction: 20, roughness: 0.1}
  turbulence: moderate
  gusts: [{start: 60, speed: 6, direction: 270, length: 50, passing_speed: 10, hold: 5}]
"""
PROCESSOR_SECONDS = 8.0
"""Of the slowest, several times what it takes on an ordinary machine."""
MEGABYTES = 500.0


def _airframe(path: Path) -> None:
    derive_facts(str(path))
    airframe = load_airframe(path)
    simulation = Simulation(World(), [VehicleSetup(airframe.vehicle(), airframe.sensor_records())])
    simulation.armed[:] = 1
    simulation.controls[:] = 0.5
    simulation.advance(5)


KINDS: dict[str, tuple[tuple[str, ...], Callable[[Path], Any]]] = {
    "airframe": (
        tuple(f"airframes/{name}.yaml" for name in ("iris", "hector", "firefly", "iris_full", "iris_rtk")),
        _airframe,
    ),
    "avoidance": (
        ("missions/swap_six.yaml", "missions/gate_swarm.yaml", "missions/priority_swap.yaml"),
        lambda path: load_avoidance(path).controller.record(),
    ),
    "formation": (
        ("missions/formation_cube.yaml",),
        lambda path: load_formation(path).formation(),
    ),
    "scenario": (
        ("missions/fleet_hover.yaml", "missions/formation_cube.yaml", "missions/swap_six.yaml"),
        lambda path: scenario_settings(path, FlightOptions(autopilot="builtin")).check(),
    ),
    "world": ((), lambda path: World(load_world(path))),
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where mutants lie, beside the scripts that scenarios name."""
    made = tmp_path_factory.mktemp("mutants")
    for script in (MISSIONS).glob("*.py"):
        shutil.copy(script, made)
    load_airframe("iris").record  # noqa: B018  (compiled before anything is timed)
    _airframe(AIRFRAMES / "iris.yaml")
    _airframe(AIRFRAMES / "hector.yaml")
    return made


def _try(kind: str, directory: Path, examples: int, *, with_memory: bool) -> None:
    files, load = KINDS[kind]
    texts = [(ROOT / file).read_text(encoding="utf-8") for file in files] or [WORLD]
    path = directory / f"{kind}.yaml"

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(texts).flatmap(mutate))
    def attempt(text: str) -> None:
        path.write_text(text, encoding="utf-8")
        begin = time.process_time()
        if with_memory:
            tracemalloc.start()
        try:
            load(path)
        except UserError as error:
            lines = str(error).splitlines()
            assert all(line.startswith((str(path), "cannot fly: ")) for line in lines), lines
            assert max(map(len, lines)) < 1000
        finally:
            _, most = tracemalloc.get_traced_memory()  # nothing where it was not started
            tracemalloc.stop()
        assert most < MEGABYTES * 1e6
        assert time.process_time() - begin < PROCESSOR_SECONDS

    attempt()


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_file_is_taken_or_refused_with_its_place(kind: str, directory: Path) -> None:
    _try(kind, directory, 15 if kind == "airframe" else 30, with_memory=False)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_many_changed_files_are_taken_or_refused_with_their_places(kind: str, directory: Path) -> None:
    _try(kind, directory, 1000, with_memory=True)


VALUES = st.one_of(
    st.sampled_from(EXTREMES),
    st.floats(),
    st.integers(),
    st.text(max_size=10),
    st.lists(st.floats(), max_size=4),
)
COMMANDS = RUN_COMMANDS | VEHICLE_COMMANDS


@settings(max_examples=200)
@given(
    st.sampled_from(sorted(COMMANDS)).flatmap(
        lambda kind: st.tuples(
            st.just(kind),
            st.fixed_dictionaries({}, optional=dict.fromkeys(COMMANDS[kind].model_fields, VALUES)),
        )
    )
)
def test_a_bus_message_is_taken_or_refused(case: tuple[str, dict[str, Any]]) -> None:
    kind, fields = case
    try:
        COMMANDS[kind].model_validate({"version": 1, "request_id": "a"} | fields)
    except ValueError:
        return


@settings(max_examples=200)
@given(st.fixed_dictionaries({"speed": st.floats(0.0, 150.0), "direction": st.floats(-360.0, 360.0)}))
def test_any_wind_that_is_taken_blows_finite_air(steady: dict[str, float]) -> None:
    wind = WindSpecification.model_validate({"steady": steady}).pack(0)
    assert np.isfinite(wind[0]["steady"]).all()
