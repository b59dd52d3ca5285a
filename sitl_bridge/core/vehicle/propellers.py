"""Propellers by their size: thrust and power measured in still air at the University of Illinois.

``propellers.csv`` has one line for each static test of a propeller with two blades: its C_T and C_P, means
over the speeds weighted by n^4, as a least-squares fit of T = c n^2 weights them.
"""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from sitl_bridge.base.errors import UserError, shorten
from sitl_bridge.base.json_data import JsonObject

INCH = 0.0254
SAME_PITCH = 0.25
"""in, largest difference of nominal pitches that count as one size: makers name the same propeller 10x4.5 and
10x4.7."""
AIR_DENSITY = 1.225
"""kg/m^3, the reference density of an airframe's coefficients."""
SITE = "UIUC Propeller Data Site (Brandt, Deters, Ananda, Selig), volumes 1 and 2"
OTHER_LAWS = ("thrust_c1", "thrust_b1", "thrust_b2", "torque_g1", "torque_constant")
"""Coefficients of rotor laws other than T = c2 w^2, Q = k T."""
_SIZE = re.compile(r"(\d{1,2}(?:\.\d{1,3})?)\s*[xX×]\s*(\d{1,2}(?:\.\d{1,3})?)")


@dataclass(frozen=True)
class StaticTest:
    """One propeller in still air."""

    # diameter, pitch: in, nominal
    diameter: float
    pitch: float
    file: str  # of the measurement, without ``.txt``: maker_size_static_run
    # thrust, power: C_T = T/(rho n^2 D^4) and C_P = P/(rho n^3 D^5)
    thrust: float
    power: float


@dataclass(frozen=True)
class PropellerSize:
    """Propellers of one size, at least one."""

    size: str
    tests: tuple[StaticTest, ...]

    @property
    def radius(self) -> float:
        """m"""
        return 0.5 * INCH * self.tests[0].diameter

    @property
    def thrust_c2(self) -> float:
        """N s^2, mean of T/w^2 at the reference density."""
        per_coefficient = AIR_DENSITY * (2.0 * self.radius) ** 4 / (2.0 * math.pi) ** 2  # T/w^2 for C_T = 1
        return float(np.mean([t.thrust for t in self.tests])) * per_coefficient

    @property
    def torque_thrust_ratio(self) -> float:
        """m, mean of Q/T: C_P D/(2 pi C_T)."""
        ratios = [t.power / t.thrust for t in self.tests]
        return float(np.mean(ratios)) * 2.0 * self.radius / (2.0 * math.pi)

    def source(self) -> str:
        """The measurements, with their scatter, for ``sources``."""
        return f"{SITE}, static tests {', '.join(t.file for t in self.tests)}; {self.scatter()}"

    def scatter(self) -> str:
        """Mean and standard deviation of C_T and C_P over the propellers."""
        if len(self.tests) == 1:
            (test,) = self.tests
            return f"C_T {test.thrust:.4f}, C_P {test.power:.4f}; one propeller, so no scatter is known"
        parts = []
        for name, values in (
            ("C_T", [t.thrust for t in self.tests]),
            ("C_P", [t.power for t in self.tests]),
        ):
            mean = float(np.mean(values))
            parts.append(f"{name} {mean:.4f} +- {float(np.std(values, ddof=1)) / mean:.0%}")
        return f"{', '.join(parts)} over {len(self.tests)} propellers"

    def rotor_fields(self) -> dict[str, float]:
        """The fields of a rotor model that the size gives."""
        return {
            "radius": round(self.radius, 6),
            "thrust_c2": float(f"{self.thrust_c2:.4g}"),
            "torque_thrust_ratio": float(f"{self.torque_thrust_ratio:.4g}"),
        }


@cache
def static_tests() -> tuple[StaticTest, ...]:
    """All measurements, in the order of size."""
    with Path(__file__).with_name("propellers.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return tuple(
        StaticTest(float(d), float(p), name, float(thrust), float(power))
        for d, p, name, thrust, power, *_ in rows
    )


def propellers_of_size(size: str) -> PropellerSize:
    """The measured propellers of a size in inches, diameter x pitch: ``10x4.5``.

    Raises:
        UserError: for a size that is not measured, with the nearest sizes.
    """
    match = _SIZE.fullmatch(size.strip())
    if match is None:
        raise UserError(f"{shorten(size)!r} is not a size: give diameter x pitch in inches, as in 10x4.5")
    diameter, pitch = float(match[1]), float(match[2])
    tests = tuple(
        t for t in static_tests() if t.diameter == diameter and abs(t.pitch - pitch) < SAME_PITCH + 1e-9
    )
    if not tests:
        by_distance = sorted(static_tests(), key=lambda t: abs(t.diameter - diameter) + abs(t.pitch - pitch))
        near = list(dict.fromkeys(f"{t.diameter:g}x{t.pitch:g}" for t in by_distance))[:4]
        diameters = ", ".join(f"{d:g}" for d in dict.fromkeys(t.diameter for t in static_tests()))
        raise UserError(
            f"no propeller of {size} is measured; the nearest are {', '.join(near)}; there are diameters of"
            f" {diameters} in"
        )
    return PropellerSize(size, tests)


def with_propeller(data: JsonObject) -> JsonObject:
    """An airframe's data with the figures of the propeller that its rotor model names, and their sources.

    Figures that the file gives itself stay; those of another law, from a base, are removed.

    Raises:
        UserError: for a size that is not measured.
    """
    model = data.get("rotor_model")
    if not isinstance(model, dict) or not isinstance(model.get("propeller"), str | int):
        return data
    found = propellers_of_size(str(model["propeller"]))
    given = data.get("sources")
    sources = dict(given) if isinstance(given, dict) else {}
    figures = dict.fromkeys(OTHER_LAWS, 0.0) if "base" in data else {}
    figures = {name: value for name, value in (figures | found.rotor_fields()).items() if name not in model}
    for name in figures:
        sources.setdefault(f"rotor_model.{name}", found.source())
    removed = {"table": None, "inflow_loss_speed": None} if "base" in data else {}
    return data | {"rotor_model": removed | figures | model, "sources": sources}
