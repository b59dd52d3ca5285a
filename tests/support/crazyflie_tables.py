"""A Crazyflie that the simulator flies, written as a table of NanoBench."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import sitl_bridge as sb
from sitl_bridge.base.arrays import Floats
from sitl_bridge.lab.flights.data_sets import CRAZYFLIE_MOTORS
from sitl_bridge.lab.validation.simulators.textbook import MOMENTS

HEADER = [
    "t", "px", "py", "pz", "qx", "qy", "qz", "qw", "vx", "vy", "vz", *(f"imu_acc_{axis}" for axis in "xyz"),
    *(f"motor_motor_m{i}" for i in range(1, 5)), "pwr_pm_vbat",
]  # fmt: skip
GAINS, DAMPING = np.array([0.03, 0.03, 0.1]), 0.3
FLU = np.array([1.0, -1.0, -1.0])


def fly_crazyflie(airframe: sb.Airframe, seconds: float, seed: int = 0) -> Floats:
    """(k, 18) rows of HEADER, 100 Hz, of a flight with a controller of its own that is pushed about."""
    flying = sb.Simulation(airframe, world=sb.World(origin=(27.7, -97.3, 0.0)), step=0.0025, sensors=False)
    hover = float(flying.hover_controls.mean())
    flying.set_state(position=(0.0, 0.0, -1.5), velocity=(0.0, 0.0, 0.0), attitude=(1.0, 0.0, 0.0, 0.0))
    flying.supply(4.0)
    flying.step(hover * 3.7 / 4.0, 200, hold=True)
    force = np.array([0.0, 0.0, -1.0])  # it is held in place
    random = np.random.default_rng(seed)
    rows, wanted = [], np.zeros(3)
    for k in range(round(seconds / 0.01)):
        voltage = 4.0 - 0.01 * k * 0.01
        flying.supply(voltage)
        if k % 60 == 0:
            wanted = random.uniform(-0.35, 0.35, 3) * (1.0, 1.0, 2.0)
        w, x, y, z = flying.attitude[0]
        velocity, rates = flying.velocity[0], flying.angular_velocity[0]
        lean = np.array([-velocity[1], velocity[0], 0.0]) * 0.1 + wanted
        moment = GAINS * (lean - 2.0 * np.array([x, y, z]) * np.sign(w) - DAMPING * rates)
        climb = 0.1 * velocity[2] + 0.05 * (flying.position[0, 2] + 1.5)
        command = hover * 3.7 / voltage + climb + MOMENTS.T @ moment
        command = np.round(np.clip(command, 0.05, 1.0) * 65535.0)
        quaternion = flying.attitude[0, [1, 2, 3, 0]] * np.append(FLU, 1.0)
        pwm = np.empty(4)
        pwm[list(CRAZYFLIE_MOTORS)] = command
        place = FLU * flying.position[0]
        rows.append(
            np.concatenate([[0.01 * k], place, quaternion, FLU * velocity, FLU * force, pwm, [voltage]])
        )
        flying.step(command / 65535.0, 3)
        force = _last_force(flying, command / 65535.0)
    return np.array(rows)


def _last_force(flying: sb.Simulation, command: Any) -> Floats:
    """Specific force (3,) in multiples of gravity at the end of one more step."""
    with flying.record() as step:
        flying.step(command)
    force: Floats = step["specific_force"][-1, 0] / 9.80665
    return force


def write_crazyflie(path: Path, rows: Floats) -> Path:
    """A table of NanoBench: the vehicle lies on the ground for 1 s before the rows, and 1 s after them."""
    before = np.repeat(rows[:1], 100, axis=0)
    before[:, 3] = 0.05
    after = before.copy()
    before[:, 0] = np.linspace(-1.0, -0.01, 100)
    after[:, 0] = rows[-1, 0] + np.linspace(0.01, 1.0, 100)
    np.savetxt(
        path,
        np.concatenate([before, rows, after]),
        delimiter=",",
        header=",".join(HEADER),
        comments="",
        fmt="%.9f",
    )
    return path
