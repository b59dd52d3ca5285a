"""XTDrone's follower (coordination/formation_demo), as a role for a formation's file."""

from __future__ import annotations

import numpy as np

from sitl_bridge.swarm.formation.roles import Follower, FormationView
from sitl_bridge.swarm.interface import Setpoints

GAIN = 1.0
"""1/s, Kp."""
LIMIT = 1.0
"""m/s."""


class VelocityFollower(Follower):
    """v = Kp (p_leader + f - p), at most 1 m/s."""

    def steer(self, view: FormationView) -> Setpoints:
        """Velocity setpoints, one row per row of the view."""
        velocity = GAIN * (view.slot.position - view.position)
        speed = np.linalg.norm(velocity, axis=1, keepdims=True)
        wanted = Setpoints.none(len(view.vehicle))
        wanted.velocity[:] = velocity * np.minimum(1.0, LIMIT / np.maximum(speed, 1e-12))
        wanted.yaw[:] = view.centre["heading"]
        return wanted
