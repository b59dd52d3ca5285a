"""Types of what JSON and YAML files hold: plain values, by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias, overload

JsonObject: TypeAlias = dict[str, Any]
ReadJson: TypeAlias = Mapping[str, Any]
"""A ``JsonObject``, or anything like it, that is only read."""


@overload
def plain_values(value: JsonObject) -> JsonObject: ...
@overload
def plain_values(value: object) -> object: ...
def plain_values(value: object) -> object:
    """A value as JSON gives it back: what is not finite is None, and tuples are lists."""
    if isinstance(value, dict):
        return {key: plain_values(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def round_values(value: Any, digits: int = 6) -> Any:
    """A number, or those of plain data, with so many digits; tuples are lists, and nothing is -0."""
    if isinstance(value, dict):
        return {key: round_values(entry, digits) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [round_values(entry, digits) for entry in value]
    return float(f"{value:.{digits}g}") + 0.0 if isinstance(value, float) else value
