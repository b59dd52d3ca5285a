"""The flight stack's parameters: PX4's names, types, defaults and ranges where the meaning is PX4's.

Only parameters that something reads are here; other parts of the stack add theirs with ``Parameters(more)``.
Defaults are those PX4 has in simulation (its parameter files, rc.mc_defaults and init.d-posix/rcS).
"""

from __future__ import annotations

import csv
import itertools
import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources

from sitl_bridge.base.errors import UserError

MAX_FLOAT = 3.4e38
"""The widest range a 32-bit float parameter may have; an empty field of the table."""


def _round(value: float) -> float:
    """The value as a 32-bit float carries it over MAVLink, so that a round trip changes nothing."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


@dataclass(frozen=True, slots=True)
class ParameterInfo:
    """Facts of a parameter."""

    name: str  # at most 16 characters
    default: int | float  # an int makes an int32 parameter, a float a float one
    minimum: float  # smallest value allowed
    maximum: float  # greatest value allowed
    unit: str  # as PX4 writes it; empty for numbers without one
    text: str  # what it does, in a line

    @property
    def is_integer(self) -> bool:
        """Whether it is an int32."""
        return isinstance(self.default, int)


@cache
def load_built_in() -> tuple[ParameterInfo, ...]:
    """Parameters of parameters.csv; a default with a decimal point makes a float one."""
    text = resources.files("sitl_bridge.autopilot").joinpath("parameters.csv").read_text(encoding="utf-8")
    return tuple(
        ParameterInfo(
            row["name"],
            float(row["default"]) if "." in row["default"] else int(row["default"]),
            float(row["minimum"] or -MAX_FLOAT),
            float(row["maximum"] or MAX_FLOAT),
            row["unit"],
            row["text"],
        )
        for row in csv.DictReader(text.splitlines())
    )


LACKS = {"EKF2_": ": its estimator takes the sensors' settings from the airframe"}
"""Why PX4's parameters that begin like this are missing."""


class Parameters:
    """The parameters of one vehicle.

    Args:
        more: of other parts of the stack; a name that is here already replaces it.

    Attributes:
        values: the value of each by name, for reading in hot code; set through :meth:`set` only.
        infos: what is known of each, in the order of their index over MAVLink (sorted by name, as PX4).
        version: counts the changes.
    """

    def __init__(self, more: Iterable[ParameterInfo] = ()) -> None:
        merged = {info.name: info for info in (*load_built_in(), *more)}
        self.infos: dict[str, ParameterInfo] = dict(sorted(merged.items()))
        self.values: dict[str, float] = {
            name: info.default if info.is_integer else _round(info.default)
            for name, info in self.infos.items()
        }
        self.version = 0

    def __contains__(self, name: object) -> bool:
        return name in self.infos

    def get(self, name: str) -> int | float:
        """The value of a parameter: an int of an int32 parameter, a float of a float one.

        Raises:
            UserError: when there is no such parameter.
        """
        self._info(name)
        return self.values[name]

    def set(self, name: str, value: float) -> int | float:
        """Set a parameter and return what it now is (a float one rounded to 32 bits).

        Raises:
            UserError: when there is no such parameter, or the value is outside its range or not whole for an
                int32; nothing is changed then.
        """
        info = self._info(name)
        unit = f" {info.unit}" if info.unit else ""
        if not math.isfinite(value) or not info.minimum <= value <= info.maximum:
            raise UserError(
                f"parameter {name}: {value:g} is not within {info.minimum:g} to {info.maximum:g}{unit}"
            )
        if info.is_integer and value != int(value):
            raise UserError(f"parameter {name}: {value:g} is not a whole number")
        new = int(value) if info.is_integer else _round(value)
        if new != self.values[name]:
            self.values[name] = new
            self.version += 1
        return new

    def _info(self, name: str) -> ParameterInfo:
        info = self.infos.get(name)
        if info is None:
            # Reading it takes the parser of PX4's files, which only this message needs.
            from sitl_bridge.link.px4.given_parameters import without_effect

            replaced = (f": {why}" for why in without_effect([name], None, own_battery=False).values())
            lacks = (what for start, what in LACKS.items() if name.startswith(start))
            lack = next(itertools.chain(replaced, lacks), "")
            raise UserError(f"the built-in flight stack has no parameter {name}{lack}")
        return info
