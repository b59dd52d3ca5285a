"""Rows of the recording: one of each vehicle in each step, and one of each step."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from sitl_bridge.base.arrays import Floats, Records, Singles
from sitl_bridge.base.kernels.record import Record
from sitl_bridge.core.dynamics.records import MAX_ROTORS


class Row(Record, align=False):
    """Ground truth and commands of one vehicle in one step."""

    time: int  # us of simulated time, at the end of the step
    vehicle: Annotated[int, "i4"]  # its number
    armed: Annotated[int, "i4"]  # 0 or 1
    position: Annotated[Floats, 3]  # m NED
    velocity: Annotated[Floats, 3]  # m/s NED
    attitude: Annotated[Floats, 4]  # w, x, y, z body to NED
    angular_velocity: Annotated[Floats, 3]  # rad/s body
    specific_force: Annotated[Floats, 3]  # m/s^2 body
    wind: Annotated[Singles, 3]  # m/s NED
    rotor_speed: Annotated[Singles, MAX_ROTORS]  # rad/s
    rotor_thrust: Annotated[Singles, MAX_ROTORS]  # N
    control: Annotated[Singles, 16]  # motor commands, held over the step that ends at ``time``
    battery_voltage: Annotated[float, "f4"]  # V
    battery_current: Annotated[float, "f4"]  # A
    battery_charge: Annotated[float, "f4"]  # A s left
    motor_current: Annotated[Singles, MAX_ROTORS]  # A, of each speed controller
    esc_rise: Annotated[Singles, MAX_ROTORS]  # K of each speed controller above the air
    impact_speed: Annotated[float, "f4"]  # m/s, greatest so far
    in_contact: Annotated[int, "i4"]  # contact points in the ground
    answered: Annotated[int, "i4"]  # 1: the flight stack answered the previous frame
    message_bytes: Annotated[int, "i4"]  # in frames.bin: messages of custom sensors and of those that see
    frame_bytes: Annotated[int, "i4"]  # in frames.bin, behind them: this step's frames as sent; 0: none were


ROW = Row.dtype


class Step(Record, align=False):
    """Wall time of one step."""

    time: int  # us of simulated time
    sent: int  # ns of the machine's monotonic clock when the frames had been sent
    waited: int  # ns from sending the frames of the step before until all answers had come


STEP = Step.dtype

_AXES = {
    "position": ("north", "east", "down"),
    "velocity": ("north", "east", "down"),
    "wind": ("north", "east", "down"),
    "attitude": ("w", "x", "y", "z"),
    "angular_velocity": ("x", "y", "z"),
    "specific_force": ("x", "y", "z"),
}


def flat(dtype: np.dtype[np.void]) -> np.dtype[np.void]:
    """The same bytes with one scalar column per component, as in a table: ``position_north`` ..."""
    columns: list[tuple[str, str]] = []
    for name in dtype.names or ():
        field = dtype[name]
        if field.subdtype is None:
            columns.append((name, field.str))
            continue
        base, shape = field.subdtype
        labels = _AXES.get(name, tuple(str(i) for i in range(shape[0])))
        columns.extend((f"{name}_{label}", base.str) for label in labels)
    return np.dtype(columns)


_OF_ROTORS = ("rotor_speed", "rotor_thrust", "control", "motor_current", "esc_rise")


def row_type(rotors: int) -> np.dtype[np.void]:
    """ROW as it is kept of vehicles with at most so many rotors: without the places of further ones."""
    fields = []
    for name in ROW.names or ():
        base, shape = ROW[name].base, ROW[name].shape
        fields.append((name, base, (rotors,) if name in _OF_ROTORS else shape))
    return np.dtype(fields)


_ROW_TYPES = {flat(kept): kept for kept in (ROW, *map(row_type, range(1, MAX_ROTORS + 1)))}
"""By the columns of their table; ROW itself is what versions up to the summer of 2026 kept."""


def row_type_of(columns: np.dtype[np.void]) -> np.dtype[np.void] | None:
    """The kind of rows that a table with these columns, as of ``flat``, holds; None if they are no rows."""
    return _ROW_TYPES.get(columns)


def convert_rows(rows: Records, kind: np.dtype[np.void]) -> Records:
    """Rows with the places for rotors that ``kind`` has; those that it adds are 0."""
    if rows.dtype == kind:
        return np.ascontiguousarray(rows)
    found = np.zeros(rows.shape, kind)
    for name in kind.names or ():
        if name in _OF_ROTORS:
            width = min(kind[name].shape[0], rows.dtype[name].shape[0])
            found[name][..., :width] = rows[name][..., :width]
        else:
            found[name] = rows[name]
    return found
