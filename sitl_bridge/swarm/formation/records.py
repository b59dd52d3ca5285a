"""Record types of formations: the reference of the centre, and the beacon that carries it."""

from __future__ import annotations

import numpy as np

REFERENCE = np.dtype(
    [
        ("stamp", "i8"),  # us, when it was true
        ("position", "f8", 3),  # m NED, of the formation's centre
        ("velocity", "f8", 3),  # m/s
        ("acceleration", "f8", 3),  # m/s^2
        ("heading", "f8"),  # rad, of the formation's frame
        ("turn_rate", "f8"),  # rad/s
    ],
    align=True,
)
"""Where the formation as a whole is and goes."""

BEACON = np.dtype(
    [
        ("stamp", "i8"),  # us, when it was sent; 0: nothing was received yet
        ("position", "f8", 3),  # m NED, the sender's own
        ("velocity", "f8", 3),  # m/s
        ("claim", "i8"),  # of the leader the sender follows; the highest one leads
        ("leader", "i8"),  # who that is
        ("epoch", "i8"),  # of the newest move that the sender knows
        ("start", "i8"),  # us at which the formation starts; 0: not yet known
        ("reference", REFERENCE),  # the newest one it knows, passed on
    ],
    align=True,
)
"""The message of a vehicle of a formation.  Moves are known to all by their number, as uploaded before."""
