"""Types of what JSON and YAML files hold: plain values, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]
ReadJson: TypeAlias = Mapping[str, Any]
"""A ``JsonObject``, or anything like it, that is only read."""
