"""A show from files: every vehicle flies a trajectory of its own, all on one clock.

Nothing is negotiated in the air; what is to be safe is checked before the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sitl_bridge.errors import UserError
from sitl_bridge.swarm.formation.trajectory import Limits, Moment, Trajectory, check_show, read_csv
from sitl_bridge.swarm.interface import Setpoints, States


class Show:
    """Steers each vehicle along its own path; before the start at its beginning, after it at its end.

    Args:
        paths: one a vehicle.
        limits: that they must keep to, one by one and with one another.

    Attributes:
        started_at: us of the start; None before it is set.

    Raises:
        UnsafeShowError: where they do not.
    """

    def __init__(self, paths: Sequence[Trajectory], limits: Limits) -> None:
        check_show(paths, limits)
        self.paths = tuple(paths)
        self.started_at: int | None = None

    @property
    def duration(self) -> float:
        """s until the last vehicle is at its end."""
        return max(path.duration for path in self.paths)

    def start(self, time: int) -> None:
        """Start all together at ``time`` us of the flock's clock."""
        self.started_at = time

    def at(self, time: float) -> Moment:
        """Where all are to be at ``time`` s: fields (n, 3), yaw (n,)."""
        moments = [path.at(time) for path in self.paths]
        return Moment(
            np.stack([m.position for m in moments]),
            np.stack([m.velocity for m in moments]),
            np.stack([m.acceleration for m in moments]),
            np.array([float(m.yaw) for m in moments]),
            np.array([float(m.yaw_rate) for m in moments]),
        )

    def tick(self, states: States) -> Setpoints:
        """Setpoints of this moment; none for those that are gone."""
        first = min(float(path.time[0]) for path in self.paths)
        now = first - 1.0 if self.started_at is None else (states.time - self.started_at) * 1e-6
        moment = self.at(now)
        told = Setpoints(moment.position, moment.velocity, moment.acceleration, moment.yaw)
        told.put(~states.alive, Setpoints.none(int((~states.alive).sum())))
        return told


def load_show(directory: Path, limits: Limits) -> Show:
    """A show of all CSV files of a directory, one a vehicle, in the order of their names.

    Raises:
        ConfigurationError: for a faulty file.
        UnsafeShowError: for a show that breaks its limits.
        UserError: for a directory without such files.
    """
    files = sorted(directory.glob("*.csv"))
    if not files:
        raise UserError(f"{directory}: has no CSV files of trajectories")
    return Show([read_csv(file) for file in files], limits)
