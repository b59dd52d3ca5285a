"""Takes a picture of the flight in a run's report for docs/images, in a headless Chromium.

    scripts/make_report_picture.py RUN PICTURE

The README shows a square that PX4 flew:

    sitl-bridge fly square.plan --px4 DIR --wind 5@270,turbulence=light --speed max --report
    scripts/make_report_picture.py runs/latest docs/images/square.png

Needs playwright and Chromium.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

WIDTH, HEIGHT = 1120, 900
DRAWN = 2_000
"""ms in which everything is drawn."""


def take(run: Path, picture: Path) -> None:
    """Take the picture of the section "Flight" of ``report.html`` in a run's directory."""
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=1.25)
        page.goto((run / "report.html").resolve().as_uri(), timeout=60_000)
        page.wait_for_timeout(DRAWN)
        page.locator("section", has=page.get_by_role("heading", name="Flight", exact=True)).screenshot(
            path=picture, timeout=60_000
        )
        browser.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]), Path(sys.argv[2]))
