"""The ceiling for any simulator outside PX4: plays recorded frames in a circle, and computes nothing.

Each lockstep step is sent as soon as the one before is answered, so PX4's own time is all that is left.  With
several vehicles it is the ceiling for one world: a step begins when all of them have answered.  Only
scripts/bench uses it: ``null_simulator.py PORT COUNT FRAMES``.

COUNT: vehicles, on PORT, PORT + 1 and so on.  FRAMES: MAVLink 2 frames of whole steps, each of which begins
with the HIL_SENSOR of sensor 0; simulated time goes on from lap to lap.  Prints answered steps and monotonic
seconds every BATCH steps from the first that all have answered on, until it is ended.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from typing import Any

import numpy as np

from sitl_bridge.base.arrays import Bytes, Ints, Records
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.system.launch import schedule_as_batch
from sitl_bridge.link.hil.frame_parser import ParserScratch, parse
from sitl_bridge.link.hil.link_state import LINK, Link
from sitl_bridge.link.hil.loop import RECEIVE_BUFFER
from sitl_bridge.link.hil.message_layout import (
    CHECKSUM,
    CRC_EXTRA,
    DISTANCE_SENSOR,
    HEADER,
    HIL_SENSOR,
    checksum,
    read_unsigned,
)
from sitl_bridge.link.hil.system_calls import MSG_NOSIGNAL, recv, send

STEP = 4000
"""us"""
WAIT = 4000
"""us that a read waits: for the answer to each of the first steps, which PX4 leaves unanswered."""
READS = 500
"""Reads for an answer once all have answered."""
BATCH = 100
"""Steps between two lines."""


@compiled
def delay(step: Bytes, later: int) -> None:
    """Let the frames of a step be ``later`` us, with their checksums."""
    at: Any = np.int64(0)
    while at < step.shape[0]:
        begin, end, message = (
            at + HEADER,
            at + HEADER + np.int64(step[at + 1]),
            read_unsigned(step, at + 7, 3),
        )
        in_ms = message == DISTANCE_SENSOR  # in 32 bits; the others begin with 64 bits of us
        size = 4 if in_ms else 8
        moment = read_unsigned(step, begin, size) + (later // 1000 if in_ms else later)
        for k in range(size):
            step[begin + k] = (moment >> (8 * k)) & 0xFF
        crc = checksum(step, at + 1, end, CRC_EXTRA[message])
        step[end], step[end + 1] = crc & 0xFF, crc >> 8
        at = end + CHECKSUM


@compiled
def await_answer(link: Link, buffer: Bytes, scratch: ParserScratch, reads: int) -> bool:
    """Wait for an answer; whether it came.  Nobody waits for a vehicle that has gone."""
    before = link.answers
    for _ in range(reads):
        if link.fd < 0 or link.answers > before:
            return True
        count = recv(link.fd, buffer[link.have :].ctypes, buffer.shape[0] - link.have, 0)
        if count == 0:
            link.fd = -1
        if count > 0:
            link.have += count
            parse(link, buffer, scratch)
    return link.answers > before


@compiled
def play(
    frames: Bytes,
    begins: Ints,
    links: Records,
    buffers: Bytes,
    scratch: ParserScratch,
    first: int,
    reads: int,
) -> int:
    """Play BATCH steps; returns how many of them all vehicles have answered.

    Args:
        frames: of one lap.
        begins: (k + 1,) where its steps begin, and its end.
        links: (n,) LINK.
        buffers: (n, size) received bytes.
        scratch: for received frames.
        first: steps before.
        reads: for an answer, at most.
    """
    lap = begins.shape[0] - 1
    answered_by_all = 0
    for step in range(first, first + BATCH):
        due = frames[begins[step % lap] : begins[step % lap + 1]]
        delay(due, STEP * lap if step >= lap else 0)
        for i in range(links.shape[0]):
            send(links[i].fd, due.ctypes, due.shape[0], MSG_NOSIGNAL)
        answered = True
        for i in range(links.shape[0] - 1, -1, -1):
            answered &= await_answer(links[i], buffers[i], scratch, reads)
        answered_by_all += answered
    return answered_by_all


def main() -> None:
    """Serve, and print."""
    port, count, frames = int(sys.argv[1]), int(sys.argv[2]), np.fromfile(sys.argv[3], np.uint8)
    begins, at = [], 0
    while at < len(frames):
        length = int(frames[at + 1])
        if frames[at + 7] == HIL_SENSOR and (length < 65 or frames[at + HEADER + 64] == 0):
            begins.append(at)
        at += HEADER + length + CHECKSUM
    links = np.zeros(count, LINK)
    links["fd"], links["sent_time"] = -1, np.iinfo(np.int64).max  # every answer counts
    buffers, steps, answered = np.zeros((count, RECEIVE_BUFFER), np.uint8), 0, 0
    played = frames, np.array([*begins, at]), links, buffers, ParserScratch.empty()
    play(*played, -BATCH, 0)  # compiles it
    schedule_as_batch()
    listeners = [socket.create_server(("127.0.0.1", port + i)) for i in range(count)]
    connections = [listener.accept()[0] for listener in listeners]
    for connection in connections:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 0, WAIT))
    links["fd"] = [connection.fileno() for connection in connections]
    while (links["fd"] >= 0).any():
        answered += play(*played, steps, READS if answered else 1)
        steps += BATCH
        if answered:
            print(answered, time.monotonic(), flush=True)


if __name__ == "__main__":
    main()
