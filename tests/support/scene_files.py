"""Small files of scenes for tests: meshes, height maps, octree maps."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CORNERS = np.array([[x, y, z] for x in (0.0, 1.0) for y in (0.0, 1.0) for z in (0.0, 1.0)])
"""Of the unit cube, at 4 x + 2 y + z."""
FACES = np.array(
    [
        [0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1],
        [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3],
    ]
)  # fmt: skip
"""Counter-clockwise from outside."""
BOX_SIZE = np.array([2.0, 4.0, 8.0])
"""Along a file's x, y and z."""


def write_obj(path: Path, vertices: NDArray[np.float64] = CORNERS * BOX_SIZE) -> Path:
    """A box with a corner at the origin."""
    lines = [f"v {x} {y} {z}" for x, y, z in vertices] + [f"f {a} {b} {c}" for a, b, c in FACES + 1]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_stl(path: Path, vertices: NDArray[np.float64] = CORNERS * BOX_SIZE) -> Path:
    """The same, as a binary STL file, whose triangles share no vertices."""
    data = bytes(80) + struct.pack("<I", len(FACES))
    for face in FACES:
        data += struct.pack("<12fH", 0.0, 0.0, 0.0, *vertices[face].ravel(), 0)
    path.write_bytes(data)
    return path


def write_collada(path: Path, up: str, meter: float) -> Path:
    """The same, as COLLADA with its upward axis and unit."""
    points = " ".join(f"{v:g}" for v in (CORNERS * BOX_SIZE).ravel())
    indices = " ".join(str(i) for i in FACES.ravel())
    path.write_text(
        f"""<?xml version="1.0" encoding="utf-8"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
  <asset><unit name="u" meter="{meter:g}"/><up_axis>{up}</up_axis></asset>
  <library_geometries><geometry id="g"><mesh>
    <source id="p"><float_array id="a" count="24">{points}</float_array><technique_common>
      <accessor source="#a" count="8" stride="3"><param name="X" type="float"/><param name="Y" type="float"/>
      <param name="Z" type="float"/></accessor></technique_common></source>
    <vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
    <triangles count="12"><input semantic="VERTEX" source="#v" offset="0"/><p>{indices}</p></triangles>
  </mesh></geometry></library_geometries>
  <library_visual_scenes><visual_scene id="s"><node><instance_geometry url="#g"/></node></visual_scene>
  </library_visual_scenes>
  <scene><instance_visual_scene url="#s"/></scene>
</COLLADA>
""",
        encoding="utf-8",
    )
    return path


def write_octree(path: Path, bits: bytes, resolution: float = 0.5) -> Path:
    """A .bt file with these nodes."""
    header = f"# Octomap OcTree binary file\nid OcTree\nsize 9\nres {resolution}\ndata\n"
    path.write_bytes(header.encode() + bits)
    return path


def one_cell(child: int) -> bytes:
    """Nodes of a .bt file with one occupied cell: the root's child of a number, and child 0 below it."""

    def node(number: int, bits: int) -> bytes:
        return (bits << (2 * number)).to_bytes(2, "little")

    return node(child, 3) + node(0, 3) * 14 + node(0, 2)
