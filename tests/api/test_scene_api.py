"""Scenes that are made in Python."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from support.scene_files import CORNERS, FACES

import sitl_bridge as sb
from sitl_bridge.api.vehicle_arrays import VehicleArrays
from sitl_bridge.core.dynamics.proximity import CONTACT
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.core.world.records import HEIGHT_MAP, MESH, VOXELS
from sitl_bridge.live.run import sampling
from sitl_bridge.live.run.client_link import SimulationSnapshot
from sitl_bridge.live.run.snapshot import listed_contacts


def test_objects_made_in_python_stand_where_they_are_put() -> None:
    world = sb.World(
        wind=(1, 0, 0),
        scene=[
            sb.scene.Box(
                (2, 4, 6), position=(10, 0, -3), rotation=(0, 0, math.pi / 2), color=(1, 0, 0), name="wall"
            ),
            sb.scene.Sphere(0.5, path=sb.scene.Path3D([[0, 5, -2], [8, 5, -2]], 1.5)),
            sb.scene.Cylinder(0.5, 4, position=np.array([1.0, 2.0, -2.0])),
            sb.scene.Mesh(CORNERS, FACES, position=(0, 0, -1)),
            sb.scene.HeightMap(np.eye(3), 2.0),
            sb.scene.Voxels(np.ones((2, 3, 4)), 0.5, corner=(0, 0, -2)),
        ],
    )
    scene = world.build().scene
    shapes = dict(scene.objects())
    np.testing.assert_allclose(shapes["wall"]["low"], [8.0, -1.0, -6.0])
    np.testing.assert_allclose(shapes["wall"]["high"], [12.0, 1.0, 0.0])
    np.testing.assert_allclose(shapes["sphere 1"]["position"], [0.0, 5.0, -2.0])
    np.testing.assert_allclose(shapes["cylinder 2"]["high"], [1.5, 2.5, 0.0])
    assert int(shapes["mesh 3"]["kind"]) == MESH
    assert int(shapes["mesh 3"]["solid"]) == 1
    np.testing.assert_allclose(shapes["mesh 3"]["low"], [0.0, 0.0, -1.0])
    assert shapes["height_map 4"]["kind"] == HEIGHT_MAP
    np.testing.assert_allclose(shapes["height_map 4"]["low"], [0.0, 0.0, -1.0])
    assert shapes["octree 5"]["kind"] == VOXELS
    np.testing.assert_allclose(shapes["octree 5"]["high"], [1.0, 1.5, 0.0])


def test_the_scene_of_a_file_brings_its_origin_unless_one_is_given(tmp_path: Path) -> None:
    file = tmp_path / "world.sdf"
    place = "<spherical_coordinates><latitude_deg>5</latitude_deg></spherical_coordinates>"
    file.write_text(f"<sdf><world name='w'>{place}<light/><model name='m'/></world></sdf>", encoding="utf-8")
    world = sb.World(wind="3@90", scene=file)
    assert (world.specification.origin.latitude, world.specification.wind.steady is not None) == (5.0, True)
    assert "not read: light w" in world.notes[1]
    assert sb.World(scene=file, origin=(1, 2, 3)).specification.origin.latitude == 1.0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: sb.scene.Box((1, 2, -3)), r"Box: size\.2: "),
        (lambda: sb.scene.Box((1, 2, 3), color=(2, 0, 0)), r"Box: color\.0: "),
        (lambda: sb.scene.Path3D([[0, 0, 0]], 1.0), "Path3D: points: "),
        (
            lambda: sb.scene.Mesh(CORNERS[:, :2], FACES),
            r"vertices are \(v, 3\) finite figures in m, not \(8, 2\)",
        ),
        (lambda: sb.scene.Mesh(CORNERS, FACES + 1), "faces have vertices beyond the 8 there are"),
        (lambda: sb.scene.Mesh(CORNERS, FACES * 1.0), r"faces are \(f, 3\) whole numbers"),
        (lambda: sb.scene.Mesh(CORNERS, FACES, colors=[1, 0, 0]), r"colors are \(12, 3\), one for each face"),
        (lambda: sb.scene.HeightMap([1.0, 2.0], 1.0), r"two rows and columns at least .* not \(2,\)"),
        (lambda: sb.scene.Voxels(np.zeros((2, 2, 2)), 1.0), "one occupied at least"),
        (lambda: sb.World(scene=["wall"]), "'wall' is not an object of a scene; give sb.scene.Box"),  # type: ignore[list-item]
        (lambda: sb.World(scene="none.yaml"), "none.yaml: no such world file"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(make: Any, said: str) -> None:
    with pytest.raises(sb.UserError, match=said) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_moving_objects_and_samples_of_what_sees_them_have_the_time_of_the_flight() -> None:
    path = sb.scene.Path3D([(5, 0, -1), (65, 0, -1)], speed=1.5)
    world = sb.World(scene=[sb.scene.Box((2, 2, 0.3), path=path, name="platform")])
    with sb.Sitl("iris_depth", world=world, seed=3) as sitl:
        before, velocity = sitl.motion_of("platform")
        sitl.run(2.0)
        after, _ = sitl.motion_of("platform")
        sampled = sitl.sensor("scanner")["time"]
        with pytest.raises(sb.UserError, match="no object 'platfrom', did you mean 'platform'"):
            sitl.motion_of("platfrom")
    np.testing.assert_array_equal(velocity, [1.5, 0.0, 0.0])
    np.testing.assert_allclose(after - before, [3.0, 0.0, 0.0], atol=1e-9)
    assert 1.8 < sampled <= 2.0


def test_contacts_with_objects_are_listed_and_become_events_of_the_bus() -> None:
    rows = np.zeros(1, CONTACT)
    rows[0] = (5_250_000, 1, 0, 2, 4.5, (3.0, 1.0, -2.0))
    world = SimpleNamespace(scene=SimpleNamespace(names=("garage",)))

    class Core(SimpleNamespace):
        named_contacts = Simulation.named_contacts

    core = Core(contacts=rows, start=1_000_000, names=("a", "b"), world=world)

    class Arrays(VehicleArrays):
        names, _numbers = ("a", "b"), [0, 1]

        @property
        def _core(self) -> Simulation:
            return cast("Simulation", core)

    assert Arrays().contacts == [(4.25, "b", "garage", "rotor 2", 4.5, (3.0, 1.0, -2.0))]
    snapshot = SimulationSnapshot(4.3, {}, {}, {}, {}, [], listed_contacts(cast("Simulation", core)))
    ((vehicle, event),) = sampling.contacts(snapshot, 0)
    assert vehicle == 1
    assert (event.kind, event.time, event.object, event.speed) == ("contact", 4.25, "garage", 4.5)
    assert event.text == "rotor 2 hit garage at 4.5 m/s"
    assert list(sampling.contacts(snapshot, 1)) == []
