"""n simulated vehicles and their flight stacks in one process, advanced together.

No sockets, no clock: a flight is a function of its seed and of the commands to the vehicles.  One vehicle at
the far end of the simulator link is main.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pymavlink.dialects.v20 import common as mavlink

from sitl_bridge.autopilot.pilot import Pilot
from sitl_bridge.autopilot.stack import TICK, StackArrays, StackVehicle, prepare_step
from sitl_bridge.autopilot.stack_fleet_step import FrameArrays, advance, advance_block, hand_over
from sitl_bridge.base.arrays import AnyArray
from sitl_bridge.base.closing import Closing
from sitl_bridge.base.error_log import ErrorLog, print_error
from sitl_bridge.base.kernels.array_at import handles_of
from sitl_bridge.core.dynamics.proximity import Proximity
from sitl_bridge.core.sensors.battery_monitor import BATTERY
from sitl_bridge.core.sensors.sensor_host import SensorHost
from sitl_bridge.core.simulation.events import Timeline
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.world.world import World
from sitl_bridge.link.hil.message_layout import COMPONENT_ID, MAX_STEP_BYTES, SYSTEM_ID
from sitl_bridge.link.mavlink.message import pack
from sitl_bridge.perception.sensor_hosts import sensor_hosts
from sitl_bridge.record.records import ROW, STEP
from sitl_bridge.record.truth_log import StepRecorder


class StackFleet(Closing):
    """A simulation and a flight stack for each of its vehicles.

    Args:
        world: where they fly.
        proximity: what vehicles do to one another; None for nothing.

    Attributes:
        hosts: of sensors that are sampled between steps: users' own, and those that see the scene.
        timeline: actions between steps; the fleet runs those that are due.
        errors: of tables that could no longer be written; each is printed to standard error once.

    Raises:
        UserError: for an airframe that a simulation or its stack cannot take, and for a sensor or controller
            that cannot be made.
    """

    def __init__(
        self,
        world: World,
        members: Sequence[StackVehicle],
        *,
        seed: int = 0,
        proximity: Proximity | None = None,
    ) -> None:
        airframes = [m.airframe for m in members]
        setups = VehicleSetup.of_fleet(
            airframes, [m.position for m in members], [m.yaw for m in members], [m.name for m in members]
        )
        self.simulation = Simulation(world, setups, seed=seed, proximity=proximity)
        s = self.simulation
        self.stacks = StackArrays.of(members, world)
        self._fresh_stacks = [array.copy() for array in self.stacks]
        self.errors = ErrorLog(print_error)
        self._steps = max(1, round(TICK / s.step))
        self._frames = FrameArrays.of(s)
        self._fresh_frames = [array.copy() for array in self._frames]
        self._frame_handles = handles_of(self._frames)
        self._stack_handles = handles_of(self.stacks)
        self._batteries = [
            next((s.sensor_states["values"][i, k, :3] for k in np.flatnonzero(row["kind"] == BATTERY)), None)
            for i, row in enumerate(s.sensors)
        ]
        self._begin(members)

    def _begin(self, members: Sequence[StackVehicle]) -> None:
        """Set up all that a flight changes, beside the arrays of the simulation and the stacks."""
        s = self.simulation
        self.pilots = tuple(
            Pilot(m, self.stacks, i, s.controls[i], s.world, s.time) for i, m in enumerate(members)
        )
        self.hosts: tuple[SensorHost, ...] = tuple(
            host
            for i, m in enumerate(members)
            for host in sensor_hosts(
                m.airframe,
                s,
                vehicle=i,
                directory=m.tables,
                title=f"{m.name}-".__add__,
                errors=self.errors,
            )
        )
        self.timeline = Timeline(s.time)
        self._phase = 0
        """Steps since the last update of the commanders."""
        self.record(None)
        self._encoder = mavlink.MAVLink(None, srcSystem=SYSTEM_ID, srcComponent=COMPONENT_ID)
        self._own = [pilot for pilot in self.pilots if pilot.own_controller is not None]

    def restart(self, members: Sequence[StackVehicle], seed: int | None = None) -> None:
        """Put the simulation and all flight stacks back to the start, in place.

        What follows is byte for byte what a new fleet of that seed does.  The logs so far are closed, and a
        recording ends; scheduled actions are dropped.

        Args:
            members: those of the fleet, apart from the files of their logs and tables.
            seed: of all random streams from now on; None keeps the present one.
        """
        self.close()
        self.simulation.reset(seed)
        self.record(None)
        arrays: list[AnyArray] = [*self.stacks, *self._frames]
        fresh = [*self._fresh_stacks, *self._fresh_frames]
        for array, begun in zip(arrays, fresh, strict=True):
            array[:] = begun
        self._begin(members)

    def __len__(self) -> int:
        return len(self.pilots)

    @property
    def time(self) -> int:
        """us of simulated time."""
        return self.simulation.time

    def prepare(self) -> None:
        """Compile the steps, or load them from the cache; no time passes."""
        prepare_step()
        self._advance_kernel(0)

    def record(self, recorder: StepRecorder | None) -> None:
        """Hand the truth and the frames of every step from now on to a recorder; None ends that.

        Messages of custom sensors and of those that see are not among them; those sensors keep their own.
        """
        self._recorder: StepRecorder | None = recorder
        rows = 0 if recorder is None else self._steps * len(self)
        self._log = np.zeros(rows, ROW)
        self._frames = self._frames._replace(kept=np.zeros(rows * MAX_STEP_BYTES, np.uint8))
        self._frame_handles = handles_of(self._frames)

    @property
    def steps_to_update(self) -> int:
        """Steps to the end of which the commanders are updated next."""
        return self._steps - self._phase

    def advance(self, ticks: int = 1) -> None:
        """Fly on by ``ticks`` updates of the commanders."""
        self.advance_steps(ticks * self._steps)

    def advance_steps(self, count: int) -> None:
        """Fly on by ``count`` steps; the commanders are updated after every TICK of them.

        Raises:
            UserError: for a vehicle whose motion diverges, and when a user's controller or sensor fails.
        """
        while count > 0:
            taken = self._advance_steps(min(count, self.steps_to_update))
            count -= taken
            self._phase += taken
            if self._phase == self._steps:
                self._phase = 0
                self._update_commanders()

    def _advance_steps(self, count: int) -> int:
        """Take up to ``count`` steps, to the next action or user's own code that is due; returns how many."""
        self.timeline.run_due(self.time)
        count = min(count, self.timeline.steps_to_next(self.time, self.simulation.step) or count)
        if self._own:
            count = 1
        elif self.hosts:
            due = min(host.due for host in self.hosts)
            count = min(count, max(1, -((self.time - due) // self.simulation.step)))
        self._advance_kernel(count)
        for pilot in self._own:
            pilot.run_own_controller()
        if self.hosts:
            self._run_sensors()
        return count

    def _update_commanders(self) -> None:
        now = self.simulation.time
        for i, (pilot, battery) in enumerate(zip(self.pilots, self._batteries, strict=True)):
            if battery is not None:
                voltage, current, remaining = battery.tolist()
                if voltage > 0.0:
                    pilot.commander.battery(voltage, current, remaining, now)
            pilot.update(now)
            self.simulation.armed[i] = int(pilot.commander.armed)

    def _run_sensors(self) -> None:
        """Run the sensors that are due between steps; their messages reach the stack before its next step."""
        now = self.time
        for host in self.hosts:
            if host.due > now:
                continue
            for message in host.run(self.simulation.states[host.vehicle], now):
                link = self._frames.links[host.vehicle]
                frame = pack(message, self._encoder, int(link["sequence"]), host.label)
                link["sequence"] += 1
                controls = self.simulation.controls[host.vehicle]
                hand_over(np.frombuffer(frame, np.uint8).copy(), self._stack_handles, host.vehicle, controls)

    def _advance_kernel(self, count: int) -> None:
        s = self.simulation
        kept = 0
        if self._recorder is None and s.independent:
            handles = s.handles
            taken, diverged = s.in_blocks(
                lambda first, last: advance_block(
                    handles,
                    self._stack_handles,
                    self._frame_handles,
                    first,
                    last,
                    s.time,
                    s.step,
                    s.substeps,
                    count,
                )
            )
        else:
            taken, diverged, kept = advance(
                s.handles,
                self._stack_handles,
                self._frame_handles,
                self._log,
                s.time,
                s.step,
                s.substeps,
                count,
            )
        s.time += taken * s.step
        if self._recorder is not None and taken:
            rows = self._log[: taken * len(self)]
            self._recorder.write(rows, self._frames.kept[:kept], np.zeros(0, STEP))
        if diverged >= 0:
            raise s.divergence(diverged, s.time)

    def close(self) -> None:
        """Finish the vehicles' logs and the tables of custom sensors."""
        for pilot in self.pilots:
            pilot.close()
        for host in self.hosts:
            host.close()
