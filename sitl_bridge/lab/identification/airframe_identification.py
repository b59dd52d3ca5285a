"""Identifies an airframe and the wind from flights: what is fitted, how certain it is, what it predicts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from sitl_bridge.api.logs import TOO_SELDOM, VehicleLog
from sitl_bridge.api.models import Airframe, find_airframe, load_airframe
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError, shorten
from sitl_bridge.base.json_data import JsonObject, round_values
from sitl_bridge.base.output_file import write_whole
from sitl_bridge.lab.identification.estimates import Estimate, WindEstimate
from sitl_bridge.lab.identification.fitted_parameters import (
    DELAY,
    DELAYED,
    GROUPS,
    LAG,
    MOTORS,
    PARAMETERS,
    THRUST,
    WIND,
    Parameter,
)
from sitl_bridge.lab.identification.flight_windows import QUANTITIES, SECONDS, FlightWindows, hold_out
from sitl_bridge.lab.identification.synthesis import BOUNDS, Fit, Synthesis
from sitl_bridge.lab.identification.window_fleet import CommonMotion, Member, WindowFleet

KNOT_SPACING = 10.0
"""s between the times at which the wind is estimated."""
BLOCK, EVERY = 6.0, 4
"""Every fourth block of 6 s is kept for validation."""
HORIZON = 2.0
"""s of the predictions."""
SHORT = 0.02
"""s after a window's beginning that count as one step."""


@dataclass(frozen=True)
class PredictionError:
    """RMS errors of the prediction of a quantity, over all axes."""

    name: str  # of the quantity
    unit: str  # of the errors
    short: float  # within SHORT after the beginning; nan without a sample there
    long: float  # in the last tenth of the window


@dataclass(frozen=True)
class Identification:
    """Result."""

    airframe: Airframe  # with the fitted and the fixed values, without its payload
    estimates: tuple[Estimate, ...]  # of the parameters
    fixed: Mapping[str, float]  # values that were given, by path
    wind: tuple[WindEstimate, ...]  # of each flight; none where it was not fitted
    moment: Floats  # (f, 3) N m, body, constant in each flight
    # (6,) deviations of the moments (N m, body) and forces (N, NED) that come and go between windows
    slow: Floats
    turning: bool  # whether rotation was simulated
    windows: int  # that were fitted, of ``length`` s
    length: float  # s
    settled: bool  # whether the fit converged
    correlations: Floats  # (p, p) of the estimates
    # before, after: prediction errors on what was kept out of the fit
    before: tuple[PredictionError, ...]
    after: tuple[PredictionError, ...]
    advice: tuple[str, ...]  # what the flights do not tell, and what would


def identify_airframe(
    logs: Sequence[VehicleLog],
    airframe: Airframe,
    *,
    fit: Sequence[str],
    fix: Mapping[str, float] | None = None,
    window: float = 1.0,
) -> Identification:
    """Fit parameters, and the wind of each, to flights of a vehicle.

    Args:
        logs: of the flights.
        airframe: with the figures from which the fit starts, and those that are held.
        fit: groups of parameters.
        fix: known values by path; these are not fitted.
        window: s.

    Raises:
        UserError: for unknown names, a parameter that the airframe does not have, or flights that are too
            short.
    """
    fix = dict(fix or {})
    unknown = [group for group in fit if group not in GROUPS]
    if unknown:
        raise UserError(f"--fit {shorten(unknown[0])}: no such group; there are {', '.join(GROUPS)}")
    prior = with_fixed(airframe.separate_payload(), fix)
    whole = FlightWindows.of_all(logs, window)
    windows = whole.part(~hold_out(whole.begins, BLOCK, EVERY, whole.first()[whole.flight]))
    parameters = _choose_parameters(prior, fit, fix, windows)
    knots = _knots(windows) if WIND in fit else np.zeros((0, 2))
    synthesis = Synthesis(prior, parameters, windows, knots, fix.get(DELAY.path, 0.0))
    found = synthesis.fit()
    return _result(logs, airframe, synthesis, found, fix)


def _result(
    logs: Sequence[VehicleLog], airframe: Airframe, synthesis: Synthesis, found: Fit, fix: Mapping[str, float]
) -> Identification:
    """Result of a fit, and how well it predicts what was held out."""
    windows = synthesis.windows
    fitted = synthesis.apply_estimates(found.unknowns)
    estimates = _estimates(synthesis, found)
    correlations = _correlations(found, len(estimates))
    wind = _wind(synthesis, found)
    before, after = (
        _prediction_errors(logs, synthesis, found, flown) for flown in (airframe.separate_payload(), fitted)
    )
    return Identification(
        airframe=fitted,
        estimates=estimates,
        fixed=fix,
        wind=wind,
        moment=found.unknowns.moment,
        slow=found.unknowns.spread[9:],
        turning=windows.turning,
        windows=len(windows),
        length=windows.length,
        settled=found.settled,
        correlations=correlations,
        before=before,
        after=after,
        advice=tuple(
            advice_on(
                estimates,
                correlations,
                wind,
                fix,
                settled=found.settled,
                turning=windows.turning,
                voltage=windows.speeds is not None or bool(np.isfinite(windows.voltage).all()),
            )
        ),
    )


def with_fixed(airframe: Airframe, fix: Mapping[str, float]) -> Airframe:
    """An airframe with given values.

    Raises:
        UserError: for an unknown name, or a field that the airframe does not have.
    """
    known = {parameter.path: parameter for parameter in PARAMETERS}
    for path, value in fix.items():
        parameter = known.get(path)
        if parameter is None:
            raise UserError(f"--fix {shorten(path)}: no such parameter; there are {', '.join(known)}")
        if parameter.value(airframe) is None:
            raise UserError(f"--fix {path}: the airframe {airframe.name} has no such figure")
        if not (math.isfinite(value) and value > 0.0):
            raise UserError(f"--fix {path}={value:g}: needs a value above 0 {parameter.unit}")
        airframe = parameter.apply(airframe, value)
    return airframe


def _knots(windows: FlightWindows) -> Floats:
    """(k, 2) flights and times at which the wind is estimated, evenly from a first window to a last."""
    made = []
    for i in np.unique(windows.flight):
        begins = windows.begins[windows.flight == i]
        first, last = begins[0], begins[-1] + windows.length
        times = np.linspace(first, last, max(round((last - first) / KNOT_SPACING), 1) + 1)
        made.append(np.stack([np.full(len(times), i), times], axis=1))
    return np.concatenate(made)


def _choose_parameters(
    airframe: Airframe, fit: Sequence[str], fix: Mapping[str, float], windows: FlightWindows
) -> list[Parameter]:
    chosen = [
        parameter
        for parameter in PARAMETERS
        if parameter.group in fit
        and (parameter.group != THRUST or MOTORS not in fit)
        and parameter.path not in fix
        and parameter.value(airframe) is not None
        and (windows.turning or not parameter.turning)
        and (windows.speeds is None or parameter.group not in (LAG, DELAYED))
    ]
    if not chosen and WIND not in fit:
        raise UserError("nothing is left to be fitted; check --fit and --fix")
    least = len(chosen) + 8
    if len(windows) < least:
        raise UserError(
            f"there are {len(windows)} windows of {windows.length:g} s in the air; {len(chosen)}"
            f" parameters need {least}: fly longer, or shorten --window"
        )
    return chosen


def _estimates(synthesis: Synthesis, found: Fit) -> tuple[Estimate, ...]:
    deviations = np.sqrt(np.diag(found.covariance))
    return tuple(
        Estimate(
            parameter,
            float(synthesis.given[i]),
            float(synthesis.scales[i] * found.unknowns.values[i]),
            float(abs(synthesis.scales[i]) * deviations[i]),
        )
        for i, parameter in enumerate(synthesis.parameters)
    )


def _correlations(found: Fit, count: int) -> Floats:
    part = found.white[:count, :count]
    deviations = np.sqrt(np.diag(part))
    return np.asarray(part / np.outer(deviations, deviations))


def _wind(synthesis: Synthesis, found: Fit) -> tuple[WindEstimate, ...]:
    first = len(synthesis.parameters) + 9 * synthesis.flights
    covariance = found.covariance[first:, first:]
    deviation = np.sqrt(np.diag(covariance)).reshape(-1, 2)
    made = []
    for i in np.unique(synthesis.knots[:, 0]):
        its = synthesis.knots[:, 0] == i
        weights = synthesis.shape[synthesis.windows.flight == i].mean(axis=0)
        mean = weights @ found.unknowns.wind
        errors = [weights @ covariance[axis::2, axis::2] @ weights for axis in range(2)]
        times, wind = synthesis.knots[its, 1], found.unknowns.wind[its]
        made.append(WindEstimate(times, wind, deviation[its], mean, np.sqrt(errors)))
    return tuple(made)


def _prediction_errors(
    logs: Sequence[VehicleLog], synthesis: Synthesis, found: Fit, airframe: Airframe
) -> tuple[PredictionError, ...]:
    """Errors over HORIZON on what was kept out of the fit."""
    whole = FlightWindows.of_all(logs, HORIZON)
    first = synthesis.windows.first()[whole.flight]
    inside = hold_out(whole.begins, BLOCK, EVERY, first)
    inside &= hold_out(whole.begins + whole.length - 1e-6, BLOCK, EVERY, first)
    windows = whole.part(inside)
    unknowns, flight = found.unknowns, windows.flight
    wind, biases = synthesis.wind_at(unknowns, windows), {n: b[flight] for n, b in unknowns.biases.items()}
    moment, delay = unknowns.moment[flight], synthesis.delay(unknowns)
    return prediction_errors(windows, airframe, moment, wind, biases, delay)


def prediction_errors(
    windows: FlightWindows,
    airframe: Airframe,
    moment: Floats,
    wind: Floats,
    biases: dict[str, Floats],
    delay: float,
) -> tuple[PredictionError, ...]:
    """Simulate windows from the measured motion at their beginnings.

    Args:
        moment: (w, 3) N m.
        wind: (w, 2) m/s.
        biases: (w, 3) of the sensors, by quantity.
        delay: s after which motor commands act.
    """
    common = CommonMotion(moment, wind, np.zeros((len(windows), 15)), delay)
    early: dict[str, list[Floats]] = {name: [] for name, _ in QUANTITIES}
    late: dict[str, list[Floats]] = {name: [] for name, _ in QUANTITIES}
    for w, made in WindowFleet(windows, [Member.of(airframe)]).motions(common):
        for name, _ in QUANTITIES:
            samples = windows.samples[name][w]
            error = samples.values - samples.interpolate_steps(made[name])[:, 0]
            if name in biases:
                error -= biases[name][w]
            after = (samples.before + samples.share + 1.0) * SECONDS
            early[name].append(error[after <= SHORT])
            late[name].append(error[after >= 0.9 * windows.length])
    return tuple(
        PredictionError(name, unit, _rms(early[name]), _rms(late[name]))
        for name, unit in QUANTITIES
        if windows.turning or name != "rates"
    )


def _rms(parts: list[Floats]) -> float:
    together = np.concatenate(parts) if parts else np.zeros((0, 3))
    return float(np.sqrt(np.mean(together**2))) if together.size else float("nan")


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


def write_identified(path: Path, base: str, found: Identification, flights: Sequence[str]) -> list[str]:
    """Write the fields that differ from the base, with their sources, if they make a valid airframe.

    Args:
        path: of the file.
        base: name or file of the airframe from which the fit started.
        flights: their names, for the sources.

    Returns:
        notes for the user.

    Raises:
        UserError: if the file cannot be written, or its values make no valid airframe: then it is as before.
    """
    prior = load_airframe(base).separate_payload()
    changed, notes = identified_fields(prior, found)
    head = {
        "base": _reference(base, path),
        "name": f"{prior.name[:29]}_identified",
        "description": f"{prior.description}; identified from flights",
        "sources": identified_sources(found, ", ".join(flights)),
    }
    text = yaml.safe_dump(head, sort_keys=False, width=1000)
    draft = path.with_name(f"unchecked_{path.name}")  # beside it, where a base in the same directory is found
    try:
        write_whole(
            draft, text + yaml.safe_dump(changed, sort_keys=False, width=110, default_flow_style=None)
        )
        validate_draft(draft, path, "the fit makes no valid airframe")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    delay = next((e for e in found.estimates if e.parameter is DELAY), None)
    if delay is not None:
        notes.append(
            f"the delay of {1e3 * delay.value:.0f} ms is of vehicle and log together: the file leaves"
            " motor.dead_time as it is"
        )
    return notes


def check_output(path: Path) -> None:
    """Refuse a file that cannot become an airframe.

    Raises:
        UserError: if its name or its directory is wrong.
    """
    if path.suffix not in (".yaml", ".yml"):
        raise UserError(f"{path}: an airframe file ends in .yaml")
    if not path.resolve().parent.is_dir():
        raise UserError(f"{path}: its directory does not exist")


def validate_draft(draft: Path, output: Path, failure: str) -> None:
    """Refuse a draft of an airframe file that is not valid, naming the file that it was to become.

    Raises:
        UserError: with ``failure`` and the draft's faults.
    """
    try:
        load_airframe(draft)
    except UserError as error:
        faults = str(error).replace(f"{draft}: ", "")
        raise UserError(f"{output}: not written, {failure}: {faults}") from error


def _reference(base: str, path: Path) -> str:
    """The base as the new file names it: by its bare name where that finds it, else by its whole path."""
    file = find_airframe(base).resolve()
    if not base.endswith((".yaml", ".yml")) and not (path.parent / f"{base}.yaml").exists():
        return base
    return file.name if file.parent == path.parent.resolve() else str(file)


def identified_fields(prior: Airframe, found: Identification) -> tuple[JsonObject, list[str]]:
    """The fields that a fit changed, and what a user should know of them."""
    changed: JsonObject = _difference(_plain(prior), _plain(found.airframe))
    if "inertia" not in changed or found.airframe.inertia.of_a_body():
        return changed, []
    changed["inertia"]["as_published"] = True
    note = "no rigid body has these moments of inertia, one exceeds the sum of the others: the file has"
    return changed, [f"{note} `as_published: true`"]


def identified_sources(found: Identification, flights: str) -> dict[str, str]:
    """Return the sources of the fitted parameters, by path."""
    sources = {}
    for estimate in found.estimates:
        if estimate.parameter is DELAY:
            continue
        key = estimate.parameter.path.split("[")[0]
        sources[key] = (
            f"derived: fitted to {flights} by analysis by synthesis, deviation {estimate.relative:.1%}"
        )
    for path in found.fixed.keys() - {DELAY.path}:
        sources[path.split("[")[0]] = f"derived: given as a known value for the fit to {flights}"
    return sources


def _plain(airframe: Airframe) -> JsonObject:
    data: JsonObject = airframe.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {key: value for key, value in data.items() if key not in ("name", "description", "sources")}


def _difference(base: object, own: object) -> Any:
    """The fields of ``own`` that differ from ``base``; lists as a whole, numbers with five digits."""
    if isinstance(base, dict) and isinstance(own, dict):
        changed = {key: value for key, value in own.items() if value != base.get(key)}
        return {key: _difference(base.get(key), value) for key, value in changed.items()}
    return round_values(own, 5)
