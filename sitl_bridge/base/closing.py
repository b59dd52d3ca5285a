"""Closes things at the end of a ``with`` block."""

from __future__ import annotations

from typing import Self


class Closing:
    """Closes itself at the end of a ``with`` block."""

    def close(self) -> None:
        """End it; safe to call twice."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
