"""Measures of a flight, their units and limits, and the limits that a user sets."""

from __future__ import annotations

import csv
import difflib
import inspect
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Self

from sitl_bridge.base.errors import ConfigurationError, UserError
from sitl_bridge.base.json_data import JsonObject, ReadJson
from sitl_bridge.base.user_file import UserClass, class_at, failure_text
from sitl_bridge.base.yaml_file import load

if TYPE_CHECKING:
    from sitl_bridge.analysis.evaluation.run_record import RecordedVehicle


class CustomMeasure:
    """Base of a user's own measure of a vehicle's flight, which a limit names by ``FILE.py:CLASS``."""

    unit: ClassVar[str] = ""
    """Of value and limit."""
    at_least: ClassVar[bool] = False
    """Whether the limit is a lower bound."""

    def value(self, vehicle: RecordedVehicle) -> float:
        """Measure a flight.

        Args:
            vehicle: with its truth (``vehicle.time``, ``vehicle.true("position", "north", "east", "down")``),
                its flight log (``vehicle.log.topic(...)``), and take-off and landing (``vehicle.flight()``).

        Returns:
            the value; nan where there is none.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class MeasureKind:
    """Quantity that is measured."""

    name: str  # by which a limit is set
    title: str  # for the reader
    unit: str = ""  # of value and limit; empty for a count
    limit: float | None = None  # the default; None for none
    at_least: bool = False  # whether the limit is a lower bound
    source: str = ""  # of the default limit
    own: CustomMeasure | None = None  # that a user wrote


def _kinds() -> dict[str, MeasureKind]:
    text = resources.files("sitl_bridge.analysis.evaluation").joinpath("measures.csv").read_text("utf-8")
    rows = csv.DictReader(text.splitlines())
    return {
        row["name"]: MeasureKind(
            row["name"],
            row["title"],
            row["unit"],
            float(row["limit"]) if row["limit"] else None,
            row["at_least"] == "yes",
            row["source"],
        )
        for row in rows
    }


KINDS: Mapping[str, MeasureKind] = MappingProxyType(_kinds())
"""All measures but users' own by name, in the order in which they are shown, from measures.csv.

The limit of ``touchdown`` is about three times PX4's landing speed (MPC_LAND_SPEED, 0.7 m/s), or a fall from
0.2 m."""

YES_OR_NO = ("landed",)
"""Measures that are 1 or 0, of which a limit is ``true``: what must be."""
OWN = ".py:"
"""Between file and class of a user's own measure."""


def _own_kind(name: str, directory: Path = Path()) -> MeasureKind:
    """The measure of a user's class, ``FILE.py:CLASS``; its name has the whole path."""
    place = class_at(name)
    if place is None:
        raise UserError(f"measure {name}: write FILE.py:CLASS")
    file, class_name = place
    own = UserClass.model_validate({"file": (directory / file).resolve(), "class": class_name})
    made = own.make(CustomMeasure, "measure")
    title = class_name if type(made).__doc__ is None else inspect.getdoc(made) or class_name
    name = f"{own.file}:{class_name}"
    title = title.partition("\n")[0].rstrip(".")
    return MeasureKind(name, title, made.unit, None, made.at_least, own=made)


def whole_name(name: str, directory: Path) -> str:
    """A measure's name; that of a user's own, FILE.py:CLASS relative to a directory, with the whole path."""
    place = class_at(name)
    return name if place is None else f"{(directory / place[0]).resolve()}:{place[1]}"


def kind_of(name: str) -> MeasureKind:
    """Find the kind of a measure; run the file of a user's own, and take one whose file is gone by name.

    Raises:
        KeyError: for an unknown measure.
    """
    if OWN not in name:
        return KINDS[name]
    try:
        return _own_kind(name)
    except UserError:
        return MeasureKind(name, name.rpartition(":")[2])


def sort_names(names: Collection[str]) -> list[str]:
    """Known measures among names in the order in which they are shown, the user's own last."""
    return [*(name for name in KINDS if name in names), *(name for name in names if OWN in name)]


def is_known(name: str) -> bool:
    """Whether a measure is of this version, or of a user."""
    return name in KINDS or OWN in name


def own_values(vehicle: RecordedVehicle, limits: Limits, failures: dict[str, str]) -> dict[str, float]:
    """Values of the user's own measures among those with a limit; writes the texts of those that fail."""
    found = {}
    for name in limits:
        if OWN not in name:
            continue
        try:
            own = _own_kind(name).own
            assert own is not None
            found[name] = float(own.value(vehicle))
        except Exception as error:  # noqa: BLE001 - the run has failed, and its other measures count
            failures[name] = f"measure {name} failed: {failure_text(error)}"
    return found


Limits = Mapping[str, float | None]
"""Limits by name of the measure; None removes the default."""


@dataclass(frozen=True)
class Measure:
    """A value and its limit."""

    kind: MeasureKind  # what is measured
    value: float  # infinite for a time that did not end
    vehicle: str = ""  # its name; empty for the run
    limit: float | None = None  # None for none
    set_by_user: bool = False  # whether the user set the limit

    @property
    def passed(self) -> bool | None:
        """Whether the value keeps its limit; None without a limit."""
        if self.limit is None:
            return None
        return self.value >= self.limit if self.kind.at_least else self.value <= self.limit

    def as_data(self) -> JsonObject:
        """For JSON: null for what is not finite."""
        return {
            "name": self.kind.name,
            "title": self.kind.title,
            "vehicle": self.vehicle or None,
            "value": self.value if math.isfinite(self.value) else None,
            "unit": self.kind.unit,
            "limit": self.limit,
            "at_least": self.kind.at_least,
            "set_by_user": self.set_by_user,
            "passed": self.passed,
        }

    @classmethod
    def from_data(cls, data: ReadJson) -> Self:
        """Undo ``as_data``.

        Raises:
            KeyError, TypeError, ValueError: for other data.
        """
        value, limit = data["value"], data["limit"]
        name, title, unit = (str(data[key]) for key in ("name", "title", "unit"))
        return cls(
            KINDS.get(name) or MeasureKind(name, title, unit, None, bool(data["at_least"])),
            math.inf if value is None else float(value),
            str(data["vehicle"] or ""),
            None if limit is None else float(limit),
            bool(data["set_by_user"]),
        )

    def words(self) -> str:
        """The measure in words, for a list of what exceeds its limit."""
        who = f"{self.vehicle}: " if self.vehicle else ""
        unit = f" {self.kind.unit}" if self.kind.unit else ""
        least = "at least " if self.kind.at_least else ""
        bound = "" if self.limit is None else f" (limit: {least}{self.limit:g}{unit})"
        return f"{who}{self.kind.title}: {self.value:.3g}{unit}{bound}"


def make_measures(values: Mapping[str, float], limits: Limits, vehicle: str = "") -> list[Measure]:
    """Measures of the known values, as ``sort_names`` has them; infinite is what never came to pass."""
    found = ((name, kind_of(name)) for name in sort_names(values) if not math.isnan(values[name]))
    return [
        Measure(kind, float(values[name]), vehicle, limits.get(name, kind.limit), name in limits)
        for name, kind in found
    ]


def find_unmeasured(limits: Limits, found: Iterable[Measure], failures: Iterable[str]) -> list[str]:
    """Names with a limit that the user set and that the run has no value for, beside those that failed."""
    known = {one.kind.name for one in found} | set(failures)
    return [name for name, limit in limits.items() if limit is not None and name not in known]


def near_measure(name: str) -> str:
    """A hint at the measure that was meant."""
    near = difflib.get_close_matches(name, KINDS, 1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(KINDS)}"


def validate_limits(
    limits: Mapping[str, object],
    source: str,
    lines: Mapping[str, int] | None = None,
    directory: Path = Path(),
) -> dict[str, float | None]:
    """Limits whose names and values were checked, and the user's own measures among them loaded.

    Args:
        limits: as a user wrote them.
        source: of them, for messages.
        lines: of the names in the source, if there are any.
        directory: to which files of own measures are relative.

    Raises:
        ConfigurationError: with every fault.
    """
    faults: list[str] = []
    found: dict[str, float | None] = {}
    for name, value in limits.items():
        where = f"line {lines[name]}: {name}" if lines and name in lines else str(name)
        if OWN in name:
            try:
                name = _own_kind(name, directory).name
            except UserError as error:
                faults.append(f"{where}: {error}")
                continue
        elif name not in KINDS:
            faults.append(f"{where}: no such measure; {near_measure(str(name))}")
            continue
        if value is None:
            found[name] = None
        elif value is True and name in YES_OR_NO:
            found[name] = 1.0
        elif isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            wanted = "true" if name in YES_OR_NO else "a number"
            faults.append(f"{where}: must be {wanted}, or null for no limit; not {value!r}")
        else:
            found[name] = float(value)
    if faults:
        raise ConfigurationError(source, faults)
    return found


def limits_of_file(path: Path) -> dict[str, float | None]:
    """Read a file of limits: YAML with a number, or null, for each name.

    Raises:
        ConfigurationError: with every fault.
        UserError: if the file cannot be read.
    """
    data, lines = load(path)
    return validate_limits(data, str(path), {name: lines.get((name,), 1) for name in data}, path.parent)


def limit_of_option(text: str) -> tuple[str, float | None]:
    """Name and limit of ``--limit NAME=VALUE``; ``NAME=none`` removes a default.

    Raises:
        UserError: for anything else.
    """
    name, separator, value = text.partition("=")
    if not separator:
        raise UserError(
            f"--limit {text!r}: write NAME=VALUE, such as vibration=4.9, or NAME=none for no limit"
        )
    try:
        words: dict[str, bool | None] = {"none": None, "true": True}
        number = words[value.strip()] if value.strip() in words else float(value)
    except ValueError as error:
        raise UserError(f"--limit {text!r}: {value!r} is not a number; write none for no limit") from error
    found = validate_limits({name.strip(): number}, f"--limit {text}")
    return next(iter(found.items()))
