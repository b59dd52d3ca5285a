"""Repeats recorded steps in compiled code, up to the first byte that differs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sitl_bridge.base.arrays import Bytes, Ints, Records
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.numba_extensions import arrays_of
from sitl_bridge.base.kernels.record import Packed
from sitl_bridge.core.simulation.fleet_step import FleetArrays, advance_fleet
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.link.hil.frame_writer import frame_memory, write_frames
from sitl_bridge.link.hil.link_state import Link
from sitl_bridge.link.hil.message_layout import (
    CHECKSUM,
    HEADER,
    HIL_STATE_QUATERNION,
    MAX_STEP_BYTES,
)
from sitl_bridge.record.records import ROW
from sitl_bridge.record.truth_row import write_row

SAME, TRUTH_DIFFERS, FRAMES_DIFFER, DIVERGED = 0, 1, 2, 3
"""Why the repetition ended."""


class ReplayArrays(NamedTuple):
    """The memory in which steps are repeated."""

    links: Records  # (n,) LINK; their states do not matter, only what the frames take from them
    slots: Ints  # (n, 3, 4) of ``sensor_slots``
    payloads: Records  # (n, 1) PAYLOADS
    payload_bytes: Bytes  # the same memory as (n, bytes) uint8
    out: Bytes  # (MAX_STEP_BYTES,) uint8, the frames of one vehicle
    row: Records  # (1,) ROW
    row_bytes: Bytes  # the same memory as (bytes,) uint8

    @classmethod
    def of(cls, simulation: Simulation) -> ReplayArrays:
        """Memory for a simulation's vehicles."""
        row = np.zeros(1, ROW)
        return cls(
            *frame_memory(simulation),
            out=np.zeros(MAX_STEP_BYTES, np.uint8),
            row=row,
            row_bytes=row.view(np.uint8),
        )


@compiled
def _as_sent(link: Link, data: Bytes, begin: int, end: int) -> None:
    """Give a link what did not come from the simulation: the sequence, and whether ground truth was due."""
    link.sequence = np.int64(data[begin + 4])  # type: ignore[assignment]
    link.truth_interval = 0
    link.truth_next = 0
    at: Any = begin
    while at + HEADER + CHECKSUM <= end:
        if np.int64(data[at + 7]) + 256 * np.int64(data[at + 8]) == HIL_STATE_QUATERNION:
            link.truth_interval = 1
        at += HEADER + np.int64(data[at + 1]) + CHECKSUM


@compiled
def _bytes_differ(replayed: Bytes, recorded: Bytes) -> bool:
    """Whether the first bytes of ``replayed`` are others than ``recorded``."""
    different = False
    for k in range(recorded.shape[0]):
        different |= replayed[k] != recorded[k]
    return different


@compiled
def _frames_differ(
    fleet: FleetArrays, arrays: ReplayArrays, i: int, time: int, data: Bytes, begin: int, end: int
) -> bool:
    _as_sent(arrays.links[i], data, begin, end)
    length = write_frames(arrays.out, fleet, arrays, i, time)
    if length != end - begin:
        return True
    return _bytes_differ(arrays.out, data[begin:end])


@compiled
def _truth_differs(
    fleet: FleetArrays, arrays: ReplayArrays, i: int, time: int, row: Packed, row_bytes: Bytes
) -> bool:
    write_row(
        arrays.row[0],
        time,
        i,
        fleet.armed[i],
        fleet.states[i],
        fleet.controls[i],
        row.answered,
        row.message_bytes,
        row.frame_bytes,
    )
    return _bytes_differ(arrays.row_bytes, row_bytes)


@compiled
def replay_steps(
    fleet_handles: Ints,
    plain_arrays: Any,
    rows: Records,
    row_bytes: Bytes,
    offsets: Ints,
    frames: Bytes,
    time: int,
    step: int,
    substeps: int,
) -> tuple[int, int, int]:
    """Take the recorded steps with the recorded commands.

    Args:
        fleet_handles: of ``FleetArrays``.
        plain_arrays: plain ``ReplayArrays``; ``row`` and ``out`` hold what was repeated last.
        rows: (k * n,) ROW as recorded.
        row_bytes: the same memory as (k * n, bytes) uint8.
        offsets: (k * n,) where the bytes of each row begin in ``frames``.
        frames: uint8 as recorded; empty where none were.
        time: us at the start.
        step: us.
        substeps: within a step.

    Returns:
        steps that are the same, the vehicle that differs in the next one, and SAME or why it ended.
    """
    fleet, arrays = arrays_of(fleet_handles, FleetArrays), ReplayArrays(*plain_arrays)
    n = fleet.states.shape[0]
    for s in range(rows.shape[0] // n):
        now = time + (s + 1) * step
        for i in range(n):
            fleet.armed[i] = rows[s * n + i].armed
            for k in range(fleet.controls.shape[1]):
                fleet.controls[i, k] = rows[s * n + i].control[k]
        diverged = advance_fleet(fleet, now - step, step, substeps)
        if diverged >= 0:
            return s, diverged, DIVERGED
        for i in range(n):
            row = rows[s * n + i]
            if _truth_differs(fleet, arrays, i, now, row, row_bytes[s * n + i]):
                return s, i, TRUTH_DIFFERS
            if row.frame_bytes > 0 and frames.shape[0] > 0:
                begin = offsets[s * n + i] + row.message_bytes
                if _frames_differ(fleet, arrays, i, now, frames, begin, begin + row.frame_bytes):
                    return s, i, FRAMES_DIFFER
    return rows.shape[0] // n, 0, SAME
