"""The figures that no source gives, estimated from those that are known, and marked as such.

Every estimate states its rule in ``sources``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sitl_bridge.api.models import INCH, propellers_of_size, static_tests
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.errors import UserError
from sitl_bridge.core.dynamics.induced_flow import STALL_ANGLE
from sitl_bridge.core.dynamics.rotor import CHORD, LIFT_SLOPE
from sitl_bridge.lab.importing.figures import Figures

DENSITY = 1.225
CELL_VOLTAGE, CELL_RESISTANCE = 3.8, 0.004
"""V in mid-discharge under load, and ohm, of a lithium-polymer cell."""
EFFICIENCY = 0.75
"""Of an ordinary motor with its speed controller."""
MERIT = 0.55
"""Figure of merit of an ordinary propeller: near the middle of 158 static tests (propellers.csv)."""
UNPHYSICAL_MERIT = 0.25
"""Below it a torque is not a real propeller's: the least of those tests is 0.29."""
CELLS = ((0.1, 1), (0.35, 2), (0.8, 3), (3.0, 4), (8.0, 6))
"""Cells of an ordinary battery for vehicles up to a mass in kg; heavier ones have 12."""
MOST_CELLS = 12
ENDURANCE = 15 * 60.0
"""s of hover for which the estimated battery lasts."""
SINKING = 0.0025
"""m by which the feet's springs give way under the weight."""
DAMPING_SHARE = 0.3
FRICTION = 0.8
INERTIA_SHARE = 0.5
"""Share of the mass that would have the vehicle's inertia at the rotors' distance: 0.35 to 0.68 of the five
quadrotors shipped with a published inertia (x500, iris, hummingbird, pelican, crazyflie)."""
THRUST_TO_WEIGHT = 2.0
MOST_IDLE = 0.15
"""Of the top speed: 2 % of the full thrust, so that a strong vehicle can still descend."""


@dataclass(frozen=True)
class Given:
    """Figures that a user gives by hand."""

    name: str | None = None
    mass: float | None = None  # kg
    arm: float | None = None  # m, of the farthest rotor
    propeller: str | None = None  # diameter x pitch in inches
    cells: int | None = None
    capacity: float | None = None  # Ah


def give_by_hand(given: Given, figures: Figures) -> None:
    """Set the figures of the command line, which win over those of files.

    Raises:
        UserError: for a propeller that is not measured.
    """
    by_hand = "given at the import"
    if given.mass is not None:
        before = figures.get("mass")
        figures.give("mass", given.mass, by_hand)
        if before is not None and figures.has("inertia"):
            figures.note(f"the inertia is still that of {before:g} kg")
    if given.propeller is not None:
        found = propellers_of_size(given.propeller)
        for name, value in found.figures().items():
            figures.give(f"rotor_model.{name}", value, found.source())
        figures.values.pop("rotor_model.inertia", None)
    for path, size in (("battery.cells", given.cells), ("battery.capacity", given.capacity)):
        if size is not None:
            figures.give(path, size, by_hand)


def complete(figures: Figures, *, as_gazebo: bool) -> None:
    """Estimate what is missing.

    Raises:
        UserError: for a vehicle whose mass or rotors no source gives.
    """
    if not figures.has("rotors"):
        raise UserError("no source has the rotors' places: give a model (SDF, URDF) or PX4's CA_ROTOR*")
    if not figures.has("mass"):
        raise UserError("no source has the mass: give it with --mass KG")
    hubs = np.array([rotor["position"] for rotor in figures.get("rotors")], np.float64)
    _complete_rotors(figures, hubs)
    _complete_motors(figures, len(hubs))
    _complete_inflow(figures, as_gazebo=as_gazebo)
    _complete_power(figures, len(hubs), as_gazebo=as_gazebo)
    _complete_body(figures, hubs)


def _round(value: float, digits: int = 4) -> float:
    return float(f"{value:.{digits}g}") + 0.0


def _complete_rotors(figures: Figures, hubs: Any) -> None:
    flat = hubs[:, :2]
    apart = [float(np.linalg.norm(a - b)) for i, a in enumerate(flat) for b in flat[:i]]
    near = min((d for d in apart if d > 0.02), default=0.3)
    figures.estimate("rotor_model.radius", _round(0.45 * near), "0.45 of the least distance of two hubs")
    radius = float(figures.get("rotor_model.radius"))
    # C_T and C_P of the middle propeller of the data base.
    thrust = float(np.median([test.thrust for test in static_tests()]))
    power = float(np.median([test.power for test in static_tests()]))
    per = DENSITY * (2.0 * radius) ** 4 / (2.0 * math.pi) ** 2
    middle = f"C_T {thrust:.3f}, C_P {power:.3f}, medians of the UIUC propellers, at this radius"
    if figures.estimate("rotor_model.thrust_c2", _round(thrust * per), middle):
        figures.note("the propeller is not known: give --propeller 10x4.5 or a thrust table")
    ratio = power * 2.0 * radius / (2.0 * math.pi * thrust)
    figures.estimate("rotor_model.torque_thrust_ratio", _round(ratio), middle)
    rod = 0.010 * (2.0 * radius / (10.0 * INCH)) ** 2.5
    how = f"a thin rod of {1e3 * rod:.2g} g, 10 g for 10 inches and in proportion to D^2.5"
    figures.estimate("rotor_model.inertia", _round(rod * (2.0 * radius) ** 2 / 12.0), how)


def _hover_speed(figures: Figures, count: int) -> float:
    thrust = figures.get("mass") * STANDARD_GRAVITY / count
    return math.sqrt(thrust / float(figures.get("rotor_model.thrust_c2")))


def _complete_motors(figures: Figures, count: int) -> None:
    figures.estimate("motor.kind", "first_order", "the ordinary model")
    size = float(figures.get("rotor_model.radius")) / (5.0 * INCH)
    how = "30 ms up and 45 ms down for 10 inches, in proportion to the radius"
    figures.estimate("motor.time_constant_up", _round(0.030 * size), how)
    figures.estimate("motor.time_constant_down", _round(0.045 * size), how)
    if figures.has("motor.speed_range"):
        return
    hover = figures.get("px4.parameters.MPC_THR_HOVER")
    share = float(hover) if hover else 1.0 / THRUST_TO_WEIGHT
    top = _hover_speed(figures, count) / math.sqrt(min(max(share, 0.05), 0.95))
    factor = float(figures.get("px4.parameters.THR_MDL_FAC", 0.0))
    # w = w_0 + (w_1 - w_0) c makes T/T_1 = (a + (1-a) c)^2 with a = w_0/w_1, whose c^2 part is (1-a)^2 = f.
    idle = top * min(1.0 - math.sqrt(factor), MOST_IDLE) if factor > 0.0 else 0.1 * top
    how = f"hover at {share:.3g} of the full thrust" + (
        " (MPC_THR_HOVER)" if hover else ", an ordinary share"
    )
    figures.estimate("motor.speed_range", _round(top - idle), how)
    curve = (
        f"THR_MDL_FAC {factor:g}, (1 - idle/top)^2, but 0.15 of the top speed at most"
        if factor > 0.0
        else "a tenth of the top speed"
    )
    figures.estimate("motor.idle_speed", _round(idle), curve)


def _complete_inflow(figures: Figures, *, as_gazebo: bool) -> None:
    """Blade elements and induced flow in place of Gazebo's law, where the coefficients allow it."""
    if as_gazebo:
        return
    radius, thrust = float(figures.get("rotor_model.radius")), float(figures.get("rotor_model.thrust_c2"))
    least = math.sqrt(thrust / (2.0 * DENSITY * math.pi)) / radius
    chord = CHORD * radius
    needed = 6.0 * thrust / (DENSITY * 2.0 * LIFT_SLOPE * STALL_ANGLE * radius**3) * 1.02
    if float(figures.get("rotor_model.torque_thrust_ratio")) < least or needed > 0.3 * radius:
        figures.note(
            "thrust, torque and radius are not those of one real propeller: the rotors keep the law of their"
            " coefficients, without the effects of moving air"
        )
        figures.estimate("rotor_model.inflow", "none", "the coefficients are no real propeller's")
        return
    how = "blade elements and momentum theory (docs/rotors.md), over the static coefficients"
    if figures.has("rotor_model.inflow"):
        how += ", in place of Gazebo's law"
    for name in ("inflow_loss_speed", "rolling_moment_released"):
        figures.values.pop(f"rotor_model.{name}", None)
        figures.sources.pop(f"rotor_model.{name}", None)
    figures.give("rotor_model.inflow", "momentum", f"derived: {how}")
    if needed > chord:
        lifts = "the blades must not lift more than their sections can, C_L 1.2, for the thrust"
        figures.give("rotor_model.chord", _round(needed), f"derived: {lifts}")


def _complete_power(figures: Figures, count: int, *, as_gazebo: bool) -> None:
    radius, thrust = float(figures.get("rotor_model.radius")), float(figures.get("rotor_model.thrust_c2"))
    ratio = float(figures.get("rotor_model.torque_thrust_ratio"))
    merit = math.sqrt(thrust / (2.0 * DENSITY * math.pi)) / radius / ratio if ratio > 0.0 else 1.0
    if merit < UNPHYSICAL_MERIT:
        efficiency = _round(EFFICIENCY * MERIT / merit, 3)
        figures.note(
            f"the rotors' torque, {ratio:g} m of thrust, is {MERIT / merit:.2g} times a real propeller's"
            f" (figure of merit {merit:.2f}): it is kept, for yaw, and motor.efficiency {efficiency:g} keeps"
            " the battery honest"
        )
        how = f"{EFFICIENCY} times {MERIT}, an ordinary figure of merit, over the model's {merit:.2f}"
        figures.estimate("motor.efficiency", efficiency, how)
    figures.estimate(
        "motor.efficiency", EFFICIENCY, f"motor and controller together, an ordinary {EFFICIENCY}"
    )
    mass = float(figures.get("mass"))
    cells = next((n for most, n in CELLS if mass <= most), MOST_CELLS)
    figures.estimate("battery.cells", cells, "ordinary for the mass")
    cells = int(figures.get("battery.cells"))
    how = "cells at their mid-discharge 3.8 V under load"
    figures.estimate("battery.nominal_voltage", _round(CELL_VOLTAGE * cells), how)
    if as_gazebo:
        if figures.has("battery.capacity"):
            figures.leave_out("the battery's capacity (--as-gazebo: an ideal source)")
            figures.values.pop("battery.capacity")
            figures.sources.pop("battery.capacity", None)
        return
    figures.estimate("battery.resistance", _round(CELL_RESISTANCE * cells), "4 mOhm a cell")
    figures.estimate("battery.idle_current", _round(5.0 / (CELL_VOLTAGE * cells), 2), "5 W of avionics")
    power = (
        mass
        * STANDARD_GRAVITY
        * ratio
        * _hover_speed(figures, count)
        / float(figures.get("motor.efficiency"))
    )
    amperes = (power + 5.0) / (CELL_VOLTAGE * cells)
    figures.estimate("battery.capacity", _round(amperes * ENDURANCE / 3600.0, 2), "15 min of hover")


def _complete_body(figures: Figures, hubs: Any) -> None:
    mass, radius = float(figures.get("mass")), float(figures.get("rotor_model.radius"))
    x, y = np.mean(hubs[:, 0] ** 2), np.mean(hubs[:, 1] ** 2)
    how = "half the mass at the rotors' distance; 0.35 to 0.68 of it in five published quadrotors"
    moments = {
        name: _round(INERTIA_SHARE * mass * float(s)) for name, s in (("xx", y), ("yy", x), ("zz", x + y))
    }
    if figures.estimate("inertia", moments, how):
        figures.note("the inertia is an estimate by the rotors' places: `identify` finds it from a flight")
    arm = float(np.mean(np.hypot(hubs[:, 0], hubs[:, 1])))
    low = float(hubs[:, 2].max())
    feet = [
        [_round(a * 0.4 * arm), _round(b * 0.4 * arm), _round(low + 0.4 * arm)]
        for a in (1, -1)
        for b in (1, -1)
    ]
    figures.estimate(
        "contact.points", [*feet, [0.0, 0.0, _round(low - 0.2 * arm)]], "four legs below the body"
    )
    points = list(figures.get("contact.points"))
    for hub in hubs.tolist():
        reach = math.hypot(hub[0], hub[1])
        out = (reach + radius) / reach if reach > 0.0 else 1.0
        points.append([round(hub[0] * out, 4), round(hub[1] * out, 4), round(hub[2], 4)])
    figures.values["contact.points"] = points
    standing = points[:4] if len(points) > len(hubs) + 4 else points[:3]
    stiffness = mass * STANDARD_GRAVITY / (len(standing) * SINKING)
    damping = 2.0 * DAMPING_SHARE * math.sqrt(len(standing) * stiffness * mass) / len(standing)
    figures.estimate("contact.stiffness", _round(stiffness), "the legs sink by 2.5 mm under the weight")
    figures.estimate("contact.damping", _round(damping), "0.3 of critical in heave")
    figures.estimate("contact.friction", FRICTION, "rubber feet on dry ground, about 0.8")
    side, top = _round(0.5 * DENSITY * 0.25 * arm * arm), _round(0.5 * DENSITY * 0.5 * arm * arm)
    figures.estimate(
        "drag.force",
        [side, side, top],
        "C_d 1.0 on a quarter of arm^2 from the side and half of it from above",
    )
