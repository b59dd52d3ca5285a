"""The flight stack's side of the simulator link in compiled code: receive, run the stack, answer.

It calls the C library's socket functions by name (Linux), as the simulator's side does (link/hil/loop.py).
Rare or slow work (the commander, a closed connection) makes it return to main.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from sitl_bridge.autopilot.estimation.measurement import STEP
from sitl_bridge.autopilot.stack import StackArrays, read_frames
from sitl_bridge.base.arrays import AnyArray, Bytes, Floats, Ints, Records, Singles
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.numba_extensions import arrays_of
from sitl_bridge.base.kernels.record import Record
from sitl_bridge.link.hil.frame_writer import enframe
from sitl_bridge.link.hil.loop import ARMED, monotonic
from sitl_bridge.link.hil.message_layout import HIL_ACTUATOR_CONTROLS, MAX_FRAME, MAX_STEP_BYTES
from sitl_bridge.link.hil.system_calls import MSG_DONTWAIT, MSG_NOSIGNAL, POLL, POLLIN, ppoll, recv, send

TICKED = 0
"""The commander is due; the step's answer is not out yet."""
IDLE = 1
"""Time to look after other things: no frame waits, a partner has sent something, or a step follows that which
set ``ticked``."""
LOST = 2
"""The peer closed the connection."""
STEPPED = 3
"""A step was taken that is not answered yet, and ``each_step`` is set."""

BUFFER = 4 * MAX_STEP_BYTES
PARTNERS = 3
"""Sockets of partners that end a wait."""
_CUSTOM_MODE = 1
_LOCKSTEP = 1
"""HIL_ACTUATOR_CONTROLS_FLAGS_LOCKSTEP"""


class Peer(Record):
    """One connection to a simulator."""

    fd: int
    system_id: int
    component_id: int
    sequence: int  # of the next frame sent
    begin: int  # bytes of the buffer that are read
    end: int  # bytes in the buffer
    steps: int  # steps taken
    answer_due: int  # 1: the last step is not answered
    armed: int
    tick: int  # steps between updates of the commander
    ticked: int  # 1: return before the next step, which takes what partners sent after the last one
    each_step: int  # 1: return before every answer, for a controller in Python


PEER = Peer.dtype


class AnswerPayload(Record, align=False):
    """HIL_ACTUATOR_CONTROLS in wire order."""

    time: Annotated[int, "<u8"]
    flags: Annotated[int, "<u8"]
    controls: Annotated[Singles, 16]
    mode: Annotated[int, "u1"]


ANSWER_PAYLOAD = AnswerPayload.dtype
_ANSWER = np.array([0, ANSWER_PAYLOAD.itemsize, HIL_ACTUATOR_CONTROLS])


class ClientArrays(NamedTuple):
    """The memory of one connection to a simulator."""

    peer: Records  # (1,) PEER
    controls: Floats  # (16,) float64, the answer's commands
    buffer: Bytes  # (BUFFER,) uint8, received bytes
    answer: Records  # (1,) ANSWER_PAYLOAD
    answer_bytes: Bytes  # the same memory as uint8
    out: Bytes  # (MAX_FRAME,) uint8 scratch
    poll: Records  # (1 + PARTNERS,) POLL, of the simulator and of partners' sockets
    clock: Ints  # (2,) int64 scratch

    @classmethod
    def of(cls, controls: Floats) -> ClientArrays:
        """Memory of a connection that answers with these commands."""
        answer = np.zeros(1, ANSWER_PAYLOAD)
        polls = np.zeros(1 + PARTNERS, POLL)
        polls["fd"], polls["events"] = -1, POLLIN
        return cls(
            peer=np.zeros(1, PEER),
            controls=controls,
            buffer=np.zeros(BUFFER, np.uint8),
            answer=answer,
            answer_bytes=answer.view(np.uint8),
            out=np.zeros(MAX_FRAME, np.uint8),
            poll=polls,
            clock=np.zeros(2, np.int64),
        )

    def watch(self, sockets: Sequence[int]) -> None:
        """End waits when one of these file descriptors, at most PARTNERS, can be read."""
        self.poll["fd"][1 : 1 + len(sockets)] = sockets


@compiled
def _answer(peer: Peer, time: int, client: ClientArrays) -> bool:
    """Send HIL_ACTUATOR_CONTROLS; False when the connection is gone."""
    payload, raw, out = client.answer[0], client.answer_bytes, client.out
    payload.time = np.uint64(time)
    payload.flags = np.uint64(_LOCKSTEP)
    payload.mode = np.uint8(_CUSTOM_MODE | (ARMED if peer.armed == 1 else 0))
    for k in range(16):
        payload.controls[k] = client.controls[k]
    end = enframe(out, 0, raw, _ANSWER, peer.sequence, peer.system_id, peer.component_id)
    peer.sequence += 1
    sent: Any = 0
    while sent < end:
        # It waits only where the simulator does not read at all, and then there is nothing else to do.
        rest = out[sent:]
        count = send(peer.fd, rest.ctypes, end - sent, MSG_NOSIGNAL)
        if count <= 0:
            return False
        sent += count
    return True


@compiled
def serve(stack_handles: Ints, client_arrays: tuple[AnyArray, ...], timeout: int) -> int:
    """Answer steps until the commander is due, a partner has sent something, or ``timeout`` ns have passed.

    What partners send after an update of the commander is read before the next step, however soon that comes:
    if simulated time stands still meanwhile, messages take effect at the time at which they are sent.

    Args:
        stack_handles: of one vehicle's ``StackArrays``.
        client_arrays: plain ``ClientArrays``.
        timeout: ns.

    Returns:
        TICKED, IDLE, LOST or STEPPED.
    """
    stacks, client = arrays_of(stack_handles, StackArrays), ClientArrays(*client_arrays)
    peer, buffer, controls = client.peer[0], client.buffer, client.controls
    poll, clock = client.poll, client.clock
    until = monotonic(clock) + timeout
    while True:
        if peer.answer_due == 1:
            if not _answer(peer, stacks.readers[0].measurement.time, client):
                return LOST
            peer.answer_due = 0
        ran: Any = np.int64(0)
        if peer.begin < peer.end and peer.ticked == 1:
            peer.ticked = 0
            return IDLE
        if peer.begin < peer.end:
            peer.begin, ran = read_frames(buffer, peer.begin, peer.end, stacks, 0, controls)
        if ran == STEP:
            peer.steps += 1
            peer.answer_due = 1
            if peer.steps % peer.tick == 0:
                peer.ticked = 1
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
        clock[0] = (until - now) // 1_000_000_000
        clock[1] = (until - now) % 1_000_000_000
        if ppoll(poll.ctypes, poll.shape[0], clock.ctypes, 0) <= 0:
            continue
        if poll[0].revents == 0:
            return IDLE
        room = buffer[peer.end :]
        count = recv(peer.fd, room.ctypes, BUFFER - peer.end, MSG_DONTWAIT)
        if count == 0:
            return LOST
        if count > 0:
            peer.end += count
