"""Files of scenes: meshes, height maps and octree maps as the worlds that name them get them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.scene_files import (
    BOX_SIZE,
    CORNERS,
    FACES,
    one_cell,
    write_collada,
    write_obj,
    write_octree,
    write_stl,
)

from sitl_bridge.base.errors import ConfigurationError, UserError
from sitl_bridge.core.world import mesh_file, octree_file
from sitl_bridge.core.world.height_map_file import load_heights
from sitl_bridge.core.world.mesh_file import load_mesh
from sitl_bridge.core.world.octree_file import load_octree
from sitl_bridge.core.world.records import PLANE
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.scene_specification import MeshObject
from sitl_bridge.core.world.world import WorldSpecification
from sitl_bridge.core.world.world_file import load_world
from sitl_bridge.session.scenario import load_scenario

Image: Any = pytest.importorskip("PIL.Image")
trimesh: Any = pytest.importorskip("trimesh")
ORIGIN = (47.397742, 8.545594, 488.0)
EAST, NORTH, UP = BOX_SIZE


def _world(directory: Path, *objects: str) -> WorldSpecification:
    file = directory / "world.yaml"
    rows = "".join(f"    - {{{one}}}\n" for one in objects)
    file.write_text(f"scene:\n  objects:\n{rows}", encoding="utf-8")
    return load_world(file)


def _fault(directory: Path, *objects: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        _world(directory, *objects)
    return str(caught.value).replace(str(directory), "")


@pytest.mark.parametrize("name", ["box.obj", "box.stl", "box.ply", "box.glb"])
def test_meshes_stand_with_x_to_the_east_and_z_up_and_gltf_with_y_up(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "box.obj":
        write_obj(path)
    elif name == "box.stl":
        write_stl(path)
    else:
        trimesh.Trimesh(CORNERS * BOX_SIZE, FACES, process=False).export(path)
    mesh = load_mesh(path, None, (1.0, 1.0, 1.0))
    assert mesh.solid
    if name.endswith("glb"):
        # x right (east), y up, z towards the viewer (south).
        np.testing.assert_allclose(mesh.vertices.min(axis=0), [-UP, 0.0, -NORTH])
        np.testing.assert_allclose(mesh.vertices.max(axis=0), [0.0, EAST, 0.0])
    else:
        np.testing.assert_allclose(mesh.vertices.min(axis=0), [0.0, 0.0, -UP])
        np.testing.assert_allclose(mesh.vertices.max(axis=0), [NORTH, EAST, 0.0])


def test_the_axes_and_the_scale_of_an_object_are_applied(tmp_path: Path) -> None:
    write_obj(tmp_path / "box.obj")
    world = _world(tmp_path, "kind: mesh, file: box.obj, axes: ned, scale: [1, 0.5, 2], position: [5, 0, 0]")
    shape = Scene(world.scene).shapes[0]
    np.testing.assert_allclose(shape["low"], [5.0, 0.0, 0.0])
    np.testing.assert_allclose(shape["high"], [7.0, 2.0, 16.0])
    assert shape["solid"] == 1


@pytest.mark.parametrize(("up", "lowest"), [("Z_UP", (0.0, 0.0, -4.0)), ("Y_UP", (-4.0, 0.0, -2.0))])
def test_a_collada_mesh_has_the_upward_axis_and_the_unit_that_it_states(
    tmp_path: Path, up: str, lowest: tuple[float, float, float]
) -> None:
    pytest.importorskip("collada")
    mesh = load_mesh(write_collada(tmp_path / "box.dae", up, 0.5), None, (1.0, 1.0, 1.0))
    np.testing.assert_allclose(mesh.vertices.min(axis=0), lowest)


def test_nodes_of_a_file_keep_their_transforms_and_mirrored_ones_their_outside(tmp_path: Path) -> None:
    scene = trimesh.Scene()
    box = trimesh.Trimesh(CORNERS, FACES, process=False)
    moved, mirrored = np.eye(4), np.diag([-1.0, 1.0, 1.0, 1.0])
    moved[:3, 3] = (10.0, 0.0, 0.0)
    scene.add_geometry(box, geom_name="a", transform=moved)
    scene.add_geometry(box, geom_name="b", transform=mirrored)
    path = tmp_path / "two.glb"
    scene.export(path)
    mesh = load_mesh(path, "ned", (1.0, 1.0, 1.0))
    assert mesh.solid
    np.testing.assert_allclose(np.unique(mesh.vertices[:, 0]), [-1.0, 0.0, 10.0, 11.0])


def test_colours_of_faces_and_of_materials_are_kept(tmp_path: Path) -> None:
    painted = trimesh.Trimesh(CORNERS, FACES, process=False)
    painted.visual.face_colors = [[255, 0, 51, 255]] * 6 + [[0, 255, 0, 255]] * 6
    painted.export(tmp_path / "faces.ply")
    colors = load_mesh(tmp_path / "faces.ply", None, (1.0, 1.0, 1.0)).colors
    assert colors is not None
    np.testing.assert_allclose(colors[[0, 11]], [[1.0, 0.0, 0.2], [0.0, 1.0, 0.0]])
    write_obj(tmp_path / "red.obj")
    text = (tmp_path / "red.obj").read_text(encoding="utf-8")
    (tmp_path / "red.obj").write_text("mtllib red.mtl\nusemtl red\n" + text, encoding="utf-8")
    (tmp_path / "red.mtl").write_text("newmtl red\nKd 1.0 0.2 0.0\n", encoding="utf-8")
    colors = load_mesh(tmp_path / "red.obj", None, (1.0, 1.0, 1.0)).colors
    assert colors is not None
    np.testing.assert_allclose(colors, np.tile([1.0, 0.2, 0.0], (12, 1)), atol=0.003)


def test_an_open_mesh_and_one_turned_inside_out_have_no_inside() -> None:
    assert mesh_file.is_solid(CORNERS, FACES)
    assert not mesh_file.is_solid(CORNERS, FACES[:-1])
    assert not mesh_file.is_solid(CORNERS, FACES[:, ::-1])


def test_a_vertex_without_three_numbers_is_refused(tmp_path: Path) -> None:
    write_obj(tmp_path / "box.obj")
    text = (tmp_path / "box.obj").read_text(encoding="utf-8")
    number = next(line for line in text.splitlines() if line.startswith("v ")).split()[3]
    (tmp_path / "box.obj").write_text(text.replace(number, f"{number[0]}\x0b{number}", 1), encoding="utf-8")
    assert "box.obj: is broken" in _fault(tmp_path, "kind: mesh, file: box.obj")


def test_a_file_that_many_objects_name_is_read_once(tmp_path: Path) -> None:
    write_obj(tmp_path / "box.obj")
    world = _world(tmp_path, *["kind: mesh, file: box.obj"] * 3)
    meshes = {id(thing.geometry) for thing in world.scene.objects if isinstance(thing, MeshObject)}
    assert len(meshes) == 1


def test_every_fault_of_a_scene_is_reported_with_its_line_and_path(tmp_path: Path) -> None:
    (tmp_path / "broken.glb").write_bytes(b"glTF" + bytes(30))
    (tmp_path / "points.obj").write_text("v 0 0 0\nv 1 0 0\n", encoding="utf-8")
    (tmp_path / "house.blend").write_bytes(b"BLENDER")
    write_octree(tmp_path / "empty.bt", bytes(2))
    lines = _fault(
        tmp_path,
        "kind: mesh, file: none.obj",
        "kind: mesh, file: broken.glb",
        "kind: mesh, file: points.obj",
        "kind: mesh, file: house.blend",
        "kind: octree, file: empty.bt",
        "kind: height_map, file: hills.png, spacing: 1",
    ).splitlines()
    assert len(lines) == 6
    for i, (line, said) in enumerate(
        zip(
            lines,
            [
                "/none.obj: cannot be read: No such file or directory",
                "/broken.glb: is broken, or not a GLB mesh: ",
                "/points.obj: ",
                "/house.blend: is not a supported mesh; the formats are .dae, .glb, .gltf, .obj",
                "/empty.bt: is an empty map: it has no occupied cell",
                "/hills.png: cannot be read: No such file",
            ],
            strict=True,
        )
    ):
        assert line.startswith(f"/world.yaml: line {3 + i}: scene.objects[{i}].file: {said}"), line


def test_the_world_of_a_scenario_is_read_with_its_files(tmp_path: Path) -> None:
    text = "mission: fly.py\nvehicles: [{airframe: iris}]\nworld:\n  scene:\n    objects:\n"
    file = tmp_path / "scenario.yaml"
    file.write_text(text + "      - {kind: mesh, file: box.obj}\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"line 6: world.scene.objects\[0\].file: .*box.obj: cannot"):
        load_scenario(file)
    write_obj(tmp_path / "box.obj")
    assert len(Scene(load_scenario(file).world.scene).shapes) == 1


def test_a_huge_mesh_is_refused_with_what_reduces_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_obj(tmp_path / "box.obj")
    monkeypatch.setattr(mesh_file, "MAX_TRIANGLES", 20)
    _world(tmp_path, *["kind: mesh, file: box.obj"] * 2)
    fault = _fault(tmp_path, "kind: mesh, file: box.obj", "kind: mesh, file: box.obj, scale: 2")
    assert "objects[1].file: /box.obj: with the meshes before it, the world: has 24 triangles" in fault
    assert "can have 20; reduce it, in Blender with the modifier Decimate" in fault


@pytest.mark.parametrize("scale", ["1e7", "[1, 1, 1e7]"])
def test_a_mesh_beyond_single_precision_is_refused(tmp_path: Path, scale: str) -> None:
    write_obj(tmp_path / "box.obj")
    assert "beyond 1e+06 m; check its scale" in _fault(tmp_path, f"kind: mesh, file: box.obj, scale: {scale}")


def test_a_missing_package_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_obj(tmp_path / "box.obj")
    monkeypatch.setitem(__import__("sys").modules, "trimesh", None)
    assert (
        "meshes need the package trimesh, which is not installed: pip install trimesh, or pip install"
        " 'sitl-bridge[perception]'"
    ) in _fault(tmp_path, "kind: mesh, file: box.obj")


@pytest.mark.parametrize(("dtype", "white"), [(np.uint8, 255), (np.uint16, 65535)])
def test_a_grey_picture_is_terrain_whose_upper_edge_is_the_north(
    tmp_path: Path, dtype: Any, white: int
) -> None:
    path = tmp_path / "hills.png"
    pixels = np.array([[0, white // 3, white], [white // 5, 0, 0]], dtype)
    Image.fromarray(pixels).save(path)
    grid, corner = load_heights(path, 2.0, 30.0, ORIGIN)
    np.testing.assert_allclose(grid.heights, [[6.0, 0.0, 0.0], [0.0, 10.0, 30.0]], atol=1e-3)
    assert (grid.spacing, corner) == (2.0, (0.0, 0.0, 0.0))
    world = _world(tmp_path, "kind: height_map, file: hills.png, spacing: 2, height: 30, position: [1, 2, 3]")
    shape = Scene(world.scene).shapes[0]
    np.testing.assert_allclose(shape["low"], [1.0, 2.0, -27.0])
    np.testing.assert_allclose(shape["high"], [3.0, 6.0, 3.0])
    if dtype is np.uint8:
        Image.open(path).convert("RGBA").save(tmp_path / "color.png")
        colored, _ = load_heights(tmp_path / "color.png", 2.0, 30.0, ORIGIN)
        np.testing.assert_array_equal(colored.heights, grid.heights)


def test_an_array_of_heights_is_taken_as_it_is(tmp_path: Path) -> None:
    heights = np.arange(12.0).reshape(3, 4)
    np.savez_compressed(tmp_path / "hills.npz", height=heights)
    grid, _ = load_heights(tmp_path / "hills.npz", 0.5, None, ORIGIN)
    np.testing.assert_array_equal(grid.heights, heights)


def test_broken_height_maps_are_refused_with_the_remedy(tmp_path: Path) -> None:
    Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3)).save(tmp_path / "color.png")
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / "good.png")
    (tmp_path / "torn.png").write_bytes((tmp_path / "good.png").read_bytes()[:40])
    np.savez(tmp_path / "other.npz", z=np.zeros((3, 3)))
    np.savez(tmp_path / "objects.npz", height=np.array([[{}, {}], [{}, {}]], object))
    np.savez(tmp_path / "line.npz", height=np.zeros(5))
    np.savez(tmp_path / "empty.npz", height=np.zeros((0, 5)))
    np.savez(tmp_path / "nan.npz", height=np.full((3, 3), np.nan))
    for name, height, said in (
        ("color.png", 1.0, "is not a grey picture (mode RGB); save it as grey with 8 or 16 bit"),
        ("torn.png", 1.0, "is broken or not a PNG"),
        ("good.png", None, "needs `height`, the height in m of a white pixel above a black one"),
        ("other.npz", None, "has no array 'height', only z.npy; write it with numpy.savez_compressed"),
        ("objects.npz", None, "is broken or not an NPZ file of numbers"),
        ("line.npz", None, "is empty: it has 5 heights"),
        ("empty.npz", None, "is empty: it has 0 x 5 heights"),
        ("nan.npz", None, "has heights that are not finite"),
        ("nan.npz", 3.0, "an NPZ file contains metres; leave out `height`"),
    ):
        with pytest.raises(UserError) as caught:
            load_heights(tmp_path / name, 1.0, height, ORIGIN)
        assert str(caught.value).startswith(f"{tmp_path / name}: {said}"), name
    with pytest.raises(UserError, match="needs `spacing`"):
        load_heights(tmp_path / "good.png", None, 1.0, ORIGIN)


def _geotiff(path: Path, *, epsg: int, west: float, north: float, pixel: float) -> None:
    rasterio: Any = pytest.importorskip("rasterio")
    rows, columns = 41, 61
    data = 500.0 + np.add.outer(-np.arange(rows), 2.0 * np.arange(columns))
    with rasterio.open(
        path, "w", driver="GTiff", height=rows, width=columns, count=1, dtype="float64",
        crs=f"EPSG:{epsg}", transform=rasterio.Affine(pixel, 0.0, west, 0.0, -pixel, north),
    ) as raster:  # fmt: skip
        raster.write(data, 1)


def test_a_geotiff_lies_where_its_coordinates_put_it(tmp_path: Path) -> None:
    # UTM zone 32 N; the origin of the world lies at 465711 m east, 5249465 m north.
    path = tmp_path / "dem.tif"
    _geotiff(path, epsg=32632, west=465711.0 - 300.0, north=5249465.0 + 200.0, pixel=10.0)
    grid, corner = load_heights(path, None, None, ORIGIN)
    np.testing.assert_allclose(corner, [-200.0, -300.0, 0.0], atol=8.0)
    assert grid.spacing == pytest.approx(10.0, rel=0.02)
    # 1 m down a pixel to the south, 2 m up a pixel to the east.
    gradient = np.gradient(grid.heights.astype(float), grid.spacing)
    assert gradient[0].mean() == pytest.approx(0.1, abs=0.005)
    assert gradient[1].mean() == pytest.approx(0.2, abs=0.005)
    assert grid.heights[20, 30] == pytest.approx(500.0 - 20.0 + 60.0 - 488.0, abs=2.0)
    with pytest.raises(UserError, match=r"is \d+ km from the world's origin .*set the world's `origin`"):
        load_heights(path, None, None, (10.0, 10.0, 0.0))


def test_the_cells_of_an_octree_map_are_where_octomap_has_them(tmp_path: Path) -> None:
    # The root's child 7 is that of positive x, y and z; its child 0 to the last level is the cell at 0.
    path = write_octree(tmp_path / "cell.bt", one_cell(7))
    grid = load_octree(path, "ned")
    assert (grid.occupied.shape, grid.size) == ((1, 1, 1), 0.5)
    np.testing.assert_allclose(grid.corner, [0.0, 0.0, 0.0])
    # x east, y north, z up: the cell from 0 to 0.5 above the origin.
    np.testing.assert_allclose(load_octree(path, "z_up").corner, [0.0, 0.0, -0.5])
    path = write_octree(tmp_path / "west.bt", one_cell(6))
    np.testing.assert_allclose(load_octree(path, "ned").corner, [-32768 * 0.5, 0.0, 0.0])
    np.testing.assert_allclose(load_octree(path, "z_up").corner, [0.0, -32768 * 0.5, -0.5])


@pytest.mark.parametrize("suffix", [".bt", ".ot"])
def test_an_octree_map_holds_the_same_cells_as_in_octomap(tmp_path: Path, suffix: str) -> None:
    octomap: Any = pytest.importorskip("pyoctomap")
    tree = octomap.OcTree(0.1)
    random = np.random.default_rng(1)
    block = np.stack(np.meshgrid(*[np.arange(0.05, 0.8, 0.1)] * 3), -1).reshape(-1, 3)
    for occupied, places in (
        (True, block),
        (True, random.uniform(-2, 2, (100, 3))),
        (False, random.uniform(-2, 2, (100, 3))),
    ):
        for place in places:
            tree.updateNode(place, occupied)
    tree.updateInnerOccupancy()
    tree.prune() if hasattr(tree, "prune") else None
    path = str(tmp_path / f"map{suffix}")
    tree.writeBinary(path) if suffix == ".bt" else tree.write(path)
    grid = load_octree(Path(path), "ned")
    cells = np.indices(grid.occupied.shape).reshape(3, -1).T[::7]
    for cell in cells:
        node = tree.search(grid.corner + (cell + 0.5) * grid.size)
        assert grid.occupied[tuple(cell)] == (node is not None and tree.isNodeOccupied(node))


def test_broken_octree_maps_are_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = one_cell(7)
    (tmp_path / "text.bt").write_text("hello", encoding="utf-8")
    (tmp_path / "kind.bt").write_bytes(b"# Octomap OcTree binary file\nid Mine\nres 1\ndata\n\0\0")
    for name, bits, said in (
        ("torn.bt", whole[:-3], "is broken: it ends within its nodes"),
        ("deep.bt", whole[:-2] + b"\x03\0" + b"\x02\0", "is broken: its nodes are deeper than 16 levels"),
        ("none.bt", b"", "is an empty map: it has no nodes"),
        ("text.bt", None, "is broken or not a .bt map of OctoMap"),
        ("kind.bt", None, "is a map of kind 'Mine'; the kinds are OcTree, ColorOcTree"),
    ):
        if bits is not None:
            write_octree(tmp_path / name, bits)
        with pytest.raises(UserError) as caught:
            load_octree(tmp_path / name, "z_up")
        assert str(caught.value).startswith(f"{tmp_path / name}: {said}")
    monkeypatch.setattr(octree_file, "MAX_CELLS", 7)
    with pytest.raises(UserError, match=r"spans 32768 x 32768 x 32768 cells of 0.5 m"):
        load_octree(write_octree(tmp_path / "large.bt", b"\x02\0"), "z_up")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (
            "points: [[0, 0, 0], [0, 0, 0]], speed: 1",
            "points 1 and 2 are at the same place; leave one of them",
        ),
        (
            "points: [[0, 0, 0], [1, 0, 0], [0, 0, 0]], speed: 1, end: loop",
            "points the last and the first, of a loop, are at the same place",
        ),
        ("points: [[0, 0, 0], [2e5, 0, 0]], speed: 1", "points lie more than 100 km from the world's origin"),
        ("points: [[0, 0, 0], [1, 0, 0]], speed: 0", "Input should be greater than 0"),
        ("points: [[0, 0, 0]], speed: 1", "Tuple should have at least 2 items"),
    ],
)
def test_a_path_that_leads_nowhere_or_out_of_the_world_is_refused(
    tmp_path: Path, path: str, said: str
) -> None:
    fault = _fault(tmp_path, f"kind: sphere, radius: 1, path: {{{path}}}")
    assert fault.startswith("/world.yaml: line 3: scene.objects[0].path")
    assert said in fault
    assert "\n" not in fault


SCENE = """
scene:
  ground: false
  ground_texture: {pattern: noise, size: 2}
  objects:
    - {kind: box, position: [1, 2, 3], rotation: [10, 20, 30], size: [1, 2, 3], color: [0.1, 0.2, 0.3]}
    - {kind: sphere, radius: 0.5, path: {points: [[0, 0, 0], [1, 1, 1]], speed: 2, end: loop}}
    - {kind: mesh, file: box.obj, scale: [1, 2, 3], axes: y_up}
    - {kind: height_map, file: h.npz, spacing: 2, position: [0, 0, 0]}
    - {kind: octree, file: cell.bt}
    - {kind: plane, texture: {pattern: checker, size: 0.5, color: [1, 0, 0]}}
"""


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    at=st.integers(0, len(SCENE) - 1),
    length=st.integers(0, 12),
    put=st.sampled_from(
        ["", "0", "-1", "1e9", "nan", "null", "[", "}", ": ", "box", "1e-320", "../", "\x00", "é"]
    ),
)
def test_a_damaged_scene_is_read_or_refused_with_its_place(
    tmp_path: Path, at: int, length: int, put: str
) -> None:
    write_obj(tmp_path / "box.obj")
    write_octree(tmp_path / "cell.bt", one_cell(7))
    np.savez(tmp_path / "h.npz", height=np.eye(3))
    file = tmp_path / "world.yaml"
    file.write_text(SCENE[:at] + put + SCENE[at + length :], encoding="utf-8")
    try:
        world = Scene(load_world(file).scene)
    except UserError as error:
        refused = str(error)
    else:
        refused = str(file)
        bounded = world.shapes[world.shapes["kind"] != PLANE]
        assert np.isfinite(bounded["low"]).all()
        assert np.isfinite(bounded["high"]).all()
    assert refused.startswith(str(file))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(
        ["box.stl", "box.obj", "box.ply", "box.glb", "map.bt", "map.ot", "hills.png", "h.npz"]
    ),
    at=st.floats(0.0, 1.0),
    put=st.binary(max_size=8),
    keep=st.floats(0.3, 1.0),
)
def test_a_damaged_file_is_read_or_refused_with_its_name(
    tmp_path: Path, name: str, at: float, put: bytes, keep: float
) -> None:
    path = tmp_path / name
    if name == "box.stl":
        write_stl(path)
    elif name == "box.obj":
        write_obj(path)
    elif name.startswith("box"):
        trimesh.Trimesh(CORNERS * BOX_SIZE, FACES, process=False).export(path)
    elif name == "map.bt":
        write_octree(path, one_cell(7))
    elif name == "map.ot":
        path.write_bytes(
            b"# Octomap OcTree file\nid OcTree\nsize 3\nres 0.5\ndata\n" + b"\0\0\0\0\x81" + bytes(10)
        )
    elif name == "hills.png":
        Image.fromarray(np.eye(9, dtype=np.uint8)).save(path)
    else:
        np.savez(path, height=np.eye(3))
    whole = path.read_bytes()
    start = int(at * len(whole))
    damaged = (whole[:start] + put + whole[start + len(put) :])[: int(keep * len(whole)) + 1]
    path.write_bytes(damaged)
    try:
        if name.startswith("box"):
            load_mesh(path, None, (1.0, 1.0, 1.0))
        elif name.startswith("map"):
            load_octree(path, "z_up")
        else:
            load_heights(path, 1.0, 5.0 if name == "hills.png" else None, ORIGIN)
    except UserError as error:
        refused = str(error)
    else:
        refused = str(path)
    assert refused.startswith(str(path))
