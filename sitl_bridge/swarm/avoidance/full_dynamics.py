"""Closed loop on the project's whole dynamics: rotors, motors, drag, wind, and the built-in attitude loop.

No flight stack in between: the controllers know the true attitude, and commands arrive at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sitl_bridge.autopilot.control.allocation import allocate, allocation_record, density_at
from sitl_bridge.autopilot.control.dispatch import control
from sitl_bridge.autopilot.control.gains import controller_record
from sitl_bridge.autopilot.records import ESTIMATE, LEVEL_ATTITUDE, SETPOINT, WRENCH
from sitl_bridge.base.arrays import Floats
from sitl_bridge.base.errors import UserError
from sitl_bridge.base.rotations import euler_arrays, quaternion_from_euler
from sitl_bridge.core.dynamics.performance import hover
from sitl_bridge.core.simulation.events import Timeline, actions, gusts_of
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.world.world import World, WorldSpecification
from sitl_bridge.swarm.avoidance.agent import ControlCommand

if TYPE_CHECKING:
    from sitl_bridge.core.simulation.events import ScheduledEvent
    from sitl_bridge.core.vehicle.airframe import Airframe

STEP = 2000
"""us of a dynamics step: divides the tick of every usual rate."""


class DynamicsPlant:
    """Vehicles of one airframe, hovering at their starts in still air at first.

    Thrust commands are turned to a share of full thrust by the airframe's own mass and static thrust; what
    wind, inflow and battery make of that is left to the controllers.

    Args:
        starts: (n, 3) m NED.
        yaws: (n,) rad.
        seed: of turbulence.
        mass_error: share by which the commands' idea of the mass is wrong.
        events: scheduled faults and changes, none of sensors or flight stacks, which are not simulated here.
        names: of the vehicles, by which events name them; numbers without.
        say: takes a line for each event.

    Raises:
        UserError: for an airframe that cannot hover.
    """

    def __init__(
        self,
        airframe: Airframe,
        starts: Sequence[Sequence[float]],
        yaws: Sequence[float],
        world: WorldSpecification | None = None,
        mass_error: float = 0.0,
        seed: int = 0,
        *,
        events: Sequence[ScheduledEvent] = (),
        names: Sequence[str] = (),
        say: Callable[[str], None] = print,
    ) -> None:
        place = World(world, gusts_of(events))
        n = len(starts)
        setups = [
            VehicleSetup(airframe.vehicle(), airframe.sensor_records()[:0], (x, y, z), yaw, str(i), airframe)
            for i, ((x, y, z), yaw) in enumerate(zip(starts, yaws, strict=True))
        ]
        self.simulation = Simulation(place, setups, step=STEP, seed=seed)
        trim = hover(airframe.record, density_at(place), float(place.environment[0]["gravity"]))
        if trim is None:
            raise UserError(f"{airframe.name} cannot hover; `sitl-bridge check` tells more")
        states = self.simulation.states
        for i in range(n):
            states[i]["position"] = starts[i]
            states[i]["attitude"] = quaternion_from_euler(0.0, 0.0, yaws[i])
            states[i]["rotor_speed"][: len(trim.rotor_speed)] = trim.rotor_speed
        self.simulation.armed[:] = 1
        timed = actions(events, self.simulation, say, names=names or None)
        self._timeline = Timeline(self.simulation.time, timed)
        self._controllers = np.array([controller_record(airframe, place)] * n)
        self._allocations = np.array([allocation_record(airframe, place)] * n)
        self._estimates, self._setpoints = np.zeros(n, ESTIMATE), np.zeros(n, SETPOINT)
        self._wrenches = np.zeros(n, WRENCH)
        full = float(self._controllers[0]["thrust_max"])
        self._share_per_thrust = (1.0 + mass_error) * float(airframe.record["mass"]) / full

    def state(self) -> Floats:
        """(n, 9) truth: position, velocity, roll, pitch, yaw."""
        s = self.simulation.states
        return np.column_stack([s["position"], s["velocity"], euler_arrays(s["attitude"])])

    def advance(self, commands: Sequence[ControlCommand], seconds: float) -> None:
        """Fly on for ``seconds``, a multiple of STEP."""
        for i, command in enumerate(commands):
            setpoint = self._setpoints[i]
            setpoint["level"] = LEVEL_ATTITUDE
            setpoint["attitude"] = quaternion_from_euler(command.roll, command.pitch, command.yaw)
            setpoint["yaw_rate"] = math.nan
            setpoint["thrust"] = command.thrust * self._share_per_thrust
        states, estimates = self.simulation.states, self._estimates
        for _ in range(round(seconds * 1e6 / STEP)):
            for field in ("attitude", "angular_velocity", "velocity", "position"):
                estimates[field] = states[field]
            self._timeline.run_due(self.simulation.time)
            for i in range(len(commands)):
                control(
                    self._controllers[i], estimates[i], self._setpoints[i], STEP * 1e-6, self._wrenches[i]
                )
                allocate(self._allocations[i], self._wrenches[i], LEVEL_ATTITUDE, self.simulation.controls[i])
            self.simulation.advance()
