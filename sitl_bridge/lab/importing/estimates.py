"""The figures that no source gives, estimated from those that are known, and marked as such.

Every estimate states its rule in ``sources``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sitl_bridge.api.logs import motor_signal
from sitl_bridge.api.models import INCH, OTHER_LAWS, propellers_of_size, static_tests
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.constants import STANDARD_GRAVITY
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.json_data import round_values
from sitl_bridge.core.dynamics.induced_flow import STALL_ANGLE
from sitl_bridge.core.dynamics.rotor import CHORD, LIFT_SLOPE
from sitl_bridge.lab.importing.figures import Figures

DENSITY = 1.225
CELL_VOLTAGE, CELL_RESISTANCE = 3.8, 0.004
"""V in mid-discharge under load, and ohm, of a lithium-polymer cell."""
AVIONICS = 5.0
"""W."""
EFFICIENCY = 0.75
"""Of an ordinary motor with its speed controller."""
MERIT = 0.55
"""Figure of merit of an ordinary propeller: near the middle of 158 static tests (propellers.csv)."""
UNPHYSICAL_MERIT = 0.25
"""Below it a torque is not a real propeller's: the least of those tests is 0.29."""
UNTRUE_MERIT = 3.0
"""Above it speeds are in no known unit: an ideal rotor has 1."""
CELLS = ((0.1, 1), (0.35, 2), (0.8, 3), (3.0, 4), (8.0, 6), (math.inf, 12))
"""Cells of an ordinary battery for vehicles up to a mass in kg."""
ENDURANCE = 15 * 60.0
"""s of hover for which the estimated battery lasts."""
SINKING = 0.0025
"""m by which the feet's springs give way under the weight."""
DAMPING_SHARE = 0.3
INERTIA_SHARE = 0.5
"""Share of the mass that would have the vehicle's inertia at the rotors' distance: 0.35 to 0.68 of the five
quadrotors shipped with a published inertia (x500, iris, hummingbird, pelican, crazyflie)."""
THRUST_TO_WEIGHT = 2.0
IDLE = 0.1
"""Of the top speed: 1 % of the full thrust, so that a strong vehicle can still descend."""


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
    before = figures.get("mass")
    if given.mass is not None and before is not None and figures.has("inertia"):
        figures.note(f"the inertia is still that of {before:g} kg")
    by_hand = {"mass": given.mass, "battery.cells": given.cells, "battery.capacity": given.capacity}
    for path, value in by_hand.items():
        if value is not None:
            figures.give(path, value, "given at the import")
    if given.propeller is not None:
        found = propellers_of_size(given.propeller)
        for name, value in found.rotor_fields().items():
            figures.give(f"rotor_model.{name}", value, found.source())
        figures.remove("rotor_model.inertia")


def complete(figures: Figures, *, as_gazebo: bool) -> None:
    """Estimate what is missing.

    Raises:
        UserError: for a vehicle whose mass or rotors no source gives, or that are not above 0.
    """
    if not figures.has("rotors"):
        raise UserError("no source has the rotors' places: give a model (SDF, URDF) or PX4's CA_ROTOR*")
    if not figures.has("mass"):
        raise UserError("no source has the mass: give it with --mass KG")
    for path in ("mass", "rotor_model.thrust_c2", "rotor_model.radius"):
        if (value := figures.get(path, 1.0)) <= 0.0:
            raise UserError(f"{figures.sources[path]}: {path} is {value:g}, not above 0")
    hubs = np.array([rotor["position"] for rotor in figures.get("rotors")], np.float64)
    _complete_rotors(figures, hubs)
    if not as_gazebo:
        _scale_speeds(figures)
    thrust = figures.get("mass") * STANDARD_GRAVITY / len(hubs)
    hover = math.sqrt(thrust / figures.get("rotor_model.thrust_c2"))  # rad/s
    _complete_motors(figures, hover)
    if not as_gazebo:
        _complete_inflow(figures)
    _complete_power(figures, hover, as_gazebo=as_gazebo)
    _complete_body(figures, hubs)


def _complete_rotors(figures: Figures, hubs: Floats) -> None:
    estimate = figures.estimate
    apart = np.linalg.norm(hubs[:, None, :2] - hubs[None, :, :2], axis=2)
    near = float(apart.min(where=apart > 0.02, initial=10.0)) if (apart > 0.02).any() else 0.3
    radius = estimate("rotor_model.radius", 0.45 * near, "0.45 of the least distance of two hubs")
    # C_T and C_P of the middle propeller of the data base.
    thrust, power = (
        float(np.median([getattr(t, name) for t in static_tests()])) for name in ("thrust", "power")
    )
    middle = f"C_T {thrust:.3f}, C_P {power:.3f}, medians of the UIUC propellers, at this radius"
    if not figures.has("rotor_model.thrust_c2"):
        figures.note("the propeller is not known: give --propeller 10x4.5 or a thrust table")
    per = DENSITY * (2.0 * radius) ** 4 / (2.0 * math.pi) ** 2
    estimate("rotor_model.thrust_c2", thrust * per, middle)
    estimate("rotor_model.torque_thrust_ratio", power * radius / (math.pi * thrust), middle)
    rod = 0.010 * (2.0 * radius / (10.0 * INCH)) ** 2.5
    how = f"a thin rod of {1e3 * rod:.2g} g, 10 g for 10 inches and in proportion to D^2.5"
    estimate("rotor_model.inertia", rod * (2.0 * radius) ** 2 / 12.0, how)


def _merit(figures: Figures) -> float:
    """Figure of merit of the rotors in a hover: the least power, v_h T, over that of their torque, k T w."""
    least = math.sqrt(figures.get("rotor_model.thrust_c2") / (2.0 * DENSITY * math.pi))
    ratio = figures.get("rotor_model.torque_thrust_ratio")
    return least / figures.get("rotor_model.radius") / ratio if ratio > 0.0 else 1.0


def _scale_speeds(figures: Figures) -> None:
    """Turn speeds in a unit of their own, such as 0 to 1, to rad/s; the vehicle moves as before."""
    merit = _merit(figures)
    if merit < UNTRUE_MERIT or any("model" in rotor for rotor in figures.get("rotors")):
        return
    scale = merit / MERIT
    figures.note(
        f"the motors' speeds are not rad/s (an ideal rotor would need {merit:.0f} times the power): they are"
        f" multiplied by {scale:.3g}, which gives an ordinary propeller's power; the coefficients fit"
    )
    powers = {"motor.idle_speed": 1, "motor.speed_range": 1, "rotor_model.drag": -1}
    for path, power in (powers | {"rotor_model.rolling_moment": -1, "rotor_model.thrust_c2": -2}).items():
        if figures.has(path):
            how = figures.sources[path]
            figures.give(path, figures.get(path) * scale**power, f"{how}; speeds times {scale:.4g}")


def _complete_motors(figures: Figures, hover: float) -> None:
    estimate, size = figures.estimate, figures.get("rotor_model.radius") / (5.0 * INCH)
    if estimate("motor.kind", "first_order", "the ordinary model") == "dc":
        return
    how = "30 ms up and 45 ms down for 10 inches, in proportion to the radius"
    estimate("motor.time_constant_up", 0.030 * size, how)
    estimate("motor.time_constant_down", 0.045 * size, how)
    if figures.has("motor.speed_range"):
        return
    thrust, factor = (figures.get(f"px4.parameters.{name}") for name in ("MPC_THR_HOVER", "THR_MDL_FAC"))
    turned, how = math.sqrt(1.0 / THRUST_TO_WEIGHT), "full thrust of twice the weight, an ordinary one"
    if thrust is not None:
        share = np.clip([thrust, factor or 0.0], [0.05, 0.0], [0.95, 1.0])
        turned = IDLE + (1.0 - IDLE) * float(motor_signal(share[0], float(share[1])))
        how = "hover at the command that PX4 gives for MPC_THR_HOVER and THR_MDL_FAC"
    estimate("motor.idle_speed", IDLE * hover / turned, "a tenth of the top speed")
    estimate("motor.speed_range", (1.0 - IDLE) * hover / turned, how)


def _complete_inflow(figures: Figures) -> None:
    """Blade elements and induced flow in place of Gazebo's law, where the coefficients allow it."""
    if any(figures.has(f"rotor_model.{name}") for name in OTHER_LAWS):
        return
    radius, thrust = figures.get("rotor_model.radius"), figures.get("rotor_model.thrust_c2")
    needed = 6.0 * thrust / (DENSITY * 2.0 * LIFT_SLOPE * STALL_ANGLE * radius**3) * 1.02
    if (
        _merit(figures) > 1.0
        or figures.get("rotor_model.torque_thrust_ratio") <= 0.0
        or needed > 0.3 * radius
    ):
        figures.note(
            "thrust, torque and radius are not those of one real propeller: the rotors keep the law of their"
            " coefficients, without the effects of moving air"
        )
        figures.estimate("rotor_model.inflow", "none", "the coefficients are no real propeller's")
        return
    how = "derived: blade elements and momentum theory (docs/rotors.md), over the static coefficients"
    how += ", in place of Gazebo's law" if figures.has("rotor_model.inflow") else ""
    figures.remove("rotor_model.inflow_loss_speed")
    figures.remove("rotor_model.rolling_moment_released")
    figures.give("rotor_model.inflow", "momentum", how)
    if needed > CHORD * radius:
        lifts = "derived: the blades must not lift more than their sections can, C_L 1.2, for the thrust"
        figures.give("rotor_model.chord", needed, lifts, 4)


def _complete_power(figures: Figures, hover: float, *, as_gazebo: bool) -> None:
    estimate, ratio = figures.estimate, figures.get("rotor_model.torque_thrust_ratio")
    merit, efficiency, how = (
        _merit(figures),
        EFFICIENCY,
        f"motor and controller together, an ordinary {EFFICIENCY}",
    )
    if merit < UNPHYSICAL_MERIT:
        efficiency = float(f"{EFFICIENCY * MERIT / merit:.3g}")
        figures.note(
            f"the rotors' torque, {ratio:g} m of thrust, is {MERIT / merit:.2g} times a real propeller's"
            f" (figure of merit {merit:.2f}): it is kept, for yaw, and motor.efficiency {efficiency:g} keeps"
            " the battery honest"
        )
        how = f"{EFFICIENCY} times {MERIT}, an ordinary figure of merit, over the model's {merit:.2f}"
    if figures.get("motor.kind") != "dc":  # which has its own losses
        efficiency = estimate("motor.efficiency", efficiency, how)
    mass = figures.get("mass")
    cells = estimate("battery.cells", next(n for most, n in CELLS if mass <= most), "ordinary for the mass")
    volts = CELL_VOLTAGE * cells
    estimate("battery.nominal_voltage", volts, "cells at their mid-discharge 3.8 V under load")
    if as_gazebo:
        if figures.has("battery.capacity"):
            figures.leave_out("the battery's capacity (--as-gazebo: an ideal source)")
            figures.remove("battery.capacity")
        return
    estimate("battery.resistance", CELL_RESISTANCE * cells, "4 mOhm a cell")
    estimate("battery.idle_current", AVIONICS / volts, f"{AVIONICS:g} W of avionics")
    power = mass * STANDARD_GRAVITY * ratio * hover / efficiency + AVIONICS
    estimate("battery.capacity", power / volts * ENDURANCE / 3600.0, "15 min of hover")


def _complete_body(figures: Figures, hubs: Floats) -> None:
    estimate, mass, radius = figures.estimate, figures.get("mass"), figures.get("rotor_model.radius")
    if not figures.has("inertia"):
        figures.note("the inertia is an estimate by the rotors' places: `identify` finds it from a flight")
    xx, yy = (round_values(INERTIA_SHARE * mass * float(np.mean(hubs[:, k] ** 2)), 4) for k in (1, 0))
    # A flat body has zz = xx + yy; rounded, it might have more, which no body has.
    how = "half the mass at the rotors' distance; 0.35 to 0.68 of it in five published quadrotors"
    estimate("inertia", {"xx": xx, "yy": yy, "zz": 0.999 * (xx + yy)}, how)
    arm, low = float(np.mean(np.hypot(hubs[:, 0], hubs[:, 1]))), float(hubs[:, 2].max())
    feet = [[a * 0.4 * arm, b * 0.4 * arm, low + 0.4 * arm] for a in (1, -1) for b in (1, -1)]
    points = estimate("contact.points", [*feet, [0.0, 0.0, low - 0.2 * arm]], "four legs below the body")
    lowest = max(point[2] for point in points)
    standing = sum(point[2] > lowest - 0.02 for point in points)
    reach = np.maximum(np.hypot(hubs[:, 0], hubs[:, 1]), 1e-9)[:, None]
    tips = np.column_stack([hubs[:, :2] * (reach + radius) / reach, hubs[:, 2]])
    figures.values["contact.points"] = [*points, *np.round(tips, 4).tolist()]
    stiffness = mass * STANDARD_GRAVITY / (standing * SINKING)
    damping = 2.0 * DAMPING_SHARE * math.sqrt(standing * stiffness * mass) / standing
    estimate("contact.stiffness", stiffness, "the legs sink by 2.5 mm under the weight")
    estimate("contact.damping", damping, "0.3 of critical in heave")
    estimate("contact.friction", 0.8, "rubber feet on dry ground, about 0.8")
    side = 0.5 * DENSITY * 0.25 * arm * arm
    how = "C_d 1.0 on a quarter of arm^2 from the side and half of it from above"
    estimate("drag.force", [side, side, 2.0 * side], how)
