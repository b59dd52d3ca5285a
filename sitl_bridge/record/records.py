"""Rows of the recording: one of each vehicle in each step, and one of each step."""

from __future__ import annotations

import numpy as np

ROW = np.dtype(
    [
        ("time", "i8"),  # us of simulated time
        ("vehicle", "i4"),
        ("armed", "i4"),
        ("position", "f8", 3),  # m NED
        ("velocity", "f8", 3),  # m/s NED
        ("attitude", "f8", 4),  # w, x, y, z body to NED
        ("angular_velocity", "f8", 3),  # rad/s body
        ("specific_force", "f8", 3),  # m/s^2 body
        ("wind", "f4", 3),  # m/s NED
        ("rotor_speed", "f4", 12),  # rad/s
        ("rotor_thrust", "f4", 12),  # N
        ("control", "f4", 16),  # commands held over the step that ends at ``time``
        ("battery_voltage", "f4"),  # V
        ("battery_current", "f4"),  # A
        ("battery_charge", "f4"),  # A s left
        ("motor_current", "f4", 12),  # A, of each speed controller
        ("esc_rise", "f4", 12),  # K of each speed controller above the air
        ("impact_speed", "f4"),  # m/s, greatest so far
        ("in_contact", "i4"),  # contact points in the ground
        ("answered", "i4"),  # 1: the flight stack answered the previous frame
        ("message_bytes", "i4"),  # in frames.bin: messages of custom sensors and of those that see
        ("frame_bytes", "i4"),  # in frames.bin, behind them: the frames of this step as sent; 0: none were
    ]
)
"""Ground truth and commands of one vehicle in one step."""

STEP = np.dtype(
    [
        ("time", "i8"),  # us of simulated time
        ("sent", "i8"),  # ns of the machine's monotonic clock when the frames had been sent
        ("waited", "i8"),  # ns from sending the frames of the step before until all answers had come
    ]
)
"""Wall time of one step."""

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
