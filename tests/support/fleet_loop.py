"""Flies a formation on a fleet whose time the test advances."""

from __future__ import annotations

from sitl_bridge.swarm.interface import Steered, Watch
from sitl_bridge.swarm.point_mass import PointMassFleet

TICK = 50_000
"""us."""


def fly(steered: Steered, fleet: PointMassFleet, until: int, watch: Watch) -> None:
    """Fly a fleet to ``until`` us of its time."""
    while True:
        states = fleet.states()
        setpoints = steered.tick(states)
        watch(states)
        if states.time >= until:
            return
        fleet.command(setpoints)
        fleet.advance(min(states.time + TICK, until))
