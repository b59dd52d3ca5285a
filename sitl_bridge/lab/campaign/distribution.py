"""Distributions of the figures that a campaign varies, as a user writes them: ``uniform(0, 12)``.

Every distribution is a function of a number u in 0..1, its quantile function, so that all designs and
searches work in the unit cube.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TypeAlias

from sitl_bridge.base.errors import UserError, did_you_mean

Value: TypeAlias = float | int | str | bool
"""A value of a field."""

FORMS = {
    "uniform": "uniform(low, high)",
    "loguniform": "loguniform(low, high)",
    "normal": "normal(mean, deviation) or normal(mean, deviation, low, high)",
    "choice": "choice(a, b, ...)",
    "range": "range(end) or range(start, end)",
}
"""How each distribution is written."""

REACH = 5.0
"""Deviations from its mean at which an unbounded normal distribution is cut off: 6 in 10 million draws."""

_CALL = re.compile(r"\s*([A-Za-z_]+)\s*\((.*)\)\s*$", re.DOTALL)
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")


@dataclass(frozen=True)
class Distribution:
    """A distribution of one figure."""

    kind: str  # one of ``FORMS``
    arguments: tuple[Value, ...]  # as written

    @property
    def discrete(self) -> bool:
        """Whether it has a finite number of values."""
        return self.kind in ("choice", "range")

    @property
    def values(self) -> tuple[Value, ...]:
        """All values of a discrete distribution."""
        if self.kind == "range":
            return tuple(range(*(int(end) for end in self.arguments)))
        return self.arguments

    def at(self, u: float) -> Value:
        """The quantile: the value below which a share u of all draws lies."""
        if self.discrete:
            values = self.values
            return values[min(int(u * len(values)), len(values) - 1)]
        numbers = [float(argument) for argument in self.arguments]
        if self.kind == "uniform":
            return numbers[0] + u * (numbers[1] - numbers[0])
        if self.kind == "loguniform":
            return math.exp(math.log(numbers[0]) + u * math.log(numbers[1] / numbers[0]))
        from scipy.special import ndtr, ndtri  # SciPy takes long to load, which `check` of other files saves

        mean, deviation = numbers[:2]
        low, high = self._cut()
        share_low, share_high = float(ndtr(low)), float(ndtr(high))
        z = float(ndtri(share_low + u * (share_high - share_low)))
        return mean + deviation * min(max(z, low), high)

    def _cut(self) -> tuple[float, float]:
        """Bounds of a normal distribution in deviations from the mean."""
        mean, deviation, *bounds = (float(argument) for argument in self.arguments)
        if not bounds:
            return -REACH, REACH
        return (bounds[0] - mean) / deviation, (bounds[1] - mean) / deviation

    def ends(self) -> tuple[Value, ...]:
        """The extreme values, or all values of a choice: the corners of the space."""
        if self.kind == "choice":
            return self.values
        if self.kind == "range":
            return tuple(dict.fromkeys((self.values[0], self.values[-1])))
        return self.at(0.0), self.at(1.0)

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(map(str, self.arguments))})"


def distribution(text: object) -> Distribution:
    """Read a distribution: a text such as ``uniform(0, 12)``, or a list of values to choose from.

    Raises:
        UserError: for anything else, with the forms there are.
    """
    if isinstance(text, list | tuple):
        return _checked(Distribution("choice", tuple(text)))
    call = _CALL.match(text) if isinstance(text, str) else None
    if call is None:
        raise UserError(f"{text!r} is no distribution; write {', '.join(FORMS.values())}")
    kind, inside = call.group(1), call.group(2)
    if kind not in FORMS:
        raise UserError(
            f"there is no distribution {kind!r}{did_you_mean(kind, FORMS)}; there are {', '.join(FORMS)}"
        )
    words = [word.strip() for word in inside.split(",")] if inside.strip() else []
    return _checked(Distribution(kind, tuple(_value(word, kind) for word in words)))


def _value(word: str, kind: str) -> Value:
    if _NUMBER.match(word):
        return float(word) if any(sign in word for sign in ".eE") else int(word)
    if kind == "choice":
        return {"true": True, "false": False}.get(word, word.strip("'\""))
    raise UserError(f"{word!r} is not a number; write {FORMS[kind]}")


def _checked(found: Distribution) -> Distribution:
    """Refuse arguments that make no distribution."""
    kind, arguments = found.kind, found.arguments
    form = f"write {FORMS[kind]}"
    if kind == "choice":
        if not arguments:
            raise UserError(f"needs at least one plain value; {form}")
        return found
    if kind == "range":
        if len(arguments) not in (1, 2) or not all(isinstance(a, int) for a in arguments):
            raise UserError(f"needs one or two whole numbers; {form}")
        if not found.values:
            raise UserError(f"has no values; {form} with an end above the start")
        return found
    if len(arguments) not in ((2, 4) if kind == "normal" else (2,)):
        raise UserError(f"has {len(arguments)} figures; {form}")
    first, second, *bounds = (float(a) for a in arguments)
    if kind == "normal":
        if not second > 0.0:
            raise UserError(f"needs a deviation above 0; {form}")
        if bounds and not bounds[0] < bounds[1]:
            raise UserError(f"needs bounds that leave room between them; {form}")
        return found
    if not first < second:
        raise UserError(f"needs a low end below the high end; {form}")
    if kind == "loguniform" and not first > 0.0:
        raise UserError(f"needs ends above 0; {form}")
    return found
