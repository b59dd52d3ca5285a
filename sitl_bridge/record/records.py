"""Rows of the recording: one of each vehicle in each step, and one of each step."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from sitl_bridge.base.arrays import Floats, Singles
from sitl_bridge.base.kernels.record import Record


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
    rotor_speed: Annotated[Singles, 12]  # rad/s
    rotor_thrust: Annotated[Singles, 12]  # N
    control: Annotated[Singles, 16]  # motor commands, held over the step that ends at ``time``
    battery_voltage: Annotated[float, "f4"]  # V
    battery_current: Annotated[float, "f4"]  # A
    battery_charge: Annotated[float, "f4"]  # A s left
    motor_current: Annotated[Singles, 12]  # A, of each speed controller
    esc_rise: Annotated[Singles, 12]  # K of each speed controller above the air
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
