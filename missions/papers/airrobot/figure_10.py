"""Figure 10: a texture reconstructed by analysis by synthesis from small images, all of them oblique.

T. Linkugel, A. Schilling, "Another step towards measuring the world from the air: Model-based 3D real-time
simulation of micro-UAV", 2013, section 7.  The texels are changed until the synthesised images are those of
the camera; poses are known, as they are there from the measured scene.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
from comparison import Row, new_figure, save
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from scipy.sparse import csr_matrix, vstack
from scipy.sparse.linalg import lsqr

import sitl_bridge as sb
from sitl_bridge.api.models import CameraSpecification
from sitl_bridge.base.rotations import matrix_from_quaternion, quaternion_from_euler

Array = NDArray[np.float64]

IMAGES = 48
"""Of 79 x 59 pixels, as the paper's second data set."""
STEPS = 10
"""Between two images, of 4 ms."""
CAMERA = CameraSpecification(
    kind="camera", rate=250.0 / STEPS, latency=0.0, width=79, height=59, field_of_view=45.0, supersampling=4
)
WIDTH, HEIGHT = 3.0, 1.2
"""m east and north, of a board on the ground."""
TEXELS = (48, 120)
"""Rows and columns that are reconstructed, 2.5 cm wide."""
DISTANCE = 4.5
"""m from the board's middle to the cameras."""
ELEVATION = (10.0, 22.0)
"""deg above the board from which they look, least and largest."""
DAMPING = 0.05
"""Of the least squares: what a pixel's noise may do to a texel that few pixels show."""


def picture_of_the_board() -> Image.Image:
    """Four pixels a texel."""
    board = Image.new("L", (2 * TEXELS[1], 2 * TEXELS[0]), 205)
    draw = ImageDraw.Draw(board)
    draw.rectangle((4, 4, board.width - 5, board.height - 5), outline=60, width=4)
    draw.text((board.width / 2, board.height / 2), "AR100B", 30, ImageFont.load_default(58), anchor="mm")
    return board


def taken(folder: Path, count: int) -> list[tuple[NDArray[np.uint8], Array, Array]]:
    """Images of the board, with the camera's place, (3,) m NED, and axes to NED, (3, 3)."""
    picture_of_the_board().save(folder / "board.png")
    world = folder / "world.yaml"
    world.write_text(
        "scene:\n  objects:\n"
        f"    - {{kind: box, position: [0, 0, -0.05], size: [{HEIGHT}, {WIDTH}, 0.1],"
        f" color: [1, 1, 1], texture: {{file: board.png, size: {WIDTH}}}}}\n"
    )
    iris = sb.Airframe.load("iris")
    simulation = sb.Simulation(
        iris.model_copy(update={"sensors": (*iris.sensors, CAMERA)}),
        world=world,
        positions=[(20.0, 0.0)],
        seed=1,
    )
    found = []
    for k in range(count):
        turn, up = (
            math.tau * k / count,
            math.radians(ELEVATION[0] + (ELEVATION[1] - ELEVATION[0]) * (k % 5) / 4),
        )
        place = DISTANCE * np.array(
            [math.cos(turn) * math.cos(up), math.sin(turn) * math.cos(up), -math.sin(up)]
        )
        attitude = quaternion_from_euler(0.0, -up, turn + math.pi)
        simulation.set_state(
            position=place, attitude=attitude, velocity=np.zeros(3), angular_velocity=np.zeros(3)
        )
        simulation.step(simulation.hover_controls, count=STEPS)
        image = simulation.sensor("camera")["image"][0]
        found.append((image, simulation.position[0], matrix_from_quaternion(simulation.attitude[0])))
    return found


def synthesis(place: Array, axes: Array) -> tuple[csr_matrix, NDArray[np.bool_]]:
    """Pixels that show nothing but the board, (p,) of all, and their values as a matrix (p, texels)."""
    rays = CAMERA.directions @ axes.T
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = (-0.1 - place[2]) / rays[:, 2]
        points = place[:2] + reach[:, None] * rays[:, :2]
    row = (0.5 - points[:, 0] / HEIGHT) * TEXELS[0]
    column = (0.5 + points[:, 1] / WIDTH) * TEXELS[1]
    inside = (reach > 0.0) & (row >= 0.0) & (row < TEXELS[0]) & (column >= 0.0) & (column < TEXELS[1])
    each = CAMERA.supersampling**2
    whole = inside.reshape(-1, each).all(axis=1)
    used = np.repeat(whole, each)
    texel = row[used].astype(int) * TEXELS[1] + column[used].astype(int)
    pixel = np.repeat(np.arange(int(whole.sum())), each)
    weights = np.full(len(texel), 1.0 / each)
    return csr_matrix((weights, (pixel, texel)), shape=(int(whole.sum()), math.prod(TEXELS))), whole


def reconstructed(images: list[tuple[NDArray[np.uint8], Array, Array]]) -> Array:
    """Texels (rows, columns), shares of the greatest value, beginning with the mean of all pixels."""
    matrices, values = [], []
    for image, place, axes in images:
        matrix, whole = synthesis(place, axes)
        matrices.append(matrix)
        values.append(image.ravel()[whole] / 255.0)
    seen = np.concatenate(values)
    grey = float(seen.mean())
    change = lsqr(vstack(matrices), seen - grey, damp=DAMPING, iter_lim=300)[0]
    return (grey + change).reshape(TEXELS)


def agreement(texels: Array) -> float:
    """Correlation with the board's true texture."""
    true = np.asarray(picture_of_the_board(), float).reshape(TEXELS[0], 2, TEXELS[1], 2).mean(axis=(1, 3))
    return float(np.corrcoef(texels.ravel(), true.ravel())[0, 1])


def reproduce(picture: Path, _quick: bool) -> list[Row]:
    """Take the images, reconstruct the board from one and from all, draw both beside the truth."""
    with tempfile.TemporaryDirectory() as folder:
        images = taken(Path(folder), IMAGES)
    one, all_of_them = reconstructed(images[:1]), reconstructed(images)
    figure = new_figure(9.0, 4.6)
    grid = figure.add_gridspec(2, 6)
    for k in range(3):
        axes = figure.add_subplot(grid[0, 2 * k : 2 * k + 2])
        axes.imshow(images[k * IMAGES // 5][0], cmap="gray", vmin=0, vmax=255)
        axes.set_title(f"image {k * IMAGES // 5 + 1} of {IMAGES}", fontsize=9)
    true = np.asarray(picture_of_the_board()) / 255.0
    for k, (title, shown) in enumerate(
        (("from one image", one), (f"from {IMAGES} images", all_of_them), ("true", true))
    ):
        axes = figure.add_subplot(grid[1, 2 * k : 2 * k + 2])
        axes.imshow(shown, cmap="gray", vmin=0.0, vmax=1.0)
        axes.set_title(title, fontsize=9)
    for axes in figure.axes:
        axes.set_axis_off()
    save(figure, picture)
    return [
        Row("correlation with the true texture, from one image", "1", "", agreement(one), digits=2),
        Row(f"... from {IMAGES} images", "1", "", agreement(all_of_them), digits=2),
    ]
