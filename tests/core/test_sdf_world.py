"""Worlds of Gazebo: what stands in them, where, and what of them is not read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.commands import run_command
from support.scene_files import BOX_SIZE, CORNERS, FACES, write_collada, write_obj
from support.scenes import mesh_object

from sitl_bridge.base import xml_file
from sitl_bridge.base.errors import ConfigurationError, UserError
from sitl_bridge.cli.facts import derive_facts
from sitl_bridge.core.world import sdf_world
from sitl_bridge.core.world.mesh_file import is_solid
from sitl_bridge.core.world.nearest_surface import nearest
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import SceneSpecification, TriangleMesh
from sitl_bridge.core.world.sdf_geometry import capsule, cone, ellipsoid, extrude
from sitl_bridge.core.world.world import World, WorldSpecification
from sitl_bridge.core.world.world_file import load_world

GROUND = """
    <model name="ground"><static>true</static><link name="link"><collision name="c"><geometry>
      <plane><normal>0 0 1</normal><size>1 1</size></plane></geometry></collision></link></model>"""
BOX = "<geometry><box><size>1 2 3</size></box></geometry>"


def _sdf(directory: Path, body: str, name: str = "world.sdf") -> Path:
    file = directory / name
    file.write_text(
        f'<?xml version="1.0"?>\n<sdf version="1.9"><world name="w">{body}</world></sdf>\n', "utf-8"
    )
    return file


def _model(inner: str, name: str = "m", pose: str = "0 0 0 0 0 0") -> str:
    return f'<model name="{name}"><static>true</static><pose>{pose}</pose>{inner}</model>'


def _link(geometry: str, pose: str = "0 0 0 0 0 0", part: str = "collision") -> str:
    return f'<link name="l"><{part} name="c"><pose>{pose}</pose>{geometry}</{part}></link>'


def _read(directory: Path, body: str) -> tuple[WorldSpecification, Scene]:
    world = load_world(_sdf(directory, body))
    return world, Scene(world.scene)


def _fault(directory: Path, body: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_world(_sdf(directory, body))
    text = str(caught.value)
    assert all(line.startswith(f"{directory}/world.sdf: ") for line in text.splitlines()), text
    return text.replace(str(directory), "")


def test_east_north_up_becomes_north_east_down(tmp_path: Path) -> None:
    world, scene = _read(tmp_path, GROUND + _model(_link(BOX), pose="10 20 1.5 0 0 0"))
    assert world.scene.ground
    (shape,) = scene.shapes
    np.testing.assert_allclose(shape["low"], [19.0, 9.5, -3.0])
    np.testing.assert_allclose(shape["high"], [21.0, 10.5, 0.0])


def test_poses_nest_and_turn_with_yaw_first(tmp_path: Path) -> None:
    inner = _link(BOX, pose="1 0 0 0.1 -0.2 0.3").replace(
        '<link name="l">', '<link name="l"><pose>0 2 0 0 0 0.5</pose>'
    )
    _, scene = _read(tmp_path, _model(inner, pose="3 0 1 0 0 1.2"))

    def pose(x: float, y: float, z: float, roll: float, pitch: float, yaw: float) -> Any:
        def turn(axis: int, angle: float) -> Any:
            i, j = (axis + 1) % 3, (axis + 2) % 3
            matrix = np.eye(4)
            matrix[i, i] = matrix[j, j] = math.cos(angle)
            matrix[j, i], matrix[i, j] = math.sin(angle), -math.sin(angle)
            return matrix

        shift = np.eye(4)
        shift[:3, 3] = x, y, z
        return shift @ turn(2, yaw) @ turn(1, pitch) @ turn(0, roll)

    enu = pose(3, 0, 1, 0, 0, 1.2) @ pose(0, 2, 0, 0, 0, 0.5) @ pose(1, 0, 0, 0.1, -0.2, 0.3)
    (shape,) = scene.shapes
    np.testing.assert_allclose(shape["position"], [enu[1, 3], enu[0, 3], -enu[2, 3]], atol=1e-12)
    corner = enu @ np.array([0.5, 1.0, 1.5, 1.0])
    ours = shape["position"] + shape["rotation"] @ np.array([1.0, 0.5, -1.5])
    np.testing.assert_allclose(ours, [corner[1], corner[0], -corner[2]], atol=1e-12)


def test_poses_are_relative_to_the_frames_that_they_name(tmp_path: Path) -> None:
    sphere = '<collision name="c"><geometry><sphere><radius>1</radius></sphere></geometry></collision>'
    inner = (
        '<frame name="f" attached_to="a"><pose>0 0 5 0 0 0</pose></frame>'
        '<link name="a"><pose>1 0 0 0 0 0</pose></link>'
        f'<link name="b"><pose relative_to="f">0 1 0 0 0 0</pose>{sphere}</link>'
        f'<model name="deep"><pose relative_to="b" degrees="true">0 0 0 0 0 90</pose>'
        f'<link name="c"><pose>2 0 0 0 0 0</pose>{sphere}</link></model>'
        f'<link name="d"><pose relative_to="deep::c">1 0 0 0 0 0</pose>{sphere}</link>'
    )
    _, scene = _read(tmp_path, _model(inner, pose="10 0 0 0 0 0"))
    places = {name: tuple(shape["position"].round(9)) for name, shape in scene.objects()}
    # b: 10 + 1 east, 1 north, 5 up; deep turns x to the north.
    assert places == {"m/b": (1.0, 11.0, -5.0), "m/deep/c": (3.0, 11.0, -5.0), "m/d": (4.0, 11.0, -5.0)}


@pytest.mark.parametrize("up", ["Z_UP", "Y_UP", "glTF"])
def test_a_mesh_stands_as_in_gazebo_which_ignores_its_upward_axis(tmp_path: Path, up: str) -> None:
    pytest.importorskip("collada")
    trimesh: Any = pytest.importorskip("trimesh")
    file, scale = ("box.glb", 0.5) if up == "glTF" else ("box.dae", 1.0)
    if up == "glTF":
        trimesh.Trimesh(CORNERS * BOX_SIZE, FACES, process=False).export(tmp_path / file)
    else:
        write_collada(tmp_path / file, up, 0.5)
    mesh = f"<mesh><uri>{file}</uri><scale>{scale} {scale} {scale}</scale></mesh>"
    _, scene = _read(tmp_path, _model(_link(f"<geometry>{mesh}</geometry>")))
    np.testing.assert_allclose(scene.shapes[0]["low"], (0.0, 0.0, -4.0))


def test_a_placement_frame_takes_the_place_of_its_model_and_a_joint_no_links_name(tmp_path: Path) -> None:
    link = _link(BOX)
    frame = '<frame name="f"><pose>1 0 0 0 0 0</pose></frame>'
    turned = (
        f'<model name="m" placement_frame="f"><pose degrees="true">10 0 0 0 0 90</pose>{link}{frame}</model>'
    )
    joint = f'<model name="j">{link}<joint name="l"><child>l</child><pose>5 5 5 0 0 0</pose></joint></model>'
    world, _ = _read(tmp_path, turned + joint)
    placed, jointed = world.scene.objects
    np.testing.assert_allclose(placed.position, (-1.0, 10.0, 0.0), atol=1e-12)
    assert jointed.position == (0.0, 0.0, 0.0)


def test_parts_of_a_geometry_that_are_not_read_are_noted(tmp_path: Path) -> None:
    write_obj(tmp_path / "box.obj")
    outline = "<polyline><point>0 0</point><point>4 0</point><point>0 4</point><height>1</height></polyline>"
    ring = _model(_link(f"<geometry>{outline * 2}</geometry>"), "ring")
    mesh = "<mesh><uri>box.obj</uri><submesh><name>lid</name></submesh></mesh>"
    world, _ = _read(tmp_path, GROUND + ring + _model(_link(f"<geometry>{mesh}</geometry>"), "bin"))
    assert world.scene.notes == (
        f"{tmp_path}/world.sdf: not read: <polyline> behind the first, such as a hole, of ring/l; <submesh>"
        " (the whole mesh is taken) of bin/l",
    )


def test_a_saved_state_places_models_and_their_links_in_the_world(tmp_path: Path) -> None:
    state = (
        '<state world_name="w"><model name="m"><pose>1 2 0 0 0 0</pose><scale>1 1 2</scale>'
        '<link name="l"><pose>1 2 5 0 0 0</pose></link></model>'
        '<model name="n"><pose frame="">7 8 0 0 0 0</pose></model></state>'
    )
    body = _model(_link(BOX), pose="9 9 9 0 0 0") + _model(_link(BOX, "0 0 1 0 0 0"), "n", "3 3 3 0 0 1")
    world, _ = _read(tmp_path, GROUND + body + state)
    np.testing.assert_allclose([item.position for item in world.scene.objects], [[2, 1, -5], [8, 7, -1]])
    notes = [note.removeprefix(f"{tmp_path}/world.sdf: ") for note in world.scene.notes]
    assert notes == [
        "models are where its <state> puts them, as in Gazebo classic",
        "not read: scale in <state> of m",
    ]


def test_comments_that_gazebo_reads_are_read(tmp_path: Path) -> None:
    file = _sdf(tmp_path, GROUND)
    file.write_text("<!-- free -->\n" + file.read_text().replace("<sdf", "<!-- gz sim --verbose\n-->\n<sdf"))
    assert load_world(file).scene.ground
    file.write_text(file.read_text().replace("</world>", "</w>"))
    with pytest.raises(ConfigurationError, match="line 7: is not XML: mismatched tag"):
        load_world(file)


def test_every_geometry_that_is_read_makes_its_shape(tmp_path: Path) -> None:
    write_obj(tmp_path / "box.obj")
    parts = (
        "<cylinder><radius>0.5</radius><length>4</length></cylinder>",
        "<mesh><uri>box.obj</uri><scale>1 1 0.5</scale></mesh>",
        "<polyline><point>-20 0</point><point>20 0</point><point>0 10</point><height>40</height></polyline>",
        "<capsule><radius>0.5</radius><length>4</length></capsule>",
        "<cone><radius>0.5</radius><length>4</length></cone>",
        "<ellipsoid><radii>1 2 3</radii></ellipsoid>",
    )
    body = "".join(
        _model(_link(f"<geometry>{part}</geometry>"), f"m{i}", pose="40 20 0 1.5707963267948966 0 0")
        for i, part in enumerate(parts)
    )
    world, scene = _read(tmp_path, body)
    boxes = {name: (shape["low"].round(6) + 0.0, shape["high"].round(6)) for name, shape in scene.objects()}
    np.testing.assert_allclose(boxes["m0/l"], [[18.0, 39.5, -0.5], [22.0, 40.5, 0.5]])
    # The mesh's z, half of 8 m, points to the south.
    np.testing.assert_allclose(boxes["m1/l"], [[16.0, 40.0, -BOX_SIZE[1]], [20.0, 42.0, 0.0]], atol=1e-4)
    # A ridge along north, from 20 m to 60 m east and 10 m high.
    np.testing.assert_allclose(boxes["m2/l"], [[-20.0, 20.0, -10.0], [20.0, 60.0, 0.0]], atol=1e-4)
    np.testing.assert_allclose(boxes["m3/l"], [[17.5, 39.5, -0.5], [22.5, 40.5, 0.5]], atol=1e-4)
    np.testing.assert_allclose(boxes["m4/l"], [[18.0, 39.5, -0.5], [22.0, 40.5, 0.5]], atol=1e-4)
    np.testing.assert_allclose(boxes["m5/l"], [[17.0, 39.0, -2.0], [23.0, 41.0, 2.0]], atol=1e-4)
    assert not world.scene.ground
    assert not any("no ground" in note for note in world.scene.notes)


@pytest.mark.parametrize(
    ("solid", "volume"),
    [
        (capsule(0.5, 4.0), np.pi * (0.5**2 * 4.0 + 4.0 / 3.0 * 0.5**3)),
        (cone(0.5, 4.0), np.pi * 0.5**2 * 4.0 / 3.0),
        (ellipsoid(1.0, 2.0, 3.0), 4.0 / 3.0 * np.pi * 6.0),
    ],
)
def test_a_solid_of_revolution_is_closed_and_has_its_volume(solid: TriangleMesh, volume: float) -> None:
    corners = solid.vertices[solid.faces]
    assert np.linalg.det(corners).sum() / 6.0 == pytest.approx(volume, rel=5e-3)
    assert is_solid(solid.vertices, solid.faces)
    things = (mesh_object(solid.vertices, solid.faces),)
    scene = Scene(SceneSpecification(objects=things, ground=False))
    points = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 10.0]])
    distance, _, _ = nearest(scene.record[0], points, 20.0)
    assert distance[0] < 0.0 < distance[1]
    assert distance[1] == pytest.approx(10.0 - solid.vertices[:, 2].max(), abs=1e-6)


def test_planes_are_endless_but_for_visuals_and_the_level_one_is_the_ground(tmp_path: Path) -> None:
    tilted = "<geometry><plane><normal>1 0 1</normal></plane></geometry>"
    sheet = "<geometry><plane><size>4 2</size></plane></geometry>"
    body = GROUND + _model(_link(tilted), "t", "5 0 0 0 0 0") + _model(_link(sheet, part="visual"), "s")
    world, scene = _read(tmp_path, body)
    assert world.scene.ground
    shapes = dict(scene.objects())
    # The solid side is that of the shape's z axis: west and down.
    np.testing.assert_allclose(shapes["t/l"]["rotation"][:, 2], [0.0, -(0.5**0.5), 0.5**0.5], atol=1e-12)
    np.testing.assert_allclose(shapes["s/l"]["high"], [1.0, 2.0, 0.002], atol=1e-12)


def test_collisions_count_before_visuals_and_take_their_colours(tmp_path: Path) -> None:
    def visual(shape: str, color: str) -> str:
        material = f"<material><diffuse>{color}</diffuse></material>"
        return f'<visual name="v"><geometry>{shape}</geometry>{material}</visual>'

    ball = "<sphere><radius>1</radius></sphere>"
    cube = "<box><size>1 1 1</size></box>"
    friction = "<surface><friction><ode><mu>0.2</mu></ode></friction></surface>"
    link = (
        f'<link name="l"><collision name="c"><geometry>{cube}</geometry>{friction}</collision>'
        + visual(ball, "1 0 0 1")
        + visual(cube, "0 1 0 1")
        + "</link>"
    )
    world, _ = _read(tmp_path, _model(link))
    (thing,) = world.scene.objects
    assert (thing.kind, thing.color, thing.friction) == ("box", (0.0, 1.0, 0.0), 0.2)
    world, _ = _read(tmp_path, _model('<link name="l">' + visual(ball, "1 0 0 1") + "</link>"))
    (thing,) = world.scene.objects
    assert (thing.kind, thing.color) == ("sphere", (1.0, 0.0, 0.0))


def test_a_height_map_stands_about_its_centre_with_its_brightest_pixel_at_the_top(tmp_path: Path) -> None:
    image: Any = pytest.importorskip("PIL.Image")
    image.fromarray(np.array([[0, 100, 0], [50, 0, 0], [0, 0, 0]], np.uint8)).save(tmp_path / "h.png")
    part = "<geometry><heightmap><uri>h.png</uri><size>20 40 5</size><pos>0 0 1</pos></heightmap></geometry>"
    _, scene = _read(tmp_path, _model(_link(part), pose="100 0 0 0 0 0"))
    (shape,) = scene.shapes
    np.testing.assert_allclose(shape["low"], [-20.0, 90.0, -6.0])
    np.testing.assert_allclose(shape["high"], [20.0, 110.0, -1.0])
    # 10 m is the finer spacing: three columns stay, three rows become five.
    assert (shape["rows"], shape["columns"], shape["spacing"]) == (5, 3, 10.0)


def test_included_models_are_found_by_the_path_and_placed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "elsewhere" / "crate"
    (place / "meshes").mkdir(parents=True)
    write_obj(place / "meshes" / "box.obj")
    (place / "model.config").write_text(
        "<model><sdf version='1.10'>crate.sdf</sdf><sdf version='1.9'>old.sdf</sdf>"
        "<sdf version='1.4'>old.sdf</sdf></model>",
        encoding="utf-8",
    )
    inner = _model(
        _link("<geometry><mesh><uri>model:///crate/meshes/box.obj</uri></mesh></geometry>"), "crate"
    )
    (place / "crate.sdf").write_text(f"<sdf version='1.10'>{inner}</sdf>", encoding="utf-8")
    (place / "old.sdf").write_text("<sdf version='1.9'/>", encoding="utf-8")
    include = "<include><uri>model://crate</uri><name>{}</name><pose>{} 0 0 0 0 0</pose></include>"
    body = include.format("one", 0) + include.format("two", 100)
    monkeypatch.delenv("PX4_DIR", raising=False)
    monkeypatch.setenv("GZ_SIM_RESOURCE_PATH", "/nowhere")
    fault = _fault(tmp_path, body)
    missing, remedy = fault.splitlines()
    assert missing.endswith("/world.sdf: line 2: model://crate: was not found (named 2 times)")
    assert "/nowhere" in remedy
    assert "gazebo-classic/models" in remedy
    assert "put the directory of its models into GZ_SIM_RESOURCE_PATH, or leave it out by" in remedy
    without = tmp_path / "without.yaml"
    without.write_text("scene: {sdf: world.sdf, missing: leave_out}", encoding="utf-8")
    _sdf(tmp_path, body + _model(_link(BOX)))
    left = load_world(without)
    assert [name for name, _ in Scene(left.scene).objects()] == ["m/l"]
    assert any("left out, as not there: model://crate" in note for note in left.scene.notes)
    monkeypatch.setenv("GZ_SIM_RESOURCE_PATH", f"/nowhere:{tmp_path}/elsewhere")
    _, scene = _read(tmp_path, body)
    lows = {name: shape["low"][1] for name, shape in scene.objects()}
    assert lows == {"one/l": 0.0, "two/l": 100.0}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GZ_SIM_RESOURCE_PATH", "elsewhere")
    (tmp_path / "worlds").mkdir()
    world = load_world(_sdf(Path("worlds"), body))
    assert [item.position[1] for item in world.scene.objects] == [0.0, 100.0]


def test_models_on_the_network_are_refused_with_how_to_download_them_and_found_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GZ_FUEL_CACHE_PATH", str(tmp_path / "fuel"))
    uri = "https://fuel.gazebosim.org/1.0/Someone/models/Oak Tree"
    body = f"<include><uri>{uri}</uri></include>"
    fault = _fault(tmp_path, body)
    assert f"download it with `gz fuel download -u '{uri}'`" in fault
    assert "/fuel/fuel.gazebosim.org/someone/models/oak tree" in fault
    for version in ("2", "10"):
        place = tmp_path / "fuel/fuel.gazebosim.org/someone/models/oak tree" / version
        place.mkdir(parents=True)
        text = f"<sdf version='1.9'>{_model(_link(BOX), f'tree{version}')}</sdf>"
        (place / "model.sdf").write_text(text, encoding="utf-8")
    _, scene = _read(tmp_path, body)
    assert scene.names == ("tree10/l",)


def test_origin_and_wind_are_the_worlds_unless_the_yaml_sets_them(tmp_path: Path) -> None:
    place = (
        "<spherical_coordinates><latitude_deg>1.5</latitude_deg><longitude_deg>2.5</longitude_deg>"
        "<elevation>30</elevation></spherical_coordinates>"
        "<wind><linear_velocity>5 0 0.5</linear_velocity></wind>"
    )
    world, _ = _read(tmp_path, GROUND + place)
    assert (world.origin.latitude, world.origin.longitude, world.origin.altitude) == (1.5, 2.5, 30.0)
    # The air moves to the east and up.
    np.testing.assert_allclose(World(world).wind[0]["steady"], [0.0, 5.0, -0.5], atol=1e-12)
    file = tmp_path / "world.yaml"
    file.write_text(
        "origin: {latitude: 9}\nwind: {}\nscene: {sdf: world.sdf, ground: false}\n", encoding="utf-8"
    )
    world = load_world(file)
    assert (world.origin.latitude, world.wind.steady, world.scene.ground) == (9.0, None, False)


def test_what_is_not_read_is_named_in_one_note(tmp_path: Path) -> None:
    torus = '<collision name="k"><geometry><torus/></geometry></collision>'
    body = (
        '<plugin filename="libPhysics.so" name="p"/><light name="sun" type="directional"/>'
        "<gravity>0 0 -3.7</gravity>"
        f'<model name="cart"><link name="l">{torus}</link><joint name="wheel"/></model>'
    )
    world, _ = _read(tmp_path, body)
    notes = [note.removeprefix(f"{tmp_path}/world.sdf: ") for note in world.scene.notes]
    gravity = float(World(world).environment[0]["gravity"])
    assert notes == [
        f"gravity 0 0 -3.7 is ignored; it is {gravity:.3f} m/s^2 at the world's origin",
        "it has no ground; level ground at height 0 is used",
        "not read: plugin libPhysics.so; light sun; joint wheel; geometry <torus> of cart/l",
        "not static in the file, but static here: cart",
    ]
    assert world.scene.ground


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<light/>", "line 2: <world> contains no model"),
        (_model(_link(BOX.replace("1 2 3", "1 2"))), "line 2: <size> needs 3 numbers up to 1e+06, not '1 2'"),
        (_model(_link(BOX.replace("1 2 3", "1 2 0"))), "line 2: <size> has 0; all must be at least 1e-12"),
        (
            _model(_link(BOX.replace("1 2 3", "1 2 1e-320"))),
            "line 2: <size> has 9.99989e-321; all must be at",
        ),
        (_model(_link(BOX.replace("1 2 3", "1 nan 3"))), "line 2: <size> needs 3 numbers"),
        (_model(_link(BOX), pose="1 2"), "line 2: <pose> needs 6 numbers"),
        (_model(_link("<geometry><sphere/></geometry>")), "line 2: <sphere> has no <radius>"),
        ("<include/>", "line 2: <include> has no <uri>"),
        (
            _model(_link("<geometry><mesh><uri>no.obj</uri></mesh></geometry>")),
            "line 2: no.obj: was not found",
        ),
        ("<include><uri>ftp://x/y</uri></include>", "line 2: ftp://x/y: only model://"),
        (
            '<model name="m"><frame name="a" attached_to="b"/><frame name="b" attached_to="a"/>'
            f'<link name="l"><pose relative_to="a">0 0 0 0 0 0</pose>{BOX}</link></model>',
            "is relative to itself",
        ),
        (
            f'<model name="m"><link name="l"><pose relative_to="x">0 0 0 0 0 0</pose>{BOX}</link></model>',
            "line 2: <pose> is relative to the frame 'x', which does not exist",
        ),
        (
            _model(_link("<geometry><polyline><point>0 0</point><height>1</height></polyline></geometry>")),
            "line 2: <polyline> has 1 corners; an outline has from 3 to 1000",
        ),
        (
            "<spherical_coordinates><latitude_deg>95</latitude_deg></spherical_coordinates>",
            "line 2: <spherical_coordinates> is not a position on the Earth",
        ),
    ],
)
def test_a_fault_is_reported_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, said: str
) -> None:
    monkeypatch.delenv("PX4_DIR", raising=False)
    assert said in _fault(tmp_path, body)


def test_all_faults_are_reported_at_once_and_through_the_yaml_that_names_the_world(tmp_path: Path) -> None:
    bad = _link(BOX.replace("1 2 3", "0 0 0"))
    _sdf(tmp_path, _model(bad, "a") + "\n" + _model(bad, "b"))
    file = tmp_path / "world.yaml"
    file.write_text("scene:\n  sdf: world.sdf\n", encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        load_world(file)
    lines = str(caught.value).replace(str(tmp_path), "").splitlines()
    assert [line.partition(" has")[0] for line in lines] == [
        f"/world.yaml: line 2: scene.sdf: /world.sdf: line {n}: <size>" for n in (2, 3)
    ]


def test_check_prints_what_stands_in_a_world(tmp_path: Path) -> None:
    write_obj(tmp_path / "box.obj")
    mesh = _link("<geometry><mesh><uri>box.obj</uri></mesh></geometry>")
    file = _sdf(
        tmp_path, GROUND + _model(mesh, "house") + _model(_link(BOX), "crate", "10 0 1.5 0 0 0") + "<light/>"
    )
    facts = derive_facts(str(file))
    assert facts["scene"].pop("memory_mb") > 0.0
    assert facts["scene"] == {
        "ground": "level at height 0",
        "objects": ["1 x mesh", "1 x box"],
        "names": "house/l, crate/l",
        "extent_m": ["north -1.0 to 4.0", "east 0.0 to 10.5", "down -8.0 to 0.0"],
        "triangles": 12,
    }
    assert facts["warnings"] == [f"{file}: not read: light w"]
    shown = run_command("check", str(file))
    assert shown.exit_code == 0
    assert "1 x mesh" in shown.output
    assert "note: " in shown.output


def test_entities_other_files_and_endless_nesting_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "world.sdf"
    for text, said in (
        ('<!DOCTYPE a [<!ENTITY b SYSTEM "/etc/passwd">]>\n<sdf>&b;</sdf>', "line 1: has a document type"),
        ("<sdf>" + "<a>" * 200, "nested deeper than 100"),
        ("<sdf><world></sdf>", "line 1: is not XML: mismatched tag"),
        ("", "is not XML: no element found"),
        ("<robot/>", "line 1: is not an SDF file: it begins with <robot>, not with <sdf>"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigurationError, match=said.replace("<", "<")) as caught:
            load_world(file)
        assert "\n" not in str(caught.value)


def test_models_that_include_themselves_end(tmp_path: Path) -> None:
    place = tmp_path / "models" / "loop"
    place.mkdir(parents=True)
    include = "<include><uri>model://loop</uri></include>"
    (place / "model.sdf").write_text(f"<sdf>{_model(include, 'loop')}</sdf>", encoding="utf-8")
    assert "models are nested deeper than 10" in _fault(tmp_path, include)


def test_a_world_of_too_many_objects_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdf_world, "MAX_OBJECTS", 3)
    body = "".join(_model(_link(BOX), f"m{i}") for i in range(4))
    assert "a world can have 3 objects" in _fault(tmp_path, body)
    monkeypatch.setattr(xml_file, "MAX_NODES", 10)
    assert "has more than 10 elements" in _fault(tmp_path, body)


@pytest.mark.parametrize("clockwise", [False, True])
def test_an_outline_becomes_a_closed_solid_of_its_volume(clockwise: bool) -> None:
    outline = np.array([[0, 0], [4, 0], [4, 3], [2, 1], [0, 3], [0, 0]], float)  # an M of 8 m2
    solid = extrude(outline[::-1] if clockwise else outline, 2.0)
    assert is_solid(solid.vertices, solid.faces)
    a, b, c = (solid.vertices[solid.faces[:, i]] for i in range(3))
    assert np.einsum("ij,ij->", a, np.cross(b, c)) / 6.0 == pytest.approx(16.0)
    with pytest.raises(UserError, match="encloses no area or crosses itself"):
        extrude(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]), 1.0)


WHOLE = (
    GROUND
    + _model(_link(BOX, pose="1 2 3 0.1 0.2 0.3"), "box", "4 5 6 0 0 1")
    + "<include><uri>model://none</uri></include><wind><linear_velocity>1 2 3</linear_velocity></wind>"
    + "<spherical_coordinates><latitude_deg>47</latitude_deg></spherical_coordinates>"
    + "<gravity>0 0 -9.8</gravity>"
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    at=st.integers(0, len(WHOLE) - 1),
    length=st.integers(0, 30),
    put=st.sampled_from(
        ["", "<", ">", "nan", "1e400", "-", "\x00", "<model>", "relative_to='box'", "é", "0 0"]
    ),
)
def test_a_damaged_world_is_read_or_refused_with_its_place(
    tmp_path: Path, at: int, length: int, put: str
) -> None:
    file = _sdf(tmp_path, WHOLE[:at] + put + WHOLE[at + length :])
    try:
        World(load_world(file))
    except UserError as error:
        refused = str(error)
    else:
        refused = str(file)
    assert refused.startswith(str(file))


def test_gazebos_own_sun_and_ground_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PX4_DIR", "/nowhere")
    own = "".join(f"<include><uri>model://{name}</uri></include>" for name in ("sun", "ground_plane"))
    world, scene = _read(tmp_path, own + _model(_link(BOX)))
    assert world.scene.ground
    assert [name for name, _ in scene.objects()] == ["m/l"]
    assert not any("sun" in note or "no ground" in note for note in world.scene.notes)


def test_the_origin_that_gazebo_classic_saves_for_none_is_none(tmp_path: Path) -> None:
    inner = "<latitude_deg>{}</latitude_deg><longitude_deg>0</longitude_deg>"
    place = f"<spherical_coordinates>{inner}</spherical_coordinates>"
    world, _ = _read(tmp_path, place.format(0) + _model(_link(BOX)))
    assert world.origin.latitude == pytest.approx(47.4, abs=0.1), "PX4's home"
    assert any("0 N 0 E" in note for note in world.scene.notes)
    world, _ = _read(tmp_path, place.format(10) + _model(_link(BOX)))
    assert (world.origin.latitude, world.origin.longitude) == (10.0, 0.0)
    fault = _fault(tmp_path, place.format(90) + _model(_link(BOX)))
    assert "is not a position on the Earth" in fault, "no flight stack navigates at a pole"
