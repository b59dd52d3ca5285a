"""A wind of the user's own: a Python function or a class in a file, by time and place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.paths import MISSIONS

from sitl_bridge.base.errors import UserError
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.custom_wind import Place, WindField
from sitl_bridge.core.world.wind import SteadyWind, WindSpecification
from sitl_bridge.core.world.world import World, WorldSpecification
from sitl_bridge.core.world.world_file import load_world
from sitl_bridge.live.run.messages import RUN_COMMANDS

WORLDS = MISSIONS / "worlds"


def simulation_in(wind: Any, *places: tuple[float, float, float]) -> Simulation:
    """Vehicles at places in a wind."""
    airframe = load_airframe("iris")
    world = World(wind if isinstance(wind, WorldSpecification) else WorldSpecification(wind=wind))
    setups = [
        VehicleSetup(airframe.vehicle(), airframe.sensor_records(), position=place, name=str(i))
        for i, place in enumerate(places)
    ]
    return Simulation(world, setups)


class Shear(WindField):
    """Wind that grows with height and time."""

    def velocity(self, t: float, place: Place) -> Sequence[float]:
        """By hand."""
        return -place[2], t, 0.5


def test_a_function_of_time_and_place_blows_at_every_vehicle() -> None:
    simulation = simulation_in(lambda t, place: (4.0 + t, place[1], 0.0), (0.0, 7.0, -5.0), (0.0, -3.0, -5.0))
    simulation.advance(3)
    assert simulation.states["wind"] == pytest.approx(
        np.array([[4.008, 7.0, 0.0], [4.008, -3.0, 0.0]]), abs=1e-4
    )


@pytest.mark.parametrize("wind", [Shear, Shear()])
def test_a_class_or_an_object_is_taken_as_well(wind: Any) -> None:
    simulation = simulation_in(wind, (0.0, 0.0, -10.0))
    simulation.advance(2)
    place = simulation.states["position"][0]
    assert simulation.states["wind"][0] == pytest.approx([-place[2], 0.004, 0.5], abs=1e-3)


def test_it_adds_to_what_else_blows_and_is_the_same_as_a_steady_wind() -> None:
    def flown(wind: Any) -> Any:
        simulation = simulation_in(wind, (0.0, 0.0, -10.0))
        simulation.advance(100)
        return simulation.states["position"].tobytes()

    steady = WindSpecification(steady=SteadyWind(speed=4.0, direction=180.0))
    blowing = World(WorldSpecification(wind=steady)).wind[0]["steady"].tolist()
    assert flown(lambda _t, _place: blowing) == flown(steady)
    both = simulation_in(
        WorldSpecification(
            wind=WorldSpecification(wind=lambda _t, _place: (1.0, 0.0, 0.0)).wind.model_copy(
                update={"steady": SteadyWind(speed=4.0, direction=180.0)}
            )
        ),
        (0.0, 0.0, -10.0),
    )
    both.advance()
    assert both.states["wind"][0] == pytest.approx([5.0, 0.0, 0.0])


@pytest.mark.parametrize("down", [-10.0, 0.0])
def test_a_wind_that_fails_ends_the_run_with_its_own_error_at_rest_too(down: float) -> None:
    def gale(t: float, _place: Place) -> Sequence[float]:
        if t > 0.01:
            raise RuntimeError("no more air")
        return 1.0, 0.0, 0.0

    simulation = simulation_in(gale, (0.0, 0.0, down))
    told = rf"wind {__file__}: gale failed at 0.012 s: RuntimeError\('no more air'\) \(.*_wind.py, line \d+\)"
    with pytest.raises(UserError, match=told):
        simulation.advance(10)


class Growing(WindField):
    """Grows with each call."""

    def __init__(self) -> None:
        self.calls = 0

    def velocity(self, t: float, place: Place) -> Sequence[float]:
        del t, place
        self.calls += 1
        return float(self.calls), 0.0, 0.0


def test_each_run_makes_its_own_wind_of_a_class() -> None:
    specification = WorldSpecification(wind=Growing)
    first, second = (simulation_in(specification, (0.0, 0.0, -10.0)) for _ in range(2))
    first.advance(5)
    second.advance(5)
    assert first.states["wind"].tobytes() == second.states["wind"].tobytes()


@pytest.mark.parametrize(
    "wind",
    [
        lambda _t, _place: (1.0, 2.0),
        lambda _t, _place: (float("nan"), 0.0, 0.0),
        lambda _t, _place: (0.0, 0.0, 151.0),
    ],
)
def test_a_wind_that_gives_no_velocity_is_refused_before_anything_starts(wind: Any) -> None:
    with pytest.raises(UserError, match="failed"):
        World(WorldSpecification(wind=wind))


def test_an_interrupt_within_the_function_is_raised() -> None:
    calls = []

    def interrupted(t: float, _place: Place) -> Sequence[float]:
        calls.append(t)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return 0.0, 0.0, 0.0

    simulation = simulation_in(interrupted, (0.0, 0.0, -10.0))
    with pytest.raises(KeyboardInterrupt):
        simulation.advance(10)


def test_the_shipped_thermal_lifts_in_its_core_and_sinks_around_it() -> None:
    simulation = simulation_in(
        load_world(WORLDS / "thermal.yaml"), (-40.0, 0.0, -50.0), (-40.0, 40.0, -50.0), (-40.0, 0.0, -5.0)
    )
    simulation.advance()
    down = simulation.states["wind"][:, 2]
    assert down[0] == pytest.approx(-3.0, rel=1e-6)
    assert down[1] > 0.3
    assert down[2] == pytest.approx(-0.75, rel=0.05)
    assert simulation.states["wind"][0, 0] == 2.0


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{file: none.py, class: Thermal}", "none.py: no such Python file"),
        ("{file: thermal.py, class: Nothing}", "has no class Nothing"),
        ("{file: thermal.py, class: Thermal, options: {height: 3}}", "does not take its options"),
        ("{class: Thermal}", r"custom\.file: missing"),
    ],
)
def test_a_faulty_wind_of_a_file_is_one_message(tmp_path: Path, line: str, told: str) -> None:
    (tmp_path / "thermal.py").write_text((WORLDS / "thermal.py").read_text())
    file = tmp_path / "world.yaml"
    file.write_text(f"wind: {{custom: {line}}}\n")
    with pytest.raises(UserError, match=told):
        World(load_world(file))


def test_the_bus_takes_no_code() -> None:
    wind = {"custom": {"file": "/tmp/wind.py", "class": "Mine"}}
    with pytest.raises(ValueError, match="custom wind is code"):
        RUN_COMMANDS["wind"].model_validate({"version": 1, "request_id": "a", "wind": wind})
