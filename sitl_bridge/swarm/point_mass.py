"""The quick simulator: every vehicle a second-order point mass, thousands of them in one compiled loop.

After XTDrone's "simple 3D simulator" (Xiao et al., "XTDrone: a customizable multi-rotor UAVs simulation
platform", section V), for testing a formation before a flight with full dynamics.  It has the interface of
the vehicles, without attitude, wind and sensors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sitl_bridge.base.arrays import Floats, Mask
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.swarm.interface import Setpoints, States


@dataclass(frozen=True)
class PointMass:
    """Response of a point mass to position, velocity and acceleration setpoints, as by PX4's control."""

    position_gain: float = 0.95  # 1/s; PX4's MPC_XY_P, 0.95
    # s of the first-order velocity loop; the inverse of PX4's MPC_XY_VEL_P_ACC, 1.8 1/s.  0 follows
    # velocities at once (a kinematic point), as proofs of first-order laws assume.
    velocity_lag: float = 1.0 / 1.8
    max_speed: float = 12.0  # m/s; PX4's MPC_XY_VEL_MAX, 12
    max_acceleration: float = 5.0  # m/s^2; PX4's MPC_ACC_HOR_MAX, 5
    max_turn_rate: float = math.radians(45.0)  # rad/s; PX4's MPC_YAWRAUTO_MAX, 45 deg/s
    step: int = 10_000  # us of an integration step

    def parameters(self) -> Floats:
        """(5,) for the compiled loop."""
        return np.array(
            [self.position_gain, self.velocity_lag, self.max_speed, self.max_acceleration, self.max_turn_rate]
        )


@compiled
def _limit(vector: Floats, limit: float) -> None:
    length = math.sqrt(vector[0] ** 2 + vector[1] ** 2 + vector[2] ** 2)
    if length > limit:
        vector *= limit / length


@compiled
def _advance(
    position: Floats, velocity: Floats, yaw: Floats, alive: Mask, wanted: Floats, feed: Floats, push: Floats,
    face: Floats, p: Floats, dt: float, steps: int,
) -> None:  # fmt: skip
    """Advance (n, 3) positions and velocities by ``steps`` steps of ``dt`` s; vehicles not alive stay.

    A position or velocity setpoint of nan is ignored; an acceleration alone is followed directly.
    Semi-implicit Euler: velocity first, then position with the mean of old and new velocity.
    """
    target = np.zeros(3)
    accelerate = np.zeros(3)
    for i in range(len(position)):
        if not alive[i]:
            velocity[i] = 0.0
            continue
        for _ in range(steps):
            given = False
            for k in range(3):
                target[k] = 0.0
                if not math.isnan(feed[i, k]):
                    target[k] += feed[i, k]
                    given = True
                if not math.isnan(wanted[i, k]):
                    target[k] += p[0] * (wanted[i, k] - position[i, k])
                    given = True
                accelerate[k] = 0.0 if math.isnan(push[i, k]) else push[i, k]
            _limit(target, p[2])
            if p[1] == 0.0 and given:
                for k in range(3):
                    velocity[i, k] = target[k]
                    position[i, k] += dt * target[k]
            else:
                for k in range(3):
                    if given:
                        accelerate[k] += (target[k] - velocity[i, k]) / p[1]
                _limit(accelerate, p[3])
                for k in range(3):
                    old = velocity[i, k]
                    velocity[i, k] += dt * accelerate[k]
                    position[i, k] += 0.5 * dt * (old + velocity[i, k])
            if not math.isnan(face[i]):
                turn = face[i] - yaw[i]
                turn -= 2.0 * math.pi * math.floor(turn / (2.0 * math.pi) + 0.5)
                yaw[i] += min(max(turn, -p[4] * dt), p[4] * dt)


class PointMassFleet:
    """A fleet of identical point masses.

    Args:
        position: (n, 3) m NED start positions, at rest.
        yaw: rad, of all vehicles.
    """

    def __init__(self, position: Floats, model: PointMass | None = None, *, yaw: float = 0.0) -> None:
        self.model = model or PointMass()
        self.time = 0
        self.position = np.array(position, dtype=np.float64)
        self.velocity = np.zeros_like(self.position)
        self.yaw = np.full(len(position), yaw)
        self.alive = np.ones(len(position), dtype=np.bool_)
        self._back: dict[int, int] = {}
        self._setpoints = Setpoints.none(len(position))
        self._setpoints.position[:] = self.position

    def stop(self, vehicle: int, back: int | None = None) -> None:
        """Stop a vehicle and make it silent, until ``back`` us or permanently."""
        self.alive[vehicle] = False
        if back is not None:
            self._back[vehicle] = back

    def states(self) -> States:
        """Return a copy of the states."""
        for vehicle in [v for v, back in self._back.items() if self.time >= back]:
            del self._back[vehicle]
            self.alive[vehicle] = True
        return States(
            self.time, self.position.copy(), self.velocity.copy(), self.yaw.copy(), self.alive.copy()
        )

    def command(self, setpoints: Setpoints) -> None:
        """Follow these setpoints until the next call."""
        self._setpoints = setpoints

    def advance(self, time: int) -> None:
        """Advance to ``time`` us, in whole steps and the remainder of one."""
        whole, rest = divmod(time - self.time, self.model.step)
        self._steps(self.model.step * 1e-6, whole)
        if rest:
            self._steps(rest * 1e-6, 1)
        self.time = time

    def _steps(self, dt: float, count: int) -> None:
        setpoints = self._setpoints
        _advance(
            self.position, self.velocity, self.yaw, self.alive, setpoints.position, setpoints.velocity,
            setpoints.acceleration, setpoints.yaw, self.model.parameters(), dt, count,
        )  # fmt: skip
