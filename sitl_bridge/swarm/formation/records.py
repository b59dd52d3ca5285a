"""Record types of formations: the reference of the centre, and the beacon that carries it."""

from __future__ import annotations

import numpy as np

REFERENCE = np.dtype(
    [
        ("stamp", "i8"),  # us, time of validity
        ("position", "f8", 3),  # m NED, of the formation's centre
        ("velocity", "f8", 3),  # m/s
        ("acceleration", "f8", 3),  # m/s^2
        ("heading", "f8"),  # rad, of the formation's frame
        ("turn_rate", "f8"),  # rad/s
    ],
    align=True,
)
"""Motion of the formation's centre."""

BEACON = np.dtype(
    [
        ("stamp", "i8"),  # us, time of sending; 0: nothing received yet
        ("position", "f8", 3),  # m NED, the sender's own
        ("velocity", "f8", 3),  # m/s
        ("claim", "i8"),  # of the sender's leader; the highest one leads
        ("leader", "i8"),  # vehicle number of that leader
        ("epoch", "i8"),  # newest move known to the sender
        ("start", "i8"),  # us, start of the formation; 0: not known yet
        ("reference", REFERENCE),  # newest reference known to the sender, passed on
    ],
    align=True,
)
"""The message of a vehicle of a formation.  It refers to moves by number, because all vehicles have the
plan."""
