"""n simulated vehicles and their flight stacks in one process, advanced together.

No sockets, no clock: a flight is a function of its seed and of the commands to the vehicles.  One vehicle at
the far end of the simulator link is stack_main.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from pymavlink.dialects.v20 import common as mavlink

from sitl_bridge.autopilot.control.gains import ControllerChoice
from sitl_bridge.autopilot.pilot import Pilot, facts_of
from sitl_bridge.autopilot.stack import TICK, StackArrays, read_frames
from sitl_bridge.dynamics.proximity import Proximity
from sitl_bridge.hil.frames import (
    COMPONENT_ID,
    LINK,
    MAX_STEP_BYTES,
    PAYLOADS,
    SYSTEM_ID,
    sensor_slots,
    write_step,
)
from sitl_bridge.kernels.compiled import compiled
from sitl_bridge.record.records import ROW
from sitl_bridge.record.truth_row import write_rows
from sitl_bridge.sensors.custom import CustomSensorHost
from sitl_bridge.sensors.records import BATTERY
from sitl_bridge.simulation import Simulation, VehicleSetup, advance_fleet
from sitl_bridge.vehicle.airframe import Airframe
from sitl_bridge.world.world import World


@compiled
def advance(
    vehicles: Any,
    states: Any,
    controls: Any,
    armed: Any,
    environment: Any,
    wind: Any,
    wind_states: Any,
    wind_series: Any,
    sensors: Any,
    memories: Any,
    proximity: Any,
    hulls: Any,
    touching: Any,
    collisions: Any,
    links: Any,
    slots: Any,
    payloads: Any,
    payloads_raw: Any,
    out: Any,
    readers: Any,
    readers_raw: Any,
    estimators: Any,
    estimates: Any,
    setpoints: Any,
    controllers: Any,
    allocations: Any,
    wrenches: Any,
    log: Any,
    time: int,
    step: int,
    substeps: int,
    count: int,
) -> tuple[int, int]:
    """Take ``count`` steps: simulate, write the frames of each vehicle, let its stack read and answer.

    Args:
        vehicles: (n,) VEHICLE, and so on to ``collisions`` as for ``advance_fleet``.
        links: (n,) LINK, and so on to ``payloads_raw`` as for ``hil.loop.run``.
        out: (MAX_STEP_BYTES,) uint8 scratch; ``readers`` to ``wrenches`` as in ``StackArrays``.
        log: (count * n,) ROW for the truth of every step; or none.
        time: us at the start, of ``count`` steps of ``step`` us with ``substeps`` integration steps each.

    Returns:
        steps taken, and -1 or the vehicle whose motion diverged in the next one.
    """
    for k in range(count):
        now = time + (k + 1) * step
        diverged = advance_fleet(
            vehicles,
            states,
            controls,
            armed,
            environment,
            wind,
            wind_states,
            wind_series,
            sensors,
            memories,
            proximity,
            hulls,
            touching,
            collisions,
            now - step,
            step,
            substeps,
        )
        if diverged >= 0:
            return k, diverged
        if log.shape[0] > 0:
            write_rows(log[k * vehicles.shape[0] :], now, armed, states, controls)
        for i in range(vehicles.shape[0]):
            end = write_step(
                out,
                payloads[i],
                payloads_raw[i],
                states[i],
                environment[0],
                sensors[i],
                memories[i],
                links[i],
                slots[i],
                now,
            )
            at: Any = np.int64(0)
            while at < end:
                at, _ = read_frames(
                    out,
                    at,
                    end,
                    readers_raw[i],
                    readers[i],
                    estimators[i],
                    estimates[i],
                    setpoints[i],
                    controllers[i],
                    allocations[i],
                    wrenches[i],
                    controls[i],
                )
    return count, -1


class Recorder(Protocol):
    """Takes the truth of a fleet's flight."""

    def write(self, rows: NDArray[np.void]) -> None:
        """Take rows, (k,) ROW, one a vehicle and step in that order; they are overwritten after the call."""
        ...


@dataclass(frozen=True)
class Member:
    """One vehicle of a fleet.

    Attributes:
        airframe: what it is.
        name: names its random streams.
        position: m NED of the point on the ground it stands on.
        yaw: rad.
        controller: choice, None for the airframe's.
        parameters: of the stack, changed from their defaults.
        log: file of its log, None for none.
        tables: directory for a table of samples (CSV) of each custom sensor; None keeps none.
    """

    airframe: Airframe
    name: str = "0"
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    yaw: float = 0.0
    controller: ControllerChoice = None
    parameters: dict[str, int | float] = field(default_factory=dict)
    log: Path | None = None
    tables: Path | None = None


class Fleet:
    """A simulation and a flight stack for each of its vehicles.

    Args:
        world: where they fly.
        members: the vehicles.
        seed: of all random streams.
        step: us between inertial samples.
        truth_interval: us between samples of ground truth in the vehicles' logs; 0 for none.
        proximity: what vehicles do to one another; None for nothing.

    Attributes:
        custom: the users' own sensors, sampled between steps.

    Raises:
        UserError: for an airframe that a simulation or its stack cannot take, and for a sensor or controller
            that cannot be made.
    """

    def __init__(
        self,
        world: World,
        members: Sequence[Member],
        *,
        seed: int = 0,
        step: int = 4000,
        truth_interval: int = 0,
        proximity: Proximity | None = None,
    ) -> None:
        setups = [
            VehicleSetup(m.airframe.vehicle(), m.airframe.sensor_records(), m.position, m.yaw, m.name)
            for m in members
        ]
        self.simulation = Simulation(world, setups, seed=seed, step=step, proximity=proximity)
        s = self.simulation
        n = len(members)
        airframes = [m.airframe for m in members]
        self.stacks = StackArrays.of(airframes, world, s.time, [m.controller for m in members])
        kinds = {id(airframe): airframe for airframe in airframes}
        facts = {key: facts_of(airframe, world) for key, airframe in kinds.items()}
        self.pilots = tuple(
            Pilot(
                self.stacks,
                i,
                s.controls[i],
                m.airframe,
                world,
                s.time,
                m.controller,
                m.parameters,
                m.log,
                facts[id(m.airframe)],
            )
            for i, m in enumerate(members)
        )
        self.custom = tuple(self._custom_sensors(members, seed))
        self._steps = max(1, round(TICK / step))
        self._phase = 0
        """Steps since the last update of the commanders."""
        self._recorder: Recorder | None = None
        self._log = np.zeros(0, ROW)
        self._encoder = mavlink.MAVLink(None, srcSystem=SYSTEM_ID, srcComponent=COMPONENT_ID)
        self._own = [pilot for pilot in self.pilots if pilot.own_controller is not None]
        self._links = np.zeros(n, LINK)
        self._links["truth_interval"] = truth_interval
        self._slots = np.array([sensor_slots(row) for row in s.sensors])
        self._payloads = np.zeros((n, 1), PAYLOADS)
        self._raw = self._payloads.view(np.uint8).reshape(n, PAYLOADS.itemsize)
        self._out = np.zeros(MAX_STEP_BYTES, np.uint8)
        self._battery = [
            next((k for k, sensor in enumerate(row) if sensor["kind"] == BATTERY), None) for row in s.sensors
        ]

    def __len__(self) -> int:
        return len(self.pilots)

    @property
    def time(self) -> int:
        """us of simulated time."""
        return self.simulation.time

    def _custom_sensors(self, members: Sequence[Member], seed: int) -> Iterator[CustomSensorHost]:
        for i, m in enumerate(members):
            for sensor in m.airframe.custom_sensors():
                table = None if m.tables is None else m.tables / f"{m.name}-{sensor.name}.csv"
                yield CustomSensorHost(
                    sensor, vehicle=i, name=m.name, seed=seed, start=self.simulation.start, table=table
                )

    def prepare(self) -> None:
        """Compile the steps, or load them from the cache; no time passes."""
        self._advance_kernel(0)

    def record(self, recorder: Recorder | None) -> None:
        """Hand the truth of every step from now on to a recorder; None ends that."""
        self._recorder = recorder
        self._log = np.zeros(0 if recorder is None else self._steps * len(self), ROW)

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
        """Take up to ``count`` steps, to the next at which a user's own code is due; returns how many."""
        if self._own:
            count = 1
        elif self.custom:
            due = min(host.due for host in self.custom)
            count = min(count, max(1, -((self.time - due) // self.simulation.step)))
        self._advance_kernel(count)
        for pilot in self._own:
            pilot.run_own_controller()
        if self.custom:
            self._sample_custom()
        return count

    def _update_commanders(self) -> None:
        for i, pilot in enumerate(self.pilots):
            self._feed_battery(i, pilot)
            pilot.update(self.simulation.time)
            self.simulation.armed[i] = int(pilot.commander.armed)

    def _sample_custom(self) -> None:
        """Sample the custom sensors that are due; their messages reach the stack before its next step."""
        now = self.time
        for host in self.custom:
            if host.due > now:
                continue
            for message in host.run(self.simulation.states[host.vehicle], now):
                link = self._links[host.vehicle]
                self._encoder.seq = int(link["sequence"]) & 0xFF
                link["sequence"] += 1
                self._hand_over(host.vehicle, np.frombuffer(message.pack(self._encoder), np.uint8))

    def _hand_over(self, i: int, frame: NDArray[np.uint8]) -> None:
        """Let a vehicle's stack read a frame."""
        stacks = self.stacks
        read_frames(
            frame.copy(),
            0,
            len(frame),
            stacks.raw[i],
            stacks.readers[i],
            stacks.estimators[i],
            stacks.estimates[i],
            stacks.setpoints[i],
            stacks.controllers[i],
            stacks.allocations[i],
            stacks.wrenches[i],
            self.simulation.controls[i],
        )

    def _advance_kernel(self, count: int) -> None:
        s, stacks = self.simulation, self.stacks
        taken, diverged = advance(
            s.vehicles,
            s.states,
            s.controls,
            s.armed,
            s.world.environment,
            s.world.wind,
            s.wind_states,
            s.world.wind_series,
            s.sensors,
            s.sensor_states,
            *s.neighbourhood,
            self._links,
            self._slots,
            self._payloads,
            self._raw,
            self._out,
            stacks.readers,
            stacks.raw,
            stacks.estimators,
            stacks.estimates,
            stacks.setpoints,
            stacks.controllers,
            stacks.allocations,
            stacks.wrenches,
            self._log,
            s.time,
            s.step,
            s.substeps,
            count,
        )
        s.time += taken * s.step
        if self._recorder is not None and taken:
            self._recorder.write(self._log[: taken * len(self)])
        if diverged >= 0:
            raise s.divergence(diverged, s.time)

    def _feed_battery(self, i: int, pilot: Pilot) -> None:
        slot = self._battery[i]
        if slot is None:
            return
        memory = self.simulation.sensor_states[i, slot]
        voltage, current, remaining = memory["values"][:3].tolist()
        if voltage > 0.0:
            pilot.commander.battery(voltage, current, remaining, self.simulation.time)

    def close(self) -> None:
        """Finish the vehicles' logs and the custom sensors' tables."""
        for pilot in self.pilots:
            pilot.close()
        for host in self.custom:
            host.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
