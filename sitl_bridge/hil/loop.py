"""The lockstep loop in compiled code: send, wait, decode, advance, again, without Python in between.

It calls the C library's socket functions by name.  Everything that is rare (a peer that is lost, a log
block that is full, a request from outside) makes it return to the server (server.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from sitl_bridge.compiled import compiled
from sitl_bridge.hil.frames import parse, write_step
from sitl_bridge.simulation import advance_fleet

_recv = types.ExternalFunction("recv", types.intp(types.intc, types.voidptr, types.uintp, types.intc))
_send = types.ExternalFunction("send", types.intp(types.intc, types.voidptr, types.uintp, types.intc))
_poll = types.ExternalFunction("poll", types.intc(types.voidptr, types.uintp, types.intc))
_clock_gettime = types.ExternalFunction("clock_gettime", types.intc(types.intc, types.voidptr))
_nanosleep = types.ExternalFunction("nanosleep", types.intc(types.voidptr, types.voidptr))

_MSG_DONTWAIT = 0x40
_MSG_NOSIGNAL = 0x4000
_POLLIN = 0x1
_CLOCK_MONOTONIC = 1
ARMED = 128
"""Bit of ``mode`` (MAV_MODE_FLAG_SAFETY_ARMED)."""

# Why the loop returned.
BUDGET = 0  # steps or wall time of this call are used up
LOG_FULL = 1
LOST = 2  # a peer closed its connection
STALLED = 3  # a peer's answer is overdue
REQUEST = 4  # the request flag was raised

POLL = np.dtype([("fd", "i4"), ("events", "i2"), ("revents", "i2")])

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
        ("log_every", "i8"),  # steps between log rows
        ("request", "i8"),  # raised from outside to make the loop return
        ("wall", "i8"),  # ns, monotonic, at the last look
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


@compiled
def monotonic(clock: Any) -> int:
    """ns of CLOCK_MONOTONIC; ``clock`` is (2,) int64 scratch."""
    _clock_gettime(_CLOCK_MONOTONIC, clock.ctypes)
    return clock[0] * 1_000_000_000 + clock[1]


@compiled
def _sleep(nanoseconds: int, clock: Any) -> None:
    clock[0] = nanoseconds // 1_000_000_000
    clock[1] = nanoseconds % 1_000_000_000
    _nanosleep(clock.ctypes, clock.ctypes)


@compiled
def _log(loop: Any, states: Any, controls: Any, armed: Any, links: Any, log: Any) -> None:
    """Append one row a vehicle: the state, and the commands that led to it."""
    for i in range(states.shape[0]):
        row = log[loop.rows]
        state = states[i]
        row.time = loop.time
        row.vehicle = i
        row.armed = armed[i]
        for k in range(3):
            row.position[k] = state.position[k]
            row.velocity[k] = state.velocity[k]
            row.angular_velocity[k] = state.angular_velocity[k]
            row.specific_force[k] = state.specific_force[k]
            row.wind[k] = state.wind[k]
        for k in range(4):
            row.attitude[k] = state.attitude[k]
        for k in range(12):
            row.rotor_speed[k] = state.rotor_speed[k]
            row.rotor_thrust[k] = state.rotor_thrust[k]
        for k in range(16):
            row.control[k] = controls[i, k]
        row.battery_voltage = state.battery_voltage
        row.battery_current = state.battery_current
        row.battery_charge = state.battery_charge
        row.impact_speed = state.impact_speed
        row.in_contact = state.in_contact
        row.answered = links[i].answered
        loop.rows += 1


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
    out: Any,
) -> None:
    """Write and send the frames of every connected vehicle."""
    for i in range(links.shape[0]):
        link = links[i]
        if link.fd < 0:
            link.answered = 1
            continue
        link.answered = 0
        length = write_step(
            out,
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
        sent = 0
        while sent < length:
            count = _send(link.fd, out[sent:].ctypes, length - sent, _MSG_NOSIGNAL | _MSG_DONTWAIT)
            if count <= 0:
                # Full or broken: a part of a frame that is out already must be completed, or the stream
                # is torn.  A broken connection shows as closed when it is read.
                link.send_full += 1
                if sent == 0 or _broken(link):
                    break
                _poll_out(link)
                continue
            sent += count


@compiled
def _poll_out(link: Any) -> None:
    """Wait until the socket takes more, 10 ms at most."""
    poll = np.zeros(1, np.int64)
    poll[0] = (np.int64(4) << 32) | np.int64(link.fd)
    _poll(poll.ctypes, 1, 10)


@compiled
def _broken(link: Any) -> bool:
    """True once the peer has closed its end."""
    peek = np.zeros(1, np.uint8)
    return _recv(link.fd, peek.ctypes, 1, _MSG_DONTWAIT | 2) == 0


@compiled
def _receive(link: Any, buffer: Any, payload: Any, scratch: Any, scratch_raw: Any) -> None:
    """Read what has arrived and take the frames out of it."""
    room = buffer.shape[0] - link.have
    count = _recv(link.fd, buffer[link.have :].ctypes, room, _MSG_DONTWAIT)
    if count == 0:
        link.lost = 1
        return
    if count < 0:
        return
    link.have += count
    parse(link, buffer, payload, scratch, scratch_raw)


@compiled
def _await(
    loop: Any,
    links: Any,
    polls: Any,
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
    while True:
        pending = 0
        shortest = until
        now = monotonic(clock)
        loop.wall = now
        for i in range(links.shape[0]):
            link = links[i]
            if link.answered == 1:
                continue
            if link.lost == 1:
                return LOST
            settled = link.answers > 0 and link.stalled == 0
            limit = link.wait_start + (loop.patience if settled else loop.silence)
            if now >= limit:
                if settled:
                    return STALLED
                link.answered = 2
                link.streak = 0
                continue
            shortest = min(shortest, limit)
            polls[pending].fd = link.fd
            polls[pending].events = _POLLIN
            polls[pending].revents = 0
            pending += 1
        if pending == 0:
            return -1
        if now >= until:
            return BUDGET
        if loop.request != 0:
            return REQUEST
        wait = (shortest - now) // 1_000_000 + 1
        if _poll(polls.ctypes, pending, wait) <= 0:
            continue
        for i in range(links.shape[0]):
            if links[i].answered == 0:
                _receive(links[i], buffers[i], payload, scratch, scratch_raw)
                if links[i].answered == 1 and links[i].stalled == 1:
                    links[i].streak += 1
                    if links[i].streak >= RECOVERED:
                        links[i].stalled = 0
                        links[i].streak = 0


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
    links: Any,
    slots: Any,
    payloads: Any,
    raw: Any,
    out: Any,
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
    commands stay as they were.

    Args:
        loop_array: (1,) LOOP.
        vehicles: (n,) VEHICLE, and so on to ``memories`` as for ``advance_fleet``.
        links: (n,) LINK.
        slots: (n, 3, 4) of ``sensor_slots``.
        payloads: (n, 1) PAYLOADS; ``raw`` is the same memory as (n, bytes) uint8.
        out: (MAX_STEP_BYTES,) uint8.
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
            reason = _await(loop, links, polls, buffers, payload, scratch, scratch_raw, clock, until)
            if reason >= 0:
                return reason
            loop.waiting = 0
            for i in range(links.shape[0]):
                armed[i] = 1 if (links[i].mode & ARMED) != 0 else 0
                for k in range(controls.shape[1]):
                    controls[i, k] = links[i].controls[k]
        if loop.request != 0:
            return REQUEST
        if loop.time >= last:
            return BUDGET
        if loop.rows + states.shape[0] > log.shape[0]:
            return LOG_FULL
        now = monotonic(clock)
        if now >= until:
            return BUDGET
        if loop.pace > 0:
            if now < loop.due:
                _sleep(min(loop.due, until) - now, clock)
                continue
            if now - loop.due > MAX_LAG:
                loop.due = now
            loop.due += loop.pace
        advance_fleet(
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
            loop.time,
            loop.step,
            loop.substeps,
        )
        loop.time += loop.step
        loop.steps += 1
        _send_step(loop, states, environment, sensors, memories, links, slots, payloads, raw, out)
        now = monotonic(clock)
        for i in range(links.shape[0]):
            links[i].wait_start = now
        loop.waiting = 1
        if loop.steps % loop.log_every == 0:
            _log(loop, states, controls, armed, links, log)
