"""The battery pack: parameters, open-circuit voltage over charge, internal resistance, RC pair, charge count.

motor.py computes the motors' current at a given voltage; this module balances it with the pack.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field

from sitl_bridge.base.arrays import Records
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.quantities import STRICT, NonNegative, Positive
from sitl_bridge.core.dynamics.motor import current_and_slope, drive_motors
from sitl_bridge.core.dynamics.records import OCV_POINTS, Scratch, State, Vehicle

SECONDS_PER_HOUR = 3600.0
OVERDISCHARGE = 0.12
"""Share of the capacity beyond the empty point over which a cell falls to 0 V: R. Guo et al., Scientific
Reports 6, 30248 (2016), whose cells reached the plateau of their reversed voltage there."""
_LAST_STEP, _MOST_ITERATIONS = 0.03, 4
"""V of a step of Newton's method after which none is needed, and the most steps."""
LIPO_CELL = (3.27, 3.61, 3.69, 3.71, 3.75, 3.79, 3.83, 3.89, 3.97, 4.08, 4.20)
"""V, open-circuit voltage of a lithium-polymer cell at 0, 10, ... 100 % of its charge: the usual published
discharge table of hobby cells ("LiPo voltage chart": 3.27 V empty, 3.84 V near the middle, 4.20 V full)."""
CELL_CURVES = {
    "kokam_slpb75106100": (2.823, 3.439, 3.559, 3.673, 3.733, 3.761, 3.801, 3.867, 3.951, 4.045, 4.167),
}
"""The same of measured cells, by name.

Kokam SLPB 75106100, a lithium-polymer pouch that gives 7.75 Ah at 1C: M. Ecker et al., Journal of The
Electrochemical Society 162 (2015) A1849, 25 degrees, in the figures of PyBaMM's discharge data.  It is the
voltage at 7.5 A with the drop in 7.66 mOhm added, the mean resistance to 37.5 A between 20 and 90 %.
"""


def _curve(given: object) -> object:
    """Return the voltages of a named cell; others as given."""
    if not isinstance(given, str):
        return given
    if given not in CELL_CURVES:
        raise ValueError(f"no such cell; known are {', '.join(CELL_CURVES)}, or 11 voltages")
    return CELL_CURVES[given]


class Battery(BaseModel):
    """A lithium battery pack."""

    model_config = STRICT

    cells: int = Field(ge=1, le=14)
    capacity: Positive | None = Field(None, description="Ah; absent: an ideal source")
    resistance: NonNegative = Field(0.0, description="ohm, whole pack")
    slow_resistance: NonNegative = Field(
        0.0, description="ohm, whole pack: further resistance that a lasting current meets (RC pair)"
    )
    slow_time: Positive = Field(30.0, description="s, time constant of the RC pair")
    nominal_voltage: Positive = Field(description="V, reference voltage of the motor's speed_range")
    cell_voltage: Annotated[
        tuple[Positive, ...],
        Field(min_length=OCV_POINTS, max_length=OCV_POINTS),
        BeforeValidator(_curve, json_schema_input_type=list[float] | Literal["kokam_slpb75106100"]),
    ] = Field(LIPO_CELL, description="V a cell at 0, 10 ... 100 %, or the name of a measured cell")
    idle_current: NonNegative = Field(0.0, description="A, avionics")

    def pack(self, vehicle: Records) -> None:
        """Write the battery of a () VEHICLE record."""
        capacity = math.inf if self.capacity is None else self.capacity * SECONDS_PER_HOUR
        vehicle["battery_capacity"] = capacity
        vehicle["battery_cells"] = self.cells
        vehicle["battery_resistance"] = self.resistance
        vehicle["battery_slow_resistance"], vehicle["battery_slow_time"] = (
            self.slow_resistance,
            self.slow_time,
        )
        vehicle["battery_ocv"] = self.cell_voltage
        vehicle["battery_nominal_voltage"] = self.nominal_voltage
        vehicle["battery_idle_current"] = self.idle_current


@compiled
def open_circuit_voltage(vehicle: Vehicle, charge: float) -> float:
    """Return the open-circuit voltage of the pack in V with ``charge`` A s left; nominal for an ideal source.

    Linear between the points of the airframe's curve, and from its last one to 0 V after OVERDISCHARGE more.
    """
    if math.isinf(vehicle.battery_capacity):
        return float(vehicle.battery_nominal_voltage)
    if charge <= 0.0:
        left = max(1.0 + charge / (OVERDISCHARGE * vehicle.battery_capacity), 0.0)
        return float(left * vehicle.battery_ocv[0] * vehicle.battery_cells)
    share = min(charge / vehicle.battery_capacity, 1.0) * (OCV_POINTS - 1)
    i = min(int(share), OCV_POINTS - 2)
    fraction = share - i
    cell = vehicle.battery_ocv[i] * (1.0 - fraction) + vehicle.battery_ocv[i + 1] * fraction
    return float(cell * vehicle.battery_cells)


@compiled
def discharge(vehicle: Vehicle, state: State, current: float, seconds: float) -> None:
    """Take a mean current (A) from the pack for a step: charge, and the voltage across the RC pair.

    tau dV/dt = R I - V, solved exactly for a constant current (G. Plett, Battery Management Systems, vol. 1,
    2015, section 2.6).
    """
    least = -OVERDISCHARGE * vehicle.battery_capacity
    state.battery_charge = max(state.battery_charge - current * seconds, least)
    if vehicle.battery_slow_resistance > 0.0:
        share = -math.expm1(-seconds / vehicle.battery_slow_time)
        steady = vehicle.battery_slow_resistance * current
        state.battery_slow_voltage += share * (steady - state.battery_slow_voltage)


@compiled
def source_voltage(vehicle: Vehicle, state: State) -> float:
    """Return the voltage in V behind the pack's internal resistance, which holds over a step."""
    return open_circuit_voltage(vehicle, state.battery_charge) - state.battery_slow_voltage


@compiled
def settle(vehicle: Vehicle, state: State, rows: Scratch, armed: int, source: float) -> None:
    """Balance terminal voltage and current with that of the motors at the rotors' speeds in ``rows``.

    Solves V = OCV - R I(V) by Newton's method from the last voltage.  Plain substitution would oscillate: for
    ordinary packs, the current of an accelerating motor grows with V faster than 1/R.  V stays at or above
    half the open-circuit voltage, the point of maximum power of a source with internal resistance.

    Args:
        state: STATE record; its commands as ``read_commands`` leaves them; ``battery_voltage`` and
            ``battery_current`` are written.
        armed: 0 or 1.
        source: V, ``source_voltage``.
    """
    if math.isinf(vehicle.battery_capacity):
        state.battery_voltage = vehicle.battery_nominal_voltage
        state.battery_current, _ = current_and_slope(vehicle, state, rows, armed, state.battery_voltage)
        return
    if source <= 0.0:
        state.battery_voltage = 0.0
        state.battery_current = 0.0
        return
    resistance = vehicle.battery_resistance
    voltage = min(max(state.battery_voltage, 0.5 * source), source)
    current = 0.0
    for _ in range(_MOST_ITERATIONS):
        current, slope = current_and_slope(vehicle, state, rows, armed, voltage)
        # Constant-power loads have a negative slope; at half the source's voltage the equation is singular.
        step = (voltage - source + resistance * current) / max(1.0 + resistance * slope, 0.1)
        voltage = min(max(voltage - step, 0.5 * source), source)
        # The error that is left goes with the square of the step.
        if abs(step) < _LAST_STEP:
            break
    state.battery_voltage = voltage
    if resistance > 0.0:
        state.battery_current = (source - voltage) / resistance
    else:
        state.battery_current = current


@compiled
def adapt_drive(vehicle: Vehicle, state: State, rows: Scratch) -> None:
    """Bring voltage and drive in line with the speeds and torques that the integration has reached."""
    if math.isinf(vehicle.battery_capacity):
        if not vehicle.esc_current_limit > 0.0:
            return
    else:
        settle(vehicle, state, rows, rows.armed, rows.source)
    drive_motors(vehicle, state, rows)
