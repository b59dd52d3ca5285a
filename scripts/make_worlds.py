"""Makes the worlds in missions/worlds that have many objects, and their pictures in docs/images.

    python scripts/make_worlds.py

The worlds are the same each time.  Edit them here, not in their files.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
WORLDS = ROOT / "missions" / "worlds"
IMAGES = ROOT / "docs" / "images"
HEADER = (
    "# yaml-language-server: $schema=../../schemas/world.json\n# Made by scripts/make_worlds.py; edit that.\n"
)

WALL, WOOD, STEEL, CARDBOARD = (0.85, 0.84, 0.8), (0.72, 0.55, 0.36), (0.5, 0.53, 0.58), (0.78, 0.62, 0.42)
BLUE, ORANGE, CONCRETE, BRICK = (0.18, 0.32, 0.6), (0.9, 0.45, 0.1), (0.66, 0.66, 0.64), (0.6, 0.3, 0.24)
GREEN, BARK, RED, WHITE = (0.25, 0.42, 0.22), (0.36, 0.26, 0.17), (0.75, 0.15, 0.12), (0.93, 0.93, 0.93)

Triple = Sequence[float]


def figure(value: float) -> str:
    """A number as short as it is."""
    return f"{round(value, 3) + 0.0:g}"


class Yaml:
    """The lines of a world's objects."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, kind: str, color: Triple, path: str = "", **fields: object) -> None:
        """An object; triples are lists."""
        words = [f"kind: {kind}"]
        for name, value in {**fields, "color": color}.items():
            if value is None:
                continue
            if isinstance(value, Sequence) and not isinstance(value, str):
                words.append(f"{name}: [{', '.join(figure(x) for x in value)}]")
            else:
                words.append(f"{name}: {figure(value) if isinstance(value, float | int) else value}")
        if path:
            words.append(f"path: {path}")
        self.lines.append(f"    - {{{', '.join(words)}}}")

    def box(self, low: Triple, high: Triple, color: Triple, name: str | None = None) -> None:
        """A box between two corners: north, east and height in m."""
        position = [(a + b) / 2 for a, b in zip(low, high, strict=True)]
        position[2] *= -1
        self.add(
            "box", color, name=name, position=position, size=[b - a for a, b in zip(low, high, strict=True)]
        )

    def pole(self, north: float, east: float, radius: float, low: float, high: float, color: Triple) -> None:
        """An upright cylinder between two heights."""
        self.add(
            "cylinder", color, position=(north, east, -(low + high) / 2), radius=radius, length=high - low
        )

    def pipe(self, start: Triple, end: Triple, radius: float, color: Triple) -> None:
        """A cylinder from a place to another: north, east and height in m."""
        a, b = np.array(start, float), np.array(end, float)
        along = b - a
        length = float(np.linalg.norm(along))
        # Pitch turns z to the north, then yaw about the vertical.
        pitch = math.degrees(math.atan2(math.hypot(along[0], along[1]), -along[2]))
        yaw = math.degrees(math.atan2(along[1], along[0]))
        middle = (a + b) / 2
        self.add(
            "cylinder", color, position=(middle[0], middle[1], -middle[2]), rotation=(0.0, pitch, yaw),
            radius=radius, length=length,
        )  # fmt: skip

    def write(self, name: str, about: str, ground: bool = True) -> None:
        """The world's file."""
        comment = "".join(f"# {line}\n" for line in about.splitlines())
        head = "" if ground else "  ground: false\n"
        text = f"{HEADER}{comment}scene:\n{head}  objects:\n" + "\n".join(self.lines) + "\n"
        (WORLDS / f"{name}.yaml").write_text(text, encoding="utf-8")


def office() -> None:
    """Twelve rooms along a corridor."""
    world, height, door, half = Yaml(), 2.8, 2.1, 0.06

    def wall(north: tuple[float, float], east: tuple[float, float], low: float = 0.0) -> None:
        world.box((north[0], east[0], low), (north[1], east[1], height), WALL)

    def wall_with_doors(north: float, doors: Sequence[float]) -> None:
        """Along east at a place north, with doors of 1 m about places east."""
        begin = -12.0
        for middle in doors:
            wall((north - half, north + half), (begin, middle - 0.5))
            wall((north - half, north + half), (middle - 0.5, middle + 0.5), door)
            begin = middle + 0.5
        wall((north - half, north + half), (begin, 12.0))

    middles = [-10.0 + 4.0 * i for i in range(6)]
    for side in (-1.0, 1.0):
        wall_with_doors(1.25 * side, [east + 1.0 * side for east in middles])
        wall((7.0 * side - half, 7.0 * side + half), (-12.0, 12.0))
        for i in range(5):
            edge = -8.0 + 4.0 * i
            wall(tuple(sorted((1.3 * side, 7.0 * side))), (edge - half, edge + half))  # type: ignore[arg-type]
    for side in (-1.0, 1.0):
        wall((1.25, 7.0), (12.0 * side - half, 12.0 * side + half))
        wall((-7.0, -1.25), (12.0 * side - half, 12.0 * side + half))
    random = np.random.default_rng(1)
    for side in (-1.0, 1.0):
        for i, east in enumerate(middles):
            north = 5.6 * side
            shift = float(random.uniform(-0.5, 0.5))
            world.box((north - 0.4, east + shift - 0.8, 0.70), (north + 0.4, east + shift + 0.8, 0.74), WOOD)
            for end in (-0.76, 0.72):
                world.box(
                    (north - 0.35, east + shift + end, 0.0),
                    (north + 0.35, east + shift + end + 0.04, 0.7),
                    STEEL,
                )
            world.box(
                (north - 0.05, east + shift - 0.3, 0.78),
                (north + 0.02, east + shift + 0.3, 1.15),
                (0.1, 0.1, 0.12),
            )
            seat = north - 0.9 * side
            world.pole(seat, east + shift, 0.25, 0.42, 0.5, BLUE)
            world.pole(seat, east + shift, 0.04, 0.0, 0.42, STEEL)
            if i % 2 == 0:
                world.box(
                    (2.0 * side - 0.5, east - 1.9, 0.0),
                    (2.0 * side + 0.5, east - 1.5, 1.9),
                    STEEL,
                    f"cabinet_{i}",
                )
    world.pole(0.8, -11.3, 0.2, 0.0, 0.4, ORANGE)
    world.pole(0.8, -11.3, 0.35, 0.5, 1.4, GREEN)
    world.box((-1.1, 10.8, 0.0), (-0.5, 11.6, 1.1), STEEL, "copier")
    world.write(
        "office",
        "An office of 24 m x 14 m without a ceiling: a corridor of 2.5 m along east, open at both ends,\n"
        "twelve rooms of 4 m x 5.7 m with doors of 1 m x 2.1 m, desks, chairs, cabinets, walls of 2.8 m.\n"
        "The origin is in the middle of the corridor.",
    )  # fmt: skip


def arena() -> None:
    """Crates, ramps and step fields within walls, in the manner of NIST's test arenas for rescue robots."""
    world, half, cell = Yaml(), 0.02, 1.2
    size = 6.0
    for side in (-1.0, 1.0):
        world.box((side * size - half, -size, 0.0), (side * size + half, size, 1.2), WOOD)
        world.box((-size, side * size - half, 0.0), (size, side * size + half, 1.2), WOOD)
    # Panels of the maze: row, column of their start, and whether they go along north.
    panels = [
        (0, 2, 1), (1, 2, 1), (2, 0, 0), (2, 1, 0), (4, 1, 0), (4, 2, 0), (3, 2, 1), (6, 0, 0), (7, 2, 1),
        (8, 1, 0), (8, 2, 1), (9, 2, 1), (0, 6, 1), (1, 6, 1), (2, 6, 0), (2, 7, 0), (4, 8, 0), (4, 9, 0),
        (3, 7, 1), (4, 7, 1), (6, 7, 0), (7, 6, 1), (8, 6, 0), (8, 7, 0), (8, 8, 1), (9, 4, 1), (0, 4, 1),
        (6, 9, 0),
    ]  # fmt: skip
    for row, column, north in panels:
        a, b = -size + cell * row, -size + cell * column
        end = (a + cell, b) if north else (a, b + cell)
        world.box((a - half, b - half, 0.0), (end[0] + half, end[1] + half, 1.2), WOOD)
    random = np.random.default_rng(2)
    for north, east in ((3.0, -3.0), (-3.0, 3.0)):  # step fields of posts
        for i in range(6):
            for j in range(6):
                top = 0.1 * float(random.integers(1, 5))
                n, e = north + 0.2 * i - 0.6, east + 0.2 * j - 0.6
                world.box((n, e, 0.0), (n + 0.19, e + 0.19, top), (0.8, 0.66, 0.42))
    for north, east, pitch, roll in (
        (-1.2, 4.8, 15, 0),
        (1.2, 4.8, -15, 0),
        (4.8, -4.8, 0, 15),
        (-4.8, -4.8, 15, 0),
    ):
        world.add(
            "box",
            WOOD,
            name="ramp",
            position=(north, east, -0.16),
            rotation=(roll, pitch, 0),
            size=(1.2, 1.1, 0.04),
        )
    crates = [(-1.8, -1.8, 0.6, 20), (-1.9, -1.2, 0.5, 5), (1.8, 1.9, 0.6, 40), (1.9, 2.6, 0.6, 10),
              (4.2, 4.0, 0.8, 30), (-4.4, 0.2, 0.6, 0), (4.6, 0.3, 0.7, 15),
              (-4.6, 3.9, 0.6, 50)]  # fmt: skip
    for north, east, edge, yaw in crates:
        world.add(
            "box",
            CARDBOARD,
            position=(north, east, -edge / 2),
            rotation=(0, 0, yaw),
            size=(edge, edge, edge),
            name="crate",
        )
    world.add(
        "box",
        CARDBOARD,
        name="crate",
        position=(-1.85, -1.5, -0.85),
        rotation=(0, 0, 35),
        size=(0.5, 0.5, 0.5),
    )
    world.add(
        "box", CARDBOARD, name="crate", position=(1.85, 2.2, -0.9), rotation=(0, 0, 25), size=(0.6, 0.6, 0.6)
    )
    for north, east in ((0.0, -4.2), (0.0, 3.0), (3.6, 2.4), (-3.0, -3.2)):
        world.pole(north, east, 0.3, 0.0, 0.9, BLUE)  # barrels
    world.write(
        "arena",
        "A test arena of 12 m x 12 m in the manner of NIST's for rescue robots: walls of 1.2 m, crates,\n"
        "barrels, ramps of 15 deg and two step fields.  The middle, about the origin, is free.",
    )


def power_plant() -> None:
    """Halls, chimneys, a cooling tower, tanks and pipes."""
    world = Yaml()
    world.box((20, -30, 0), (50, -5, 32), CONCRETE, "boiler_house")
    world.box((20, -5, 0), (50, 30, 18), BRICK, "turbine_hall")
    world.box((24, 30, 0), (42, 40, 9), WALL, "switch_house")
    world.box((28, -42, 0), (44, -34, 14), STEEL, "filter")
    for east in (-50.0, -58.0):
        for k in range(4):
            world.pole(36.0, east, 3.2 - 0.4 * k, 16.0 * k, 16.0 * (k + 1), WHITE if k % 2 else RED)
    for k in range(12):  # the cooling tower, a hyperboloid in slices
        height = 4.0 * k
        radius = 11.0 * math.sqrt(1.0 + ((height + 2.0 - 34.0) / 28.0) ** 2)
        world.pole(-25.0, -45.0, radius, height, height + 4.0, CONCRETE)
    for i, north in enumerate((-40.0, -26.0, -12.0)):
        world.pole(north, 48.0, 5.5, 0.0, 9.0, WHITE)
        world.add("sphere", WHITE, name=f"tank_{i}", position=(north, 48.0, -5.5), radius=6.5)
    for i, north in enumerate((-40.0, -24.0)):
        world.add("sphere", (0.8, 0.82, 0.86), name=f"gas_{i}", position=(north, 22.0, -7.5), radius=6.0)
        for angle in range(0, 360, 60):
            a = math.radians(angle)
            world.pole(north + 5.2 * math.cos(a), 22.0 + 5.2 * math.sin(a), 0.25, 0.0, 7.5, STEEL)
    for i, height in enumerate((6.0, 6.8, 7.6)):  # the pipe bridge
        world.pipe((-46.0, 34.0 + 0.9 * i, height), (24.0, 34.0 + 0.9 * i, height), 0.3, STEEL)
        world.pipe((12.0, 34.0 + 0.9 * i, height), (12.0, -36.0, height), 0.3, STEEL)
    for north in range(-44, 24, 8):
        world.box((north - 0.2, 33.2, 0.0), (north + 0.2, 33.6, 8.2), STEEL)
        world.box((north - 0.2, 36.4, 0.0), (north + 0.2, 36.8, 8.2), STEEL)
        world.box((north - 0.2, 33.2, 5.2), (north + 0.2, 36.8, 5.5), STEEL)
    for east in range(-34, 34, 10):
        world.box((11.2, east - 0.2, 0.0), (11.5, east + 0.2, 8.2), STEEL)
        world.box((12.5, east - 0.2, 0.0), (12.8, east + 0.2, 8.2), STEEL)
    world.pipe((36.0, -34.0, 12.0), (36.0, -30.0, 12.0), 1.5, STEEL)
    world.pipe((36.0, -42.0, 10.0), (36.0, -47.0, 10.0), 1.5, STEEL)
    world.add(
        "box", STEEL, name="conveyor", position=(62, -17, -14), rotation=(0, 46, 0), size=(36, 2.4, 2.4)
    )
    world.add("cylinder", (0.15, 0.15, 0.16), name="coal", position=(80, -17, -2.0), radius=11, length=4)
    for i in range(4):
        world.box((48.0 + 6 * i, 46.0, 0.0), (50.0 + 6 * i, 49.0, 3.2), (0.55, 0.6, 0.56), f"transformer_{i}")
        world.pole(49.0 + 6 * i, 53.0, 0.25, 0.0, 14.0, STEEL)
        world.pipe((49.0 + 6 * i, 49.0, 13.5), (49.0 + 6 * i, 57.0, 13.5), 0.15, STEEL)
    world.write(
        "power_plant",
        "A power plant of 140 m x 120 m: boiler house (32 m), turbine hall, two chimneys of 64 m, a cooling\n"
        "tower of 48 m, tanks, gas spheres, pipe bridges and a switchyard.  The origin is on the free yard\n"
        "south of the boiler house, which blocks the straight way north.",
    )


def forest() -> None:
    """Poles at random places, none nearer to another than 2 m."""
    world, random = Yaml(), np.random.default_rng(3)
    places: list[NDArray[np.float64]] = []
    for _ in range(6000):
        place = random.uniform(-30.0, 30.0, 2)
        if np.linalg.norm(place) > 3.0 and all(np.linalg.norm(place - other) > 2.0 for other in places):
            places.append(place)
        if len(places) == 300:
            break
    for north, east in places:
        tint = 0.08 * float(random.random())
        color = (BARK[0] + tint, BARK[1] + tint, BARK[2] + tint)
        radius, height = random.uniform(0.08, 0.25), random.uniform(6.0, 12.0)
        world.pole(float(north), float(east), float(radius), 0.0, float(height), color)
    world.write(
        "forest",
        "A forest of 300 poles on 60 m x 60 m, 0.16 m to 0.5 m thick, 6 m to 12 m high and 2 m apart at\n"
        "least.  A clearing of 3 m is about the origin.",
    )


def hills() -> None:
    """Terrain of random waves, level about the origin."""
    random, count, spacing = np.random.default_rng(4), 201, 2.0
    axis = (np.arange(count) - count // 2) * spacing
    north, east = np.meshgrid(axis, axis, indexing="ij")
    heights = np.zeros((count, count))
    for _ in range(40):
        wavelength = float(random.uniform(40.0, 400.0))
        angle, phase = random.uniform(0.0, 2.0 * np.pi, 2)
        along = north * np.cos(angle) + east * np.sin(angle)
        heights += wavelength * 0.012 * np.cos(2.0 * np.pi * along / wavelength + phase)
    distance = np.hypot(north, east)
    share = np.clip((distance - 8.0) / 40.0, 0.0, 1.0)
    share = share * share * (3.0 - 2.0 * share)
    heights = (heights - heights[count // 2, count // 2]) * share
    heights = (np.round(heights * 32.0) / 32.0).astype(np.float32)
    write_npz(WORLDS / "hills.npz", heights)
    world = Yaml()
    corner = -spacing * (count // 2)
    world.add(
        "height_map", GREEN, name="hills", file="hills.npz", spacing=spacing, position=(corner, corner, 0.0)
    )
    world.write(
        "hills",
        f"Hills on 400 m x 400 m, from {heights.min():.0f} m to {heights.max():.0f} m above the origin.\n"
        "Within 8 m of the origin the ground is level.",
        ground=False,
    )


def write_npz(path: Path, heights: NDArray[np.float32]) -> None:
    """Write heights as numpy.savez_compressed does, but without the time of day."""
    array = io.BytesIO()
    np.save(array, heights, allow_pickle=False)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr(zipfile.ZipInfo("height.npy"), array.getvalue(), zipfile.ZIP_DEFLATED, 9)


def warehouse() -> None:
    """Racks with pallets, and a forklift that drives up and down an aisle."""
    world, random = Yaml(), np.random.default_rng(5)
    for side in (-1.0, 1.0):
        world.box((side * 20.0 - 0.1, -14.0, 0.0), (side * 20.0 + 0.1, 14.0, 8.0), WALL)
        if side > 0:
            world.box((-20.0, 13.9, 0.0), (20.0, 14.1, 8.0), WALL)
    world.box((-20.0, -14.1, 0.0), (-3.0, -13.9, 8.0), WALL)
    world.box((3.0, -14.1, 0.0), (20.0, -13.9, 8.0), WALL)
    world.box((-3.0, -14.1, 5.0), (3.0, -13.9, 8.0), WALL)  # above the gate
    for middle in (-10.5, -6.5, -2.5, 2.5, 6.5, 10.5):
        for begin, end in ((-17.0, -4.0), (4.0, 17.0)):
            bays = 5
            step = (end - begin) / bays
            for k in range(bays + 1):
                at = begin + step * k
                for edge in (-0.55, 0.55):
                    world.box(
                        (at - 0.05, middle + edge - 0.05, 0.0), (at + 0.05, middle + edge + 0.05, 6.0), BLUE
                    )
            for level in (1.8, 3.6, 5.4):
                world.box((begin, middle - 0.6, level), (end, middle + 0.6, level + 0.1), ORANGE)
            for k in range(bays):
                for floor in (0.0, 1.9, 3.7):
                    if random.random() < 0.3:
                        continue
                    at, tall = begin + step * (k + 0.5), float(random.uniform(0.7, 1.5))
                    wide = float(random.uniform(0.8, 1.15))
                    world.box(
                        (at - wide, middle - 0.5, floor), (at + wide, middle + 0.5, floor + tall), CARDBOARD
                    )
    parts = [  # north, height of the middle, size, colour
        ("body", 0.0, 0.6, (1.6, 1.1, 0.9), (0.95, 0.75, 0.1)),
        ("roof", -0.1, 2.05, (1.1, 1.0, 0.06), (0.2, 0.2, 0.2)),
        ("mast", 0.9, 1.2, (0.12, 0.8, 2.1), (0.2, 0.2, 0.2)),
        ("forks", 1.5, 0.15, (1.1, 0.7, 0.06), (0.2, 0.2, 0.2)),
        ("load", 1.5, 0.7, (1.0, 1.0, 1.0), CARDBOARD),
    ]
    for name, ahead, height, size, color in parts:
        points = (
            f"[[{figure(-17 + ahead)}, 0, {figure(-height)}], [{figure(15 + ahead)}, 0, {figure(-height)}]]"
        )
        points = points.replace(", 0, ", ", 4.5, ")
        world.add("box", color, path=f"{{points: {points}, speed: 2}}", name=f"forklift_{name}", size=size)
    world.write(
        "warehouse",
        "A warehouse of 40 m x 28 m and 8 m height, open above: six racks of two parts with pallets, aisles\n"
        "of 2.8 m, a gate in the west, and a forklift that drives along the aisle at 4.5 m east with 2 m/s.\n"
        "The cross aisle about the origin is free.",
    )


def pictures() -> None:
    """Write the worlds' pictures."""
    from plot_scene import plot_scene

    from sitl_bridge.core.world.scene import Scene
    from sitl_bridge.core.world.world_file import load_world

    for make in MAKERS:
        name = make.__name__
        plot_scene(Scene(load_world(WORLDS / f"{name}.yaml").scene), IMAGES / f"world_{name}.png", name)


MAKERS = (office, arena, power_plant, forest, hills, warehouse)

if __name__ == "__main__":
    for make in MAKERS:
        make()
    pictures()
