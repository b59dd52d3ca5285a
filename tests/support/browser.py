"""A browser without a screen, for tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@contextmanager
def open_browser(*options: str) -> Iterator[Any]:
    """Chromium within the block; skips the test where it or playwright is missing."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with playwright.sync_playwright() as started:
        try:
            found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", *options])
        except playwright.Error as error:
            pytest.skip(f"no Chromium: {str(error).splitlines()[0]}")
        yield found
        found.close()
