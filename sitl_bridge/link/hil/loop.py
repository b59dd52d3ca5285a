"""The lockstep loop in compiled code: advance, send, wait for the answers, again, without Python in between.

It calls the C library's socket functions by name (Linux).  Everything rare makes it return to the server
(server.py): a closed connection, an overdue answer, a full log block, a request from another thread.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from sitl_bridge.base.arrays import Bytes, Ints, Records
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.numba_extensions import arrays_of
from sitl_bridge.base.kernels.record import Record
from sitl_bridge.core.sensors.sample import draw_ahead
from sitl_bridge.core.simulation.fleet_step import FleetArrays, move_fleet, sample_vehicle
from sitl_bridge.core.simulation.simulation import Simulation
from sitl_bridge.link.hil.frame_parser import ParserScratch, parse
from sitl_bridge.link.hil.frame_writer import frame_memory, write_frames
from sitl_bridge.link.hil.link_state import (
    LINK,
    Answer,
    Link,
    LinkState,
    answer_came,
    answer_limit,
    in_lockstep,
    limit_passed,
)
from sitl_bridge.link.hil.message_layout import MAX_STEP_BYTES, PAYLOADS
from sitl_bridge.link.hil.system_calls import (
    CLOCK_MONOTONIC,
    MSG_DONTWAIT,
    MSG_NOSIGNAL,
    POLL,
    POLLIN,
    POLLOUT,
    clock_gettime,
    nanosleep,
    ppoll,
    recv,
    send,
)
from sitl_bridge.record.records import ROW, STEP
from sitl_bridge.record.truth_row import write_row

ARMED = 128
"""Bit of ``mode`` (MAV_MODE_FLAG_SAFETY_ARMED)."""

# Why the loop returned.
BUDGET = 0  # simulated time has come to its limit, or the wall time of one call is used up
LOG_FULL = 1
CLOSED = 2  # a flight stack closed its connection
OVERDUE = 3  # an answer is overdue, and the server is to decide
REQUEST = 4  # another thread raised the request flag
DIVERGED = 5  # a vehicle's motion is no longer finite; nothing of that step was sent or logged
_ANSWERED = -1  # it does not return: every answer that is waited for is there


class Loop(Record):
    """State of the loop.  Other threads write ``request``, ``pace`` and ``due`` only."""

    time: int  # us of simulated time
    step: int  # us
    substeps: int
    waiting: int  # 1: frames are out and not all answered
    pace: int  # ns of wall time a step, 0 = as fast as possible
    due: int  # ns, monotonic, when the next step may begin
    timeout: int  # ns to wait for an answer in lockstep before the server decides
    unanswered_wait: int  # ns a step at real time, the pace of flight stacks that do not answer
    unanswered_due: int  # ns, monotonic, when the next step may begin at that pace
    rows: int  # in the log block
    step_rows: int  # in the block of steps
    recorded_bytes: int  # in the block of frames
    sent: int  # ns, monotonic, when the frames of the last step had been sent
    waited: int  # ns, for the answers to the frames before
    request: int  # raised by other threads to make the loop return
    diverged: int  # the vehicle, after DIVERGED


LOOP = Loop.dtype

MAX_LAG = 200_000_000
"""ns.  A pace that falls further behind than this starts anew instead of rushing to catch up: a fifth of a
second is more than a scheduler takes away and less than a pilot notices."""
CALL_TIME = 20_000_000
"""ns after which the loop returns, so that requests, statistics and logs get their turn.  A read that waits
takes no longer (server.py sets the sockets' limit)."""
LOG_BLOCK = 1024
"""Rows, of which the loop hands over about half at a time: 0.1 s at 20 times real time."""
RECEIVE_BUFFER = 8192
SEND_BUFFER = 2 * MAX_STEP_BYTES
"""A step's frames and as much again for the messages of users' own sensors."""
FRAME_BLOCK = 1 << 18
"""Bytes of frames; more where the vehicles of four steps may need more."""


class LinkArrays(NamedTuple):
    """The memory of n links, as the loop takes it."""

    links: Annotated[Records, LINK]  # (n,) LINK
    slots: Annotated[Ints, 3]  # (n, 3, 4) of ``sensor_slots``
    payloads: Annotated[Records, PAYLOADS, 2]  # (n, 1) PAYLOADS
    payload_bytes: Annotated[Bytes, 2]  # the same memory as (n, bytes) uint8
    outs: Annotated[Bytes, 2]  # (n, SEND_BUFFER) uint8, frames to be sent
    buffers: Annotated[Bytes, 2]  # (n, RECEIVE_BUFFER) uint8, received bytes
    polls: Annotated[Records, POLL]  # (n,) POLL
    clock: Ints  # (2,) int64 scratch
    log: Annotated[Records, ROW]  # (rows,) ROW
    steps: Annotated[Records, STEP]  # (rows / n,) STEP
    frames: Bytes  # uint8, the frames that ``log`` counts
    parser: ParserScratch  # scratch

    @classmethod
    def of(cls, simulation: Simulation) -> LinkArrays:
        """Memory for a simulation's vehicles, all disconnected."""
        n = len(simulation)
        memory = frame_memory(simulation)
        memory[0]["fd"], memory[0]["answer"] = -1, Answer.NOT_AWAITED
        steps = max(LOG_BLOCK // n, 2)
        return cls(
            *memory,
            outs=np.zeros((n, SEND_BUFFER), np.uint8),
            buffers=np.zeros((n, RECEIVE_BUFFER), np.uint8),
            polls=np.zeros(n, POLL),
            clock=np.zeros(2, np.int64),
            log=np.zeros(steps * n, ROW),
            steps=np.zeros(steps, STEP),
            frames=np.zeros(max(FRAME_BLOCK, 4 * n * SEND_BUFFER), np.uint8),
            parser=ParserScratch.empty(),
        )


@compiled
def monotonic(clock: Ints) -> int:
    """ns of CLOCK_MONOTONIC; ``clock`` is (2,) int64 scratch."""
    clock_gettime(CLOCK_MONOTONIC, clock.ctypes)
    return clock[0] * 1_000_000_000 + clock[1]


@compiled
def _sleep(nanoseconds: int, clock: Ints) -> None:
    clock[0] = nanoseconds // 1_000_000_000
    clock[1] = nanoseconds % 1_000_000_000
    nanosleep(clock.ctypes, clock.ctypes)


@compiled
def _log(loop: Loop, fleet: FleetArrays, arrays: LinkArrays) -> None:
    """Append one row per vehicle: the state, the commands that led to it, and the frames it was sent."""
    for i in range(fleet.states.shape[0]):
        link = arrays.links[i]
        write_row(
            arrays.log[loop.rows],
            loop.time,
            i,
            fleet.armed[i],
            fleet.states[i],
            fleet.controls[i],
            link.previous,
            link.message_bytes,
            link.frame_bytes,
        )
        loop.rows += 1
        for k in range(link.message_bytes + link.frame_bytes):
            arrays.frames[loop.recorded_bytes + k] = arrays.outs[i, k]
        loop.recorded_bytes += link.message_bytes + link.frame_bytes
    step = arrays.steps[loop.step_rows]
    step.time = loop.time
    step.sent = loop.sent
    step.waited = loop.waited
    loop.step_rows += 1


@compiled
def _send_due_bytes(link: Link, out: Bytes) -> None:
    """Send the bytes that are due as far as the socket takes them; the rest stays, so no frame is cut short.

    A broken connection takes nothing either; reading from it shows that it is closed.
    """
    while link.out_start < link.out_end:
        rest = out[link.out_start :]
        count = send(link.fd, rest.ctypes, link.out_end - link.out_start, MSG_NOSIGNAL | MSG_DONTWAIT)
        if count <= 0:
            return
        link.out_start += count
        link.sent_bytes += count
    link.out_start = 0
    link.out_end = 0


@compiled
def _send_frames(loop: Loop, fleet: FleetArrays, arrays: LinkArrays) -> None:
    """Sample every vehicle; write and send its frames, behind messages that the server may have put.

    Vehicle by vehicle, so that the first flight stacks compute while the others' sensors are sampled.
    """
    for i in range(arrays.links.shape[0]):
        sample_vehicle(fleet, i, loop.time, loop.step)
        link = arrays.links[i]
        link.previous = 1 if link.answer == Answer.RECEIVED else 0
        link.message_bytes = 0
        link.frame_bytes = 0
        if link.fd < 0:
            link.answer = Answer.NOT_AWAITED
            continue
        link.answer = Answer.AWAITED
        if link.state == LinkState.LEFT_BEHIND:
            link.answer = Answer.NOT_AWAITED
            _send_due_bytes(link, arrays.outs[i])
            if link.out_end > 0:
                continue  # its socket is full: it never gets this frame
        link.message_bytes = link.out_end
        link.frame_bytes = write_frames(arrays.outs[i, link.out_end :], fleet, arrays, i, loop.time)
        link.out_end += link.frame_bytes
        link.sent_frames += 1
        _send_due_bytes(link, arrays.outs[i])


@compiled
def _receive(link: Link, buffer: Bytes, scratch: ParserScratch, now: int, how: int) -> None:
    """Read the bytes that have arrived and decode their frames.

    Args:
        buffer: (size,) uint8 of the link.
        now: ns.
        how: flags of ``recv``; 0 waits, but no longer than the socket's own limit.
    """
    room = buffer.shape[0] - link.have
    count = recv(link.fd, buffer[link.have :].ctypes, room, how)
    if count == 0:
        link.state = LinkState.CLOSED
    if count <= 0:
        return
    earlier = link.answers
    link.have += count
    parse(link, buffer, scratch)
    if link.answers > earlier:
        answer_came(link, earlier, now)


@compiled
def _watch_awaited(loop: Loop, arrays: LinkArrays, until: int) -> tuple[int, int, int]:
    """Prepare ``polls`` with the links whose answers are awaited.

    Returns:
        _ANSWERED if there is none, CLOSED, OVERDUE, or BUDGET if there is something to wait for; until when
        (ns) to wait at most; and the last link that is awaited if all that are will answer soon, else -1.
    """
    links, polls = arrays.links, arrays.polls
    now = monotonic(arrays.clock)
    # However late time is, an answer that comes as soon as PX4 answers in lockstep is still noticed.
    unanswered_until = max(loop.unanswered_due, loop.sent + loop.unanswered_wait // 2)
    reason, last, soon = _ANSWERED, -1, True
    for i in range(links.shape[0]):
        link = links[i]
        polls[i].fd = -1
        if link.state == LinkState.CLOSED:
            return CLOSED, until, -1
        if link.answer != Answer.AWAITED:
            continue
        limit = answer_limit(link, loop.timeout, unanswered_until)
        if now >= limit:
            if limit_passed(link):
                return OVERDUE, until, -1
            continue
        until = min(until, limit)
        polls[i].fd = link.fd
        polls[i].events = POLLIN | POLLOUT if link.out_end > 0 else POLLIN
        polls[i].revents = 0
        reason, last = BUDGET, i
        soon = soon and in_lockstep(link) and link.out_end == 0 and now < link.wait_start + CALL_TIME
    return reason, until, last if soon else -1


@compiled
def _receive_when_ready(arrays: LinkArrays, until: int) -> None:
    """Wait until a link in ``polls`` is ready, not beyond ``until`` (ns); receive, and send the bytes due."""
    links, polls, clock = arrays.links, arrays.polls, arrays.clock
    wait = max(until - monotonic(clock), 0)
    clock[0] = wait // 1_000_000_000
    clock[1] = wait % 1_000_000_000
    if ppoll(polls.ctypes, links.shape[0], clock.ctypes, 0) <= 0:
        return
    now = monotonic(clock)
    for i in range(links.shape[0]):
        if polls[i].fd < 0 or polls[i].revents == 0:
            continue
        if links[i].out_end > 0:
            _send_due_bytes(links[i], arrays.outs[i])
        _receive(links[i], arrays.buffers[i], arrays.parser, now, MSG_DONTWAIT)


@compiled
def _await_answers(loop: Loop, arrays: LinkArrays, until: int) -> int:
    """Wait for the answers of this step, not beyond ``until`` (ns); _ANSWERED, or why the loop returns."""
    links, clock = arrays.links, arrays.clock
    for i in range(links.shape[0]):
        if links[i].state == LinkState.LEFT_BEHIND:
            _receive(links[i], arrays.buffers[i], arrays.parser, monotonic(clock), MSG_DONTWAIT)
    while True:
        reason, limit, last = _watch_awaited(loop, arrays, until)
        if reason != BUDGET:
            return reason
        now = monotonic(clock)
        if now >= until:
            return BUDGET
        if loop.request != 0:
            return REQUEST
        if last >= 0:
            # The vehicle that was sent its frames last answers last, as a rule.  Waiting for it alone wakes
            # this thread once a step instead of once an answer, and takes one system call a vehicle.
            _receive(links[last], arrays.buffers[last], arrays.parser, now, 0)
        else:
            _receive_when_ready(arrays, limit)


@compiled
def _take_commands(links: Records, fleet: FleetArrays) -> None:
    """Apply each flight stack's last commands to its vehicle."""
    for i in range(links.shape[0]):
        fleet.armed[i] = 1 if (links[i].mode & ARMED) != 0 else 0
        for k in range(fleet.controls.shape[1]):
            fleet.controls[i, k] = links[i].controls[k]


@compiled
def _step_is_due(loop: Loop, clock: Ints, until: int) -> bool:
    """Whether the pace allows the next step now; otherwise sleeps until it does, but not beyond ``until``."""
    if loop.pace == 0:
        return True
    now = monotonic(clock)
    if now < loop.due:
        if now < until:
            _sleep(min(loop.due, until) - now, clock)
        return False
    if now - loop.due > MAX_LAG:
        loop.due = now
    loop.due += loop.pace
    return True


@compiled
def set_unanswered_due(loop: Loop) -> None:
    """Let the next step without answers begin one step of real time after this one was due, not sent.

    So neither the time that steps take nor a late wake-up adds up; beyond MAX_LAG it begins anew.
    """
    latest = loop.sent + loop.unanswered_wait
    due = min(loop.unanswered_due + loop.unanswered_wait, latest)
    loop.unanswered_due = due if loop.sent - due <= MAX_LAG else latest


@compiled
def _take_step(loop: Loop, fleet: FleetArrays, arrays: LinkArrays) -> bool:
    """Advance the vehicles and send their frames; False if the motion of one has diverged."""
    diverged = move_fleet(fleet, loop.time, loop.step, loop.substeps)
    if diverged >= 0:
        loop.diverged = diverged
        return False
    loop.time += loop.step
    _send_frames(loop, fleet, arrays)
    loop.sent = monotonic(arrays.clock)
    set_unanswered_due(loop)
    for i in range(arrays.links.shape[0]):
        arrays.links[i].wait_start = loop.sent
    loop.waiting = 1
    return True


@compiled
def _log_is_full(loop: Loop, fleet: FleetArrays, arrays: LinkArrays) -> bool:
    n = fleet.states.shape[0]
    if loop.recorded_bytes + n * SEND_BUFFER > arrays.frames.shape[0]:
        return True
    return loop.rows + n > arrays.log.shape[0]


@compiled
def _while_flight_stacks_compute(loop: Loop, fleet: FleetArrays, arrays: LinkArrays) -> None:
    """Do what the next frame does not depend on: log, and draw random numbers ahead."""
    _log(loop, fleet, arrays)
    for i in range(fleet.states.shape[0]):
        draw_ahead(fleet.sensors[i], fleet.sensor_states[i])


@compiled
def run(loop_array: Records, fleet_handles: Ints, link_handles: Ints, last: int) -> int:
    """Take lockstep steps until simulated time ``last`` (us) is answered, or the server has something to do.

    Args:
        loop_array: (1,) LOOP.
        fleet_handles: of ``FleetArrays``.
        link_handles: of ``LinkArrays``.
        last: us.

    Returns:
        BUDGET, LOG_FULL, CLOSED, OVERDUE, REQUEST or DIVERGED.
    """
    loop, fleet, arrays = (
        loop_array[0],
        arrays_of(fleet_handles, FleetArrays),
        arrays_of(link_handles, LinkArrays),
    )
    until = monotonic(arrays.clock) + CALL_TIME
    while True:
        if loop.waiting == 1:
            reason = _await_answers(loop, arrays, until)
            if reason != _ANSWERED:
                return reason
            loop.waiting = 0
            loop.waited = monotonic(arrays.clock) - loop.sent
            _take_commands(arrays.links, fleet)
        if loop.request != 0:
            return REQUEST
        if loop.time >= last:
            return BUDGET
        if _log_is_full(loop, fleet, arrays):
            return LOG_FULL
        if not _step_is_due(loop, arrays.clock, until):
            if monotonic(arrays.clock) >= until:
                return BUDGET
            continue
        if not _take_step(loop, fleet, arrays):
            return DIVERGED
        _while_flight_stacks_compute(loop, fleet, arrays)
        if 2 * loop.rows >= arrays.log.shape[0] or 2 * loop.recorded_bytes >= arrays.frames.shape[0]:
            return LOG_FULL
