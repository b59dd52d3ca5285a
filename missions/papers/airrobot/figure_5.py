"""Figure 5: position hold in a crosswind that comes and goes, and waypoints in the same wind."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from comparison import Row, new_figure, save

import sitl_bridge as sb
from sitl_bridge.base.rotations import euler_arrays

WIND = 6.0
"""m/s to the north, as the paper's; the vehicle heads east, so that it comes from its right."""
ON, HOLD, OFF, END = 2.0, 6.0, 26.0, 40.0
"""s: wind on, position hold on, wind off, end."""
HELD = 1.0
"""m that a vehicle may be off when it holds its place."""
SQUARE = Path(__file__).resolve().parents[2] / "square.plan"


def hold(speed: float, seed: int = 1, *, drag: float = 1.0) -> sb.TruthTable:
    """Hover by the sticks without position control, drift in the wind, hold the place; the wind ends.

    drag: of the body, times the airframe's.
    """
    airframe = sb.Airframe.load("ar100b")
    airframe = airframe.changed(drag={"force": [drag * figure for figure in airframe.drag.force]})
    with sb.Sitl(airframe, yaw=0.5 * np.pi, seed=seed) as sitl:
        drone = sitl.vehicle
        drone.arm()
        drone.take_off(10.0)
        drone.sticks(mode="Altitude")
        drone.run(ON)
        sitl.set_wind(f"{speed:g}@180")
        drone.run(HOLD - ON)
        drone.sticks(mode="Position")
        drone.run(OFF - HOLD)
        sitl.set_wind("0@0")
        drone.run(END - OFF)
        return drone.truth


def evaluated(truth: sb.TruthTable) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Time since the sticks, roll in deg, and the largest deviation from the place held and the lean."""
    time = truth.time - truth.time[-1] + END
    roll = np.degrees(euler_arrays(truth.attitude)[:, 0])
    late = (time > 0.5 * (HOLD + OFF)) & (time < OFF)
    place = truth.position[late]
    off = np.linalg.norm(place - place.mean(axis=0), axis=1)
    return time, roll, float(off.max()), float(roll[late].mean())


def corners() -> np.ndarray:
    """(k, 2) m north and east of the plan's waypoints from its first."""
    items = json.loads(SQUARE.read_text(encoding="utf-8"))["mission"]["items"]
    places = np.array([item["params"][4:6] for item in items if item["command"] in (16, 22)], float)
    metres = np.array([111_170.0, 111_320.0 * np.cos(np.radians(places[0, 0]))])  # a degree, at this latitude
    return (places - places[0]) * metres


def waypoints() -> tuple[np.ndarray, float, float]:
    """Places flown, (k, 3) m NED, and the RMS and largest distance from the legs of the plan, m."""
    with sb.Sitl("ar100b", world=sb.World(wind=f"{WIND:g}@180"), seed=1) as sitl:
        sitl.vehicle.fly_plan(SQUARE)
        flown = sitl.vehicle.truth.position
        values = {measure.kind.name: measure.value for measure in sitl.verdict().measures}
    return flown, values["mission_legs_rms"], values["mission_legs_max"]


def reproduce(picture: Path, quick: bool) -> list[Row]:
    """Fly both, draw them, evaluate the hold at several winds."""
    truth = hold(WIND)
    time, roll, off, lean = evaluated(truth)
    shown = time >= 0.0
    figure = new_figure(9.0, 4.4)
    grid = figure.add_gridspec(2, 2, width_ratios=(1.6, 1.0))
    above, below = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[1, 0])
    above.plot(time[shown], truth.position[shown, 0], lw=1.2)
    above.set(ylabel="north [m]", title="grey: wind to the north; dashed: position hold on")
    below.plot(time[shown], roll[shown], lw=1.2)
    below.set(xlabel="time [s]", ylabel="roll [°]")
    for axes in (above, below):
        axes.axvspan(ON, OFF, color="0.9")
        axes.axvline(HOLD, color="0.3", ls="--", lw=1.0)
        axes.grid(alpha=0.3)
    flown, legs_rms, legs_max = waypoints()
    plan = corners()
    axes = figure.add_subplot(grid[:, 1])
    axes.plot(plan[:, 1], plan[:, 0], "--", color="0.5", label="plan")
    axes.plot(flown[:, 1], flown[:, 0], lw=1.2, label="flown")
    axes.set(xlabel="east [m]", ylabel="north [m]", title="waypoints in the wind", aspect="equal")
    axes.legend(fontsize="small")
    axes.grid(alpha=0.3)
    save(figure, picture)
    after = float(roll[time > OFF + 8.0].mean())
    rows = [
        Row("wind of 6 m/s: largest deviation from the place held", "m", "", off, digits=2),
        Row("... roll into the wind", "°", "", lean, digits=1),
        Row("... roll from 8 s after the wind's end on, mean", "°", "", after, digits=1),
        Row("waypoints in 6 m/s: distance from the legs, RMS", "m", "", legs_rms, digits=2),
        Row("... largest", "m", "", legs_max, digits=2),
    ]
    speeds = (8.0,) if quick else (8.0, 9.0, 10.0, 11.0, 12.0, 13.0)
    held = [speed for speed in speeds if evaluated(hold(speed))[2] < HELD]
    reason = "" if held and max(held) == 8.0 else "the model's drag is derived"
    rows.append(Row("greatest wind in which it holds its place within 1 m", "m/s", "8", max(held), reason))
    if not quick:
        held = [speed for speed in speeds[:4] if evaluated(hold(speed, drag=3.0))[2] < HELD]
        rows.append(Row("... with three times the drag of the body", "m/s", "8", max(held)))
        worst = max(evaluated(hold(8.0, seed))[2] for seed in range(1, 6))
        rows.append(Row("wind of 8 m/s: largest deviation, five seeds", "m", "", worst, digits=2))
    return rows
