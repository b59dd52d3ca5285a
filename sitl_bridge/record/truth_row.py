"""Writes rows of the truth log from compiled code, for the simulator link and for fleets in one process."""

from __future__ import annotations

from sitl_bridge.base.arrays import Floats, Ints, Records
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.dynamics.records import State
from sitl_bridge.record.records import Row


@compiled
def write_row(
    row: Row,
    time: int,
    vehicle: int,
    armed: int,
    state: State,
    controls: Floats,
    answered: int,
    message_bytes: int,
    frame_bytes: int,
) -> None:
    """Fill in one row: the state of a vehicle, and the commands that led to it.

    Args:
        row: ROW record, written.
        time: us of simulated time.
        vehicle: its number.
        armed: 0 or 1.
        controls: (16,) commands held over the step that ends at ``time``.
        answered: 1 if the flight stack answered the frame before.
        message_bytes: sent in front of the frames.
        frame_bytes: of the frames.
    """
    row.time = time
    row.vehicle = vehicle
    row.armed = armed
    for k in range(3):
        row.position[k] = state.position[k]
        row.velocity[k] = state.velocity[k]
        row.angular_velocity[k] = state.angular_velocity[k]
        row.specific_force[k] = state.specific_force[k]
        row.wind[k] = state.wind[k]
    for k in range(4):
        row.attitude[k] = state.attitude[k]
    for k in range(12):
        row.rotor_speed[k] = state.rotor_speed[k]
        row.rotor_thrust[k] = state.rotor_thrust[k]
        row.motor_current[k] = state.motor_current[k]
        row.esc_rise[k] = state.esc_rise[k]
    for k in range(16):
        row.control[k] = controls[k]
    row.battery_voltage = state.battery_voltage
    row.battery_current = state.battery_current
    row.battery_charge = state.battery_charge
    row.impact_speed = state.impact_speed
    row.in_contact = state.in_contact
    row.answered = answered
    row.message_bytes = message_bytes
    row.frame_bytes = frame_bytes


@compiled
def write_rows(rows: Records, time: int, armed: Ints, states: Records, controls: Floats) -> None:
    """Fill in one row a vehicle; ``rows`` has one or more for each, ``controls`` is (n, 16)."""
    for i in range(states.shape[0]):
        write_row(rows[i], time, i, armed[i], states[i], controls[i], 1, 0, 0)
