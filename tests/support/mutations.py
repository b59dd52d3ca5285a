"""Broken input files: the shipped ones with a line dropped or a value replaced by something extreme."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import yaml
from hypothesis import strategies as st

EXTREMES: tuple[Any, ...] = (
    0, 1, -1, 2, 3, 1000, -1000, 65536, 2**31, 2**63, -(2**63), 10**30, 10**300, 10**400,
    0.0, -0.0, 0.5, -0.5, 1e-3, 1e3, 1e-9, 1e9, 1e-30, 1e30, 1e-300, 1e300, 1e-320, 5e-324, 1e308, -1e308,
    float("nan"), float("inf"), -float("inf"),
    None, True, False, "", "x", "iris", "none", "\x00", "a" * 5000, "../" * 2000, "/dev/zero", "é\u2028",
    [], [0], [1, 2, 3], [0.0, 0.0, 0.0], [1e308, 1e308, -1e308], ["a", "b", "c"], [[1, 2, 3]] * 3, [None] * 3,
    {}, {"kind": "x"}, {"kind": None}, {"speed": 1e300}, {"a": {"b": {"c": 1}}},
)  # fmt: skip
"""Values that stand in the place of others."""

Path = tuple[str | int, ...]


def paths(data: Any, path: Path = ()) -> Iterator[Path]:
    """Paths of all values within data."""
    if path:
        yield path
    if isinstance(data, dict):
        for key, value in data.items():
            yield from paths(value, (*path, key))
    elif isinstance(data, list):
        for i, value in enumerate(data):
            yield from paths(value, (*path, i))


def nest(depth: int) -> Any:
    """A list within a list and so on."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@st.composite
def values(draw: st.DrawFn, data: Any, at: Path) -> Any:
    """Something in the place of a value: extreme, of another type, scaled, or copied from elsewhere."""
    here = data
    for part in at:
        here = here[part]
    kinds = ["extreme", "any", "copy"] + ["scaled", "scaled"] * isinstance(here, int | float)
    match draw(st.sampled_from(kinds)):
        case "extreme":
            return copy.deepcopy(draw(st.sampled_from(EXTREMES)))
        case "scaled":
            return here * draw(st.sampled_from((-1, 0.1, 10, 0.01, 100, 1e-4, 1e4, 1e-8, 1e8)))
        case "copy":
            other = draw(st.sampled_from(list(paths(data))))
            found = data
            for part in other:
                found = found[part]
            return copy.deepcopy(found)
        case _:
            return draw(st.one_of(st.floats(), st.integers(), st.text(max_size=20), st.just(nest(40))))


@st.composite
def mutate(draw: st.DrawFn, text: str) -> str:
    """The text of a YAML file, changed in one to three places."""
    if draw(st.integers(0, 3)) == 0:
        lines = text.splitlines()
        start = draw(st.integers(0, len(lines) - 1))
        count = draw(st.integers(1, 3))
        return "\n".join(lines[:start] + lines[start + count :]) + "\n"
    data = yaml.safe_load(text)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.sampled_from(list(paths(data))))
        holder: Any = data
        for part in at[:-1]:
            holder = holder[part]
        action = draw(st.sampled_from(("replace", "replace", "replace", "drop", "repeat")))
        if action == "replace":
            holder[at[-1]] = draw(values(data, at))
        elif action == "drop":
            del holder[at[-1]]
        elif isinstance(holder, list):
            holder.append(copy.deepcopy(holder[int(at[-1])]))
        else:
            holder[draw(st.text(max_size=10))] = copy.deepcopy(holder[at[-1]])
        if not isinstance(data, dict) or not data:
            break
    return yaml.safe_dump(data, allow_unicode=False, sort_keys=False)
