"""The lee of obstacles: Roeckle's closed form, what counts as an obstacle, and that nothing else changes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.random_streams import stream
from sitl_bridge.cli.facts import facts_of
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.records import WIND_STATE
from sitl_bridge.core.world.scene_specification import AnyObject, BoxObject, CylinderObject, SphereObject
from sitl_bridge.core.world.turbulence import turbulence_field
from sitl_bridge.core.world.wind_shadow import air_velocity, recirculation_length
from sitl_bridge.core.world.world import World, WorldSpecification

HOUSE = BoxObject(kind="box", position=(0.0, 0.0, -5.0), size=(8.0, 20.0, 10.0))
"""8 m along a north wind, 20 m across it, 10 m high."""


@compiled
def _air(
    environment: Any, wind: Any, field: Any, memories: Any, series: Any, time: int, places: Any, out: Any
) -> None:
    for k in range(places.shape[0]):
        x, y, z = places[k]
        out[k, 0], out[k, 1], out[k, 2] = air_velocity(
            environment[0], wind[0], field[0], memories[0], series, time, x, y, z, 0.0
        )


def world_of(*objects: AnyObject, least: float | None = 2.0, **wind: Any) -> World:
    fields = {"scene": {"objects": objects}, "wind": wind, "wind_shadow": least}
    return World(WorldSpecification.model_validate(fields))


def air_at(world: World, places: object, time: int = 0) -> NDArray[np.float64]:
    """(k, 3) velocity of the air at places (k, 3), NED."""
    wanted = np.asarray(places, float).reshape(-1, 3)
    out = np.zeros_like(wanted)
    field = turbulence_field(stream(3, "turbulence"))
    memory = np.zeros(1, WIND_STATE)
    _air(world.environment, world.wind, field, memory, world.wind_series, time, wanted, out)
    return out


SOUTHWARD = {"speed": 6.0, "direction": 0.0}


def test_the_cavity_of_a_cube_has_the_length_of_the_formula() -> None:
    """1.45 H, as Fackrell's formula gives for a cube."""
    assert recirculation_length(10.0, 10.0, 10.0) == pytest.approx(14.516, abs=1e-3)


@pytest.mark.parametrize(("length", "counts"), [(0.2, 3.0), (100.0, 30.0)])
def test_the_formula_keeps_to_the_proportions_that_were_measured(length: float, counts: float) -> None:
    assert recirculation_length(20.0, 10.0, length) == recirculation_length(20.0, 10.0, counts)


@pytest.mark.parametrize("east", [0.0, 4.0, -9.0])
@pytest.mark.parametrize("height", [0.5, 5.0, 9.5])
def test_the_air_behind_a_house_is_that_of_the_closed_form(east: float, height: float) -> None:
    world = world_of(HOUSE, steady=SOUTHWARD)
    cavity = 1.8 * 20.0 / (0.8**0.3 * (1.0 + 0.24 * 2.0))
    d = cavity * math.sqrt((1.0 - (height / 10.0) ** 2) * (1.0 - (east / 10.0) ** 2))
    behind = np.array([0.0, 0.3, 0.7, 0.999, 1.001, 1.5, 2.0, 2.999]) * d
    places = np.column_stack([-4.0 - behind, np.full(8, east), np.full(8, -height)])
    share = np.where(behind < d, -((1.0 - behind / d) ** 2), 1.0 - (d / np.maximum(behind, 1e-9)) ** 1.5)
    expected = np.column_stack([-6.0 * share, np.zeros(8), np.zeros(8)])
    np.testing.assert_allclose(air_at(world, places), expected, atol=1e-9)


def test_the_lee_fades_without_a_step_where_the_published_wake_ends() -> None:
    world = world_of(HOUSE, steady=SOUTHWARD)
    north = np.arange(-4.001, -150.0, -0.01)
    speed = -air_at(world, np.column_stack([north, 0.0 * north, -5.0 + 0.0 * north]))[:, 0]
    assert np.abs(np.diff(speed)).max() < 0.01
    assert speed[0] == pytest.approx(-6.0, abs=0.01)
    assert speed[-1] == 6.0


def test_a_turned_house_has_the_same_lee_in_a_turned_wind() -> None:
    random = np.random.default_rng(5)
    places = random.uniform(-40.0, 40.0, (400, 3)) * [1.0, 1.0, 0.1] - [0.0, 0.0, 5.0]
    for turn, direction in ((0.0, 25.0), (70.0, 95.0), (-160.0, -135.0)):
        angle = math.radians(turn)
        rotation = np.array(
            [[math.cos(angle), -math.sin(angle), 0], [math.sin(angle), math.cos(angle), 0], [0, 0, 1]]
        )
        house = HOUSE.model_copy(update={"rotation": (0.0, 0.0, turn)})
        world = world_of(house, steady={"speed": 6.0, "direction": direction % 360.0})
        found = air_at(world, places @ rotation.T) @ rotation
        if turn == 0.0:
            expected = found
        np.testing.assert_allclose(found, expected, atol=1e-9)
    assert (np.linalg.norm(expected, axis=1) < 5.0).sum() > 20


def test_a_box_that_lies_on_its_side_has_the_lee_of_its_outline() -> None:
    lying = HOUSE.model_copy(update={"size": (8.0, 10.0, 20.0), "rotation": (90.0, 0.0, 0.0)})
    places = np.random.default_rng(6).uniform(-40.0, 0.0, (200, 3)) * [1.0, 0.5, 0.25]
    np.testing.assert_allclose(
        air_at(world_of(lying, steady=SOUTHWARD), places),
        air_at(world_of(HOUSE, steady=SOUTHWARD), places),
        atol=1e-9,
    )


def test_behind_a_chimney_the_wind_turns_back_from_its_curved_wall_on() -> None:
    chimney = CylinderObject(kind="cylinder", position=(0.0, 0.0, -15.0), radius=3.0, length=30.0)
    world = world_of(chimney, steady={"speed": 6.0, "direction": 270.0})
    wall = math.sqrt(9.0 - 4.0)
    inside, outside = air_at(world, [[2.0, wall - 1e-6, -10.0], [2.0, wall + 1e-6, -10.0]])
    assert inside[1] == 6.0
    assert outside[1] == pytest.approx(-6.0, abs=1e-4)


def test_the_cavity_has_the_wind_at_the_roof_and_the_wake_that_at_the_place() -> None:
    world = world_of(HOUSE, log_profile=SOUTHWARD)
    open_air = world_of(HOUSE, least=None, log_profile=SOUTHWARD)
    places = [[-4.0 - 1e-9, 0.0, -3.0], [-60.0, 0.0, -3.0]]
    wall, wake = air_at(world, places)[:, 0]
    roof, free = air_at(open_air, [[0.0, 0.0, -10.0], places[1]])[:, 0]
    assert wall == pytest.approx(-roof, rel=1e-6)
    d = recirculation_length(20.0, 10.0, 8.0) * math.sqrt(1.0 - 0.3**2)
    assert wake == pytest.approx(free * (1.0 - (d / 56.0) ** 1.5))


def test_a_gust_is_shadowed_and_turbulence_is_not() -> None:
    gust = {"start": 0.0, "speed": 4.0, "direction": 0.0, "length": 1.0, "passing_speed": 1e3}
    place, time = [[-10.0, 0.0, -2.0]], 1_000_000
    gusty = air_at(world_of(HOUSE, steady=SOUTHWARD, gusts=[gust]), place, time)
    np.testing.assert_allclose(gusty, air_at(world_of(HOUSE, steady=SOUTHWARD), place, time) * 10.0 / 6.0)
    rough: dict[str, Any] = {"steady": SOUTHWARD, "turbulence": 8.0}
    missing = air_at(world_of(HOUSE, **rough), place) - air_at(world_of(HOUSE, least=None, **rough), place)
    smooth = air_at(world_of(HOUSE, steady=SOUTHWARD), place) - [-6.0, 0.0, 0.0]
    np.testing.assert_allclose(missing, smooth, atol=1e-12)


def test_where_lees_overlap_the_least_wind_counts_whatever_the_order() -> None:
    second = HOUSE.model_copy(update={"position": (-40.0, 5.0, -4.0), "size": (5.0, 12.0, 8.0)})
    places = np.random.default_rng(7).uniform(-100.0, 0.0, (500, 3)) * [1.0, 0.2, 0.1]
    both = air_at(world_of(HOUSE, second, steady=SOUTHWARD), places)
    np.testing.assert_array_equal(both, air_at(world_of(second, HOUSE, steady=SOUTHWARD), places))
    alone = [air_at(world_of(thing, steady=SOUTHWARD), places)[:, 0] for thing in (HOUSE, second)]
    np.testing.assert_array_equal(both[:, 0], np.maximum(*alone))


@pytest.mark.parametrize(
    ("thing", "count"),
    [
        (HOUSE, 1),
        (HOUSE.model_copy(update={"rotation": (0.0, 20.0, 0.0)}), 0),
        (HOUSE.model_copy(update={"size": (1.0, 1.5, 10.0)}), 0),
        (HOUSE.model_copy(update={"size": (20.0, 20.0, 1.9)}), 0),
        (HOUSE.model_copy(update={"size": (0.2, 20.0, 3.0)}), 1),
        (CylinderObject(kind="cylinder", radius=3.0, length=9.0, rotation=(90.0, 0.0, 0.0)), 0),
        (SphereObject(kind="sphere", radius=5.0), 0),
        (
            BoxObject.model_validate(
                {"kind": "box", "size": (5, 5, 5), "path": {"points": [(0, 0, 0), (9, 0, 0)], "speed": 1}}
            ),
            0,
        ),
    ],
)
def test_what_shadows_the_wind(thing: AnyObject, count: int) -> None:
    assert len(world_of(thing).wind_obstacles) == count


def hover(world: World, place: tuple[float, float, float]) -> tuple[bytes, NDArray[np.float64]]:
    """The state of an iris after 0.4 s in a world, and the wind at its place."""
    airframe = load_airframe("iris")
    setup = VehicleSetup(airframe.vehicle(), airframe.sensor_records()[:0], place, 0.0, "0")
    simulation = Simulation(world, [setup])
    simulation.armed[:] = 1
    simulation.controls[:, :4] = 0.6
    simulation.advance(100)
    state = simulation.states[0]
    moved = b"".join(
        state[name].tobytes() for name in ("position", "velocity", "attitude", "angular_velocity")
    )
    return moved, state["wind"].copy()


def test_a_vehicle_far_from_the_lee_flies_to_the_same_bit_and_one_within_has_less_wind() -> None:
    wind: dict[str, Any] = {"steady": SOUTHWARD, "turbulence": 3.0}
    for place in ((40.0, 0.0, -5.0), (-20.0, 40.0, -5.0), (-200.0, 0.0, -5.0), (-20.0, 0.0, -30.0)):
        assert (
            hover(world_of(HOUSE, **wind), place)[0] == hover(world_of(HOUSE, least=None, **wind), place)[0]
        )
    lee, there = hover(world_of(HOUSE, **wind), (-20.0, 0.0, -4.0))
    free, open_air = hover(world_of(HOUSE, least=None, **wind), (-20.0, 0.0, -4.0))
    assert lee != free
    assert there[0] > open_air[0] + 4.0
    assert lee == hover(world_of(HOUSE, **wind), (-20.0, 0.0, -4.0))[0]


def test_check_prints_what_shadows_the_wind(tmp_path: Path) -> None:
    file = tmp_path / "yard.yaml"
    scene = "scene: {objects: [{kind: box, position: [0, 0, -5], size: [8, 20, 10]}]}\n"
    for line, told in (
        ("", "none"),
        ("wind_shadow: 2\n", "behind 1 of 1 objects, those 2 m high and wide at least"),
        ("wind_shadow: 50\n", "none: no upright, still box or cylinder is 50 m high and wide"),
    ):
        file.write_text(scene + line)
        assert facts_of(str(file))["wind_shadow"] == told
