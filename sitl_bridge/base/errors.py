"""Errors that the user can correct: one clear message, no traceback, a non-zero exit code."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterable, Iterator, Sequence


class UserError(Exception):
    """An error that the user can correct.  The message states what is wrong, where, and the remedy."""


class ConfigurationError(UserError):
    """One or more faults in an input file, all reported at once.

    Args:
        source: the file, as given by the user.
        faults: one line each, ``line N: path.to.field: what is wrong``; texts of the file may be in them.
    """

    def __init__(self, source: str, faults: Sequence[str]) -> None:
        self.source = source
        self.faults = tuple(printable(fault) for fault in faults)
        super().__init__("\n".join(f"{source}: {fault}" for fault in self.faults))


def faults_of(error: UserError) -> list[str]:
    """The lines of an error, each with its file."""
    if isinstance(error, ConfigurationError):
        return [f"{error.source}: {fault}" for fault in error.faults]
    return [str(error)]


class FieldError(UserError):
    """A fault of one field of an input file, found after the file was read.

    Args:
        path: of the field.
        message: what is wrong with it.
    """

    def __init__(self, path: Sequence[str | int], message: str) -> None:
        self.path = tuple(path)
        super().__init__(message)


@contextlib.contextmanager
def about(*path: str | int) -> Iterator[None]:
    """Turn a UserError of the block into one of the field at ``path``, unless it has a file or field."""
    try:
        yield
    except (ConfigurationError, FieldError):
        raise
    except UserError as error:
        raise FieldError(path, str(error)) from error


@contextlib.contextmanager
def within(*head: str | int) -> Iterator[None]:
    """Put ``head`` before the paths of fields in errors of the block."""
    try:
        yield
    except FieldError as error:
        raise FieldError((*head, *error.path), str(error)) from error


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``, did you mean 'iris'?`` if a known word is similar, else empty."""
    names = {name.lower(): name for name in known}
    near = difflib.get_close_matches(shorten(word).lower(), list(names), n=1)
    return f", did you mean {names[near[0]]!r}?" if near else ""


def printable(text: str) -> str:
    """A text with escapes in place of line ends and of characters that control a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def mask_passwords(text: str) -> str:
    """A text with the passwords of the URLs in it masked."""
    return re.sub(r"(://[^/@:]*):[^@]*@", r"\1:***@", text)


def shorten(text: str, most: int = 80) -> str:
    """A text of the user, shortened for a message."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
