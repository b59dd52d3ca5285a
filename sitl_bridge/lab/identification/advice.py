"""What a flight does not show of an airframe, and the manoeuvre or measurement that would."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from sitl_bridge.analysis.replay.vehicle_log import TOO_SELDOM
from sitl_bridge.base.arrays import Floats
from sitl_bridge.lab.identification.estimates import Estimate, WindEstimate
from sitl_bridge.lab.identification.synthesis import BOUNDS

UNCERTAIN = 0.05
"""Relative standard deviation from which a parameter counts as unknown."""
TIED = 0.95
"""Correlation from which two parameters are seen only together."""
UNCERTAIN_WIND = 0.5
"""m/s."""


def advice_on(
    estimates: Sequence[Estimate],
    correlations: Floats,
    wind: Sequence[WindEstimate],
    fixed: Mapping[str, float],
    *,
    settled: bool,
    turning: bool,
    voltage: bool,
) -> Iterator[str]:
    """Sentences, the gravest first."""
    if not settled:
        yield "the fit has not converged: start from an airframe that is nearer to the vehicle"
    if not turning:
        yield f"moments of inertia and time constants are held: {TOO_SELDOM}"
    if not voltage:
        yield (
            "the log has no battery voltage: the thrust holds for the voltage of its flight, not for the"
            " airframe's nominal one"
        )
    paths = {estimate.parameter.path for estimate in estimates}
    for estimate in estimates:
        path, ratio = estimate.parameter.path, estimate.value / (estimate.before or np.inf)
        if estimate.relative > UNCERTAIN:
            yield (
                f"{path}: the flight does not show it (standard deviation {min(estimate.relative, 9.99):.0%}"
                f" of the value); what shows it: {estimate.parameter.manoeuvre}"
            )
        elif ratio and (ratio <= 1.01 * BOUNDS[0] or ratio >= 0.99 * BOUNDS[1]):
            yield f"{path}: {ratio:.2g} times the airframe's figure, the limit; check airframe and log"
    if {"mass", "rotor_model.thrust_c2"} <= paths:
        yield (
            "mass and rotor_model.thrust_c2: the flight shows their ratio; what tells them apart are the held"
            " figures alone, such as the rotors' moment of inertia: weigh the vehicle (--fix mass=KG)"
        )
    for (i, one), (j, other) in itertools.combinations(enumerate(estimates), 2):
        correlation = float(correlations[i, j])
        if abs(correlation) > TIED and max(one.relative, other.relative) > UNCERTAIN:
            yield (
                f"{one.parameter.path} and {other.parameter.path}: the flight shows them only together"
                f" (correlation {correlation:.2f}); measure one and give it with --fix"
            )
    unknown = max((float(one.mean_deviation.max()) for one in wind), default=0.0)
    if unknown > UNCERTAIN_WIND:
        yield (
            f"wind: standard deviation {unknown:.1f} m/s; what shows it: flight in several"
            " directions and at several headings (turns, a square)"
        )
    if "mass" not in paths | fixed.keys():
        yield (
            "mass is held at the airframe's figure, and all forces and moments are in proportion to it: weigh"
            " the vehicle (--fix mass=KG)"
        )
