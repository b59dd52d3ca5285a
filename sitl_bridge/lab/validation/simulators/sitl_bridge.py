"""This project: an airframe in ``sb.Simulation``, a vehicle for each window."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sitl_bridge.api.airframe_choice import Airframe
from sitl_bridge.api.models import FirstOrderMotor, air, hover
from sitl_bridge.api.physics import Simulation
from sitl_bridge.api.world_choice import World
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.rotations import matrix_from_quaternion
from sitl_bridge.lab.validation.simulators import trim_of
from sitl_bridge.lab.validation.windows import (
    GRID,
    HORIZONS,
    LEAD,
    Motion,
    Predictor,
    Windows,
    fit_residuals,
)

STEP = 0.0025
"""s"""
DELAYS = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06)
"""s, delays that are tried."""
HIGH = 200.0
"""m above the ground at which flights are simulated, in the air of their true height."""


class Simulator(Predictor):
    """An airframe.

    Args:
        airframe: its name, its file, or itself.
    """

    def __init__(self, airframe: str | Airframe) -> None:
        self.airframe = Airframe.load(airframe) if isinstance(airframe, str) else airframe
        self.delay = 0.0
        self.name = f"sitl-bridge {self.airframe.name}"

    def fit(self, windows: Windows) -> None:
        """Find the delay after which logged commands act, with that of the log itself."""
        trim = np.ones((len(windows), windows.commands.shape[2]))
        for i in np.unique(windows.flight):
            trim[windows.flight == i] = self.trim(windows.part(windows.flight == i))
        some = np.arange(len(windows)) % 4 == 0
        costs = []
        for self.delay in DELAYS:
            error = fit_residuals(self.predict(windows.part(some), trim[some]), windows.part(some))
            costs.append(np.mean(np.sqrt(1.0 + error**2)))
        self.delay = DELAYS[int(np.argmin(costs))]

    def _speeds(self, windows: Windows) -> tuple[Floats, Floats]:
        """(w, k, m) steady rotor speeds in rad/s, and (w, k, 1) their change with a command."""
        motor, nominal = self.airframe.motor, self.airframe.battery.nominal_voltage
        if not isinstance(motor, FirstOrderMotor):
            raise UserError(f"{self.airframe.name}: predictions need motors of first order")
        ratio = np.nan_to_num(windows.voltage, nan=nominal)[..., None] / nominal
        speeds = motor.speed_offset + (motor.idle_speed + motor.speed_range * windows.commands) * ratio
        return speeds, motor.speed_range * ratio

    def trim(self, windows: Windows) -> Floats:
        """(m,) factors of the rotors' speeds with which each carries its share of the weight on average."""
        speeds = self._speeds(windows)[0]
        environment = self._world(windows.altitude).build().environment[0]
        _, _, density = air(environment, -HIGH)
        found = hover(self.airframe.record, density, float(environment["gravity"]))
        if found is None:
            raise UserError(f"{self.airframe.name} cannot hover")
        return trim_of(speeds, found.rotor_speed)

    @staticmethod
    def _world(altitude: float) -> World:
        return World(origin=(47.4, 8.5, altitude - HIGH))

    def _simulation(self, count: int, altitude: float) -> Simulation:
        world, airframes = self._world(altitude), [self.airframe] * count
        return Simulation(airframes, world=world, step=STEP, sensors=False)

    def predict(self, windows: Windows, trim: Floats) -> Motion:
        """The motion at the windows' horizons."""
        return self._predict(windows, trim)

    def predict_pushed(self, windows: Windows, trim: Floats, lacking: Floats) -> Motion:
        """The motion at the windows' horizons while forces and moments push the vehicle."""
        return self._predict(windows, trim, lacking)

    def _predict(self, windows: Windows, trim: Floats, lacking: Floats | None = None) -> Motion:
        start = windows.start
        simulation = self._simulation(len(windows), windows.altitude)
        speeds, slope = self._speeds(windows)
        commands = np.where(
            windows.commands > 0.0, windows.commands + (trim[:, None] - 1.0) * speeds / slope, 0.0
        )
        voltage = np.nan_to_num(windows.voltage, nan=self.airframe.battery.nominal_voltage)
        simulation.set_state(
            position=start.position[:, 0] - (0.0, 0.0, HIGH),
            velocity=start.velocity[:, 0],
            attitude=start.attitude[:, 0],
            angular_velocity=start.rates[:, 0],
            rotor_speed=trim * speeds[:, 0],
        )
        if lacking is not None:
            force = np.einsum("wij,wj->wi", matrix_from_quaternion(start.attitude[:, 0]), lacking[:, :3])
            simulation.push(self.airframe.mass * force, lacking[:, 3:] @ self.airframe.inertia.matrix())
        kept = []
        late, cell = round(self.delay / STEP), round(GRID / STEP)
        steps, lead = windows.commands.shape[1] * cell, round(LEAD / STEP)
        # Commands and voltages change at multiples of GRID, the former later.
        marks = sorted({*range(0, steps + 1, cell), *range(late % cell, steps, cell)})
        for first, last in pairwise(marks):
            if first % cell == 0:
                simulation.supply(voltage[:, first // cell])
            row = max((first - late) // cell, 0)
            simulation.step(commands[:, row], last - first, hold=last <= lead)
            if round((last - lead) * STEP, 6) in HORIZONS:
                kept.append(
                    (
                        simulation.position + np.array([0.0, 0.0, HIGH]),
                        simulation.velocity,
                        simulation.attitude,
                        simulation.angular_velocity,
                    )
                )
        return Motion(*(np.stack(column, axis=1) for column in zip(*kept, strict=True)))
