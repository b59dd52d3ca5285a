"""Figures of a vehicle as its sources give them, each with where it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sitl_bridge.base.errors import UserError, shorten
from sitl_bridge.base.json_data import JsonObject, round_values
from sitl_bridge.core.vehicle.figure_sources import DERIVED, covers

MOST = 1e10
"""Greatest number of a figure; PX4 has parameters in 1e-7 degrees."""


def _numbers(value: Any) -> Iterator[float]:
    """The numbers of plain data."""
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _numbers(item)
    elif isinstance(value, int | float):
        yield value


@dataclass
class Figures:
    """Fields of an airframe file by dotted path; a later source replaces an earlier one's."""

    name: str = ""
    description: str = ""
    caveat: str = ""  # what no real vehicle has
    values: dict[str, Any] = field(default_factory=dict)  # plain data by path: ``rotor_model.radius``
    sources: dict[str, str] = field(default_factory=dict)  # likewise
    left_out: dict[str, None] = field(default_factory=dict)  # what was in the files and has no field
    notes: dict[str, None] = field(default_factory=dict)  # what a user should know of the result

    def give(self, path: str, value: Any, source: str, digits: int = 6) -> None:
        """Set a figure, and remove those of an earlier source within it.

        Raises:
            UserError: for numbers that no vehicle has.
        """
        if not all(abs(number) <= MOST for number in _numbers(value)):
            raise UserError(f"{source}: {path} {shorten(str(value), 60)} is not a figure of a vehicle")
        self.remove(path)
        self.values[path], self.sources[path] = round_values(value, digits), source

    def remove(self, path: str) -> None:
        """Forget a figure and those within it."""
        for key in [key for key in self.values if covers(path, key)]:
            del self.values[key]
            self.sources.pop(key, None)

    def estimate(self, path: str, value: Any, how: str) -> Any:
        """The figure of a path; if no source gives it, this estimate, which is set with four digits."""
        if not self.has(path):
            self.give(path, value, f"{DERIVED} {how}", 4)
        return self.values.get(path)

    def get(self, path: str, default: Any = None) -> Any:
        """A figure."""
        return self.values.get(path, default)

    def has(self, path: str) -> bool:
        """Whether a figure, or one within it, is given."""
        return any(covers(path, key) for key in self.values)

    def estimated_paths(self) -> tuple[str, ...]:
        """Paths of the figures that no source gives."""
        return tuple(path for path, text in self.sources.items() if text.startswith(DERIVED))

    def leave_out(self, what: str) -> None:
        """Note something of a source that is not taken over."""
        self.left_out[what] = None

    def note(self, text: str) -> None:
        """Tell the user something about the result, once."""
        self.notes[text] = None

    def data(self) -> JsonObject:
        """The figures as the nested data of an airframe file."""
        made: JsonObject = {}
        for path, value in self.values.items():
            *heads, last = path.split(".")
            place = made
            for head in heads:
                place = place.setdefault(head, {})
            place[last] = value
        return made
