"""Packs an airframe into the VEHICLE record that the compiled step reads.

Units and axes are the same on both sides but for the battery's capacity; nothing is derived here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.dynamics.records import MOTOR_DC, MOTOR_FIRST_ORDER, VEHICLE

if TYPE_CHECKING:
    from sitl_bridge.vehicle.airframe import Airframe, PropellerTable

SECONDS_PER_HOUR = 3600.0


def pack(airframe: Airframe) -> NDArray[np.void]:
    """() VEHICLE record of an airframe whose payload is part of it."""
    v = np.zeros((), VEHICLE)
    inertia = airframe.inertia.matrix()
    v["mass"] = airframe.mass
    v["inertia"] = inertia
    v["inertia_inverse"] = np.linalg.inv(inertia)
    _pack_rotors(v, airframe)
    _pack_motor(v, airframe)
    v["drag_force"], v["drag_moment"] = airframe.drag.force, airframe.drag.moment
    v["drag_density"] = airframe.drag.reference_density
    v["ground_effect"] = 1.0 if airframe.ground_effect else 0.0
    points = np.array(airframe.contact.points)
    v["contact_count"] = len(points)
    v["contact_point"][: len(points)] = points
    v["contact_radius"] = np.linalg.norm(points, axis=1).max()
    v["contact_stiffness"] = airframe.contact.stiffness
    v["contact_damping"] = airframe.contact.damping
    v["contact_friction"] = airframe.contact.friction
    b = airframe.battery
    v["battery_capacity"] = math.inf if b.capacity is None else b.capacity * SECONDS_PER_HOUR
    v["battery_cells"] = b.cells
    v["battery_resistance"] = b.resistance
    v["battery_ocv"] = b.cell_voltage
    v["battery_nominal_voltage"] = b.nominal_voltage
    v["battery_idle_current"] = b.idle_current
    return v


def _pack_rotors(v: NDArray[np.void], airframe: Airframe) -> None:
    v["rotor_count"] = len(airframe.rotors)
    v["inflow_loss_speed"] = math.inf
    v["rotor_density"] = 1.225  # of slots without a rotor: a divisor
    for k, rotor in enumerate(airframe.rotors):
        model = airframe.model_of(rotor)
        axis = np.array(rotor.axis)
        v["rotor_position"][k] = rotor.position
        v["rotor_axis"][k] = axis / np.linalg.norm(axis)
        v["rotor_direction"][k] = 1.0 if rotor.direction == "ccw" else -1.0
        v["rotor_radius"][k] = model.radius
        v["rotor_inertia"][k] = airframe.motor.inertia if airframe.motor.kind == "dc" else model.inertia
        v["thrust_c2"][k], v["thrust_c1"][k] = model.thrust_c2, model.thrust_c1
        v["thrust_b1"][k], v["thrust_b2"][k] = model.thrust_b1, model.thrust_b2
        if model.inflow_loss_speed is not None:
            v["inflow_loss_speed"][k] = model.inflow_loss_speed
        v["torque_thrust_ratio"][k] = model.torque_thrust_ratio
        v["torque_g1"][k], v["torque_constant"][k] = model.torque_g1, model.torque_constant
        v["rotor_drag"][k], v["rolling_moment"][k] = model.drag, model.rolling_moment
        v["rotor_density"][k] = model.reference_density
    if airframe.rotor_model.table is not None:
        _pack_table(v, airframe.rotor_model.table)


def _pack_table(v: NDArray[np.void], table: PropellerTable) -> None:
    rows, columns = len(table.speeds), len(table.advance_ratios)
    v["table_speed_count"], v["table_advance_count"] = rows, columns
    v["table_diameter"] = table.diameter
    v["table_speed"][:rows] = table.speeds
    v["table_advance"][:columns] = table.advance_ratios
    v["table_ct"][:rows, :columns] = table.thrust
    v["table_cp"][:rows, :columns] = table.power


def _pack_motor(v: NDArray[np.void], airframe: Airframe) -> None:
    motor = airframe.motor
    if motor.kind == "dc":
        v["motor_kind"] = MOTOR_DC
        v["dc_flux"], v["dc_resistance"], v["dc_inertia"] = motor.flux, motor.resistance, motor.inertia
        v["dc_alpha"], v["dc_beta"] = motor.alpha, motor.beta
        # Unused by DC motors, but divisors of the first-order law.
        v["motor_tau_up"] = v["motor_tau_down"] = v["motor_efficiency"] = 1.0
        return
    v["motor_kind"] = MOTOR_FIRST_ORDER
    v["motor_tau_up"], v["motor_tau_down"] = motor.time_constant_up, motor.time_constant_down
    v["motor_speed_idle"], v["motor_speed_range"] = motor.idle_speed, motor.speed_range
    v["motor_reversible"] = int(motor.reversible)
    v["motor_efficiency"] = motor.efficiency
