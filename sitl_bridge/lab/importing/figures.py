"""Figures of a vehicle as its sources give them, each with where it comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sitl_bridge.base.json_data import JsonObject
from sitl_bridge.core.vehicle.figure_sources import DERIVED, covers


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

    def give(self, path: str, value: Any, source: str) -> None:
        """Set a figure, and remove those of an earlier source within it."""
        for key in [key for key in self.values if covers(path, key)]:
            del self.values[key]
            self.sources.pop(key, None)
        self.values[path] = value
        self.sources[path] = source

    def estimate(self, path: str, value: Any, how: str) -> bool:
        """Set a figure that no source gives; returns whether it was needed."""
        if self.has(path):
            return False
        self.give(path, value, f"{DERIVED} {how}")
        return True

    def get(self, path: str, default: Any = None) -> Any:
        """A figure."""
        return self.values.get(path, default)

    def has(self, path: str) -> bool:
        """Whether a figure, or one within it, is given."""
        return any(covers(path, key) for key in self.values)

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
