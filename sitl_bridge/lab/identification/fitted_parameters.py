"""The parameters of an airframe that can be fitted: their fields, units and the manoeuvres that show them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sitl_bridge.api.models import Airframe

WIND = "wind"
"""Group of the wind, which is no part of the airframe."""

LAG, DELAYED = "lag", "delay"
"""Groups of the motors, which measured rotor speeds do without."""
MOTORS, THRUST = "motors", "thrust"
"""Groups of each rotor's thrust and of that of all, of which one is fitted."""


@dataclass(frozen=True)
class Parameter:
    """A figure of an airframe."""

    path: str  # of the field in the airframe file
    group: str  # by which several are chosen together
    unit: str  # of the value
    natural: float  # size of a change that matters where the airframe's value is 0
    turning: bool  # whether only turning motion shows it
    manoeuvre: str  # that shows it
    follow: tuple[str, ...] = ()  # fields that are scaled by the same factor

    def value(self, airframe: Airframe) -> float | None:
        """The airframe's value; None if it has no such field, or a propeller table in its place."""
        steps = _steps(self.path)
        if steps[0] == "rotor_model" and getattr(airframe.rotor_model, "table", None) is not None:
            return None
        found = _field(airframe, steps)
        return float(found) if isinstance(found, int | float) else None

    def apply(self, airframe: Airframe, value: float) -> Airframe:
        """The airframe with another value; fields and rotors that follow keep their ratio to it."""
        before = self.value(airframe)
        changed: Airframe = _with_field(airframe, _steps(self.path), value)
        for path in self.follow:
            other = _field(changed, _steps(path))
            if before and other:
                changed = _with_field(changed, _steps(path), other * value / before)
            elif not before and other == 0.0:
                changed = _with_field(changed, _steps(path), value)
        if before and self.path.startswith("rotor_model."):
            fields = [path.removeprefix("rotor_model.") for path in (self.path, *self.follow)]
            changed = _with_rotors_scaled(changed, fields, value / before)
        return changed


class HubHeight(Parameter):
    """Height of all rotors over the centre of gravity, which gives their drag a moment."""

    def value(self, airframe: Airframe) -> float | None:
        """Mean height of the hubs."""
        return -sum(rotor.position[2] for rotor in airframe.rotors) / len(airframe.rotors)

    def apply(self, airframe: Airframe, value: float) -> Airframe:
        """The airframe with all hubs raised by the same length."""
        raised = value - (self.value(airframe) or 0.0)
        rotors = tuple(
            rotor.model_copy(update={"position": (*rotor.position[:2], rotor.position[2] - raised)})
            for rotor in airframe.rotors
        )
        changed: Airframe = _with_field(airframe, ["rotors"], rotors)
        return changed


class Delay(Parameter):
    """Time between a logged motor command and its effect, less the lag: no field of an airframe."""

    def value(self, airframe: Airframe) -> float | None:
        """None is known before a flight."""
        del airframe
        return 0.0

    def apply(self, airframe: Airframe, value: float) -> Airframe:
        """The airframe as it is."""
        del value
        return airframe


@dataclass(frozen=True)
class RotorThrust(Parameter):
    """Thrust of one rotor."""

    rotor: int = 0  # its number from 0

    def value(self, airframe: Airframe) -> float | None:
        """The rotor's own coefficient, or that of all; None for a propeller table or a user's own law."""
        if self.rotor >= len(airframe.rotors) or getattr(airframe.rotor_model, "table", None) is not None:
            return None
        found = getattr(airframe.rotors[self.rotor].combine_with(airframe.rotor_model), "thrust_c2", None)
        return None if found is None else float(found)

    def apply(self, airframe: Airframe, value: float) -> Airframe:
        """The airframe with a rotor whose thrust is larger at all speeds."""
        own: Any = airframe.rotors[self.rotor].combine_with(airframe.rotor_model)
        model: list[str | int] = ["rotors", self.rotor, "model"]
        faster = _with_field(airframe, [*model, "thrust_c2"], value)
        changed: Airframe = _with_field(faster, [*model, "thrust_c1"], own.thrust_c1 * value / own.thrust_c2)
        return changed


def _steps(path: str) -> list[str | int]:
    """Names and indices of a path: drag.force[0]."""
    return [int(part) if part.isdigit() else part for part in re.findall(r"\w+", path)]


def _field(model: Any, steps: Sequence[str | int]) -> Any:
    part = model
    for step in steps:
        part = part[step] if isinstance(step, int) else getattr(part, step, None)
    return part


def _with_field(model: Any, steps: Sequence[str | int], value: Any) -> Any:
    step, *rest = steps
    if isinstance(step, int):
        inner = _with_field(model[step], rest, value) if rest else value
        return (*model[:step], inner, *model[step + 1 :])
    inner = _with_field(getattr(model, step), rest, value) if rest else value
    copy = model.model_copy(update={step: inner})
    copy.__dict__.pop("record", None)  # a copy includes cached values of the original
    return copy


def _with_rotors_scaled(airframe: Airframe, fields: Sequence[str], factor: float) -> Airframe:
    """Rotors that differ from the shared model keep their ratio to it."""
    rotors = []
    for rotor in airframe.rotors:
        update = {f: factor * v for f in fields if (v := getattr(rotor.model, f, None))}
        model = rotor.model.model_copy(update=update)
        rotors.append(rotor.model_copy(update={"model": model}) if update else rotor)
    return airframe.model_copy(update={"rotors": tuple(rotors)})


DELAY = Delay(
    "delay", DELAYED, "s", 0.02, False, "sharp doublets, with motor commands logged at their full rate"
)
PARAMETERS = (
    Parameter(
        "mass",
        "mass",
        "kg",
        1.0,
        False,
        "no manoeuvre shows it: motion depends on forces over mass; weigh the vehicle (--fix mass=KG)",
    ),
    Parameter("inertia.xx", "inertia", "kg m^2", 0.01, True, "roll doublets, with fast motor commands"),
    Parameter("inertia.yy", "inertia", "kg m^2", 0.01, True, "pitch doublets, with fast motor commands"),
    Parameter("inertia.zz", "inertia", "kg m^2", 0.01, True, "yaw doublets, with fast motor commands"),
    Parameter(
        "rotor_model.thrust_c2",
        THRUST,
        "N s^2",
        1e-6,
        False,
        "hover and climbs, with a known mass",
        ("rotor_model.thrust_c1",),
    ),
    Parameter(
        "rotor_model.torque_thrust_ratio",
        "torque",
        "m",
        0.01,
        True,
        "yaw doublets, with a known moment of inertia about z (bifilar pendulum)",
    ),
    Parameter(
        "rotor_model.drag",
        "drag",
        "kg",
        1e-4,
        False,
        "forward flight at several speeds and in several directions (a square)",
    ),
    HubHeight(
        "rotors.position[2]",
        "hub",
        "m",
        0.01,
        True,
        "forward flight with accelerations, in roll and in pitch, with fast motor commands",
    ),
    Parameter(
        "drag.force[0]",
        "body_drag",
        "N s^2/m^2",
        0.01,
        False,
        "forward flight at high and at low speed, in several directions",
        ("drag.force[1]",),
    ),
    Parameter("drag.force[2]", "body_drag", "N s^2/m^2", 0.01, False, "fast climbs and descents"),
    *(
        Parameter(
            f"motor.time_constant_{way}",
            LAG,
            "s",
            0.01,
            True,
            "sharp doublets and steps of thrust, with motor commands logged at their full rate",
        )
        for way in ("up", "down")
    ),
    DELAY,
    *(
        RotorThrust(
            f"rotors[{i}].model.thrust_c2",
            MOTORS,
            "N s^2",
            1e-6,
            True,
            "flight at several thrusts (climbs, a battery that empties) and doublets in roll, pitch and yaw",
            rotor=i,
        )
        for i in range(8)
    ),
)

GROUPS = (*dict.fromkeys(parameter.group for parameter in PARAMETERS), WIND)
