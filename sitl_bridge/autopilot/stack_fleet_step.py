"""Compiled steps of vehicles together with their flight stacks: simulate, write frames, read, answer."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from sitl_bridge.autopilot.stack import StackArrays, read_frames
from sitl_bridge.base.arrays import Bytes, Floats, Ints, Records
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.numba_extensions import arrays_of
from sitl_bridge.core.simulation.fleet_step import FleetArrays, advance_fleet, move_vehicle, sample_vehicle
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.link.hil.frame_writer import frame_memory, write_frames
from sitl_bridge.link.hil.link_state import LINK
from sitl_bridge.link.hil.message_layout import MAX_STEP_BYTES, PAYLOADS
from sitl_bridge.record.truth_row import write_rows


class FrameArrays(NamedTuple):
    """The memory in which the frames of n vehicles are written."""

    links: Annotated[Records, LINK]  # (n,) LINK
    slots: Annotated[Ints, 3]  # (n, 3, 4) of ``sensor_slots``
    payloads: Annotated[Records, PAYLOADS, 2]  # (n, 1) PAYLOADS
    payload_bytes: Annotated[Bytes, 2]  # the same memory as (n, bytes) uint8
    out: Bytes  # (MAX_STEP_BYTES,) uint8
    kept: Bytes  # uint8, the frames of all vehicles in one call where they are recorded; else empty

    @classmethod
    def of(cls, simulation: Simulation) -> FrameArrays:
        """Memory for a simulation's vehicles."""
        return cls(
            *frame_memory(simulation),
            out=np.zeros(MAX_STEP_BYTES, np.uint8),
            kept=np.zeros(0, np.uint8),
        )


@compiled
def advance(
    fleet_handles: Ints,
    stack_handles: Ints,
    frame_handles: Ints,
    log: Records,
    time: int,
    step: int,
    substeps: int,
    count: int,
) -> tuple[int, int, int]:
    """Take ``count`` steps: simulate, write the frames of each vehicle, let its stack read and answer.

    Args:
        fleet_handles: of ``FleetArrays``.
        stack_handles: of ``StackArrays``.
        frame_handles: of ``FrameArrays``.
        log: (rows,) ROW for the truth of every step, count * n rows; or none.
        time: us at the start.
        step: us.
        substeps: integration steps within a step.
        count: steps to take.

    Returns:
        steps taken, -1 or the vehicle whose motion diverged in the next one, and bytes of frames kept.
    """
    kept: Any = np.int64(0)
    fleet, stacks, frames = (
        arrays_of(fleet_handles, FleetArrays),
        arrays_of(stack_handles, StackArrays),
        arrays_of(frame_handles, FrameArrays),
    )
    for k in range(count):
        now = time + (k + 1) * step
        diverged = advance_fleet(fleet, now - step, step, substeps)
        if diverged >= 0:
            return k, diverged, kept
        n = fleet.vehicles.shape[0]
        if log.shape[0] > 0:
            write_rows(log[k * n : (k + 1) * n], now, fleet.armed, fleet.states, fleet.controls)
        for i in range(n):
            end = write_frames(frames.out, fleet, frames, i, now)
            if log.shape[0] > 0:
                log[k * n + i].frame_bytes = end
                for b in range(end):
                    frames.kept[kept + b] = frames.out[b]
                kept += end
            at: Any = np.int64(0)
            while at < end:
                at, _ = read_frames(frames.out, at, end, stacks, i, fleet.controls[i])
    return count, -1, kept


@compiled
def advance_block(
    fleet_handles: Ints,
    stack_handles: Ints,
    frame_handles: Ints,
    first: int,
    last: int,
    time: int,
    step: int,
    substeps: int,
    count: int,
) -> tuple[int, int]:
    """Take ``count`` steps of independent vehicles ``first`` to ``last - 1``, one after the other.

    A vehicle's records stay in the processor's cache over all its steps.

    Returns:
        steps taken, and -1 or the vehicle whose motion diverged in the next one.
    """
    fleet, stacks, frames = (
        arrays_of(fleet_handles, FleetArrays),
        arrays_of(stack_handles, StackArrays),
        arrays_of(frame_handles, FrameArrays),
    )
    out = np.empty(MAX_STEP_BYTES, np.uint8)
    taken, diverged = count, -1
    for i in range(first, last):
        for k in range(taken):
            now = time + (k + 1) * step
            if not move_vehicle(fleet, i, now - step, step, substeps):
                taken, diverged = k, i
                break
            sample_vehicle(fleet, i, now, step)
            end = write_frames(out, fleet, frames, i, now)
            at: Any = np.int64(0)
            while at < end:
                at, _ = read_frames(out, at, end, stacks, i, fleet.controls[i])
    return taken, diverged


@compiled
def hand_over(frame: Bytes, stack_handles: Ints, i: int, controls: Floats) -> None:
    """Let the stack of vehicle ``i`` read one frame, (length,) uint8."""
    read_frames(frame, 0, frame.shape[0], arrays_of(stack_handles, StackArrays), i, controls)
