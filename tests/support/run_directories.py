"""Run directories made by hand, with a flight whose figures are known in closed form."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sitl_bridge.record.records import ROW
from sitl_bridge.record.truth_log import TruthLog
from sitl_bridge.record.ulog_writer import UlogWriter

RATE = 100.0
TAKE_OFF, LANDING, END = 2.0, 40.0, 42.0
GOALS = ((4.0, 0.0), (15.0, 3.0), (28.0, 6.0))
"""Time s and goal m north; the vehicle flies at ``HEIGHT``."""
HEIGHT = 5.0
LAG = 0.8
"""Time constant of the flight to a goal, s."""
YAW_RATE = 0.1
"""Steady, rad/s."""
OFFSET = np.array([0.5, -0.25, 0.1])
"""Of the estimator's origin from the world's, m."""

FORMATS = {
    "vehicle_local_position": [
        "uint64_t timestamp",
        *(f"float {name}" for name in ("x", "y", "z", "vx", "vy", "vz")),
        "double ref_lat",
        "double ref_lon",
        "float ref_alt",
        "uint64_t ref_timestamp",
    ],
    "vehicle_land_detected": ["uint64_t timestamp", "bool landed"],
    "vehicle_status": ["uint64_t timestamp", "uint8_t nav_state", "uint8_t arming_state", "bool failsafe"],
    "trajectory_setpoint": ["uint64_t timestamp", "float[3] position", "float[3] velocity"],
}


def true_motion(seconds: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Position (k, 3) m and velocity m/s NED."""
    north, speed = np.zeros(len(seconds)), np.zeros(len(seconds))
    last = 0.0
    for begin, goal in GOALS:
        since = np.maximum(seconds - begin, 0.0)
        decay = np.where(seconds >= begin, np.exp(-since / LAG), 0.0)
        share = np.where(seconds >= begin, 1.0 - decay, 0.0)
        north += (goal - last) * share
        speed += (goal - last) * decay / LAG
        last = goal
    up = HEIGHT * np.clip(seconds - TAKE_OFF, 0.0, 2.0) / 2.0 * (seconds < LANDING)
    zero = np.zeros(len(seconds))
    return np.stack([north, zero, -up], axis=-1), np.stack([speed, zero, zero], axis=-1)


def write_truth(path: Path, vehicles: int = 1, end: float = END, slides: tuple[int, ...] = ()) -> None:
    """Write the truth of vehicles, of which some slide along the ground at 0.5 m/s instead."""
    seconds = np.arange(0.0, end, 1.0 / RATE)
    position, velocity = true_motion(seconds)
    rows = np.zeros((len(seconds), vehicles), ROW)
    flying = (seconds >= TAKE_OFF) & (seconds < LANDING)
    for i in range(vehicles):
        row = rows[:, i]
        row["time"], row["vehicle"], row["armed"] = np.round(seconds * 1e6), i, flying
        row["position"] = position + np.array([0.0, 3.0 * i, 0.0])
        row["velocity"], row["attitude"] = velocity, (1.0, 0.0, 0.0, 0.0)
        row["angular_velocity"][:, 0] = 0.2 * np.sin(2.0 * np.pi * 3.0 * seconds)
        row["angular_velocity"][:, 2] = YAW_RATE
        row["control"][:, :4] = np.where(flying, 0.6, 0.0)[:, None]
        row["battery_voltage"], row["battery_current"] = 12.0 - 0.01 * seconds, 10.0
        row["in_contact"] = np.where(flying, 0, 4)
        if i in slides:
            row["in_contact"], row["position"] = 1, np.outer(0.5 * seconds, (1.0, 0.0, 0.0))
            row["velocity"] = (0.5, 0.0, 0.0)
        row["impact_speed"] = np.where(seconds >= LANDING, 0.5, 0.0)
    with TruthLog(path) as log:
        log.write(rows.reshape(-1))


@cache
def flight_log() -> bytes:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "flight.ulg"
        write_samples(path)
        return path.read_bytes()


def write_log(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(flight_log())


def write_samples(path: Path) -> None:
    with UlogWriter(path, 0, FORMATS, list(FORMATS)) as log:
        for k in range(0, int(END * 50)):
            stamp, seconds = k * 20_000, k / 50.0
            position, velocity = true_motion(np.array([seconds]))
            flying = TAKE_OFF <= seconds < LANDING
            place = position[0] - OFFSET
            log.write("vehicle_local_position", stamp, *place, *velocity[0], 47.4, 8.5, 488.0, 1)
            log.write("vehicle_land_detected", stamp, not flying)
            log.write("vehicle_status", stamp, 14 if flying else 4, 2 if flying else 1, False)
            if flying and k % 10 == 0:
                goal = max((g for g in GOALS if g[0] <= seconds), default=(0.0, 0.0))[1]
                still = [0.0, 0.0, 0.0]
                log.write("trajectory_setpoint", stamp, *(np.array([goal, 0.0, -HEIGHT]) - OFFSET), *still)
            if k == 100:
                log.say(stamp, 4, "[test] <script>alert(1)</script>")


def make_run(path: Path, vehicles: int = 1, *, summary: bool = True, **changes: Any) -> Path:
    """A run directory as ``fly`` leaves it; ``changes`` go into its summary."""
    path.mkdir(parents=True)
    names = [str(i) for i in range(vehicles)]
    run = {
        "started": "2026-01-01T00:00:00+00:00",
        "command": ["sitl-bridge", "fly", "there & <b>back</b>.py"],
        "world": {"origin": {"latitude": 47.4, "longitude": 8.5, "altitude": 488.0}, "scene": SCENE},
        "seed": 7,
        "events": [{"at": 30.0, "kind": "gust", "lasts": 2.0, "vehicles": None}],
        "vehicles": [
            {"name": name, "mission": None, "airframe": {"name": "iris", "rotors": [{}] * 4}}
            for name in names
        ],
    }
    (path / "run.json").write_text(json.dumps(run))
    write_truth(path / "truth.npy", vehicles, END)
    for name in names:
        directory = "autopilot" if vehicles == 1 else f"vehicle-{name}"
        write_log(path / directory / "log" / "flight.ulg")
    if summary:
        one = {
            "flight_stack": "PX4",
            "contacts": [],
            "battery_used": 0.1,
            "vortex_ring_seconds": 1.5,
            "succeeded": True,
        }
        whole = {"mission": "there & <b>back</b>.py", "simulated_seconds": 42.0, "wall_seconds": 21.0, **one}
        if vehicles > 1:
            whole = {"name": "fleet", "succeeded": True, "vehicles": dict.fromkeys(names, one)}
        (path / "summary.json").write_text(json.dumps(whole | changes))
    return path


SCENE = {
    "objects": [{"kind": "box", "name": "wall <i>", "position": [8.0, 0.0, -1.0], "size": [0.5, 4.0, 2.0]}]
}
