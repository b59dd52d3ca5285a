"""Sets how often Python searches for garbage."""

from __future__ import annotations

import gc

SELDOM = (10_000, 20, 20)
"""Thresholds of the search.  What is imported lasts; to search it again takes a tenth of a start."""


def collect_seldom() -> None:
    """Search for garbage a tenth as often as by default, for a program that begins."""
    gc.set_threshold(*SELDOM)
