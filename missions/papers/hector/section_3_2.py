"""Section 3.2, motor dynamics: a hover by the law of the released code, and by the paper's equation 4."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from comparison import Row

import sitl_bridge as sb
from sitl_bridge.api.models import performance


def reproduce(_picture: Path, _quick: bool) -> list[Row]:
    """Work the hover of the airframe out; there is no picture."""
    hector = sb.Airframe.load("hector")
    trim = performance(hector.record, 1.225, 9.80665).hover
    assert trim is not None
    current, speed = float(np.mean(trim.motor_current)), float(np.mean(trim.rotor_speed))
    by_equation_4 = hector.motor.resistance * current + hector.motor.flux * speed
    return [
        Row("thrust of a rotor", "N", "3.622", float(np.mean(trim.rotor_thrust)), near=1e-3),
        Row("rotor speed", "rad/s", "485.3", speed, near=1e-3),
        Row("current of a motor", "A", "2.973", current, near=1e-3),
        Row("power of four motors", "W", "83.7", float(trim.motor_power), near=1e-3),
        Row("voltage of a motor, released code", "V", "7.035", float(np.mean(trim.motor_voltage)), near=1e-3),
        Row("voltage of a motor at that current, eq. 4", "V", "", by_equation_4, digits=3),
    ]
