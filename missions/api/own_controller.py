"""Four vehicles fly to a line of their own in wind, each with a controller that is defined here.

python missions/api/own_controller.py
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import sitl_bridge as sb

GOALS = np.array([[6.0, 5.0 * i, -6.0] for i in range(4)])
"""(4, 3) m NED from the world's origin."""


def wind(t: float, place: tuple[float, float, float]) -> tuple[float, float, float]:
    """Velocity of the air, m/s NED, at a time in s and a place in m NED: it grows with height."""
    del t
    return 0.0, min(4.0, -0.8 * place[2]), 0.0


class PositionPid(sb.Controller):
    """A PID of the position above a PD of the attitude."""

    def __init__(self, vehicle: sb.VehicleModel) -> None:
        super().__init__(vehicle)
        self.integral = np.zeros(3)

    def reset(self) -> None:
        """Called before the first step and while the vehicle stands on the ground."""
        self.integral = np.zeros(3)

    def control(self, estimate: NDArray[np.void], setpoint: NDArray[np.void], dt: float) -> sb.Wrench:
        """Force and moment of one step; a setpoint that is nan is not controlled."""
        error = np.nan_to_num(setpoint["position"] - estimate["position"])
        error *= min(1.0, 2.0 / max(np.linalg.norm(error), 1e-9))
        velocity = np.nan_to_num(setpoint["velocity"]) - estimate["velocity"]
        self.integral = np.clip(self.integral + 0.6 * error * dt, -4.0, 4.0)
        acceleration = 2.0 * error + 2.5 * velocity + self.integral
        force = self.vehicle.mass * (acceleration - np.array([0.0, 0.0, self.vehicle.gravity]))
        body = rotation(estimate["attitude"])  # its columns are the body's axes in NED
        tilt = body.T @ np.cross(-body[:, 2], force / np.linalg.norm(force))
        heading = np.arctan2(body[1, 0], body[0, 0])
        turn = np.nan_to_num(setpoint["yaw"]) - heading
        tilt[2] = 0.1 * np.arctan2(np.sin(turn), np.cos(turn))
        moment = self.vehicle.inertia @ (60.0 * tilt - 12.0 * estimate["angular_velocity"])
        return sb.Wrench(thrust=max(0.0, -force @ body[:, 2]), moment=moment)


def rotation(attitude: NDArray[np.float64]) -> NDArray[np.float64]:
    """(3, 3) body FRD to NED, of a quaternion w, x, y, z."""
    w, x, y, z = attitude
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def main() -> sb.TruthTable:
    """Fly, and return what was true."""
    world = sb.World(wind=wind)
    with sb.Sitl(["iris"] * 4, spacing=5, world=world, controller=PositionPid, seed=1) as fleet:
        fleet.arm()
        fleet.take_off(3.0)
        fleet.go_to(GOALS, yaw=0.0)
        fleet.run(15.0)
        return fleet.truth


if __name__ == "__main__":
    truth = main()
    off = np.linalg.norm(truth.position[-1] - GOALS, axis=1)
    print(f"{len(truth)} steps; off their goals in truth: {', '.join(f'{d:.2f} m' for d in off)}")
