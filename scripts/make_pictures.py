"""Takes the pictures of docs/images that show a run, in a headless Chromium.

    scripts/make_pictures.py view RUN [SECONDS]       # view.png: the recording, played back
    scripts/make_pictures.py report RUN PICTURE       # the section "Flight" of its report

The README shows a square that PX4 flew:

    sitl-bridge fly square.plan --px4 DIR --wind 5@270,turbulence=light --speed max --report
    scripts/make_pictures.py report runs/latest docs/images/square.png

Needs the extra `view`, playwright and Chromium.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, sync_playwright

from sitl_bridge.analysis.export.ros_topics import to_enu
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


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["view", run, *seconds]:
            take_view(Path(run), float(seconds[0]) if seconds else 25.0)
        case ["report", run, picture]:
            take_report(Path(run), Path(picture))
        case _:
            print(__doc__)
