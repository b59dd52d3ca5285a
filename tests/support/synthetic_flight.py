"""Flights of the simulator itself with noisy measurements, as logs of vehicles for the identification."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.analysis.replay.vehicle_log import Series, VehicleLog
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.world.wind import SteadyWind, WindSpecification
from sitl_bridge.core.world.world import Origin, World, WorldSpecification

Array = NDArray[np.float64]
STEP = 4000
SIGNS = np.array([[-1, 1, 1], [1, -1, 1], [1, 1, -1], [-1, -1, -1]])
"""Of roll, pitch and yaw on the motors of a quadrotor X in PX4's order."""
NOISE = {"rates": 0.01, "acceleration": 0.1, "velocity": 0.02, "attitude": 0.002}


def excitation(time: float) -> tuple[Array, Array, float]:
    """Wanted velocity NED, additions to roll, pitch and yaw rate, and thrust, at a time of the flight."""
    side = int(time / 3.0) % 4
    velocity = 5.0 * np.array([math.cos(side * math.pi / 2), math.sin(side * math.pi / 2), 0.0])
    velocity[2] = 1.5 * math.sin(1.1 * time)
    phase = time % 2.0
    pulse = 0.25 if phase < 0.3 else -0.25 if phase < 0.6 else 0.0
    axis = int(time / 2.0) % 3
    added = np.array([pulse * (axis == 0), pulse * (axis == 1), 3.0 * pulse * (axis == 2)])
    return velocity, added, 0.06 * math.copysign(1.0, math.sin(7.0 * time))


def signals(state: Any, time: float, *, excited: bool) -> Array:
    """Motor signals of a plain controller."""
    w, x, y, z = state["attitude"]
    yaw = math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    wanted, added, push = excitation(time) if excited else (np.zeros(3), np.zeros(3), 0.0)
    error = np.clip(0.25 * (wanted - state["velocity"]), -0.35, 0.35)
    north, east = error[:2]
    roll = east * math.cos(yaw) - north * math.sin(yaw) + added[0]
    pitch = -(north * math.cos(yaw) + east * math.sin(yaw)) + added[1]
    rates = state["angular_velocity"]
    moment = np.array(
        [
            0.26 * (roll - 2 * (w * x + y * z)) - 0.05 * rates[0],
            0.26 * (pitch - 2 * (w * y - x * z)) - 0.05 * rates[1],
            0.3 * (added[2] - rates[2]),
        ]
    )
    hover = 0.7 + 0.1 * (state["velocity"][2] - wanted[2]) + 0.02 * (state["position"][2] + 60.0) + push
    return np.asarray(np.clip(hover + SIGNS @ moment, 0.02, 1.0))


def fly_synthetic(
    airframe: Airframe,
    seconds: float,
    *,
    wind: tuple[float, float] = (0.0, 0.0),
    seed: int = 1,
    excited: bool = True,
    every: int = 1,
    controllers: bool = False,
    moment: tuple[float, float, float] = (0.0, 0.0, 0.0),
    emptying: float | None = None,
) -> VehicleLog:
    """A flight with doublets, climbs and a square, or at hover.

    Args:
        airframe: that flies, a quadrotor X.
        seconds: in the air.
        wind: m/s north, east.
        seed: of the noise.
        excited: whether it moves.
        every: steps between logged samples.
        controllers: whether the rotors' speeds are logged, too.
        moment: N m body, constant.
        emptying: V by which the battery's voltage falls in a second, and is logged; None for a full one.
    """
    direction = math.degrees(math.atan2(-wind[1], -wind[0])) % 360.0
    steady = WindSpecification(steady=SteadyWind(speed=math.hypot(*wind), direction=direction))
    record = airframe.vehicle()
    record["battery_capacity"] = math.inf
    setup = VehicleSetup(record, airframe.sensor_records()[:0])
    simulation = Simulation(World(WorldSpecification(wind=steady)), [setup], step=STEP)
    state: Any = simulation.states[0]
    state["position"] = (0.0, 0.0, -60.0)
    simulation.armed[0] = 1
    rows: dict[str, list[Array]] = {
        name: []
        for name in ("commands", "speeds", "rates", "acceleration", "velocity", "position", "attitude")
    }
    count = round(seconds * 1e6 / STEP)
    for k in range(count):
        signal = signals(state, k * STEP * 1e-6, excited=excited)
        simulation.controls[0, :4] = signal
        state["external_moment"] = moment
        if emptying is not None:
            voltage = 12.0 - emptying * k * STEP * 1e-6
            simulation.supply(np.array([voltage]), np.array([math.nan]))
        simulation.advance()
        rows["commands"].append(signal)
        rows["speeds"].append(state["rotor_speed"][:4].copy())
        rows["rates"].append(state["angular_velocity"].copy())
        rows["acceleration"].append(state["specific_force"].copy())
        for name in ("velocity", "position", "attitude"):
            rows[name].append(state[name].copy())
    assert abs(float(state["position"][2]) + 60.0) < 40.0
    if not controllers:
        del rows["speeds"]
    home = Origin()
    random = np.random.default_rng(seed)
    time: Array = np.asarray(STEP * 1e-6 * np.arange(1, count + 1), np.float64)
    series = {}
    for name, values in rows.items():
        noise = random.normal(size=(count, len(values[0]))) * NOISE.get(name, 0.0)
        noisy: Array = np.asarray(np.array(values) + noise, np.float64)
        series[name] = Series((time - (STEP * 1e-6 if name == "commands" else 0.0))[::every], noisy[::every])
    return VehicleLog(
        source="synthetic",
        wind=None,
        speeds=series.pop("speeds", None),
        voltage=None if emptying is None else Series(time, 12.0 - emptying * time[:, None]),
        current=None,
        damaged=False,
        airborne=((-1.0, seconds + 2.0),),
        origin=(home.latitude, home.longitude, home.altitude),
        **series,
    )
