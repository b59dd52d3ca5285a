"""The space of a campaign: its scenario, the values it varies, and the check of all its corners.

A path of a value begins in the scenario file.  Below ``world`` it leads into the world, also where the
scenario names a world file; below ``vehicles[i]`` into the vehicle's entry, and from there into its airframe.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, ValidationError

from sitl_bridge.api.judging import KINDS, OWN, near_measure, validate_limits, whole_name
from sitl_bridge.api.models import Airframe, VehicleSpecification, load_airframe
from sitl_bridge.api.scenarios import (
    FlightOptions,
    FlightSettings,
    LoadedScenario,
    assemble,
    limits_of,
    load_scenario,
    scenario_world,
    settings_of,
)
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import ConfigurationError, FieldError, UserError, shorten
from sitl_bridge.base.field_paths import FieldPath, suggestion
from sitl_bridge.base.yaml_file import Document, read, validate
from sitl_bridge.lab.campaign.file import (
    MOST_RUNS,
    Campaign,
    RareEvents,
    Sensitivity,
    Stage,
    Value,
    Varied,
    WorstCase,
    varied_values,
)

MOST_CORNERS = 512
"""Corners that are checked; of a space with more, the extremes of each value and others at random."""
MOST_FAULTS = 5
"""Reasons of faulty corners that are printed."""
LARGEST_READ = 50_000_000
"""Bytes of a file up to which its content counts for the names of runs; beyond, its size."""


@dataclass
class CampaignSpace:
    """A campaign and its scenario."""

    file: Path  # of the campaign
    document: Document  # of it, for lines in messages
    specification: Campaign  # its content
    varied: tuple[Varied, ...]  # what it varies, in order
    base: LoadedScenario  # the scenario as it stands
    limits: dict[str, float | None]  # of measures, with which a flight succeeds
    digest: str  # of everything that all runs have in common: the program, the scenario and its files
    airframe_of: Callable[[str], Airframe] = field(default_factory=lambda: cache(load_airframe))  # read once

    @classmethod
    def load(cls, file: Path) -> CampaignSpace:
        """Read a campaign and its scenario.

        Raises:
            ConfigurationError: with every fault of the two files.
        """
        document = read(file)
        made = validate(Campaign, document)
        varied, scenario = varied_values(made, document), file.parent / made.base
        try:
            base = load_scenario(scenario)
        except ConfigurationError:
            raise
        except UserError as error:
            raise document.error(("base",), str(error)) from error
        if base.formation is not None or base.avoidance is not None:
            message = "is a formation or avoidance; a campaign flies scenarios with a mission"
            raise document.error(("base",), message)
        lines = {name: document.line(("limits", name)) for name in made.limits}
        limits = limits_of(base) | validate_limits(made.limits, str(file), lines, file.parent)
        made = _with_whole_names(made, file.parent)
        space = cls(file, document, made, varied, base, limits, _digest(base, scenario))
        if space.size > MOST_RUNS:
            raise document.error(("design",), f"has {space.size:,} flights, more than {MOST_RUNS:,}")
        return space

    @property
    def name(self) -> str:
        """Of the campaign."""
        return self.specification.name or self.file.stem

    @property
    def scenario(self) -> Path:
        """The scenario's file."""
        return self.file.parent / self.specification.base

    @property
    def names(self) -> tuple[str, ...]:
        """Of the varied values, as written."""
        return tuple(one.name for one in self.varied)

    @property
    def size(self) -> int:
        """Flights of the first stage, at most."""
        made = self.specification
        if isinstance(made.search, Sensitivity):
            return made.search.whole_samples * (len(self.names) + 2)
        if made.design == "grid":
            return math.prod(map(self._levels, self.varied))
        assert made.runs is not None
        return made.runs

    def _levels(self, one: Varied) -> int:
        """Values in a grid: all of a discrete distribution, ``levels`` quantiles of others."""
        return len(one.distribution.values) if one.distribution.discrete else self.specification.levels

    def _axes(self) -> Iterator[Floats]:
        for one in self.varied:
            count = self._levels(one)
            if one.distribution.discrete:
                yield (np.arange(count) + 0.5) / count
            else:
                yield np.linspace(0.0, 1.0, count)

    def points(self) -> Floats:
        """The (runs, values) points of the design, each coordinate in 0..1; the same for the same seed."""
        from scipy.stats import qmc  # loads slowly

        made, count = self.specification, len(self.names)
        if made.design == "grid":
            return np.array(list(itertools.product(*self._axes())))
        if made.design == "lhs":
            return np.asarray(qmc.LatinHypercube(count, seed=made.seed).random(self.size))
        if made.design == "sobol":
            # Whole powers of 2 keep the balance of the sequence; the first of them are flown.
            exponent = (self.size - 1).bit_length()
            return np.asarray(qmc.Sobol(count, seed=made.seed).random_base2(exponent)[: self.size])
        return np.random.default_rng(made.seed).random((self.size, count))

    def values_at(self, point: Sequence[float]) -> tuple[Value, ...]:
        """The values at a point of the unit cube."""
        return tuple(one.distribution.at(float(u)) for one, u in zip(self.varied, point, strict=True))

    def settings(self, values: Sequence[Value], seed: int, options: FlightOptions) -> FlightSettings:
        """The settings of the flight with these values.

        Raises:
            UserError: for values that make no scenario.
        """
        by_path = {one.path: value for one, value in zip(self.varied, values, strict=True)}
        scenario = varied_scenario(self.base, self.scenario, by_path, seed, self.airframe_of)
        return settings_of(scenario, self.scenario, options)

    def run_id(self, values: Sequence[Value], seed: int, stage: Stage, px4: Path | None) -> str:
        """The name of a run: equal for equal resolved configurations only."""
        about = [self.digest, dict(zip(self.names, values, strict=True)), seed, stage]
        about += [str(px4.resolve())] if px4 is not None and stage == "px4" else []
        return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:12]

    # ------------------------------------------------------------------ the check before anything runs

    def check(self) -> None:
        """Check that every path exists and every corner is a valid scenario.

        Raises:
            ConfigurationError: with the faults.
        """
        file = str(self.file)
        faults = [*self._path_faults(), *self._search_faults()] or self._corner_faults()
        if faults:
            raise ConfigurationError(file, faults)

    def _corner_faults(self) -> list[str]:
        """Reasons why corners are no valid scenarios, each once with the number of its corners."""
        corners = list({repr(corner): corner for corner in self.corners()}.values())
        found: dict[str, list[tuple[Value, ...]]] = {}
        for corner in corners:
            try:
                self.settings(corner, 0, FlightOptions(autopilot="builtin")).check()
            except UserError as error:
                for reason in dict.fromkeys(words_of(error)):
                    found.setdefault(reason, []).append(corner)
        faults = [
            self.document.fault(("vary",), f"no valid scenario {self._place(bad, len(corners))}: {reason}")
            for reason, bad in found.items()
        ]
        others = len(faults) - MOST_FAULTS
        return faults if others <= 0 else [*faults[:MOST_FAULTS], f"and {others} other reasons"]

    def _place(self, bad: Sequence[tuple[Value, ...]], checked: int) -> str:
        """The corners of a fault in words."""
        first = ", ".join(f"{n} = {_show(v)}" for n, v in zip(self.names, bad[0], strict=True))
        if len(bad) == 1:
            return f"at {first}"
        if len(bad) == checked:
            return f"at any of {checked} corners"
        return f"at {len(bad)} of {checked} corners, the first at {first}"

    def _path_faults(self) -> Iterator[str]:
        """Faults of single values, each alone at its ends."""
        for one in self.varied:
            for end in one.distribution.ends():
                try:
                    varied_scenario(self.base, self.scenario, {one.path: end}, 0, self.airframe_of)
                except FieldError as error:
                    yield self.document.fault(("vary", one.name), f"{_join_path(error.path)}: {error}")
                    break
                except UserError as error:
                    words = "; ".join(words_of(error))
                    yield self.document.fault(("vary", one.name), f"cannot be {_show(end)}: {words}")
                    break

    def _search_faults(self) -> Iterator[str]:
        search = self.specification.search
        if search is None:
            return
        wanted = getattr(search, "measures", None) or ([search.measure] if hasattr(search, "measure") else [])
        for name in wanted:
            if OWN in name and name not in self.limits:
                message = f"{name} is taken where it has a limit; add it to limits, with null for none"
                yield self.document.fault(("search",), message)
            elif OWN not in name and name not in KINDS:
                hint = near_measure(name)
                yield self.document.fault(("search",), f"there is no measure {shorten(name)!r}; {hint}")
            elif search.kind == "rare_events" and self.limits.get(name) is None:
                message = f"{name} needs a limit, which says what a failure is; add it to limits"
                yield self.document.fault(("search", "measure"), message)

    def corners(self) -> Iterator[tuple[Value, ...]]:
        """Combinations of extreme values: all of them, or of many those of each value and some at random."""
        ends = [one.distribution.ends() for one in self.varied]
        if np.prod([float(len(values)) for values in ends]) <= MOST_CORNERS:
            yield from itertools.product(*ends)
            return
        middle = [one.distribution.at(0.5) for one in self.varied]
        for i, values in enumerate(ends):
            for value in values[:MOST_CORNERS]:
                yield tuple(value if k == i else other for k, other in enumerate(middle))
        random = np.random.default_rng(0)
        for _ in range(MOST_CORNERS):
            yield tuple(values[int(random.integers(len(values)))] for values in ends)


def _with_whole_names(campaign: Campaign, directory: Path) -> Campaign:
    """The campaign with the names by which limits have the user's own measures of its search."""
    search = campaign.search
    names: dict[str, str | tuple[str, ...]] = {}
    if isinstance(search, RareEvents | WorstCase):
        names["measure"] = whole_name(search.measure, directory)
    elif isinstance(search, Sensitivity):
        names["measures"] = tuple(whole_name(name, directory) for name in search.measures)
    else:
        return campaign
    return campaign.model_copy(update={"search": search.model_copy(update=names)})


def _show(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _join_path(path: Sequence[str | int]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "the scenario"


def _digest(base: LoadedScenario, file: Path) -> str:
    """Of the program and of a scenario with everything that it names."""
    found = hashlib.sha256(program_digest().encode())
    parts: list[object] = [base.specification.model_dump(mode="json"), base.world.model_dump(mode="json")]
    parts += [vehicle.airframe.separate_payload().model_dump(mode="json") for vehicle in base.vehicles]
    for part in parts:
        found.update(json.dumps(part, sort_keys=True, default=str).encode())
        for text in sorted(set(_texts(part))):
            named = file.parent / text
            if len(text) < 1000 and "\0" not in text and named.is_file():
                large = named.stat().st_size > LARGEST_READ
                found.update(str(named.stat().st_size).encode() if large else named.read_bytes())
    return found.hexdigest()


def _texts(data: object) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for value in data.values():
            yield from _texts(value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _texts(value)


@cache
def program_digest() -> str:
    """Of this program's own files: runs of another version are other runs."""
    found = hashlib.sha256()
    package = Path(__file__).resolve().parent.parent.parent
    for path in sorted(package.rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


Model = TypeVar("Model", bound=BaseModel)
SOURCE = "varied by a campaign"
"""Source of a figure that its airframe has none for."""
OPEN = ("parameters", "arguments", "position", "grid")
"""Fields of a vehicle's entry that have fields of their own."""


def with_value(model: Model, path: FieldPath, value: Value) -> Model:
    """A copy of a model with another value at a path, validated.

    Raises:
        FieldError: for a path that does not exist, or a value that the field does not take.
    """
    changed: Model = _change(model, path, value, ())
    return changed


def _change(thing: object, path: FieldPath, value: Value, above: FieldPath) -> Any:
    if not path:
        return value
    head, *rest = path
    here = (*above, head)
    if isinstance(thing, BaseModel):
        return _change_model(thing, head, tuple(rest), value, above)
    if isinstance(thing, tuple | list) and isinstance(head, int):
        if head >= len(thing):
            raise FieldError(here, f"there are only {len(thing)}; the first is [0]")
        return type(thing)(
            _change(inner, tuple(rest), value, here) if i == head else inner for i, inner in enumerate(thing)
        )
    if isinstance(thing, Mapping) and isinstance(head, str):
        if rest and head not in thing:
            raise FieldError(here, "is not in the scenario; give it a value there")
        return {**thing, head: _change(thing.get(head), tuple(rest), value, here)}
    if thing is None:
        raise FieldError(above, "is not set in the scenario; give it a value there, which is then varied")
    raise FieldError(here, f"{type(thing).__name__} has no such part")


def _change_model(
    model: BaseModel, head: str | int, rest: FieldPath, value: Value, above: FieldPath
) -> BaseModel:
    fields = type(model).model_fields
    by_name = {info.alias or name: name for name, info in fields.items()}
    here = (*above, head)
    if not isinstance(head, str) or head not in by_name:
        raise FieldError(here, f"unknown field{suggestion(str(head), by_name)}")
    inner = _change(getattr(model, by_name[head]), rest, value, here)
    # Only what was given, because some defaults follow from other fields.
    given = {alias: getattr(model, name) for alias, name in by_name.items() if name in model.model_fields_set}
    try:
        return type(model).model_validate({**given, head: inner})
    except ValidationError as error:
        first = error.errors()[0]
        raise FieldError((*above, *(p for p in first["loc"] if p != "section")), first["msg"]) from error


def in_airframe(path: FieldPath) -> bool:
    """Whether a path leads from a vehicle's entry into its airframe."""
    if len(path) < 3 or path[0] != "vehicles":
        return False
    head = path[2]
    return head not in VehicleSpecification.model_fields or (len(path) > 3 and head not in OPEN)


def varied_scenario(
    base: LoadedScenario,
    file: Path,
    values: Mapping[FieldPath, Value],
    seed: int,
    airframe_of: Callable[[str], Airframe],
) -> LoadedScenario:
    """The scenario with other values.

    Args:
        base: as loaded.
        file: its file, to which files are relative.
        values: by path.
        seed: of the run; a value of ``seed`` replaces it.
        airframe_of: loads the airframe of a name or file.

    Raises:
        FieldError: for a path that does not exist, or a value that its field does not take.
        ConfigurationError: for a combination of values that makes no scenario.
    """
    made, world = base.specification, base.world
    airframes: dict[int, list[tuple[FieldPath, Value]]] = {}
    below_world: list[tuple[FieldPath, Value]] = []
    for path, value in values.items():
        if in_airframe(path):
            group = path[1]
            if not isinstance(group, int) or group >= len(made.vehicles):
                raise FieldError(path[:2], f"the scenario has {len(made.vehicles)} entries of vehicles")
            airframes.setdefault(group, []).append((path, value))
        elif path[0] == "world" and len(path) > 1:
            below_world.append((path, value))
        else:
            made = with_value(made, path, value)
    if ("world",) in values:
        world = scenario_world(made.world, file, base.document)
    for path, value in below_world:
        world = _place(path[:1], path[1:], world, value)

    def load(group: int, source: str) -> Airframe:
        airframe = airframe_of(source)
        for path, value in airframes.get(group, ()):
            empty = airframe.separate_payload()
            sources = {str(path[2]): SOURCE} | empty.sources
            sourced = empty.model_copy(update={"sources": sources})
            airframe = _place(path[:2], path[2:], sourced, value).include_payload()
        return airframe

    used = made.seed if ("seed",) in values else seed
    return assemble(made, base.document, file, seed=used, world=world, airframes=load)


def _place(above: FieldPath, path: FieldPath, model: Model, value: Value) -> Model:
    try:
        return with_value(model, path, value)
    except FieldError as error:
        raise FieldError((*above, *error.path), str(error)) from error


def words_of(error: UserError) -> list[str]:
    """The faults of a combination of values, without the name of the file."""
    return list(error.faults) if isinstance(error, ConfigurationError) else [str(error)]
