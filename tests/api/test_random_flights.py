"""Random flights of random valid airframes: no state diverges."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from sitl_bridge.base.errors import UserError
from sitl_bridge.core.dynamics.battery import Battery
from sitl_bridge.core.dynamics.contact import Contact
from sitl_bridge.core.dynamics.forces import Drag
from sitl_bridge.core.dynamics.motor import DcMotor, FirstOrderMotor, SpeedControllers
from sitl_bridge.core.dynamics.rotor import CoefficientRotor, PropellerTable, Rotor, RotorChange
from sitl_bridge.core.dynamics.stability import check_stability
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe, Inertia
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World

FLIGHTS = int(os.environ.get("RANDOM_FLIGHTS", "10000"))
TOGETHER = 50
SECONDS = 6.0
FASTEST, QUICKEST = 300.0, 500.0
"""m/s and rad/s that no flight reaches."""


def spread(random: np.random.Generator, low: float, high: float) -> float:
    """A value whose logarithm is uniform."""
    return float(np.exp(random.uniform(np.log(low), np.log(high))))


def random_model(random: np.random.Generator, radius: float, thrust: float, top: float) -> CoefficientRotor:
    """A rotor with a thrust in N at a speed in rad/s, by any of the built-in laws."""
    c2 = thrust / top**2
    ideal = math.sqrt(c2 / (2.0 * 1.225 * math.pi)) / radius
    inertia = spread(random, 0.02, 0.2) * 0.05 * radius**5 * 1e3 + 1e-8
    fields: dict[str, Any] = {"radius": radius, "inertia": inertia}
    law = random.integers(3)
    if law == 0:
        ratios = tuple(np.linspace(0.0, 0.8, 6))
        turns = top / (2.0 * math.pi)
        ct = thrust / (1.225 * turns**2 * (2.0 * radius) ** 4)
        fields["table"] = PropellerTable(
            diameter=2.0 * radius,
            speeds=(0.3 * top, top),
            advance_ratios=ratios,
            thrust=tuple(tuple(share * ct * (1.0 - 1.5 * j) for j in ratios) for share in (0.95, 1.0)),
            power=tuple(tuple(share * 0.45 * ct * (1.0 - 0.9 * j) for j in ratios) for share in (1.1, 1.0)),
        )
        return CoefficientRotor(**fields)
    fields |= {"thrust_c2": c2, "torque_thrust_ratio": ideal * random.uniform(1.1, 3.0)}
    if law == 1:
        fields |= {
            "drag": c2 * random.uniform(0.0, 20.0),
            "rolling_moment": c2 * radius * random.uniform(0.0, 1.0),
        }
        if random.random() < 0.5:
            fields["inflow_loss_speed"] = spread(random, 10.0, 60.0)
        return CoefficientRotor(**fields)
    blades = int(random.integers(2, 5))
    fields |= {
        "inflow": "momentum",
        "blades": blades,
        "chord": radius * random.uniform(0.08, 0.3),
        "uneven_inflow": bool(random.integers(2)),
    }
    return CoefficientRotor(**fields)


def random_airframe(random: np.random.Generator, number: int) -> Airframe:
    """A multirotor of 30 g to 30 kg that can hover; ValidationError where its figures do not fit together."""
    iris = load_airframe("iris")
    count = int(random.integers(3, 13))
    mass = spread(random, 0.03, 30.0)
    radius = 0.11 * (mass / 1.5) ** (1.0 / 3.0) * random.uniform(0.7, 1.6) * math.sqrt(4.0 / count)
    arm = radius * random.uniform(1.2, 3.0) * max(1.0, 0.6 / math.sin(math.pi / count))
    thrust = mass * 9.81 / count * random.uniform(1.3, 3.5)
    top = random.uniform(70.0, 170.0) / radius
    size = mass * arm**2 * random.uniform(0.1, 0.4)
    rotors = tuple(
        Rotor(
            position=(
                arm * math.cos(angle),
                arm * math.sin(angle) * random.uniform(0.8, 1.0),
                radius * random.uniform(-0.5, 0.5),
            ),
            direction=("ccw", "cw")[k % 2],
            axis=(random.uniform(-0.2, 0.2), random.uniform(-0.2, 0.2), -1.0),
            model=RotorChange(inertia=None),
        )
        for k, angle in enumerate(np.linspace(0.0, 2.0 * math.pi, count, endpoint=False) + 0.3)
    )
    foot = (0.7 * arm, 0.5 * arm + 0.5 * radius)
    stiffness = mass * 9.81 / 4.0 / (0.02 * foot[1] + 0.002)
    motor: FirstOrderMotor | DcMotor = FirstOrderMotor(
        kind="first_order",
        time_constant_up=spread(random, 0.005, 0.2),
        time_constant_down=spread(random, 0.005, 0.3),
        idle_speed=random.uniform(0.0, 0.1) * top,
        speed_range=0.9 * top,
        efficiency=random.uniform(0.4, 0.9),
        reversible=bool(random.random() < 0.1),
    )
    model = random_model(random, radius, thrust, top)
    area = 4.0 * arm**2
    fields = {
        "name": f"random{number}",
        "mass": mass,
        "inertia": Inertia(xx=size, yy=size * random.uniform(0.7, 1.0), zz=size * random.uniform(1.1, 1.6)),
        "rotor_model": model,
        "rotors": rotors,
        "motor": motor,
        "esc": SpeedControllers(),
        "battery": Battery(
            cells=4,
            capacity=spread(random, 0.5, 20.0),
            resistance=spread(random, 1e-3, 0.05),
            slow_resistance=float(random.choice([0.0, 0.01])),
            nominal_voltage=15.0,
        ),
        "drag": Drag(
            force=tuple(0.6 * area * random.uniform(0.02, 0.3) for _ in range(3)),
            moment=tuple(size * random.uniform(0.0, 0.05) for _ in range(3)),
        ),
        "contact": Contact(
            points=tuple((x * foot[0], y * foot[0], foot[1]) for x in (-1, 1) for y in (-1, 1))
            + tuple((x * foot[0], y * foot[0], -foot[1]) for x in (-1, 1) for y in (-1, 1)),
            stiffness=stiffness,
            damping=2.0 * random.uniform(0.1, 0.7) * math.sqrt(stiffness * mass / 4.0),
            friction=random.uniform(0.2, 1.0),
        ),
        "ground_effect": bool(random.integers(2)),
    }
    return iris.model_copy(update=fields)


def random_fleet(random: np.random.Generator) -> Simulation:
    """Valid random airframes apart from one another in random attitude and motion, some on the ground."""
    setups: list[VehicleSetup] = []
    while len(setups) < TOGETHER:
        try:
            airframe = random_airframe(random, len(setups))
            record = airframe.vehicle()
            place = (0.0, 300.0 * len(setups), -random.choice([0.0, 3.0, 100.0]))
            setup = VehicleSetup(record, airframe.sensor_records()[:0], place)
            check_stability(record[()], 1.225, 0.004)
        except (ValidationError, UserError):
            continue
        setups.append(setup)
    return Simulation(World(), setups, seed=int(random.integers(1 << 30)))


def fly(simulation: Simulation, random: np.random.Generator) -> None:
    """Fly with commands that jump at random, blows and rotors that fail."""
    states, count = simulation.states, len(simulation.states)
    simulation.armed[:] = 1
    flying = states["position"][:, 2] < -1.0
    turn = random.normal(size=(count, 4))
    states["attitude"][flying] = (turn / np.linalg.norm(turn, axis=1, keepdims=True))[flying]
    states["velocity"][flying] = random.normal(0.0, 10.0, (count, 3))[flying]
    states["angular_velocity"][flying] = random.normal(0.0, 5.0, (count, 3))[flying]
    mass = simulation.vehicles["mass"]
    steps = round(SECONDS / 0.004)
    base = random.uniform(0.3, 0.9, (count, 1))
    for k in range(0, steps, 25):
        jump = random.uniform(-1.0, 1.0, (count, 12)) * random.choice([0.02, 0.1, 0.6], (count, 1))
        simulation.controls[:, :12] = np.clip(base + jump, 0.0, 1.0)
        blown = random.random(count) < 0.1
        states["external_force"] = np.where(
            blown[:, None], random.normal(size=(count, 3)) * mass[:, None] * 5.0, 0.0
        )
        if k == 25 * (steps // 50):
            states["rotor_health"][random.random(count) < 0.2, 0] = random.choice([0.0, 0.5])
        simulation.advance(25)
        speed = np.linalg.norm(states["velocity"], axis=1)
        spin = np.linalg.norm(states["angular_velocity"], axis=1)
        assert speed.max() < FASTEST, int(speed.argmax())
        assert spin.max() < QUICKEST, int(spin.argmax())


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_no_state_diverges_in_random_flights_of_random_airframes() -> None:
    for number in range(FLIGHTS // TOGETHER):
        random = np.random.default_rng(number)
        simulation = random_fleet(random)
        fly(simulation, random)
