"""A pulse of full roll stick and the return to level, as figures 4 and 6 show AirRobot's vehicles in a hall.

T. Linkugel, A. Schilling, "Another step towards measuring the world from the air: Model-based 3D real-time
simulation of micro-UAV", 2013, sections 4 and 5.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from comparison import Row, new_figure, save
from numpy.typing import NDArray

import sitl_bridge as sb
from sitl_bridge.base.rotations import euler_arrays

PULSE = 1.0
"""s; the paper gives no duration."""
LEVEL = 2.0
"""deg, below which the vehicle is level again."""
SCENES = (
    "1. initial position",
    "2. command pulse",
    "3. maximum roll angle",
    "4. return",
    "5. starting position",
)


def fly(airframe: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Roll in deg over the time in s since the pulse began; by the sticks in Altitude mode, in still air."""
    with sb.Sitl(airframe, seed=1) as sitl:
        drone = sitl.vehicle
        drone.arm()
        drone.take_off(5.0)
        drone.sticks(mode="Altitude")
        drone.run(3.0)
        begun = drone.time
        drone.sticks(right=1.0, mode="Altitude")
        drone.run(PULSE)
        drone.sticks(mode="Altitude")
        drone.run(4.0)
        truth = drone.truth
    time = truth.time - begun
    shown = time >= -1.0
    return time[shown], np.degrees(euler_arrays(truth.attitude[shown])[:, 0])


def compare(airframe: str, picture: Path) -> list[Row]:
    """Fly the pulse, draw five scenes from behind and the roll over time, evaluate it."""
    time, roll = fly(airframe)
    top = int(np.argmax(roll))
    largest = float(roll[top])
    after = np.flatnonzero((time > time[top]) & (np.abs(roll) >= LEVEL))
    level = int(after[-1]) + 1
    half_up = int(np.argmax(roll >= 0.5 * largest))
    half_down = top + int(np.argmax(roll[top:] <= 0.5 * largest))
    moments = [int(np.argmax(time >= 0.0)), half_up, top, half_down, min(level + 250, len(time) - 1)]
    vehicle = sb.Airframe.load(airframe)
    hubs = np.array([rotor.position for rotor in vehicle.rotors])
    feet = np.array(vehicle.contact.points)
    feet = feet[feet[:, 2] > 0.0]
    figure = new_figure(9.0, 4.2)
    grid = figure.add_gridspec(2, 5, height_ratios=(1.0, 1.3))
    for column, (name, k) in enumerate(zip(SCENES, moments, strict=True)):
        axes = figure.add_subplot(grid[0, column])
        c, s = np.cos(np.radians(roll[k])), np.sin(np.radians(roll[k]))
        # From behind: right to the right, down downwards.
        turned = np.array([[c, -s], [s, c]])

        def line(points: object, turned: object = turned, axes: object = axes, **style: object) -> None:
            across, down = turned @ np.array(points, float).T
            axes.plot(across, -down, **style)

        radius = vehicle.rotor_model.radius
        for _, y, z in hubs:
            line([(0.0, 0.0), (y, z)], color="0.3", lw=2.0)
            line([(y - radius, z), (y + radius, z)], color="tab:blue", lw=2.0)
        for _, y, z in feet:
            line([(0.0, 0.0), (y, z)], color="0.6", lw=1.0)
        axes.set(title=f"{name}\n{time[k]:.2f} s, {roll[k]:.0f}°", xlim=(-0.7, 0.7), ylim=(-0.55, 0.55))
        axes.title.set_fontsize(8)
        axes.set_aspect("equal")
        axes.set_axis_off()
    axes = figure.add_subplot(grid[1, :])
    axes.plot(time, roll, lw=1.2)
    axes.plot(time[moments], roll[moments], "o", ms=5)
    axes.axvspan(0.0, PULSE, color="0.9")
    axes.set(xlabel="time since the pulse [s]", ylabel="roll [°]")
    axes.grid(alpha=0.3)
    save(figure, picture)
    return [
        Row("largest roll angle", "°", "", largest, digits=1),
        Row("reached after", "s", "", float(time[np.argmax(roll >= 0.95 * largest)]), digits=2),
        Row("level within 2°, after the end of the pulse", "s", "", float(time[level]) - PULSE, digits=2),
        Row("overshoot to the other side", "°", "", max(0.0, -float(roll[top:].min())), digits=1),
    ]
