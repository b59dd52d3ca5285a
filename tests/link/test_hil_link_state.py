"""Every transition of a link's state, by the letters of the diagram in link_state.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sitl_bridge.link.hil.link_state import (
    GAP,
    LINK,
    QUIET,
    RECOVERED,
    Answer,
    LinkState,
    OnStall,
    answer_came,
    answer_limit,
    frames_unread,
    limit_passed,
    when_overdue,
)
from sitl_bridge.link.hil.link_status import LinkStatus
from sitl_bridge.link.hil.loop import LOOP, MAX_LAG, set_unanswered_due

NOW = 10**12
TIMEOUT = 10**9
UNANSWERED_UNTIL = NOW + 4_000_000
S = LinkState
CONNECTED = [state for state in S if state not in (S.DISCONNECTED, S.CLOSED)]


def link_in(state: LinkState, answer: Answer = Answer.AWAITED, **fields: int) -> Any:
    link = np.zeros(1, LINK)[0]
    link["state"], link["answer"], link["wait_start"] = state, answer, NOW
    for name, value in fields.items():
        link[name] = value
    return link


def after_answer(link: Any, earlier: int = 5, now: int = NOW) -> LinkState:
    """The state after an answer to the last frame, as the parser leaves the link."""
    link["answers"], link["answer"] = earlier + 1, Answer.RECEIVED
    answer_came(link, earlier, now)
    return S(int(link["state"]))


def test_the_first_answer_does_not_end_the_wait_but_begins_the_silence() -> None:
    link = link_in(S.STARTING)
    assert after_answer(link, earlier=0) is S.SETTLING  # b
    assert link["answer"] == Answer.AWAITED
    assert answer_limit(link, TIMEOUT, UNANSWERED_UNTIL) == NOW + QUIET
    assert after_answer(link, now=NOW + 5) is S.SETTLING
    assert answer_limit(link, TIMEOUT, UNANSWERED_UNTIL) == NOW + 5 + QUIET, "each answer prolongs it"
    assert not limit_passed(link)
    assert link["state"] == S.LOCKSTEP  # c
    assert link["answer"] == Answer.RECEIVED


def test_in_lockstep_an_answer_completes_the_step_and_a_missing_one_is_for_the_server_to_decide() -> None:
    link = link_in(S.LOCKSTEP)
    assert answer_limit(link, TIMEOUT, UNANSWERED_UNTIL) == NOW + TIMEOUT
    assert limit_passed(link)
    assert link["state"] == S.LOCKSTEP
    assert after_answer(link) is S.LOCKSTEP
    assert link["answer"] == Answer.RECEIVED


def test_an_overdue_answer_brings_the_lockstep_back_at_once() -> None:
    link = link_in(S.OVERDUE)
    assert answer_limit(link, TIMEOUT, UNANSWERED_UNTIL) == NOW + TIMEOUT
    assert limit_passed(link)
    assert after_answer(link) is S.LOCKSTEP  # e
    assert link["answer"] == Answer.RECEIVED


@pytest.mark.parametrize("state", [S.STARTING, S.SILENT])
def test_out_of_lockstep_time_goes_on_at_real_time(state: LinkState) -> None:
    link = link_in(state, streak=7)
    assert answer_limit(link, TIMEOUT, UNANSWERED_UNTIL) == UNANSWERED_UNTIL
    assert not limit_passed(link)
    assert link["state"] == state
    assert link["answer"] == Answer.NOT_AWAITED
    assert link["streak"] == 0, "a step without an answer ends what counts as in a row"


@pytest.mark.parametrize("step_time", [0, 700_000, 2_000_000])
def test_steps_without_answers_begin_at_real_time_whatever_they_take(step_time: int) -> None:
    loop = np.zeros(1, LOOP)[0]
    loop["unanswered_wait"] = 4_000_000
    begins = [NOW]
    for _ in range(1000):
        loop["sent"] = begins[-1] + step_time
        set_unanswered_due(loop)
        begins.append(int(loop["unanswered_due"]))
    assert begins[-1] - begins[1] == 999 * 4_000_000
    loop["sent"] += 50_000_000  # a wake-up that is late
    set_unanswered_due(loop)
    assert loop["unanswered_due"] == begins[-1] + 4_000_000, "is caught up with"
    loop["sent"] += 2 * MAX_LAG
    set_unanswered_due(loop)
    assert loop["unanswered_due"] == loop["sent"] + 4_000_000, "not after a standstill"


@pytest.mark.parametrize("state", [S.STARTING, S.SILENT])
def test_with_a_full_socket_time_waits_out_of_lockstep_too(state: LinkState) -> None:
    link = link_in(state, out_end=100)
    assert answer_limit(link, TIMEOUT, UNANSWERED_UNTIL) == NOW + TIMEOUT
    assert limit_passed(link)
    assert after_answer(link, earlier=0) is state, "the last frame is not out, so this answers an older one"
    assert link["answer"] == Answer.AWAITED


def test_a_silent_flight_stack_settles_after_enough_steps_answered_in_a_row() -> None:
    link = link_in(S.SILENT)
    for _ in range(RECOVERED - 1):
        assert after_answer(link) is S.SILENT
        assert link["answer"] == Answer.RECEIVED
    assert after_answer(link) is S.SETTLING  # f
    assert link["answer"] == Answer.AWAITED


def test_answers_to_older_frames_do_not_count_as_steps_answered() -> None:
    link = link_in(S.SILENT, streak=RECOVERED - 1)
    answer_came(link, 5, NOW)
    assert link["state"] == S.SILENT
    assert link["streak"] == RECOVERED - 1


@pytest.mark.parametrize(("gap", "settles"), [(GAP - 1, True), (GAP, False)])
def test_one_that_was_left_behind_settles_after_enough_answers_without_a_gap(gap: int, settles: bool) -> None:
    link = link_in(S.LEFT_BEHIND, Answer.NOT_AWAITED)
    for k in range(RECOVERED - 1):
        assert after_answer(link, now=NOW + k) is S.LEFT_BEHIND
    last = after_answer(link, now=NOW + RECOVERED - 2 + gap)
    assert last is (S.SETTLING if settles else S.LEFT_BEHIND)  # f


def test_one_that_was_left_behind_does_not_settle_before_all_its_frames_are_out() -> None:
    link = link_in(S.LEFT_BEHIND, Answer.NOT_AWAITED, out_end=100, streak=RECOVERED, quiet_until=NOW + 1)
    assert after_answer(link) is S.LEFT_BEHIND
    link["out_end"] = 0
    assert after_answer(link) is S.SETTLING


def test_a_frozen_flight_stack_that_answers_is_where_it_was_before() -> None:
    assert after_answer(link_in(S.FROZEN), earlier=0) is S.SETTLING, "h and b: its first answer"
    assert after_answer(link_in(S.FROZEN), earlier=1) is S.SILENT  # h
    assert limit_passed(link_in(S.FROZEN))


@pytest.mark.parametrize(
    ("state", "on_stall", "reads", "follows"),
    [
        (S.LOCKSTEP, "continue", True, S.SILENT),  # i
        (S.LOCKSTEP, "continue", False, S.OVERDUE),  # d
        (S.LOCKSTEP, "wait", True, S.OVERDUE),  # d
        (S.LOCKSTEP, "wait", False, S.OVERDUE),
        (S.OVERDUE, "continue", True, S.SILENT),  # i
        (S.OVERDUE, "continue", False, S.OVERDUE),
        (S.OVERDUE, "wait", True, S.OVERDUE),
        (S.STARTING, "continue", False, S.FROZEN),  # g
        (S.SILENT, "continue", False, S.FROZEN),  # g
        (S.FROZEN, "continue", False, S.FROZEN),
        (S.FROZEN, "continue", True, S.SILENT),  # i
        (S.FROZEN, "wait", True, S.SILENT),  # h
        (S.LOCKSTEP, "leave", True, S.SILENT),
        (S.LOCKSTEP, "leave", False, S.OVERDUE),
    ],
)
def test_what_follows_when_no_answer_comes(
    state: LinkState, on_stall: OnStall, reads: bool, follows: LinkState
) -> None:
    assert when_overdue(link_in(state, answers=3), on_stall, False, reads) is follows
    if on_stall != "leave":
        assert when_overdue(link_in(state, answers=3), on_stall, True, reads) is follows


@pytest.mark.parametrize("state", [S.LOCKSTEP, S.OVERDUE, S.SILENT, S.FROZEN, S.STARTING])
@pytest.mark.parametrize("reads", [True, False])
def test_the_others_fly_on_without_it_where_that_was_chosen(state: LinkState, reads: bool) -> None:
    assert when_overdue(link_in(state), "leave", True, reads) is S.LEFT_BEHIND  # l


def test_a_frozen_flight_stack_that_never_answered_starts_again_when_it_reads() -> None:
    assert when_overdue(link_in(S.FROZEN, answers=0), "wait", False, True) is S.STARTING  # h
    assert frames_unread(link_in(S.FROZEN, answers=0), False, 0, 100.0) is S.STARTING  # h
    assert frames_unread(link_in(S.FROZEN, answers=1), False, 0, 100.0) is S.SILENT  # h
    assert frames_unread(link_in(S.FROZEN, answers=1), False, 1, 100.0) is S.FROZEN


@pytest.mark.parametrize("state", [S.STARTING, S.SILENT])
def test_one_that_stops_reading_out_of_lockstep_freezes(state: LinkState) -> None:
    assert frames_unread(link_in(state), False, 100, 100.0) is state
    assert frames_unread(link_in(state), False, 101, 100.0) is S.FROZEN  # g


def test_nobody_is_left_behind_by_nobody() -> None:
    assert frames_unread(link_in(S.LEFT_BEHIND), True, 10**6, 100.0) is S.LEFT_BEHIND
    assert frames_unread(link_in(S.LEFT_BEHIND), False, 0, 100.0) is S.SILENT  # m
    assert frames_unread(link_in(S.LEFT_BEHIND), False, 101, 100.0) is S.FROZEN, "m and g"


def test_what_is_reported_of_each_state() -> None:
    reported = {state: LinkStatus(4560, state, 9, armed=False) for state in S}
    assert [state for state in S if reported[state].connected] == [*CONNECTED, S.CLOSED]
    assert [state for state in S if reported[state].lockstep] == [S.LOCKSTEP, S.OVERDUE]
    assert [state for state in S if reported[state].stalled] == [S.SILENT, S.FROZEN, S.LEFT_BEHIND]
    assert [state for state in S if reported[state].held] == [S.OVERDUE, S.FROZEN]
    assert not LinkStatus(4560, S.FROZEN, 0, armed=False).stalled, "its answers have not begun, nor stopped"
