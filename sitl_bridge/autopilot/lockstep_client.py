"""The flight stack's side of the simulator link in compiled code: receive, run the stack, answer.

It calls the C library's socket functions by name (Linux), as the simulator's side does (hil/loop.py).  What
is rare or slow (the commander, a peer that is gone) makes it return to process.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sitl_bridge.autopilot.estimation.measurement import STEP
from sitl_bridge.autopilot.stack import read_frames
from sitl_bridge.hil.frames import CHECKSUM, HEADER, HIL_ACTUATOR_CONTROLS, MAGIC, MAX_STEP_BYTES, checksum
from sitl_bridge.hil.loop import ARMED, monotonic
from sitl_bridge.hil.system_calls import MSG_DONTWAIT, MSG_NOSIGNAL, POLLIN, ppoll, recv, send
from sitl_bridge.kernels.compiled import compiled

TICKED = 0
"""The commander is due; the step's answer is not out yet."""
IDLE = 1
"""Time to look after other things; no frame waits."""
LOST = 2
"""The peer closed the connection."""
STEPPED = 3
"""A step was taken that is not answered yet, and ``each_step`` is set."""

BUFFER = 4 * MAX_STEP_BYTES
ANSWER = HEADER + 81 + CHECKSUM
_CRC_EXTRA = 47
_CUSTOM_MODE = 1
_LOCKSTEP = 1
"""HIL_ACTUATOR_CONTROLS_FLAGS_LOCKSTEP"""

PEER = np.dtype(
    [
        ("fd", "i8"),
        ("system_id", "i8"),
        ("component_id", "i8"),
        ("sequence", "i8"),  # of the next frame sent
        ("begin", "i8"),  # bytes of the buffer that are read
        ("end", "i8"),  # bytes in the buffer
        ("steps", "i8"),  # steps taken
        ("answer_due", "i8"),  # 1: the last step is not answered
        ("armed", "i8"),
        ("tick", "i8"),  # steps between updates of the commander
        ("each_step", "i8"),  # 1: return before every answer, for a controller in Python
    ],
    align=True,
)
"""One connection to a simulator."""

ANSWER_PAYLOAD = np.dtype([("time", "<u8"), ("flags", "<u8"), ("controls", "<f4", 16), ("mode", "u1")])
"""HIL_ACTUATOR_CONTROLS in wire order."""


@compiled
def _answer(peer: Any, time: int, controls: Any, payload: Any, raw: Any, out: Any) -> bool:
    """Send HIL_ACTUATOR_CONTROLS; False when the connection is gone."""
    payload.time = np.uint64(time)
    payload.flags = np.uint64(_LOCKSTEP)
    payload.mode = np.uint8(_CUSTOM_MODE | (ARMED if peer.armed == 1 else 0))
    for k in range(16):
        payload.controls[k] = controls[k]
    length: Any = raw.shape[0]
    while length > 1 and raw[length - 1] == 0:
        length -= 1
    out[0] = MAGIC
    out[1] = length
    out[2] = 0
    out[3] = 0
    out[4] = peer.sequence & 0xFF
    out[5] = peer.system_id
    out[6] = peer.component_id
    out[7] = HIL_ACTUATOR_CONTROLS
    out[8] = 0
    out[9] = 0
    for k in range(length):
        out[HEADER + k] = raw[k]
    end = HEADER + length
    crc = checksum(out, 1, end, _CRC_EXTRA)
    out[end] = crc & 0xFF
    out[end + 1] = crc >> 8
    peer.sequence += 1
    sent: Any = 0
    while sent < end + CHECKSUM:
        # It waits only where the simulator does not read at all, and then there is nothing else to do.
        rest = out[sent:]
        count = send(peer.fd, rest.ctypes, end + CHECKSUM - sent, MSG_NOSIGNAL)
        if count <= 0:
            return False
        sent += count
    return True


@compiled
def serve(
    peer: Any,
    buffer: Any,
    reader_raw: Any,
    reader: Any,
    estimator: Any,
    estimate: Any,
    setpoint: Any,
    controller: Any,
    allocation: Any,
    wrench: Any,
    controls: Any,
    payload: Any,
    payload_raw: Any,
    out: Any,
    poll: Any,
    clock: Any,
    patience: int,
) -> int:
    """Answer steps until the commander is due, or ``patience`` ns have passed and no frame waits.

    Args:
        peer: PEER record.
        buffer: (BUFFER,) uint8.
        reader_raw: the bytes of the reader; the stack's records up to ``wrench`` follow.
        controls: (16,) float64.
        payload: ANSWER_PAYLOAD record; ``payload_raw`` is the same memory as uint8.
        out: (ANSWER,) uint8 scratch.
        poll: (1,) POLL scratch.
        clock: (2,) int64 scratch.
        patience: ns.

    Returns:
        TICKED, IDLE, LOST or STEPPED.
    """
    until = monotonic(clock) + patience
    while True:
        if peer.answer_due == 1:
            if not _answer(peer, reader.measurement.time, controls, payload, payload_raw, out):
                return LOST
            peer.answer_due = 0
        ran: Any = np.int64(0)
        if peer.begin < peer.end:
            peer.begin, ran = read_frames(
                buffer,
                peer.begin,
                peer.end,
                reader_raw,
                reader,
                estimator,
                estimate,
                setpoint,
                controller,
                allocation,
                wrench,
                controls,
            )
        if ran == STEP:
            peer.steps += 1
            peer.answer_due = 1
            if peer.steps % peer.tick == 0:
                return TICKED
            if peer.each_step == 1:
                return STEPPED
            continue
        for k in range(peer.end - peer.begin):
            buffer[k] = buffer[peer.begin + k]
        peer.end -= peer.begin
        peer.begin = 0
        now = monotonic(clock)
        if now >= until:
            return IDLE
        poll[0].fd = peer.fd
        poll[0].events = POLLIN
        clock[0] = (until - now) // 1_000_000_000
        clock[1] = (until - now) % 1_000_000_000
        if ppoll(poll.ctypes, 1, clock.ctypes, 0) <= 0:
            continue
        room = buffer[peer.end :]
        count = recv(peer.fd, room.ctypes, BUFFER - peer.end, MSG_DONTWAIT)
        if count == 0:
            return LOST
        if count > 0:
            peer.end += count
