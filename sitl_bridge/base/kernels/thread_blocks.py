"""Compiled loops over vehicles in several threads.

A loop is cut into blocks of consecutive vehicles, and each block is one call of a compiled function, which
is free of the GIL.  Vehicles of a block depend on no other block, so the number of threads changes no byte.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

from sitl_bridge.base.errors import UserError

R = TypeVar("R")

VARIABLE = "SITL_BRIDGE_THREADS"
"""Environment variable with the number of threads."""
BLOCKS_PER_THREAD = 4
"""So many blocks even out threads that are interrupted by other programs."""

_pools: dict[int, ThreadPoolExecutor] = {}
os.register_at_fork(after_in_child=_pools.clear)  # a forked process has none of its parent's threads


def thread_count(given: int | None = None) -> int:
    """Number of threads: as given, else that of ``SITL_BRIDGE_THREADS``, else the cores of this process.

    Raises:
        UserError: for a number below 1, or a variable that holds no number.
    """
    source = "threads"
    if given is None:
        text = os.environ.get(VARIABLE, "")
        if not text:
            return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        source = VARIABLE
        if not text.isdecimal():
            raise UserError(f"{VARIABLE}: {text!r} is not a whole number of 1 or more")
        given = int(text)
    if given < 1:
        raise UserError(f"{source}: {given} is not a whole number of 1 or more")
    return given


def cut(count: int, threads: int, least: int) -> list[tuple[int, int]]:
    """First and last + 1 index of the blocks of ``count`` vehicles.

    Args:
        count: of vehicles.
        threads: that share them.
        least: vehicles of a block, below which starting a thread costs more than it saves.
    """
    if threads == 1 or count < 2 * least:
        return [(0, count)]
    blocks = min(threads * BLOCKS_PER_THREAD, count // least)
    edges = [count * k // blocks for k in range(blocks + 1)]
    return list(pairwise(edges))


def run_blocks(
    call: Callable[[int, int, int], R], blocks: Sequence[tuple[int, int]], threads: int
) -> list[R]:
    """Call a function for each block, in up to ``threads`` threads; returns the results in order.

    Args:
        call: takes the number of the block, its first and its last + 1 index.
        blocks: of ``cut``.
        threads: at most, this one included.
    """
    if len(blocks) == 1:
        return [call(0, *blocks[0])]
    if threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads - 1, thread_name_prefix="vehicles")
    rest = list(enumerate(blocks))
    found: dict[int, R] = {}

    def work() -> None:
        while True:
            try:
                k, (first, last) = rest.pop()  # one thread at a time takes a block
            except IndexError:
                return
            found[k] = call(k, first, last)

    helpers = [_pools[threads].submit(work) for _ in range(min(threads, len(blocks)) - 1)]
    try:
        work()
    finally:
        for helper in helpers:
            helper.result()
    return [found[k] for k in range(len(blocks))]
