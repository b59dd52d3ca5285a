"""Campaign files: a scenario, what is varied in it, and how many flights answer which question.

Only the file itself is checked here; ``lab/campaign/space.py`` checks it against its scenario.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, Field

from sitl_bridge.base.errors import ConfigurationError, UserError, did_you_mean, shorten
from sitl_bridge.base.field_paths import FieldPath
from sitl_bridge.base.json_data import ReadJson
from sitl_bridge.base.quantities import STRICT, Positive, Seed
from sitl_bridge.base.yaml_file import Document

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

MOST = 10**15
"""Bound of whole numbers: below it, a float of 53 bits selects each of them."""

MOST_RUNS = 10_000_000
"""Flights of a campaign, whose points are held in memory."""

_CALL = re.compile(r"\s*([A-Za-z_]+)\s*\((.*)\)\s*$", re.DOTALL)
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")


@dataclass(frozen=True)
class Distribution:
    """A distribution of one figure, as a user writes it: ``uniform(0, 12)``.

    It is its quantile function of a number u in 0..1, so all designs and searches work in the unit cube.
    """

    kind: str  # one of ``FORMS``
    arguments: tuple[Value, ...]  # as written

    @property
    def discrete(self) -> bool:
        """Whether it has a finite number of values."""
        return self.kind in ("choice", "range")

    @property
    def values(self) -> Sequence[Value]:
        """All values of a discrete distribution."""
        if self.kind == "range":
            return range(*(int(end) for end in self.arguments))
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
            return self.arguments
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
        return _validate_distribution(Distribution("choice", tuple(text)))
    call = _CALL.match(text) if isinstance(text, str) else None
    if call is None:
        raise UserError(f"{shorten(repr(text))} is no distribution; write {', '.join(FORMS.values())}")
    kind, inside = call.group(1), call.group(2)
    if kind not in FORMS:
        raise UserError(
            f"there is no distribution {shorten(kind)!r}{did_you_mean(kind, FORMS)};"
            f" there are {', '.join(FORMS)}"
        )
    words = [word.strip() for word in inside.split(",")] if inside.strip() else []
    return _validate_distribution(Distribution(kind, tuple(_value(word, kind) for word in words)))


def _value(word: str, kind: str) -> Value:
    if _NUMBER.match(word):
        return float(word) if any(sign in word for sign in ".eE") else int(word)
    if kind == "choice":
        return {"true": True, "false": False}.get(word, word.strip("'\""))
    raise UserError(f"{shorten(word)!r} is not a number; write {FORMS[kind]}")


def _validate_distribution(found: Distribution) -> Distribution:
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
        if max(map(abs, map(int, arguments))) >= MOST:
            raise UserError(f"has ends of {MOST:g} or more; {form}")
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


_STEP = re.compile(r"\.?([A-Za-z_][A-Za-z0-9_\-]*)|\[(\d+)\]")
FEWEST_FOR_AN_INTERVAL = 20
"""Runs before which an interval does not end a campaign."""

Stage = Literal["built_in", "px4"]
Keep = Literal["all", "failures", "none"]


class StopRules(BaseModel):
    """Conditions that end a campaign before its last run."""

    model_config = STRICT

    failures: int | None = Field(None, ge=1, description="number of failed flights")
    half_width: float | None = Field(
        None, gt=0.0, lt=0.5, description="of the Clopper-Pearson interval of the success rate, at 95 %"
    )


class Confirmation(BaseModel):
    """Choice of the runs of the first stage that are flown again in the second one."""

    model_config = STRICT

    failures: int = Field(20, ge=0, description="failed flights, at most")
    near_misses: int = Field(10, ge=0, description="flights that succeeded with the least margin, at most")
    sample: int = Field(10, ge=0, description="others, drawn at random")


class _Search(BaseModel):
    model_config = STRICT

    measure: str = Field(description="name of the measure")


class RareEvents(_Search):
    """Cross-entropy importance sampling: the probability that a measure exceeds its limit."""

    kind: Literal["rare_events"] = Field(description="kind of search")
    batch: int = Field(100, ge=10, description="runs between changes of the sampling distribution")
    elite: float = Field(0.1, gt=0.0, lt=0.5, description="share of a batch from which the next one learns")


class WorstCase(_Search):
    """CMA-ES: the values with the worst measure."""

    kind: Literal["worst_case"] = Field(description="kind of search")
    spread: Positive = Field(
        1.0, description="initial deviation of each value, in deviations of a normal one"
    )


class SmallestFailure(BaseModel):
    """Bisection: the failing case that differs least from the medians."""

    model_config = STRICT

    kind: Literal["smallest_failure"] = Field(description="kind of search")
    tolerance: float = Field(0.02, gt=0.0, le=0.5, description="of a value, as a share of its range")


class Sensitivity(BaseModel):
    """Sobol indices: the shares of each value in the variance of measures."""

    model_config = STRICT

    kind: Literal["sensitivity"] = Field(description="kind of search")
    measures: tuple[str, ...] = Field(min_length=1, description="names of the measures")
    samples: int = Field(
        64, ge=8, description="base samples, rounded up to a power of 2; it flies samples x (values + 2)"
    )

    @property
    def whole_samples(self) -> int:
        """The samples, rounded up to a power of 2."""
        return 1 << (self.samples - 1).bit_length()


Search = Annotated[RareEvents | WorstCase | SmallestFailure | Sensitivity, Field(discriminator="kind")]


class Campaign(BaseModel):
    """Many flights of one scenario with varied values."""

    model_config = STRICT

    name: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_\-]{1,60}$",
        description="name of the campaign's directory; default: that of the file",
    )
    base: Path = Field(description="the scenario, relative to this file")
    vary: dict[str, str | tuple[float | int | str | bool, ...]] = Field(
        min_length=1,
        description="distribution of each value, by its path in the scenario: uniform(low, high),"
        " loguniform(low, high), normal(mean, deviation), choice(a, b), range(n), or a list of values",
    )
    design: Literal["random", "lhs", "sobol", "grid"] = Field(
        "lhs", description="how runs are placed: independent, Latin hypercube, Sobol sequence, grid"
    )
    runs: int | None = Field(
        None, ge=1, le=MOST_RUNS, description="number of flights, at most; a grid has its own"
    )
    levels: int = Field(5, ge=2, description="values of each continuous distribution in a grid")
    seed: Seed = Field(0, description="of the design; run i flies with seed + i unless vary has seed")
    limits: dict[str, float | None] = Field(
        {}, description="limits of measures by name, on top of those of the scenario; null for no limit"
    )
    stop: StopRules = Field(StopRules(), description="what ends the campaign early")
    stages: tuple[Stage, ...] = Field(
        ("built_in",), min_length=1, max_length=2, description="flight stacks, in order"
    )
    confirm: Confirmation = Field(Confirmation(), description="runs of the second stage")
    search: Search | None = Field(None, description="chooses the runs in place of a design")
    keep: Keep = Field("failures", description="runs whose directories stay; the table has every run")
    keep_at_most: int = Field(50, ge=0, description="directories of failed runs; keep: all has no bound")
    run_limit: Positive = Field(600.0, description="limit of wall time of a run in s; then it is repeated")

    @classmethod
    def faults_between(cls, data: ReadJson) -> list[tuple[FieldPath, str]]:
        """Faults between fields: the number of runs, the design and the search."""
        found: list[tuple[FieldPath, str]] = []
        search, design = data.get("search"), data.get("design")
        kind = search.get("kind") if isinstance(search, dict) else None
        if search is not None and design is not None:
            found.append((("design",), "has no effect with a search; leave one of the two out"))
        if design == "grid" and data.get("runs") is not None:
            found.append((("runs",), "follows from a grid; leave it out, and set levels"))
        if kind == "sensitivity" and data.get("runs") is not None:
            found.append((("runs",), "follows from samples; leave it out"))
        if design != "grid" and kind != "sensitivity" and data.get("runs") is None:
            found.append((("runs",), "missing; give the number of flights"))
        stages = data.get("stages")
        if stages is not None and stages not in (["built_in"], ["px4"], ["built_in", "px4"]):
            found.append((("stages",), "write [built_in], [px4] or [built_in, px4]"))
        if data.get("confirm") is not None and stages != ["built_in", "px4"]:
            found.append((("confirm",), "is only used with stages: [built_in, px4]"))
        return found


@dataclass(frozen=True)
class Varied:
    """A value that a campaign varies."""

    name: str  # its path, as written
    path: FieldPath  # the same as keys and indices
    distribution: Distribution  # of its values


def varied_values(campaign: Campaign, document: Document) -> tuple[Varied, ...]:
    """Parameters that a campaign varies, in order.

    Raises:
        ConfigurationError: with every fault of a path or a distribution, and its line.
    """
    faults: list[str] = []
    varied: list[Varied] = []
    for name, text in campaign.vary.items():
        try:
            varied.append(Varied(name, path_of(name), distribution(text)))
        except UserError as error:
            faults.append(document.fault(("vary", name), str(error)))
    if faults:
        raise ConfigurationError(document.source, faults)
    return tuple(varied)


def path_of(text: str) -> FieldPath:
    """Keys and indices of ``vehicles[0].position[2]``.

    Raises:
        UserError: for a text that is no path.
    """
    path: list[str | int] = []
    at = 0
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None or (at == 0 and text[0] in ".["):
            raise UserError(f"{shorten(text)!r} is no path of a field; write one such as vehicles[0].mass")
        path.append(step.group(1) if step.group(1) is not None else int(step.group(2)))
        at = step.end()
    if not path:
        raise UserError("an empty path; write one such as vehicles[0].mass")
    return tuple(path)
