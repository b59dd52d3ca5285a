"""Errors that are the user's to mend: one clear message, no traceback, a non-zero exit."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class UserError(Exception):
    """Something the user can mend.  The message says what is wrong, where, and what to do."""


class ConfigurationError(UserError):
    """One or more faults in an input file, all reported at once.

    Args:
        source: the file, as the user named it.
        faults: one line each, ``line N: path.to.field: what is wrong``.
    """

    def __init__(self, source: str, faults: Sequence[str]) -> None:
        self.source = source
        self.faults = tuple(faults)
        super().__init__("\n".join(f"{source}: {fault}" for fault in self.faults))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``, did you mean 'iris'?`` where a known word is near, else nothing."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f", did you mean {near[0]!r}?" if near else ""
