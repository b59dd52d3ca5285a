"""The lockstep loop in compiled code: send, wait, decode, advance, again, without Python in between.

It calls the C library's socket functions by name (Linux).  Everything that is rare (a peer that is lost, a
log block that is full, a request from outside) makes it return to the server (server.py), where it can
while the flight stack computes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sitl_bridge.hil.frames import parse, write_step
from sitl_bridge.hil.system_calls import (
    CLOCK_MONOTONIC,
    MSG_DONTWAIT,
    MSG_NOSIGNAL,
    POLLIN,
    POLLOUT,
    clock_gettime,
    nanosleep,
    ppoll,
    recv,
    send,
)
from sitl_bridge.kernels.compiled import compiled
from sitl_bridge.record.truth_row import write_row
from sitl_bridge.sensors.sample import draw_ahead
from sitl_bridge.simulation import advance_fleet

ARMED = 128
"""Bit of ``mode`` (MAV_MODE_FLAG_SAFETY_ARMED)."""

# Why the loop returned.
BUDGET = 0  # steps or wall time of this call are used up
LOG_FULL = 1
LOST = 2  # a peer closed its connection
STALLED = 3  # a peer's answer is overdue
REQUEST = 4  # the request flag was raised
DIVERGED = 5  # a vehicle's motion is no longer finite; nothing of that step was sent or logged

LOOP = np.dtype(
    [
        ("time", "i8"),  # us of simulated time
        ("step", "i8"),  # us
        ("substeps", "i8"),
        ("waiting", "i8"),  # 1: frames are out and not all answered
        ("steps", "i8"),  # taken so far
        ("pace", "i8"),  # ns of wall time a step, 0 = as fast as it goes
        ("due", "i8"),  # ns, monotonic, when the next step may begin
        ("patience", "i8"),  # ns to wait for an answer before a peer counts as stalled
        ("silence", "i8"),  # ns to wait for a peer that has never answered or is stalled
        ("rows", "i8"),  # in the log block
        ("request", "i8"),  # raised from outside to make the loop return
        ("diverged", "i8"),  # the vehicle, after DIVERGED
    ],
    align=True,
)

MAX_LAG = 200_000_000
"""ns.  A pace that falls further behind than this starts anew instead of rushing to catch up: a fifth of a
second is more than a scheduler takes away and less than a pilot notices."""
RECOVERED = 25
"""Steps answered in a row, 0.1 s at 250 Hz, after which a stalled peer is waited for again.  PX4 without an
accelerometer still answers now and then; waiting for it each time would let time stand still."""
CALL_TIME = 20_000_000
"""ns after which the loop returns to look after requests, statistics and logs."""
QUIET = 20_000_000
"""ns without another answer after which a flight stack has answered all it was sent.  Frames go out without
waiting before the first answer, so answers may be under way; counting one of them for a later frame would
keep the flight stack a frame behind for good."""


GAP = 200_000_000
"""ns between answers of a flight stack that was left behind, above which they no longer count as in a row."""


@compiled
def monotonic(clock: Any) -> int:
    """ns of CLOCK_MONOTONIC; ``clock`` is (2,) int64 scratch."""
    clock_gettime(CLOCK_MONOTONIC, clock.ctypes)
    return clock[0] * 1_000_000_000 + clock[1]


@compiled
def _sleep(nanoseconds: int, clock: Any) -> None:
    clock[0] = nanoseconds // 1_000_000_000
    clock[1] = nanoseconds % 1_000_000_000
    nanosleep(clock.ctypes, clock.ctypes)


@compiled
def _log(loop: Any, states: Any, controls: Any, armed: Any, links: Any, log: Any) -> None:
    """Append one row a vehicle: the state, and the commands that led to it."""
    for i in range(states.shape[0]):
        write_row(log[loop.rows], loop.time, i, armed[i], states[i], controls[i], links[i].previous)
        loop.rows += 1


@compiled
def _flush(link: Any, out: Any) -> None:
    """Send what the socket takes of the bytes that are due; the rest stays, so no frame is ever torn.

    A broken connection takes nothing either; it shows as closed when it is read.
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
def _send_step(
    loop: Any,
    states: Any,
    environment: Any,
    sensors: Any,
    memories: Any,
    links: Any,
    slots: Any,
    payloads: Any,
    raw: Any,
    outs: Any,
) -> None:
    """Write and send the frames of every connected vehicle, after what the server may have put before."""
    for i in range(links.shape[0]):
        link = links[i]
        link.previous = 1 if link.fd >= 0 and link.answered == 1 else 0
        if link.fd < 0:
            link.answered = 1
            continue
        link.answered = 0
        if link.left == 1:
            link.answered = 2
            _flush(link, outs[i])
            if link.out_end > 0:
                continue  # its socket is full: this frame it never gets
        link.out_end += write_step(
            outs[i, link.out_end :],
            payloads[i],
            raw[i],
            states[i],
            environment[0],
            sensors[i],
            memories[i],
            link,
            slots[i],
            loop.time,
        )
        link.sent_frames += 1
        _flush(link, outs[i])


@compiled
def _receive(
    link: Any, buffer: Any, payload: Any, scratch: Any, scratch_raw: Any, now: int, how: int = MSG_DONTWAIT
) -> None:
    """Read what has arrived and take the frames out of it.

    Args:
        link: LINK record.
        buffer: (size,) uint8 of the link.
        payload: scratch as of ``run``, and so on.
        scratch: the same.
        scratch_raw: the same.
        now: ns.
        how: flags of ``recv``; 0 waits for as long as the socket's own limit allows.
    """
    room = buffer.shape[0] - link.have
    count = recv(link.fd, buffer[link.have :].ctypes, room, how)
    if count == 0:
        link.lost = 1
        return
    if count < 0:
        return
    answers = link.answers
    link.have += count
    parse(link, buffer, payload, scratch, scratch_raw)
    if link.answers == answers:
        return
    link.held = 0
    if link.left == 1:
        link.streak = link.streak + 1 if now < link.quiet_until else 1
        link.quiet_until = now + GAP
        if link.streak >= RECOVERED and link.out_end == 0:
            # It reads and answers again: wait while it works through the frames that were kept for it.
            link.left = 0
            link.answered = 0
            link.quiet_until = now + QUIET
        return
    if link.out_end > 0:
        # The frame is not out yet, so this cannot be its answer.  Hence ``out`` is empty when the next
        # step is written, and never overflows.
        link.answered = 0
        return
    if link.settled == 1:
        return
    if link.stalled == 1:
        link.streak += 1 if link.answered == 1 else 0
        if link.streak < RECOVERED:
            return
    link.answered = 0
    link.quiet_until = now + QUIET


@compiled
def _limit(loop: Any, link: Any) -> int:
    """ns until which a link's answer is waited for in its present condition."""
    if link.quiet_until > 0 and link.out_end == 0:
        return link.quiet_until
    if link.settled == 1 or link.held == 1 or link.out_end > 0:
        return link.wait_start + loop.patience
    return link.wait_start + loop.silence


@compiled
def _overdue(link: Any) -> bool:
    """What follows when a link's limit has passed; True where the server is to decide."""
    if link.quiet_until > 0 and link.out_end == 0:
        link.quiet_until = 0
        link.settled = 1
        link.stalled = 0
        link.streak = 0
        link.answered = 1
        return False
    if link.settled == 1 or link.held == 1 or link.out_end > 0:
        return True
    link.answered = 2
    link.streak = 0
    return False


@compiled
def _await(
    loop: Any,
    links: Any,
    polls: Any,
    outs: Any,
    buffers: Any,
    payload: Any,
    scratch: Any,
    scratch_raw: Any,
    clock: Any,
    until: int,
) -> int:
    """Wait for the answers of this step, not beyond ``until`` (ns); what to do next as a return reason.

    BUDGET while answers are missing and time is up, -1 when the step is complete.
    """
    for i in range(links.shape[0]):
        if links[i].fd >= 0 and links[i].left == 1:
            _receive(links[i], buffers[i], payload, scratch, scratch_raw, monotonic(clock))
    while True:
        pending = 0
        shortest = until
        now = monotonic(clock)
        for i in range(links.shape[0]):
            link = links[i]
            polls[i].fd = -1
            if link.lost == 1:
                return LOST
            if link.answered != 0:
                continue
            limit = _limit(loop, link)
            if now >= limit:
                if _overdue(link):
                    return STALLED
                if link.answered != 0:
                    continue
                limit = _limit(loop, link)
            shortest = min(shortest, limit)
            polls[i].fd = link.fd
            polls[i].events = POLLIN | POLLOUT if link.out_end > 0 else POLLIN
            polls[i].revents = 0
            pending += 1
        if pending == 0:
            return -1
        if now >= until:
            return BUDGET
        if loop.request != 0:
            return REQUEST
        if links.shape[0] == 1 and links[0].settled == 1 and links[0].stalled == 0 and links[0].out_end == 0:
            # One system call instead of two; the socket's own limit is shorter than a link's patience.
            _receive(links[0], buffers[0], payload, scratch, scratch_raw, now, 0)
            continue
        wait = max(shortest - now, 0)
        clock[0] = wait // 1_000_000_000
        clock[1] = wait % 1_000_000_000
        if ppoll(polls.ctypes, links.shape[0], clock.ctypes, 0) <= 0:
            continue
        now = monotonic(clock)
        for i in range(links.shape[0]):
            if polls[i].fd < 0 or polls[i].revents == 0:
                continue
            if links[i].out_end > 0:
                _flush(links[i], outs[i])
            _receive(links[i], buffers[i], payload, scratch, scratch_raw, now)


@compiled
def _take_commands(links: Any, controls: Any, armed: Any) -> None:
    """Hold what the flight stacks commanded last."""
    for i in range(links.shape[0]):
        armed[i] = 1 if (links[i].mode & ARMED) != 0 else 0
        for k in range(controls.shape[1]):
            controls[i, k] = links[i].controls[k]


@compiled
def run(
    loop_array: Any,
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
    raw: Any,
    outs: Any,
    polls: Any,
    buffers: Any,
    payload: Any,
    scratch: Any,
    scratch_raw: Any,
    clock: Any,
    log: Any,
    last: int,
) -> int:
    """Take lockstep steps until simulated time ``last`` (us) is answered, or something else is to be done.

    One step: hold the commands over it, advance all vehicles, send their frames, log, wait for all answers.
    A peer that has never answered, or whose answers stopped, is given ``silence`` of wall time a step; its
    commands stay as they were.  Lockstep begins with its first answer, and begins again after ``RECOVERED``
    answered steps, once it has been quiet for ``QUIET``.

    Args:
        loop_array: (1,) LOOP.
        vehicles: (n,) VEHICLE, and so on to ``collisions`` as for ``advance_fleet``.
        links: (n,) LINK.
        slots: (n, 3, 4) of ``sensor_slots``.
        payloads: (n, 1) PAYLOADS; ``raw`` is the same memory as (n, bytes) uint8.
        outs: (n, size) uint8, frames to be sent; size >= 2 * MAX_STEP_BYTES.
        polls: (n,) POLL.
        buffers: (n, size) uint8.
        payload: (255,) uint8; ``scratch`` (1,) float32 and ``scratch_raw`` (4,) uint8 share their memory.
        clock: (2,) int64.
        log: (rows,) ROW.
        last: us.

    Returns:
        BUDGET, LOG_FULL, LOST, STALLED or REQUEST.
    """
    loop = loop_array[0]
    until = monotonic(clock) + CALL_TIME
    while True:
        if loop.waiting == 1:
            reason = _await(loop, links, polls, outs, buffers, payload, scratch, scratch_raw, clock, until)
            if reason >= 0:
                return reason
            loop.waiting = 0
            _take_commands(links, controls, armed)
        if loop.request != 0:
            return REQUEST
        if loop.time >= last:
            return BUDGET
        if loop.rows + states.shape[0] > log.shape[0]:
            return LOG_FULL
        if loop.pace > 0:
            now = monotonic(clock)
            if now < loop.due:
                if now >= until:
                    return BUDGET
                _sleep(min(loop.due, until) - now, clock)
                continue
            if now - loop.due > MAX_LAG:
                loop.due = now
            loop.due += loop.pace
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
            loop.time,
            loop.step,
            loop.substeps,
        )
        if diverged >= 0:
            loop.diverged = diverged
            return DIVERGED
        loop.time += loop.step
        loop.steps += 1
        _send_step(loop, states, environment, sensors, memories, links, slots, payloads, raw, outs)
        now = monotonic(clock)
        for i in range(links.shape[0]):
            links[i].wait_start = now
        loop.waiting = 1
        # From here on the flight stacks compute.
        _log(loop, states, controls, armed, links, log)
        for i in range(states.shape[0]):
            draw_ahead(sensors[i], memories[i])
        if 2 * loop.rows >= log.shape[0]:
            return LOG_FULL
