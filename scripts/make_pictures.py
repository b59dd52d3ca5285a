"""Takes the pictures of docs/images that show a run, in a headless Chromium, and draws those of worlds.

    scripts/make_pictures.py view RUN [SECONDS]       # view.png: the recording, played back
    scripts/make_pictures.py report RUN PICTURE       # the section "Flight" of its report
    scripts/make_pictures.py world NAME PICTURE       # a world from above

The README shows a square that PX4 flew:

    sitl-bridge fly square.plan --px4 DIR --wind 5@270,turbulence=light --speed max --report
    scripts/make_pictures.py report runs/latest docs/images/square.png

Needs the extras `view` and `figures`, playwright and Chromium.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from playwright.sync_api import Page, sync_playwright

from sitl_bridge.analysis.export.ros_topics import to_enu
from sitl_bridge.analysis.report.scene_outline import footprints
from sitl_bridge.base.output_file import write_figure
from sitl_bridge.core.world.scene import Scene
from sitl_bridge.core.world.world_file import load_world
from sitl_bridge.live.view.page_server import page_url
from sitl_bridge.live.view.playback import Playback
from sitl_bridge.live.view.viewed_run import ViewedRun

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "view.png"
PORT = 8093
ARGUMENTS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
DRAWN, REPORT_DRAWN = 20_000, 2_000
"""ms in which everything is drawn without a graphics processor: the view, a report."""
LIMIT = 240_000
"""ms for one action of the page."""
EYE, AIM = np.array([-7.0, -11.0, 8.0]), np.array([1.0, 0.0, -2.5])
"""Camera and the point that it looks at, from the vehicle, m east, north, up."""


@contextlib.contextmanager
def open_page(url: str, width: int, height: int, scale: float = 1.0) -> Iterator[Page]:
    """A page of a size in pixels."""
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": width, "height": height}, device_scale_factor=scale)
        page.set_default_timeout(LIMIT)
        page.goto(url)
        yield page
        browser.close()


def take_view(run: Path, seconds: float) -> None:
    """Take the picture of a run at a time."""
    viewed = ViewedRun(run)
    playback = Playback(viewed, PORT)
    try:
        with open_page(page_url(PORT), 1200, 640) as page:
            while not playback.server.get_clients():
                page.wait_for_timeout(100)
            page.get_by_label("Quantity").click()
            page.get_by_role("option", name="Height (m)").click()
            playback.seek(seconds)
            playback.advance(0.0)
            (client,) = playback.server.get_clients().values()
            rows = viewed.recorded.rows
            row = int(np.searchsorted(rows["time"], viewed.start + seconds * 1e6))
            place = to_enu(rows["position"][row : row + 1])[0]
            client.camera.position, client.camera.look_at = tuple(place + EYE), tuple(place + AIM)
            page.wait_for_timeout(DRAWN)
            for notice in page.locator(".mantine-Notification-closeButton").all():
                notice.click()
            page.wait_for_timeout(DRAWN / 4)
            page.screenshot(path=PICTURE)
    finally:
        playback.close()


def take_report(run: Path, picture: Path) -> None:
    """Take the picture of the section "Flight" of ``report.html`` in a run's directory."""
    with open_page((run / "report.html").resolve().as_uri(), 1120, 900, 1.25) as page:
        page.wait_for_timeout(REPORT_DRAWN)
        page.locator("section", has=page.get_by_role("heading", name="Flight", exact=True)).screenshot(
            path=picture
        )


def draw_world(name: str, picture: Path) -> None:
    """Draw a world from above: colours, terrain, paths of what moves, a cross at the origin."""
    figure = Figure(figsize=(6.4, 6.0), dpi=90, layout="constrained")
    axes = figure.add_subplot(xlabel="east, m", ylabel="north, m", title=name, facecolor="#e8e8e4")
    things = footprints(Scene(load_world(Path(name)).scene))
    for thing in things:
        if terrain := thing.get("terrain"):
            heights = np.array(terrain["heights"])
            rows, columns = np.indices(heights.shape)[..., None]
            north, east = np.moveaxis(
                terrain["corner"] + rows * terrain["row"] + columns * terrain["column"], -1, 0
            )
            shown = axes.contourf(east, north, heights, levels=24, cmap="terrain")
            figure.colorbar(shown, ax=axes, label="height, m", shrink=0.8)
        if path := thing.get("path"):
            north, east, _ = np.transpose(path)
            axes.plot(east, north, "--", color="#c02020", linewidth=1.0)
    prisms = [(prism, thing["color"]) for thing in things for prism in thing.get("prisms", ())]
    for prism, color in sorted(prisms, key=lambda drawn: float(drawn[0]["top"])):  # what is higher hides
        north, east = np.transpose(prism["outline"])
        axes.fill(east, north, facecolor=color, edgecolor="#404040", linewidth=0.4)
    axes.plot(0.0, 0.0, "+", color="#2050d0", markersize=12, markeredgewidth=2)
    axes.set_aspect("equal")
    write_figure(picture, figure)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["view", run, *seconds]:
            take_view(Path(run), float(seconds[0]) if seconds else 25.0)
        case ["report", run, picture]:
            take_report(Path(run), Path(picture))
        case ["world", name, picture]:
            draw_world(name, Path(picture))
        case _:
            print(__doc__)
