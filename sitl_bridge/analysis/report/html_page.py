"""The frame of every page of reports: one file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import resources


def asset(name: str) -> str:
    """The text of a file of the pages: a style sheet or a script."""
    return (resources.files("sitl_bridge.analysis.report") / "page" / name).read_text(encoding="utf-8")


def html_page(title: str, content: str, styles: Sequence[str], tail: Sequence[str] = ()) -> str:
    """A whole page.

    Args:
        title: of the window, as plain text.
        content: HTML within the body.
        styles: names of style sheets.
        tail: HTML after the content: data and scripts.
    """
    sheets = "\n".join(asset(name) for name in styles)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">',
            f"<title>{escape(title)}</title>",
            f"<style>{sheets}</style></head><body>",
            content,
            *tail,
            "</body></html>\n",
        ]
    )
