"""Figure 11: the three configurations of nine vehicles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from comparison import Row

from sitl_bridge.api.swarms import pattern

from .formation import CONFIGURATIONS, draw

FARTHEST = {"cube": "3.4641", "pyramid": "6.9282", "triangle": "5.6569"}
"""m, by XTDrone's formation_dict.py."""


def reproduce(picture: Path, _quick: bool) -> list[Row]:
    """Draw the slots; compare the farthest with XTDrone's file."""
    slots = {name: pattern(name, 9) for name in CONFIGURATIONS}
    draw(None, picture, slots)
    return [
        Row(
            f"{name}: farthest slot from the leader", "m", FARTHEST[name],
            float(np.linalg.norm(points, axis=1).max()), near=1e-5,
        )
        for name, points in slots.items()
    ]  # fmt: skip
