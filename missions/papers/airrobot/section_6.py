"""Sections 3.1 and 6: masses and sizes of the vehicles that the paper gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from comparison import Row

import sitl_bridge as sb


def size(airframe: sb.Airframe) -> tuple[float, float]:
    """Diameter over the rotors, and height from the feet to the hubs' top, m."""
    hubs = np.array([rotor.position for rotor in airframe.rotors])
    points = np.array(airframe.contact.points)
    reach = 2.0 * (np.linalg.norm(hubs[:, :2], axis=1).max() + airframe.rotor_model.radius)
    return float(reach), float(points[:, 2].max() - points[:, 2].min())


def reproduce(_picture: Path, _quick: bool) -> list[Row]:
    """Read the airframe files; there is no picture."""
    ar100b, ar200 = sb.Airframe.load("ar100b"), sb.Airframe.load("ar200")
    return [
        Row("AR100B: mass", "g", "1300", 1e3 * ar100b.mass),
        Row("AR100B: diameter", "mm", "1000", 1e3 * size(ar100b)[0]),
        Row("AR100B: height", "mm", "250", 1e3 * size(ar100b)[1]),
        Row("AR200: weight with payload", "g", "10000", 1e3 * ar200.mass),
        Row("AR200: diameter", "cm", "200", 1e2 * size(ar200)[0]),
    ]
