"""The battery: open-circuit voltage over charge, internal resistance, an RC pair, Coulomb counting.

motor.py computes the motors' current at a given voltage; this module balances it with the pack.
"""

from __future__ import annotations

import math
from typing import Any

from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.dynamics.motor import current_and_slope
from sitl_bridge.core.dynamics.records import OCV_POINTS


@compiled
def open_circuit_voltage(vehicle: Any, charge: float) -> float:
    """Return the open-circuit voltage of the pack in V with ``charge`` A s left; nominal for an ideal source.

    Linear between the points of the airframe's curve, 0 when empty.
    """
    if math.isinf(vehicle.battery_capacity):
        return float(vehicle.battery_nominal_voltage)
    if charge <= 0.0:
        return 0.0
    share = min(charge / vehicle.battery_capacity, 1.0) * (OCV_POINTS - 1)
    i = min(int(share), OCV_POINTS - 2)
    fraction = share - i
    cell = vehicle.battery_ocv[i] * (1.0 - fraction) + vehicle.battery_ocv[i + 1] * fraction
    return float(cell * vehicle.battery_cells)


@compiled
def discharge(vehicle: Any, state: Any, current: float, seconds: float) -> None:
    """Take a mean current (A) from the pack for a step: charge, and the voltage across the RC pair.

    tau dV/dt = R I - V, solved exactly for a constant current (G. Plett, Battery Management Systems, vol. 1,
    2015, section 2.6).
    """
    state.battery_charge = max(state.battery_charge - current * seconds, 0.0)
    if vehicle.battery_slow_resistance > 0.0:
        share = -math.expm1(-seconds / vehicle.battery_slow_time)
        steady = vehicle.battery_slow_resistance * current
        state.battery_slow_voltage += share * (steady - state.battery_slow_voltage)


@compiled
def source_voltage(vehicle: Any, state: Any) -> float:
    """Return the voltage in V behind the pack's internal resistance, which holds over a step."""
    return open_circuit_voltage(vehicle, state.battery_charge) - state.battery_slow_voltage


@compiled
def settle(vehicle: Any, state: Any, armed: int, source: float) -> None:
    """Balance terminal voltage and current of the state with the present current of the motors.

    Solves V = OCV - R I(V) with one Newton step from the last voltage.  Plain substitution would oscillate:
    for ordinary packs, the current of an accelerating motor grows with V faster than 1/R.  V stays at or
    above half the open-circuit voltage, the point of maximum power of a source with internal resistance.

    Args:
        vehicle: VEHICLE record.
        state: STATE record; its commands as ``read_commands`` leaves them; ``battery_voltage`` and
            ``battery_current`` are written.
        armed: 0 or 1.
        source: V, ``source_voltage``.
    """
    if math.isinf(vehicle.battery_capacity):
        state.battery_voltage = vehicle.battery_nominal_voltage
        state.battery_current, _ = current_and_slope(vehicle, state, armed, state.battery_voltage)
        return
    if source <= 0.0:
        state.battery_voltage = 0.0
        state.battery_current = 0.0
        return
    resistance = vehicle.battery_resistance
    voltage = min(max(state.battery_voltage, 0.5 * source), source)
    current, slope = current_and_slope(vehicle, state, armed, voltage)
    # Constant-power loads have a negative slope; at half the source's voltage the equation is singular.
    step = (voltage - source + resistance * current) / max(1.0 + resistance * slope, 0.1)
    voltage = min(max(voltage - step, 0.5 * source), source)
    state.battery_voltage = voltage
    if resistance > 0.0:
        state.battery_current = (source - voltage) / resistance
    else:
        state.battery_current = current
