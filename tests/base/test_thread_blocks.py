"""Blocks of vehicles that threads share: their order, faults, and how many threads there are."""

from __future__ import annotations

from itertools import pairwise

import pytest

import sitl_bridge as sb
from sitl_bridge.base.kernels.thread_blocks import cut, run_blocks, thread_count


def test_threads_share_all_blocks_and_keep_their_order() -> None:
    assert cut(10, 1, 1) == [(0, 10)]
    blocks = cut(1000, 3, 64)
    assert blocks[0][0] == 0
    assert blocks[-1][1] == 1000
    assert all(before[1] == after[0] for before, after in pairwise(blocks))
    assert run_blocks(lambda k, first, last: (k, first, last), blocks, 3) == [
        (k, *block) for k, block in enumerate(blocks)
    ]


def test_a_fault_in_a_thread_reaches_the_caller() -> None:
    def fail(k: int, first: int, last: int) -> None:
        raise ValueError(f"block {k} from {first} to {last}")

    with pytest.raises(ValueError, match="block"):
        run_blocks(fail, cut(1000, 2, 64), 2)


def test_the_number_of_threads_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITL_BRIDGE_THREADS", "3")
    assert thread_count() == 3
    assert thread_count(2) == 2
    monkeypatch.setenv("SITL_BRIDGE_THREADS", "many")
    with pytest.raises(sb.UserError, match="SITL_BRIDGE_THREADS: 'many'"):
        thread_count()
    with pytest.raises(sb.UserError, match="threads: 0"):
        thread_count(0)
