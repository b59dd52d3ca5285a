"""One step of the flight stack in compiled code: measure, estimate, control, allocate.

Frames reach it from stack_fleet.py (in one process with the simulation) and lockstep_client.py (over the
simulator link); the commander, which writes the setpoint between steps, is plain Python.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from sitl_bridge.autopilot.control.allocation import allocate, allocation_record
from sitl_bridge.autopilot.control.dispatch import control
from sitl_bridge.autopilot.control.gains import ControllerChoice, controller_record
from sitl_bridge.autopilot.control.records import CONTROLLER, ControllerRecord
from sitl_bridge.autopilot.estimation.estimator import update
from sitl_bridge.autopilot.estimation.measurement import (
    READER,
    STEP,
    Reader,
    clear_fresh,
    fail_sensors,
    frame_size,
    read_frame,
)
from sitl_bridge.autopilot.estimation.records import ESTIMATOR, Estimator
from sitl_bridge.autopilot.estimation.sensor_settings import estimator_record
from sitl_bridge.autopilot.records import (
    ALLOCATION,
    ESTIMATE,
    IDLE,
    SETPOINT,
    TRAJECTORY,
    WRENCH,
    Allocation,
    Estimate,
    Setpoint,
    WrenchRecord,
)
from sitl_bridge.base.arrays import Bytes, Floats, Records
from sitl_bridge.base.kernels.compiled import compiled, on_demand, prepare

if TYPE_CHECKING:
    from sitl_bridge.core.vehicle.airframe import Airframe
    from sitl_bridge.core.world.world import World
    from sitl_bridge.record.topic_memory import TopicMemory

TICK = 48_000
"""us of simulated time between updates of the commander: 12 steps of 4 ms, the 20 Hz of PX4's navigator."""


@compiled
def _move_on(setpoint: Setpoint, seconds: float) -> None:
    if setpoint.level != TRAJECTORY:
        return
    for axis in range(3):
        acceleration = setpoint.acceleration[axis]
        velocity = setpoint.velocity[axis]
        if math.isfinite(acceleration) and math.isfinite(velocity):
            setpoint.position[axis] += (velocity + 0.5 * acceleration * seconds) * seconds
            setpoint.velocity[axis] = velocity + acceleration * seconds


@dataclass(frozen=True)
class StackVehicle:
    """A vehicle of a flight: its airframe, its place and its built-in flight stack's settings.

    It is always one vehicle with a loaded airframe; a ``vehicle.VehicleSpecification`` is a line of a file.
    """

    airframe: Airframe  # what it is
    name: str = "0"  # names its random streams
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)  # m NED of the point on the ground it stands on
    yaw: float = 0.0  # rad
    controller: ControllerChoice = None  # choice, None for the airframe's
    # of the stack, changed from their defaults
    parameters: dict[str, int | float] = field(default_factory=dict)
    # file of its log, or the memory that keeps some topics in its place; None for none
    log: Path | TopicMemory | None = None
    # directory for a table of samples (CSV) of each custom sensor, and for recordings; None keeps none
    tables: Path | None = None


class StackArrays(NamedTuple):
    """The memory of n vehicles' flight stacks, as compiled functions take it."""

    readers: Annotated[Records, READER]  # (n,) READER
    reader_bytes: Annotated[Bytes, 2]  # the same memory as (n, bytes) uint8
    estimators: Annotated[Records, ESTIMATOR]  # (n,) ESTIMATOR
    estimates: Annotated[Records, ESTIMATE]  # (n,) ESTIMATE
    setpoints: Annotated[Records, SETPOINT]  # (n,) SETPOINT
    controllers: Annotated[Records, CONTROLLER]  # (n,) CONTROLLER
    allocations: Annotated[Records, ALLOCATION]  # (n,) ALLOCATION
    wrenches: Annotated[Records, WRENCH]  # (n,) WRENCH

    @staticmethod
    def of(members: Sequence[StackVehicle], world: World) -> StackArrays:
        """Stacks set up for their airframes."""
        n = len(members)
        readers = np.zeros(n, READER)
        # These records take a while to compute, and fleets have few kinds of vehicles.
        made: dict[tuple[int, ControllerChoice], tuple[Records, ...]] = {}
        chosen = [(id(m.airframe), m.controller) for m in members]
        for m, key in zip(members, chosen, strict=True):
            if key not in made:
                made[key] = (
                    estimator_record(m.airframe, world),
                    controller_record(m.airframe, world, m.controller),
                    allocation_record(m.airframe, world),
                )
        return StackArrays(
            readers=readers,
            reader_bytes=readers.view(np.uint8).reshape(n, READER.itemsize),
            estimators=np.array([made[key][0] for key in chosen]),
            estimates=np.zeros(n, ESTIMATE),
            setpoints=np.zeros(n, SETPOINT),
            controllers=np.array([made[key][1] for key in chosen]),
            allocations=np.array([made[key][2] for key in chosen]),
            wrenches=np.zeros(n, WRENCH),
        )


@on_demand
def step_stack(
    reader: Reader,
    estimator: Estimator,
    estimate: Estimate,
    setpoint: Setpoint,
    controller: ControllerRecord,
    allocation: Allocation,
    wrench: WrenchRecord,
    controls: Floats,
) -> None:
    """From the measurements of a vehicle to its motor commands, (k,).

    Without an inertial sample the commands stay as they are, as PX4's do when its gyroscope fails, until the
    commander stops the motors.
    """
    m = reader.measurement
    fail_sensors(reader)
    seconds = (m.time - estimate.time) * 1e-6 if estimate.time > 0 else 0.0
    update(m, estimator, estimate, seconds)
    estimate.time = m.time
    _move_on(setpoint, seconds)
    if m.imu_fresh == 1:
        control(controller, estimate, setpoint, seconds, wrench)
    if m.imu_fresh == 1 or setpoint.level <= IDLE:
        allocate(allocation, wrench, setpoint.level, controls)
        for k in range(controls.shape[0]):
            controls[k] = np.float64(np.float32(controls[k]))  # as on the wire
    clear_fresh(m)


def prepare_step() -> None:
    """Compile a step, or load it from the cache."""
    prepare(update, control, allocate, step_stack)


@compiled
def read_frames(
    data: Bytes, start: int, end: int, stacks: StackArrays, i: int, controls: Floats
) -> tuple[int, int]:
    """Take whole frames out of ``data[start:end]`` up to and including the next step of vehicle ``i``.

    Returns:
        where the next frame begins, and STEP if the stack ran, else 0.
    """
    reader = stacks.readers[i]
    at: Any = start
    while at < end:
        size = frame_size(data, at, end)
        if size == 0:
            break
        if size < 0:
            reader.garbage += 1
            at += 1
            continue
        kind = read_frame(data, at, stacks.reader_bytes[i], reader)
        at += size
        if kind == STEP:
            step_stack(
                reader,
                stacks.estimators[i],
                stacks.estimates[i],
                stacks.setpoints[i],
                stacks.controllers[i],
                stacks.allocations[i],
                stacks.wrenches[i],
                controls,
            )
            return at, STEP
    return at, 0
