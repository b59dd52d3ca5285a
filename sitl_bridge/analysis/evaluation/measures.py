"""Measures of a flight, their units and limits, and the limits that a user sets."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from sitl_bridge.analysis.evaluation.estimator_health import VIBRATION_FAIL
from sitl_bridge.base.errors import ConfigurationError, UserError
from sitl_bridge.base.yaml_file import load

HARD_LANDING = 2.0
"""Closing speed at the ground of a hard landing, m/s.  Derived: about three times PX4's landing speed
(MPC_LAND_SPEED, 0.7 m/s), or a fall from 0.2 m."""


@dataclass(frozen=True)
class MeasureKind:
    """What is measured.

    Attributes:
        name: by which a limit is set.
        title: for the reader.
        unit: of value and limit; empty for a count.
        limit: the default; None for none.
        at_least: whether the limit is a lower bound.
        source: of the default limit.
    """

    name: str
    title: str
    unit: str = ""
    limit: float | None = None
    at_least: bool = False
    source: str = ""


KINDS: dict[str, MeasureKind] = {
    kind.name: kind
    for kind in (
        MeasureKind("mission_legs_rms", "Distance from the mission legs, RMS", "m"),
        MeasureKind("mission_legs_max", "Distance from the mission legs, largest", "m"),
        MeasureKind("offboard_position_rms", "Position error in offboard mode, RMS", "m"),
        MeasureKind("offboard_position_max", "Position error in offboard mode, largest", "m"),
        MeasureKind("hold_rms", "Position error in hold, RMS", "m"),
        MeasureKind("hold_max", "Position error in hold, largest", "m"),
        MeasureKind("velocity_rms", "Velocity error against its setpoint, RMS", "m/s"),
        MeasureKind("hover_position_rms", "RotorS hovering: position error, RMS over 10 s", "m"),
        MeasureKind("hover_rates_rms", "RotorS hovering: angular velocity, RMS over 10 s", "rad/s"),
        MeasureKind("waypoint_settling", "RotorS waypoints: settling in a 0.1 m ball, slowest", "s"),
        MeasureKind("waypoints_settled", "RotorS waypoints: share that settled", "%", at_least=True),
        MeasureKind(
            "waypoint_position_rms", "RotorS waypoints: position error once settled, largest RMS", "m"
        ),
        MeasureKind("disturbance_deviation", "RotorS disturbance: largest distance from the setpoint", "m"),
        MeasureKind("disturbance_settling", "RotorS disturbance: settling in a 0.1 m ball, slowest", "s"),
        MeasureKind("step_rise_time", "Velocity steps: 10 to 90 % rise time, mean", "s"),
        MeasureKind("step_overshoot", "Velocity steps: overshoot, largest", "%"),
        MeasureKind("step_settling", "Velocity steps: settling within 5 %, slowest", "s"),
        MeasureKind("rates_rms", "Angular velocity in flight, RMS", "rad/s"),
        MeasureKind("rates_peak_frequency", "Angular velocity: frequency of the strongest oscillation", "Hz"),
        MeasureKind("estimate_error_rms", "Estimated against true position, RMS", "m"),
        MeasureKind("estimate_error_max", "Estimated against true position, largest", "m"),
        MeasureKind("pose_error_absolute", "Absolute pose error of the estimate (APE), RMS", "m"),
        MeasureKind("pose_error_relative", "Relative pose error of the estimate over 1 s (RPE), RMS", "m"),
        MeasureKind("pose_error_rotation", "Relative rotation error of the estimate over 1 s, RMS", "deg"),
        MeasureKind("test_ratio_mag", "Innovation test ratio: heading"),
        MeasureKind("test_ratio_velocity", "Innovation test ratio: velocity"),
        MeasureKind("test_ratio_position", "Innovation test ratio: position"),
        MeasureKind("test_ratio_height", "Innovation test ratio: height"),
        MeasureKind(
            "estimator_failures",
            "Estimator checks that failed",
            "",
            0.0,
            source="PX4 Tools/ecl_ekf, EKF2_NOAID_TOUT",
        ),
        MeasureKind("estimator_warnings", "Estimator checks that warned"),
        MeasureKind(
            "vibration",
            "Accelerometer vibration, largest",
            "m/s\N{SUPERSCRIPT TWO}",
            VIBRATION_FAIL,
            source="PX4 Flight Review, red",
        ),
        MeasureKind("failsafes", "Failsafe causes in flight", "", 0.0, source="a flight without failsafe"),
        MeasureKind(
            "unanswered_time",
            "Time without answers of the flight stack",
            "s",
            0.0,
            source="a flight in lockstep",
        ),
        MeasureKind("saturation", "Flight time with a motor at its limit", "%"),
        MeasureKind("vortex_ring_time", "Time with a rotor in its vortex ring state", "s"),
        MeasureKind("battery_used", "Battery charge used", "%"),
        MeasureKind("battery_voltage", "Battery voltage, lowest", "V", at_least=True),
        MeasureKind(
            "touchdown",
            "Closing speed at ground contact, largest",
            "m/s",
            HARD_LANDING,
            source="3 times PX4's landing speed",
        ),
        MeasureKind("object_contacts", "Contacts with objects", "", 0.0, source="a flight without contact"),
        MeasureKind("slot_error_steady", "Formation: slot error with a steady centre, largest", "m"),
        MeasureKind("slot_error_settled", "Formation: slot error between moves, largest", "m"),
        MeasureKind("separation", "Distance of the closest pair in the air, smallest", "m", at_least=True),
        MeasureKind(
            "collisions", "Collisions between vehicles", "", 0.0, source="a flight without collision"
        ),
        MeasureKind("real_time_factor", "Simulated over wall time", "x", at_least=True),
    )
}
"""All measures by name, in the order in which they are shown."""

Limits = Mapping[str, float | None]
"""Limits by name of the measure; None removes the default."""


@dataclass(frozen=True)
class Measure:
    """A value and its limit.

    Attributes:
        kind: what is measured.
        value: infinite for a time that did not end.
        vehicle: its name; empty for the run.
        limit: None for none.
        set_by_user: whether the user set the limit.
    """

    kind: MeasureKind
    value: float
    vehicle: str = ""
    limit: float | None = None
    set_by_user: bool = False

    @property
    def passed(self) -> bool | None:
        """Whether the value keeps its limit; None without a limit."""
        if self.limit is None:
            return None
        return self.value >= self.limit if self.kind.at_least else self.value <= self.limit

    def as_data(self) -> dict[str, Any]:
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
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Undo ``as_data``.

        Raises:
            KeyError, TypeError, ValueError: for other data.
        """
        value, limit = data["value"], data["limit"]
        return cls(
            KINDS[data["name"]],
            math.inf if value is None else float(value),
            data["vehicle"] or "",
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


def measured(values: Mapping[str, float], limits: Limits, vehicle: str = "") -> list[Measure]:
    """Measures of the known values, in the order of ``KINDS``; infinite is what never came to pass."""
    return [
        Measure(kind, float(values[name]), vehicle, limits.get(name, kind.limit), name in limits)
        for name, kind in KINDS.items()
        if name in values and not math.isnan(values[name])
    ]


def unmeasured(limits: Limits, found: Iterable[Measure]) -> list[str]:
    """Names with a limit that the user set and that the run has no value for."""
    known = {one.kind.name for one in found}
    return [name for name, limit in limits.items() if limit is not None and name not in known]


def checked_limits(
    limits: Mapping[str, object], source: str, lines: Mapping[str, int] | None = None
) -> dict[str, float | None]:
    """Limits whose names and values were checked; ``lines`` of the names in the source, if there are any.

    Raises:
        ConfigurationError: with every fault.
    """
    faults: list[str] = []
    found: dict[str, float | None] = {}
    for name, value in limits.items():
        where = f"line {lines[name]}: {name}" if lines and name in lines else str(name)
        if name not in KINDS:
            near = difflib.get_close_matches(str(name), KINDS, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(KINDS)}"
            faults.append(f"{where}: no such measure; {hint}")
        elif value is None:
            found[name] = None
        elif isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            faults.append(f"{where}: must be a number, or null for no limit; not {value!r}")
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
    return checked_limits(data, str(path), {name: lines.get((name,), 1) for name in data})


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
        number = None if value.strip() == "none" else float(value)
    except ValueError as error:
        raise UserError(f"--limit {text!r}: {value!r} is not a number; write none for no limit") from error
    found = checked_limits({name.strip(): number}, f"--limit {text}")
    return next(iter(found.items()))
