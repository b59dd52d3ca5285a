"""The link to one flight stack: its state, every transition of that state, and its record.

                     a                b                 c
    DISCONNECTED -------> STARTING -------> SETTLING -------> LOCKSTEP
         ^                 |    ^            ^    ^            |    ^
         | k             g |    | h        f |    |          d |    | e
         |                 v    |            |    |            v    |
       CLOSED              FROZEN            |    |            OVERDUE
         ^                 ^    |            |    |            |     |
         | j             g |    | h          |    | f        i |     | l
         |                 |    v            |    |            |     |
    any connected          SILENT -----------+    |            |     |
        state              ^    ^                 |            |     |
                           |    +-----------------|------------+     |
                         m |                      |                  v
                           +----------------- LEFT_BEHIND <----------+

    a  a flight stack connected; one that answers every frame from the first on is in LOCKSTEP at once (n)
    b  its first answer
    c  QUIET without another answer, so none is under way any more
    d  no answer for ``timeout``, and it does not read its frames, or the server is to wait anyway
    e  an answer
    f  it answers again: RECOVERED steps in a row (left behind: RECOVERED answers, at most GAP apart)
    g  too many frames lie unread, or the socket takes no more of them for ``timeout``
    h  it has read its frames, or answers: STARTING if that is its first answer or none came yet, else SILENT
    i  no answer for ``timeout`` though it reads, also from LOCKSTEP and FROZEN
    j  the flight stack closed the connection
    k  the server closed it, too
    l  no answer for ``timeout``, and the others are to fly on; also from LOCKSTEP, SILENT and FROZEN
    m  no other flight stack is in lockstep any more

``answer_came`` and ``limit_passed`` are the transitions within the compiled loop (b, c, e, f, h), where j is
noticed, too; ``when_overdue`` and ``frames_unread`` are those that the server decides on (d, g, h, i, l, m).
"""

from __future__ import annotations

import enum
from typing import Annotated, Literal

from sitl_bridge.base.arrays import Singles
from sitl_bridge.base.kernels.compiled import compiled
from sitl_bridge.base.kernels.record import Packed, Record

OnStall = Literal["continue", "wait", "leave", "abort"]
"""Reaction of the server when a flight stack in lockstep no longer answers; see ``LockstepServer``."""


class LinkState(enum.IntEnum):
    """State of a link.  What simulated time does in it is said of each."""

    DISCONNECTED = 0
    """Nobody is connected.  Time goes on with the motors stopped, or stands still if nobody is anywhere."""
    STARTING = 1
    """Connected, no answer yet.  Frames at real time."""
    SETTLING = 2
    """Answers have begun.  Time waits until all frames sent so far are answered."""
    LOCKSTEP = 3
    """Time waits for the answer to every frame."""
    OVERDUE = 4
    """In lockstep, but the answer is overdue.  Time waits on."""
    SILENT = 5
    """Reads its frames and does not answer.  Frames at real time; its last commands hold."""
    FROZEN = 6
    """Out of lockstep, and does not read its frames.  Time waits until it does."""
    LEFT_BEHIND = 7
    """Does not answer.  Time goes on with the other vehicles; its last commands hold."""
    CLOSED = 8
    """The flight stack closed the connection; the server has not looked yet."""


LOCKSTEP_STATES = frozenset({LinkState.LOCKSTEP, LinkState.OVERDUE})
"""States in which every frame is answered before the next goes out; ``in_lockstep`` for compiled code."""


class Answer(enum.IntEnum):
    """State of the answer to the frame that was sent last."""

    AWAITED = 0
    RECEIVED = 1
    NOT_AWAITED = 2
    """It may still come, but time goes on without it."""


class Link(Record):
    """One link.  Only the loop's thread writes it."""

    state: int  # LinkState
    answer: int  # Answer
    previous: int  # 1: the frame before the last was answered
    fd: int  # -1: disconnected
    streak: int  # SILENT: steps answered in a row; LEFT_BEHIND: answers
    quiet_until: int  # ns; SETTLING: end of the silence; LEFT_BEHIND: of what counts as in a row
    wait_start: int  # ns, when waiting for the answer began
    # --- received bytes
    have: int  # in the receive buffer
    # --- sent bytes
    sequence: int  # of the next frame
    out_start: int  # of the send buffer, that the socket has taken
    out_end: int  # of the send buffer, to be sent
    message_bytes: int  # in front of the frames of this step, at the start of the send buffer
    frame_bytes: int  # of the frames of this step; 0: none were sent
    sent_bytes: int  # in all
    sent_frames: int  # steps in all
    sent_time: int  # us, time_usec of the last primary sensor frame
    receivers: int  # bit by ID: satellite receivers that have sent
    # --- what the flight stack asked for
    truth_interval: int  # us between HIL_STATE_QUATERNION, 0: none
    truth_next: int  # us
    # --- the last HIL_ACTUATOR_CONTROLS
    time_usec: int
    flags: Annotated[int, "u8"]
    mode: int
    controls: Annotated[Singles, 16]
    # --- counters
    answers: int
    heartbeats: int
    garbage: int  # bytes that belong to no frame
    bad_checksums: int
    unknown: int  # frames of other messages
    mavlink1: int  # frames of MAVLink 1
    not_finite: int  # controls that are not finite numbers
    clamped: int  # controls out of range
    ahead: int  # commands with a time stamp later than the last frame's


LINK = Link.dtype

RECOVERED = 25
"""Steps answered in a row, 0.1 s at 250 Hz, after which a flight stack counts as recovered.  PX4 without an
accelerometer still answers now and then; waiting for it each time would stop simulated time."""
QUIET = 20_000_000
"""ns without another answer after which a flight stack has answered all it was sent.  Frames go out without
waiting before the first answer, so answers may be under way; counting one of them for a later frame would
keep the flight stack a frame behind for good."""
GAP = 200_000_000
"""ns between two answers of a flight stack that was left behind, up to which they count as in a row."""


@compiled
def in_lockstep(link: Link) -> bool:
    """Whether a link is in one of LOCKSTEP_STATES."""
    return link.state in (LinkState.LOCKSTEP, LinkState.OVERDUE)


@compiled
def _settle(link: Link, now: int) -> None:
    link.state = LinkState.SETTLING
    link.answer = Answer.AWAITED
    link.quiet_until = now + QUIET


@compiled
def _answer_of_one_left_behind(link: Link, now: int) -> None:
    """Transition f: it answers again; from now on, time waits while it works through its frames."""
    link.streak = link.streak + 1 if now < link.quiet_until else 1
    link.quiet_until = now + GAP
    if link.streak >= RECOVERED and link.out_end == 0:
        _settle(link, now)


@compiled
def answer_came(link: Link, earlier: int, now: int) -> None:
    """Transitions at an answer, whichever frame it answers (b, e, f, h).

    Args:
        earlier: answers before this one.
        now: ns.
    """
    if link.state == LinkState.LEFT_BEHIND:
        _answer_of_one_left_behind(link, now)
        return
    if link.state == LinkState.OVERDUE:
        link.state = LinkState.LOCKSTEP
    elif link.state == LinkState.FROZEN:
        link.state = LinkState.SILENT if earlier > 0 else LinkState.STARTING
    if link.out_end > 0:
        # The frame is not out yet, so this cannot be its answer.  Hence the send buffer is empty when the
        # next step is written, and never overflows.
        link.answer = Answer.AWAITED
    elif link.state == LinkState.SILENT:
        link.streak += 1 if link.answer == Answer.RECEIVED else 0
        if link.streak >= RECOVERED:
            _settle(link, now)
    elif link.state != LinkState.LOCKSTEP:
        _settle(link, now)


@compiled
def answer_limit(link: Link, timeout: int, unanswered_until: int) -> int:
    """Until when (ns) the answer is waited for in the link's present state.

    Args:
        timeout: ns, in lockstep.
        unanswered_until: ns, while the flight stack does not answer: when the next step is due at real time.
    """
    if link.state == LinkState.SETTLING:
        return link.quiet_until
    if in_lockstep(link) or link.state == LinkState.FROZEN or link.out_end > 0:
        return link.wait_start + timeout
    return unanswered_until


@compiled
def limit_passed(link: Link) -> bool:
    """Transition c, or going on without the answer; True if the server is to decide (``when_overdue``)."""
    if link.state == LinkState.SETTLING:
        link.state = LinkState.LOCKSTEP
        link.streak = 0
        link.answer = Answer.RECEIVED
        return False
    if in_lockstep(link) or link.state == LinkState.FROZEN or link.out_end > 0:
        return True
    link.answer = Answer.NOT_AWAITED
    link.streak = 0
    return False


def when_overdue(link: Packed, on_stall: OnStall, others_fly: bool, reads: bool) -> LinkState:
    """The state that follows when no answer came for ``timeout`` (d, g, h, i, l).

    Args:
        link: LINK record.
        on_stall: what the user chose, except ``abort``.
        others_fly: whether another flight stack is in lockstep.
        reads: whether the flight stack has read all its frames.
    """
    if on_stall == "leave" and others_fly:
        return LinkState.LEFT_BEHIND
    if reads and on_stall != "wait":
        return LinkState.SILENT
    if int(link["state"]) in LOCKSTEP_STATES:
        return LinkState.OVERDUE
    return _out_of_lockstep(link) if reads else LinkState.FROZEN


def frames_unread(link: Packed, others_fly: bool, unread: int, most: float) -> LinkState:
    """The state that follows from how many bytes lie unread while time does not wait for answers (g, h, m).

    Args:
        link: LINK record.
        others_fly: whether another flight stack is in lockstep.
        unread: bytes sent that the flight stack has not read.
        most: bytes up to which it counts as reading.
    """
    state = LinkState(int(link["state"]))
    if state is LinkState.LEFT_BEHIND:
        if others_fly:
            return state
        state = LinkState.SILENT
    if state is LinkState.FROZEN:
        return _out_of_lockstep(link) if unread == 0 else state
    return LinkState.FROZEN if unread > most else state


def _out_of_lockstep(link: Packed) -> LinkState:
    return LinkState.SILENT if int(link["answers"]) > 0 else LinkState.STARTING
