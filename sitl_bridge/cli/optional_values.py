"""Options of the command line that may stand without a value."""

from __future__ import annotations

import re
from collections.abc import Sequence

OPTIONAL_VALUES = {"--view": ("8080", r"\d+"), "--stream": ("8765", r"([\w.-]+:)?\d+")}
"""Options that may stand without a value: the value that they then have, and the pattern of a given one."""


def with_values(arguments: Sequence[str]) -> list[str]:
    """A command line in which every option has a value."""
    given = list(arguments)
    made: list[str] = []
    for i, word in enumerate(given):
        if word == "--":
            return made + given[i:]
        following = given[i + 1] if i + 1 < len(given) else ""
        default, pattern = OPTIONAL_VALUES.get(word, ("", ""))
        lone = word in OPTIONAL_VALUES and not re.fullmatch(pattern, following)
        made.append(f"{word}={default}" if lone else word)
    return made
