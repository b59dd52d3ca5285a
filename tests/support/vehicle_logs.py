"""ULogs of a flight made here, as a flight stack would have written them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sitl_bridge.analysis.evaluation.flight_record import TOPICS, FlightRecord
from sitl_bridge.analysis.evaluation.ulog_analysis import results_of
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.wind import SteadyWind, WindSpecification
from sitl_bridge.core.world.world import World, WorldSpecification
from sitl_bridge.record.ulog_reader import FlightLog
from sitl_bridge.record.ulog_writer import UlogWriter


def read_flight(path: Path) -> FlightRecord:
    """The results of the flight in a ULog."""
    return results_of(path, FlightLog.read(path, TOPICS))


FORMATS = {
    "actuator_motors": ["uint64_t timestamp", "float[12] control"],
    "actuator_outputs": ["uint64_t timestamp", "uint32_t noutputs", "float[16] output"],
    "vehicle_attitude": ["uint64_t timestamp", "float[4] q"],
    "vehicle_angular_velocity": ["uint64_t timestamp", "float[3] xyz"],
    "vehicle_acceleration": ["uint64_t timestamp", "float[3] xyz"],
    "vehicle_local_position": [
        "uint64_t timestamp",
        *(f"float {name}" for name in ("x", "y", "z", "vx", "vy", "vz")),
        "double ref_lat",
        "double ref_lon",
        "float ref_alt",
    ],
    "vehicle_land_detected": ["uint64_t timestamp", "bool landed"],
    "wind": ["uint64_t timestamp", "float windspeed_north", "float windspeed_east"],
}
SECONDS = 14.0
WIND = (3.0, -4.0)
"""m/s north and east: 5 m/s from 127 degrees."""


def write_flight(
    path: Path,
    commands: str = "actuator_motors",
    *,
    wind_topic: bool = False,
    parameters: Mapping[str, int | float] | None = None,
    topics: Sequence[str] = tuple(FORMATS),
    output: tuple[float, float] = (1000.0, 2000.0),
) -> Path:
    """A flight of iris near hover, stabilised by hand, in steady wind; the log of it.

    ``output``: logged values of a motor at rest and at full speed.
    """
    frame = load_airframe("iris")
    direction = math.degrees(math.atan2(-WIND[1], -WIND[0])) % 360.0
    wind = WindSpecification(steady=SteadyWind(speed=math.hypot(*WIND), direction=direction))
    simulation = Simulation(
        World(WorldSpecification(wind=wind)), [VehicleSetup(frame.vehicle(), frame.sensor_records()[:0])]
    )
    state: Any = simulation.states[0]
    state["position"] = (0.0, 0.0, -60.0)
    simulation.armed[0] = 1
    hover = 0.66
    signs = np.array([[-1, 1, 1], [1, -1, 1], [1, 1, -1], [-1, -1, -1]])
    with UlogWriter(path, 0, FORMATS, list(topics), parameters=parameters or {}) as log:
        for k in range(round(SECONDS / 0.004)):
            now = 1_000_000 + k * 4000
            w, x, y, _ = state["attitude"]
            p, q, r = state["angular_velocity"]
            lean = 0.05 * math.sin(0.002 * k)
            roll, pitch = 2.0 * (w * x) - lean, 2.0 * (w * y) + lean
            moment = np.array([-0.15 * roll - 0.05 * p, -0.15 * pitch - 0.05 * q, -0.1 * r])
            thrust = hover + 0.04 * (state["velocity"][2]) + 0.02 * (state["position"][2] + 60.0)
            signal = np.clip(thrust + signs @ moment, 0.0, 1.0).astype(np.float32).astype(float)
            padded = [*signal.tolist(), *[math.nan] * 8]
            rows = {
                "actuator_motors": padded,
                "actuator_outputs": [
                    16,
                    *(output[0] + (output[1] - output[0]) * signal).tolist(),
                    *[0.0] * 12,
                ],
                "vehicle_attitude": state["attitude"].tolist(),
                "vehicle_angular_velocity": state["angular_velocity"].tolist(),
                "vehicle_acceleration": state["specific_force"].tolist(),
                "vehicle_local_position": [
                    *state["position"].tolist(),
                    *state["velocity"].tolist(),
                    47.397742,
                    8.545594,
                    488.0,
                ],
                "vehicle_land_detected": [not 50 < k < SECONDS / 0.004 - 50],
                "wind": list(WIND),
            }
            skipped = {"actuator_motors", "actuator_outputs"} - {commands}
            if not wind_topic:
                skipped.add("wind")
            for name in topics:
                if name not in skipped:
                    log.write(name, now, *rows[name])
            simulation.controls[0, :4] = signal
            simulation.advance()
        log.flush()
    assert abs(state["position"][2] + 60.0) < 30.0
    return path
