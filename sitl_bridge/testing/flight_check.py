"""The answer to a question about a flight: true or false, with the reason."""

from __future__ import annotations


class FlightCheck:
    """Whether a statement about a flight holds, and the figures that decide.

    pytest prints it where an ``assert`` fails, so that the message needs no words of the test's own.

    Attributes:
        holds: whether it does.
        text: the figures.
    """

    def __init__(self, holds: bool, text: str) -> None:
        self.holds, self.text = bool(holds), text

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        return f"<{'yes' if self.holds else 'NO'}: {self.text}>"
