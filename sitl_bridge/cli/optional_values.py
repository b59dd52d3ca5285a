"""Options of the command line that may stand without a value."""

from __future__ import annotations

from collections.abc import Sequence

OPTIONAL_VALUES = {"--view": "8080"}
"""Options that may stand without a value, and the value that they then have."""


def with_values(arguments: Sequence[str]) -> list[str]:
    """A command line in which every option has a value."""
    given = list(arguments)
    made: list[str] = []
    for i, word in enumerate(given):
        if word == "--":
            return made + given[i:]
        following = given[i + 1] if i + 1 < len(given) else ""
        lone = word in OPTIONAL_VALUES and not following.isdecimal()
        made.append(f"{word}={OPTIONAL_VALUES[word]}" if lone else word)
    return made
