"""Takes the picture of the live view and playback for docs/images: a recording in a headless Chromium.

    scripts/make_view_picture.py RUN [SECONDS]

Needs the extra `view`, playwright and Chromium.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from sitl_bridge.analysis.export.ros_topics import to_enu
from sitl_bridge.live.view.page_server import page_url
from sitl_bridge.live.view.playback import Playback
from sitl_bridge.live.view.viewed_run import ViewedRun

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "view.png"
PORT = 8093
ARGUMENTS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
DRAWN = 20_000
"""ms in which everything is drawn without a graphics processor."""


EYE, AIM = np.array([-7.0, -11.0, 8.0]), np.array([1.0, 0.0, -2.5])
"""Camera and the point that it looks at, from the vehicle, m east, north, up."""


def take(run: Path, seconds: float) -> None:
    """Take the picture of a run at a time."""
    viewed = ViewedRun(run)
    playback = Playback(viewed, PORT)
    try:
        with sync_playwright() as started:
            browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
            page = browser.new_page(viewport={"width": 1200, "height": 640})
            page.goto(page_url(PORT), timeout=240_000)
            while not playback.server.get_clients():
                page.wait_for_timeout(100)
            page.get_by_label("Quantity").click(timeout=240_000)
            page.get_by_role("option", name="Height (m)").click(timeout=240_000)
            playback.seek(seconds)
            playback.advance(0.0)
            (client,) = playback.server.get_clients().values()
            rows = viewed.recorded.rows
            row = int(np.searchsorted(rows["time"], viewed.start + seconds * 1e6))
            place = to_enu(rows["position"][row : row + 1])[0]
            client.camera.position, client.camera.look_at = tuple(place + EYE), tuple(place + AIM)
            page.wait_for_timeout(DRAWN)
            for notice in page.locator(".mantine-Notification-closeButton").all():
                notice.click(timeout=240_000)
            page.wait_for_timeout(DRAWN / 4)
            page.screenshot(path=PICTURE, timeout=240_000)
            browser.close()
    finally:
        playback.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 25.0)
