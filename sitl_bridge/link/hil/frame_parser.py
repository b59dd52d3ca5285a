"""Finds and decodes the frames that a flight stack sends, in any stream of bytes."""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from sitl_bridge.base.arrays import Bytes, Records
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.link.hil.link_state import Answer, Link
from sitl_bridge.link.hil.message_layout import (
    CHECKSUM,
    COMMAND_LONG,
    HEADER,
    HEADER_1,
    HEARTBEAT,
    HIL_ACTUATOR_CONTROLS,
    HIL_STATE_QUATERNION,
    MAGIC,
    MAGIC_1,
    RECEIVED,
    SET_MESSAGE_INTERVAL,
    checksum,
    claimed_length,
    crc_extra,
    read_unsigned,
)


class ParserScratch(NamedTuple):
    """Memory in which one payload is decoded."""

    payload: Annotated[Records, RECEIVED]  # (1,) RECEIVED
    payload_bytes: Bytes  # the same memory as (255,) uint8

    @classmethod
    def empty(cls) -> ParserScratch:
        """New memory."""
        payload = np.zeros(1, RECEIVED)
        return cls(payload, payload.view(np.uint8))


@compiled
def _take_actuators(link: Link, received: Any) -> None:
    """Decode a HIL_ACTUATOR_CONTROLS payload into the link.

    A flight stack in lockstep takes its time from the frames, so its answer to the last frame has exactly
    that frame's time.  A later time answers no frame that was sent; its commands hold all the same, like
    those of a flight stack with a clock of its own.
    """
    link.time_usec = np.int64(received.time_usec)  # type: ignore[assignment]
    link.flags = received.flags
    link.mode = np.int64(received.mode)  # type: ignore[assignment]
    for i in range(16):
        value = received.controls[i]
        if not math.isfinite(value):
            value = np.float32(0.0)
            link.not_finite += 1
        elif value > 1.0 or value < -1.0:
            value = np.float32(1.0) if value > 0.0 else np.float32(-1.0)
            link.clamped += 1
        link.controls[i] = value
    if link.time_usec > link.sent_time or link.time_usec < 0:  # a time beyond 63 bits comes out negative
        link.ahead += 1
        return
    link.answers += 1
    if link.time_usec == link.sent_time:
        link.answer = Answer.RECEIVED


@compiled
def _take_command(link: Link, received: Any) -> None:
    """COMMAND_LONG: PX4 sends only SET_MESSAGE_INTERVAL, for the ground truth."""
    if received.command != SET_MESSAGE_INTERVAL:
        return
    interval = received.parameters[1]
    if received.parameters[0] == HIL_STATE_QUATERNION:
        link.truth_interval = np.int64(interval) if 0.0 < interval < 1e9 else 0  # type: ignore[assignment]


@compiled
def _verified_length(buffer: Bytes, i: int, have: int) -> Any:
    """Length of the complete, known and correctly checksummed frame at ``i``; 0 if there is none."""
    if have - i < HEADER + CHECKSUM or buffer[i] != MAGIC:
        return 0
    size = claimed_length(buffer, i, have)
    if size == 0 or size > have - i:
        return 0
    extra = crc_extra(read_unsigned(buffer, i + 7, 3))
    if extra < 0:
        return 0
    end: Any = i + HEADER + np.int64(buffer[i + 1])
    return size if checksum(buffer, i + 1, end, extra) == read_unsigned(buffer, end, 2) else 0


@compiled
def _mavlink_1_length(buffer: Bytes, i: int, have: int) -> Any:
    """The same for MAVLink 1 as ``_verified_length`` for MAVLink 2."""
    if have - i < HEADER_1 + CHECKSUM or buffer[i] != MAGIC_1:
        return 0
    end: Any = i + HEADER_1 + np.int64(buffer[i + 1])
    message: Any = np.int64(buffer[i + 5])
    extra = crc_extra(message)
    if extra < 0 or end + CHECKSUM > have:
        return 0
    right = checksum(buffer, i + 1, end, extra) == read_unsigned(buffer, end, 2)
    return end + CHECKSUM - i if right else 0


@compiled
def _take(link: Link, buffer: Bytes, i: int, scratch: ParserScratch) -> None:
    length = np.int64(buffer[i + 1])
    payload = scratch.payload_bytes
    for k in range(length):
        payload[k] = buffer[i + HEADER + k]
    for k in range(length, payload.shape[0]):
        payload[k] = 0
    message = read_unsigned(buffer, i + 7, 3)
    if message == HIL_ACTUATOR_CONTROLS:
        _take_actuators(link, scratch.payload[0])
    elif message == COMMAND_LONG:
        _take_command(link, scratch.payload[0])
    elif message == HEARTBEAT:
        link.heartbeats += 1
    else:
        link.unknown += 1


@compiled
def _may_begin(buffer: Bytes, i: int, have: int) -> bool:
    """Whether the frame of a known message may begin at ``i`` whose end has not arrived yet."""
    if buffer[i] != MAGIC:
        return False
    size = claimed_length(buffer, i, have)
    if size <= have - i:
        return False
    return have - i < HEADER or crc_extra(read_unsigned(buffer, i + 7, 3)) >= 0


@compiled
def _skip_unverified(link: Link, buffer: Bytes, i: int, have: int) -> Any:
    """Bytes to skip at a start byte whose frame is not verified; -1 to wait for the rest of the frame.

    A start byte within garbage may claim up to 280 of the bytes that follow.  The flight stack sends nothing
    more before the next step, so waiting for those bytes would stop the run: a verified frame among the
    claimed bytes proves that the start is false.  Frames of unknown messages cannot be verified; their
    length is believed unless a known message's frame begins within them.
    """
    size = claimed_length(buffer, i, have)
    if size == 0:
        link.garbage += 1
        return 1
    whole = have - i >= size
    if whole and crc_extra(read_unsigned(buffer, i + 7, 3)) >= 0:
        link.bad_checksums += 1
        return 1
    for k in range(i + 1, min(i + size, have)):
        if buffer[k] == MAGIC and _verified_length(buffer, k, have) > 0:
            link.garbage += k - i
            return k - i
    if not whole:
        return -1
    for k in range(i + 1, i + size):
        if _may_begin(buffer, k, have):
            link.garbage += k - i
            return k - i
    if i + size == have or buffer[i + size] == MAGIC or buffer[i + size] == MAGIC_1:
        link.unknown += 1
        return size
    link.garbage += 1
    return 1


@compiled
def parse(link: Link, buffer: Bytes, scratch: ParserScratch) -> None:
    """Take every whole frame out of ``buffer[:link.have]``; the rest of the bytes moves to its front.

    Bytes that begin no frame, frames with a wrong checksum and truncated frames are skipped byte by byte, so
    that the next frame is found wherever it begins.

    Args:
        buffer: (size,) uint8, received bytes.
    """
    have = link.have
    i: Any = np.int64(0)
    while i < have:
        size = _verified_length(buffer, i, have)
        if size > 0:
            _take(link, buffer, i, scratch)
            i += size
            continue
        if buffer[i] == MAGIC:
            skip = _skip_unverified(link, buffer, i, have)
            if skip < 0:
                break
            i += skip
            continue
        size = _mavlink_1_length(buffer, i, have)
        if size > 0:
            link.mavlink1 += 1
            i += size
            continue
        link.garbage += 1
        i += 1
    for k in range(have - i):
        buffer[k] = buffer[i + k]
    link.have = have - i
