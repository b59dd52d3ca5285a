"""Flies controllers and allocation on the real dynamics with the true state as estimate, for their tests."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitl_bridge.autopilot.control.allocation import allocate, allocation_record, density_at
from sitl_bridge.autopilot.control.dispatch import control
from sitl_bridge.autopilot.control.gains import controller_record
from sitl_bridge.autopilot.control.user_controller import ControllerHost
from sitl_bridge.autopilot.records import ESTIMATE, IDLE, SETPOINT, TRAJECTORY, WRENCH
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.core.dynamics.performance import hover
from sitl_bridge.core.dynamics.records import OCV_POINTS, STATE
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe import Airframe
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World, WorldSpecification

DT = 0.004
NAMES = (
    "ar100_x6", "ar100b", "ar200", "ardrone2", "asymmetric_quadrotor", "crazyflie_identified",
    "crazyflie_published", "firefly", "hector", "hummingbird", "iris", "iris_blade_element", "iris_gazebo",
    "neo11", "octo_cox", "octo_x", "pelican", "typhoon_h480", "typhoon_h480_gazebo", "x500", "x500_full",
    "x500_gazebo",
)  # fmt: skip
"""The shipped airframes, one of those that move alike and differ in what they carry."""
MOTION = ["position", "velocity", "attitude", "angular_velocity"]
Floats = NDArray[np.float64]


def ideally_fed(airframe: Airframe, **changes: Any) -> Airframe:
    """The airframe on a source of its nominal voltage: full batteries push 15 to 20 % harder than that."""
    battery = airframe.battery
    ideal = {
        "capacity": None,
        "resistance": 0.0,
        "cell_voltage": (battery.nominal_voltage / battery.cells,) * OCV_POINTS,
    }
    changed = airframe.model_copy(update={"battery": battery.model_copy(update=ideal), **changes})
    # A copy takes along what was computed from the original.
    changed.__dict__.pop("record", None)
    return changed


@compiled
def fly_perfectly(
    states: Any,
    estimates: Any,
    setpoints: Any,
    controllers: Any,
    allocations: Any,
    wrenches: Any,
    controls: Any,
) -> None:
    """One step of control and allocation of every vehicle, knowing its true state."""
    for i in range(estimates.shape[0]):
        for j in range(3):
            estimates[i].position[j] = states[i].position[j]
            estimates[i].velocity[j] = states[i].velocity[j]
            estimates[i].angular_velocity[j] = states[i].angular_velocity[j]
        for j in range(4):
            estimates[i].attitude[j] = states[i].attitude[j]
        w, x, y, z = estimates[i].attitude
        u, v, d = states[i].specific_force
        n = 2.0 * ((0.5 - y * y - z * z) * u + (x * y - w * z) * v + (x * z + w * y) * d)
        e = 2.0 * ((x * y + w * z) * u + (0.5 - x * x - z * z) * v + (y * z - w * x) * d)
        down = 2.0 * ((x * z - w * y) * u + (y * z + w * x) * v + (0.5 - x * x - y * y) * d)
        estimates[i].acceleration[0] = n
        estimates[i].acceleration[1] = e
        estimates[i].acceleration[2] = down + controllers[i].gravity
        control(controllers[i], estimates[i], setpoints[i], 0.004, wrenches[i])
        allocate(allocations[i], wrenches[i], setpoints[i].level, controls[i])


known_airframe = functools.cache(load_airframe)


@functools.cache
def design(name: str, choice: str | None) -> tuple[Any, Any]:
    """Controller and allocation of an airframe in the default world, designed once."""
    airframe, world = known_airframe(name), World()
    return controller_record(airframe, world, choice), allocation_record(airframe, world)


class Bench:
    """Vehicles 50 m apart, their controllers and setpoints."""

    def __init__(
        self,
        airframes: Sequence[str | Airframe],
        choice: str | None = None,
        world: WorldSpecification | None = None,
        seed: int = 1,
    ) -> None:
        self.world = World(world)
        self.airframes = [known_airframe(a) if isinstance(a, str) else a for a in airframes]
        setups = [
            VehicleSetup(a.vehicle(), a.sensor_records(), position=(0.0, 50.0 * i, 0.0), name=str(i))
            for i, a in enumerate(self.airframes)
        ]
        self.simulation = Simulation(self.world, setups, seed=seed)
        self.states = self.simulation.states
        designs = [
            design(name, choice)
            if isinstance(name, str) and world is None
            else (controller_record(a, self.world, choice), allocation_record(a, self.world))
            for name, a in zip(airframes, self.airframes, strict=True)
        ]
        self.controllers, self.allocations = (np.array(part) for part in zip(*designs, strict=True))
        n = len(self.airframes)
        self.estimates, self.wrenches = np.zeros(n, ESTIMATE), np.zeros(n, WRENCH)
        self.setpoints = np.zeros(n, SETPOINT)
        self.release()
        self.setpoints["max_horizontal_speed"], self.setpoints["max_tilt"] = 12.0, math.radians(45.0)
        self.setpoints["max_up_speed"], self.setpoints["max_down_speed"] = 3.0, 1.5
        self.simulation.armed[:] = 1
        self.home = self.states["position"].copy()

    def release(self) -> None:
        """Control nothing: every field of the setpoints that a level may follow becomes nan."""
        for field in ("position", "velocity", "acceleration", "yaw", "yaw_rate"):
            self.setpoints[field] = math.nan
        for field in ("attitude", "angular_velocity", "thrust"):
            self.setpoints[field] = math.nan

    def run(self, seconds: float) -> NDArray[np.void]:
        """Fly on; returns the MOTION of the states after each step, (steps, n)."""
        steps = round(seconds / DT)
        log = np.zeros((steps, len(self.states)), [(f, "f8", STATE[f].shape) for f in MOTION])
        for k in range(steps):
            fly_perfectly(
                self.states,
                self.estimates,
                self.setpoints,
                self.controllers,
                self.allocations,
                self.wrenches,
                self.simulation.controls,
            )
            self.simulation.advance()
            for field in MOTION:
                log[field][k] = self.states[field]
        return log

    def take_off(self, height: float = 5.0, seconds: float = 8.0) -> NDArray[np.void]:
        """From idling on the ground to a hover ``height`` m above where the vehicles stood, heading north."""
        self.setpoints["level"] = IDLE
        self.run(0.5)
        self.setpoints["level"] = TRAJECTORY
        self.setpoints["position"] = self.home - (0.0, 0.0, height)
        self.setpoints["yaw"] = 0.0
        return self.run(seconds)

    def errors(self) -> Floats:
        """(n,) m between the vehicles and their position setpoints."""
        return np.asarray(np.linalg.norm(self.states["position"] - self.setpoints["position"], axis=1))

    def tilts(self, log: NDArray[np.void] | None = None) -> Floats:
        """(..., n) rad between the vehicles' up and the world's, now or over a log."""
        q = (self.states if log is None else log)["attitude"]
        return np.asarray(np.arccos(np.clip(1.0 - 2.0 * (q[..., 1] ** 2 + q[..., 2] ** 2), -1.0, 1.0)))

    def drop(self, height: float) -> None:
        """Put the vehicles at rest ``height`` m above their places, rotors at their hover speed."""
        self.states["position"] = self.home - (0.0, 0.0, height)
        self.states["velocity"] = 0.0
        for state, airframe in zip(self.states, self.airframes, strict=True):
            environment = self.world.environment[0]
            trim = hover(airframe.record, density_at(self.world), float(environment["gravity"]))
            assert trim is not None
            state["rotor_speed"][: len(trim.rotor_speed)] = trim.rotor_speed


def fly(bench: Bench, host: ControllerHost, seconds: float) -> None:
    """Fly the first vehicle by a user's controller, in the order of the stack: kernel, class, allocation."""
    simulation, estimate, setpoint = bench.simulation, bench.estimates[0], bench.setpoints[0]
    for _ in range(round(seconds / DT)):
        for field in ("position", "velocity", "attitude", "angular_velocity"):
            estimate[field] = bench.states[0][field]
        control(bench.controllers[0], estimate, setpoint, DT, bench.wrenches[0])
        host.run(estimate, setpoint, DT, bench.wrenches[0])
        allocate(bench.allocations[0], bench.wrenches[0], setpoint["level"], simulation.controls[0])
        simulation.advance()
