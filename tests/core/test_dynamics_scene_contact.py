"""Contact with the shapes of a scene: standing, sliding, bouncing, riding, crashing, starting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support.contact_scenes import Floats, box_mesh, mesh, simulation, terrain, up, voxels, world

from sitl_bridge.base.errors import UserError
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.core.world.nearest_surface import nearest
from sitl_bridge.core.world.ray_casting import GROUND
from sitl_bridge.core.world.scene_specification import (
    BoxObject,
    CylinderObject,
    PathSpecification,
    PlaneObject,
    SphereObject,
)

STANDING = 0.0525
"""m, height of the iris's centre of gravity above what it stands on."""
FRICTION = 0.8
"""Of the iris's feet."""


def box(size: tuple[float, float, float], place: tuple[float, float, float], **fields: Any) -> BoxObject:
    return BoxObject.model_validate({"kind": "box", "size": size, "position": place, **fields})


def hills(seed: int, height: float = 1.5) -> Floats:
    """(33, 33) smooth heights of random hills."""
    rng = np.random.default_rng(seed)
    x, y = np.meshgrid(np.arange(33.0), np.arange(33.0), indexing="ij")
    total = np.zeros((33, 33))
    for _ in range(6):
        k = rng.uniform(-0.5, 0.5, 2)
        total += np.cos(k[0] * x + k[1] * y + rng.uniform(0, 6.0))
    return height * (total + 6.0) / 12.0


FLOORS = {
    "box": box((4, 4, 2), (0, 0, -1)),
    "tilted box": box((4, 4, 2), (0, 0, -1), rotation=(0.0, 90.0, 20.0)),
    "cylinder": CylinderObject(kind="cylinder", radius=2.0, length=2.0, position=(0, 0, -1)),
    "sphere": SphereObject(kind="sphere", radius=30.0, position=(0, 0, 28.0)),
    "plane": PlaneObject(kind="plane", position=(0, 0, -2)),
    "mesh": box_mesh((4, 4, 2), position=(0, 0, -1)),
    "sheet": mesh(
        np.array([(-2.0, -2, 0), (2, -2, 0), (2, 2, 0), (-2, 2, 0)]),
        np.array([(0, 1, 2), (0, 2, 3)]),
        solid=False,
        position=(0, 0, -2),
    ),
    "terrain": terrain(np.full((9, 9), 2.0), 0.5, position=(-2, -2, 0)),
    "voxels": voxels(np.ones((20, 20, 10), bool), 0.2, (-2, -2, -2)),
    "bricks": box((1, 1, 2), (0, 0, -1)),
}


@pytest.mark.parametrize("floor", FLOORS)
def test_vehicle_dropped_on_a_surface_comes_to_rest_on_it(floor: str) -> None:
    things = [FLOORS[floor]]
    if floor == "bricks":
        things = [box((1, 1, 2), (i - 1.5, j - 1.5, -1)) for i in range(4) for j in range(4)]
    s = simulation(world(*things), (0.05, 0.02, -4.0))
    s.advance(1500)
    state = s.states[0]
    top = 3.0 if floor == "tilted box" else 2.0
    assert state["position"][2] == pytest.approx(-top - STANDING, abs=2e-3)
    assert up(state["attitude"])[2] == pytest.approx(-1.0, abs=1e-3)
    assert np.abs(state["velocity"]).max() < 1e-3
    assert state["in_contact"] == 4
    assert state["impact_speed"] == pytest.approx(math.sqrt(2 * 9.80665 * (4.0 - top)), rel=0.03)
    assert np.linalg.norm(state["specific_force"]) == pytest.approx(9.806, abs=1e-2)


def slope(angle: float, friction: float = 1.0) -> BoxObject:
    """A long board that is tilted about east; its upper surface goes through the world's origin + 5 m up."""
    radians = math.radians(angle)
    middle = (0.5 * math.sin(radians), 0.0, -5.0 + 0.5 * math.cos(radians))
    return box((60, 4, 1), middle, rotation=(0, angle, 0), friction=friction)


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_vehicle_stands_on_a_slope_inside_the_friction_cone(share: float) -> None:
    angle = math.degrees(math.atan(share * 0.5))
    s = simulation(world(slope(angle, 0.5 / FRICTION), ground=False), (0.0, 0.0, -5.0))
    before = s.states[0].copy()
    assert before["in_contact"] == 4
    s.advance(2500)
    after = s.states[0]
    assert np.abs(after["position"] - before["position"]).max() < 1e-4
    assert math.degrees(math.acos(-up(after["attitude"])[2])) == pytest.approx(angle, abs=0.5)


def test_vehicle_slides_down_a_slope_beyond_the_friction_cone() -> None:
    friction, angle = 0.2, 25.0
    where = world(slope(angle, friction / FRICTION), ground=False)
    with pytest.raises(UserError, match=r"would slide at north.*slope of 25 deg.*holds up to 11 deg"):
        simulation(where, (0.0, 0.0, -5.0))
    s = simulation(where, (0.0, 0.0, -6.0), airframe="iris")
    radians = math.radians(angle)
    normal = np.array([-math.sin(radians), 0.0, -math.cos(radians)])
    s.states[0]["position"] = np.array([0, 0, -5.0]) + normal * STANDING
    s.states[0]["attitude"] = (math.cos(radians / 2), 0.0, math.sin(radians / 2), 0.0)
    s.advance(100)
    begin = np.linalg.norm(s.states[0]["velocity"])
    s.advance(100)
    gained = (np.linalg.norm(s.states[0]["velocity"]) - begin) / 0.4
    expected = 9.806 * (math.sin(radians) - friction * math.cos(radians))
    assert gained == pytest.approx(expected, rel=0.02)


def test_an_undriven_bounce_never_gains_energy() -> None:
    """On a sphere, whose normal changes under every foot; the iris without its air and its body drag."""
    s = simulation(
        world(SphereObject(kind="sphere", radius=1.0, position=(0, 0, -1)), ground=False), (0, 0, -3)
    )
    vehicle = s.vehicles[0]
    vehicle["drag_force"] = vehicle["drag_moment"] = vehicle["rotor_drag"] = vehicle["rolling_moment"] = 0.0
    state = s.states[0]
    state["position"] = (0.3, 0.2, -2.6)
    state["angular_velocity"] = (1.0, -2.0, 0.5)
    mass, inertia = float(vehicle["mass"]), vehicle["inertia"]
    gravity = float(s.world.environment[0]["gravity"])

    def energy() -> float:
        v, w = state["velocity"], state["angular_velocity"]
        return float(0.5 * mass * v @ v + 0.5 * w @ inertia @ w - mass * gravity * state["position"][2])

    highest = first = energy()
    touched = 0
    for _ in range(400):
        s.advance(1)
        touched += int(state["in_contact"])
        highest = max(highest, energy())
    assert touched > 0 or len(s.contacts) > 0
    assert highest <= first + 1e-3
    assert energy() < 0.8 * first + mass * gravity * 2.0


def test_a_moving_platform_carries_a_vehicle() -> None:
    path = PathSpecification(points=((0, 0, -1), (10, 0, -1)), speed=0.5, start=1.0, end="stop")
    platform = box((2, 2, 0.4), (0, 0, -1), path=path.model_dump())
    s = simulation(world(platform), (0.0, 0.0, -1.2))
    s.advance(250)
    assert s.states[0]["position"] == pytest.approx((0.0, 0.0, -1.2 - STANDING), abs=1e-3)
    s.advance(1500)
    state = s.states[0]
    assert state["position"][0] == pytest.approx(3.0, abs=0.02)
    assert state["velocity"][0] == pytest.approx(0.5, abs=1e-2)
    assert state["in_contact"] == 4


def test_a_lift_carries_a_vehicle_up() -> None:
    path = PathSpecification(points=((0, 0, 0.0), (0, 0, -4)), speed=1.0, start=0.5, end="stop")
    s = simulation(world(box((2, 2, 0.4), (0, 0, 0.0), path=path.model_dump())), (0.0, 0.0, -0.2))
    s.advance(1500)
    assert s.states[0]["position"][2] == pytest.approx(-4.2 - STANDING, abs=2e-3)


def test_a_moving_obstacle_hits_a_vehicle_that_stands() -> None:
    path = PathSpecification(points=((-5, 0, -0.5), (5, 0, -0.5)), speed=3.0, end="stop")
    s = simulation(
        world(box((0.5, 3, 1), (-5, 0, -0.5), path=path.model_dump(), name="cart")), (0.0, 0.0, 0.0)
    )
    s.advance(700)
    assert s.states[0]["position"][0] > 1.0
    assert len(s.contacts) >= 1
    assert s.contacts[0]["speed"] == pytest.approx(3.0, abs=0.3)


@pytest.mark.parametrize("obstacle", ["pole", "wall", "thin sheet", "voxel wall"])
def test_a_vehicle_that_flies_into_an_obstacle_stays_in_front_of_it(obstacle: str) -> None:
    thing = {
        "pole": CylinderObject(kind="cylinder", radius=0.05, length=10.0, position=(0, 0.05, -5)),
        "wall": box((0.1, 20, 20), (0, 0, -10)),
        "thin sheet": mesh(
            np.array([(0.0, -10, -20), (0, 10, -20), (0, 10, 0), (0, -10, 0)]),
            np.array([(0, 1, 2), (0, 2, 3)]),
            solid=False,
        ),
        "voxel wall": voxels(np.ones((1, 80, 80), bool), 0.25, (-0.125, -10, -20)),
    }[obstacle].model_copy(update={"name": "obstacle"})
    s = simulation(world(thing), (-4.0, 0.0, -5.0), proximity=Proximity(breaking_speed=3.0))
    for speed in (4.0, 12.0):
        s.restart_vehicle(0)
        state = s.states[0]
        state["velocity"] = (speed, 0.0, 0.0)
        furthest = -9.0
        for _ in range(400):
            s.advance(1)
            furthest = max(furthest, float(state["position"][0]))
        assert furthest < 0.0 or obstacle == "pole", "it may glance off a pole"
        hit = s.contacts[0]
        assert s.world.scene.names[hit["object"]] == "obstacle"
        assert np.isfinite(state["position"]).all()
    assert s.contacts[0]["speed"] > 2.0
    assert (s.states[0]["rotor_health"][:4] == 0.0).any(), "a rotor that hits at 12 m/s breaks"


def test_a_rotor_strikes_a_pole_that_passes_between_the_feet() -> None:
    """The pole's top ends above the feet's level and below the hubs: only rotor discs and body reach it."""
    pole = CylinderObject(kind="cylinder", radius=0.02, length=4.0, position=(0, 0.2, -2.0))
    s = simulation(world(pole), (-3.0, 0.0, -3.0))
    s.states[0]["velocity"] = (6.0, 0.0, -1.0)
    s.advance(250)
    assert len(s.contacts) >= 1
    assert s.contacts[0]["part"] > 0


def test_terrain_replaces_the_ground_and_a_vehicle_starts_on_it() -> None:
    land = terrain(hills(1) - 3.0, 1.0, position=(-16, -16, 0))
    where = world(land, ground=False)
    s = simulation(where, (2.0, 3.0, 0.0), (-4.0, 1.0, 0.0), proximity=Proximity())
    before = s.states["position"].copy()
    assert (before[:, 2] > 0.0).all()
    distance, _, _ = nearest(where.scene.record[0], before, 5.0)
    assert distance == pytest.approx(STANDING, abs=0.02)
    s.advance(1000)
    assert np.abs(s.states["position"] - before).max() < 1e-3
    with pytest.raises(UserError, match="no ground at north 200 m"):
        simulation(where, (200.0, 0.0, 0.0))


def test_a_place_inside_an_object_is_refused_with_its_name() -> None:
    where = world(
        box((2, 2, 2), (5, 0, -1), name="crate"), box_mesh((2, 2, 2), position=(10, 0, -1), name="hut")
    )
    for north, name in ((5.0, "crate"), (10.5, "hut")):
        with pytest.raises(UserError, match=f"vehicle 0: .*inside '{name}'.*top is at down -2.00"):
            simulation(where, (north, 0.0, 0.0))
    with pytest.raises(UserError, match="inside 'crate'"):
        simulation(where, (3.9, 0.0, 0.0))
    simulation(where, (3.0, 0.0, 0.0))


def test_a_start_on_a_ledge_that_is_too_narrow_is_refused() -> None:
    with pytest.raises(UserError, match="would tip over"):
        simulation(world(box((0.3, 10, 2), (0, 0, -1))), (0.13, 0.0, -2.0))


def test_far_scene_changes_no_byte_of_a_flight_over_level_ground() -> None:
    results = []
    for objects in ((), (box((2, 2, 2), (500, 0, -1)), box_mesh((3, 3, 3), position=(0, 400, -2)))):
        s = simulation(world(*objects), (0.0, 0.0, 0.0), (0.0, 3.0, -2.0), seed=3)
        s.armed[:] = 1
        rng = np.random.default_rng(5)
        for _ in range(60):
            s.controls[:, :4] = rng.uniform(0.3, 0.9, (2, 4))
            s.advance(10)
        fields = ("position", "velocity", "attitude", "specific_force", "impact_speed", "contact_anchor")
        results.append([s.states[name].tobytes() for name in fields] + [s.sensor_states["values"].tobytes()])
    assert results[0] == results[1]


def test_the_ground_effect_sees_the_roof_below() -> None:
    roof = box((3, 3, 2), (0, 0, -1))
    values = {}
    for name, where, down in (
        ("roof", world(roof), -2.4),
        ("ground", world(), -0.4),
        ("beside", world(roof), -2.4),
    ):
        s = simulation(where, (0.0 if name != "beside" else 4.0, 0.0, down), airframe="iris_full", seed=1)
        s.vehicles["ground_effect"] = 1.0
        s.armed[:] = 1
        s.controls[:, :4] = 0.6
        s.advance(100)
        state = s.states[0]
        kinds = s.sensors[0]["kind"].tolist()
        values[name] = (float(state["rotor_thrust"][0]), float(state["floor"]), kinds)
    assert values["roof"][1] == -2.0
    assert values["roof"][0] == pytest.approx(values["ground"][0], rel=0.02)


def test_what_comes_in_under_the_edge_of_terrain_is_pushed_back_not_up() -> None:
    block = terrain(np.full((9, 9), 1.0, np.float32), 1.0, position=(0.0, -4.0, 0.0))
    s = simulation(world(block), (-0.6, 0.0, 0.0))
    s.states[0]["velocity"] = (3.0, 0.0, 0.0)
    for _ in range(30):
        s.advance(10)
        assert s.states[0]["position"][2] > -0.6
    assert s.states[0]["position"][0] < 0.1


def fleet_of_crashes(seed: int, count: int) -> tuple[Simulation, Floats]:
    """Vehicles thrown at terrain and objects, each far enough from the others."""
    rng = np.random.default_rng(seed)
    things: list[Any] = [terrain(hills(seed), 1.0, position=(-16, -16, 0))]
    for k in range(12):
        place = (*rng.uniform(-13, 13, 2), -rng.uniform(0.5, 2.5))
        angles = tuple(rng.uniform(-180, 180, 3))
        size = tuple(rng.uniform(0.4, 2.5, 3))
        made = [
            box(size, place, rotation=angles),
            SphereObject(kind="sphere", radius=size[0] / 2, position=place),
            CylinderObject(kind="cylinder", radius=0.1, length=4.0, position=place, rotation=angles),
            box_mesh(size, position=place, rotation=angles),
            voxels(rng.random((6, 6, 6)) < 0.6, 0.3, position=place, rotation=angles),
        ]
        things.append(made[k % 5])
    s = simulation(world(*things), *[(0.0, 0.0, -30.0)] * count, proximity=Proximity(collisions=False))
    places = np.column_stack([rng.uniform(-14, 14, (count, 2)), -rng.uniform(4.0, 9.0, count)])
    for i in range(count):
        state = s.states[i]
        state["position"] = places[i]
        quaternion = rng.normal(size=4) if i % 2 else np.array([1.0, 0, 0, 0]) + 0.1 * rng.normal(size=4)
        state["attitude"] = quaternion / np.linalg.norm(quaternion)
        state["velocity"] = rng.uniform((-8, -8, -2), (8, 8, 10))
        state["angular_velocity"] = rng.uniform(-10, 10, 3)
    return s, places


@pytest.mark.parametrize(
    ("seed", "count"),
    [(1, 40), pytest.param(2, 500, marks=pytest.mark.slow), pytest.param(3, 460, marks=pytest.mark.slow)],
)
def test_random_landings_and_crashes_end_on_top_of_things(seed: int, count: int) -> None:
    s, places = fleet_of_crashes(seed, count)
    scene = s.world.scene.record[0]
    distance, _, _ = nearest(scene, places, 20.0)
    clear = distance > 0.6
    s.advance(1500)
    positions = s.states["position"]
    assert np.isfinite(positions).all()
    assert np.isfinite(s.states["attitude"]).all()
    distance, _, shape = nearest(scene, positions, 20.0)
    on_map = (np.abs(positions[:, :2]) < 15.9).all(axis=1)
    fallen = clear & on_map & (distance < -0.02)
    assert not fallen.any(), (np.flatnonzero(fallen), positions[fallen], distance[fallen], shape[fallen])
    assert (positions[:, 2] < 0.1).all()
    assert (shape[clear & on_map] != GROUND).all()
    assert np.linalg.norm(s.states["velocity"], axis=1).max() < 8.0


def test_the_same_crashes_give_the_same_bytes() -> None:
    first, second = (fleet_of_crashes(4, 6)[0] for _ in range(2))
    first.advance(600)
    for _ in range(60):
        second.advance(10)
    for name in ("position", "velocity", "attitude"):
        assert first.states[name].tobytes() == second.states[name].tobytes()
    for name in ("point", "anchor"):
        assert first.surfaces[name].tobytes() == second.surfaces[name].tobytes()
    assert first.contacts.tobytes() == second.contacts.tobytes()
