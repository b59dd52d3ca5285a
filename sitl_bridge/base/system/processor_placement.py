"""Keeps each flight stack on one processor.  Linux.

In a lockstep step a sample passes through some ten threads of a flight stack, one after the other.  Left to
the kernel, each wakes up on another processor, which costs more than the work that it could do meanwhile
(docs/performance.md).  On one processor they follow one another, and vehicles stay out of each other's
caches.  A single flight stack shares its processor with the bridge's lockstep thread, since these two take
turns; the other processors are left to missions, displays and sensors that see.

Where other programs compete for a processor, a flight stack moves to another one.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from sitl_bridge.base.system.child_process import ChildProcess

PERIOD = 0.5
"""s of wall time between looks at the load: the kernel counts in ticks of 10 ms."""
GAIN = 0.25
"""Load of a processor by which a move must relieve it.  Ten times the resolution of the measurement."""
LEAST_WEIGHT = 2 * GAIN
"""Load by which a flight stack counts at least when it is placed: it has only just started then."""
REPEATS = 4
"""Looks after a move at which it is repeated, for threads that were just being created."""

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_TOPOLOGY = Path("/sys/devices/system/cpu")


def placed(loads: Mapping[int, float], weights: Sequence[float], order: Sequence[int]) -> tuple[int, ...]:
    """Choose a processor for each flight stack.

    Args:
        loads: of each processor by other programs, 0 to 1.
        weights: load of each flight stack.
        order: the processors, the quickest first.

    Returns:
        the processor of each flight stack: the least loaded, and among those that differ by less than GAIN,
        the first in ``order``.
    """
    total = dict(loads)
    chosen = []
    for weight in weights:
        least = min(total[processor] for processor in order)
        processor = next(p for p in order if total[p] < least + GAIN)
        total[processor] += max(weight, LEAST_WEIGHT)
        chosen.append(processor)
    return tuple(chosen)


def relieving_move(
    loads: Mapping[int, float], weights: Sequence[float], places: Sequence[int]
) -> tuple[int, int] | None:
    """The move of one flight stack that relieves the most loaded processor by GAIN or more.

    Args:
        loads: as of ``placed``.
        weights: as of ``placed``.
        places: the processor of each flight stack.

    Returns:
        the flight stack and its new processor; None if no move does.
    """
    total = dict(loads)
    for weight, place in zip(weights, places, strict=True):
        total[place] += weight
    least = min(total, key=lambda p: total[p])
    best, move = GAIN, None
    for i, (weight, place) in enumerate(zip(weights, places, strict=True)):
        relief = total[place] - max(total[least] + weight, total[place] - weight)
        if place != least and relief >= best:
            best, move = relief, (i, least)
    return move


def quickest_first(processors: Iterable[int], topology: Path = _TOPOLOGY) -> list[int]:
    """Sort processors by their greatest frequency, and the first thread of each core before the second.

    Args:
        processors: numbers.
        topology: the kernel's description of the processors.
    """

    def read(processor: int, file: str) -> str:
        try:
            return (topology / f"cpu{processor}" / file).read_text(encoding="ascii").strip()
        except OSError:
            return ""

    def key(processor: int) -> tuple[int, int, int]:
        frequency = read(processor, "cpufreq/cpuinfo_max_freq")
        first = read(processor, "topology/thread_siblings_list").replace("-", ",").partition(",")[0]
        return (
            -int(frequency) if frequency.isdigit() else 0,
            int(first.isdigit() and int(first) != processor),
            processor,
        )

    return sorted(processors, key=key)


def _busy_times() -> dict[int, float]:
    """s that each processor has been busy since the machine started, time stolen by a hypervisor included."""
    found = {}
    with open("/proc/stat", encoding="ascii") as file:  # noqa: PTH123  (read twice a second)
        for line in file:
            name, _, rest = line.partition(" ")
            if name.startswith("cpu") and name != "cpu":
                user, nice, system, _idle, _wait, interrupt, soft, stolen, *_ = map(int, rest.split())
                found[int(name[3:])] = (user + nice + system + interrupt + soft + stolen) / _TICKS
    return found


def _own_time(path: str) -> float:
    """s that a process or thread has run, from its directory in /proc; 0 if it has ended."""
    try:
        with open(f"{path}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            columns = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(columns[11]) + int(columns[12])) / _TICKS


def _bind(threads: Iterable[int], processors: Iterable[int]) -> None:
    for thread in threads:
        with contextlib.suppress(OSError):  # it has ended
            os.sched_setaffinity(thread, processors)


def _is_bound(thread: int) -> bool:
    try:
        return len(os.sched_getaffinity(thread)) == 1
    except OSError:
        return False


def _threads_of(process: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{process}/task")]  # noqa: PTH208
    except OSError:
        return []


class ProcessorPlacement:
    """Places flight stacks on the processors that this program may use, in a ``with`` block.

    A thread of its own keeps them placed.  Does nothing if there is only one processor, or on a system
    without processor affinity.

    Args:
        stacks: running flight stacks.
        lockstep: id of the bridge's lockstep thread; it is placed with a single flight stack.
    """

    def __init__(self, stacks: Sequence[ChildProcess], lockstep: int | None) -> None:
        self._stacks = tuple(stacks)
        self._lockstep = lockstep if len(stacks) == 1 else None
        self._available = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
        self._order = quickest_first(self._available)
        self.places: tuple[int, ...] = ()
        """The processor of each flight stack; empty until they are placed."""
        self._repeats = 0
        self._random = random.Random()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="placement", daemon=True)

    def __enter__(self) -> Self:
        if len(self._order) > 1 and self._stacks:
            self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _times(self) -> tuple[dict[int, float], list[float]]:
        """Busy s of the processors, and s that each flight stack has run, with the lockstep thread's."""
        own = [_own_time(f"/proc/{stack.pid}") for stack in self._stacks]
        if self._lockstep is not None:
            own[0] += _own_time(f"/proc/self/task/{self._lockstep}")
        return _busy_times(), own

    def _run(self) -> None:
        (busy, own), wait = self._times(), PERIOD / 5
        while not self._stop.wait(wait):
            busy_now, own_now = self._times()
            weights = [max(b - a, 0.0) / wait for a, b in zip(own, own_now, strict=True)]
            loads = {p: (busy_now.get(p, 0.0) - busy.get(p, 0.0)) / wait for p in self._order}
            self._place(loads, weights)
            busy, own, wait = busy_now, own_now, PERIOD

    def _place(self, loads: dict[int, float], weights: Sequence[float]) -> None:
        """Place the flight stacks, or move one of them."""
        if not self.places:
            self.places, self._repeats = placed(loads, weights, self._order), REPEATS
        else:
            for weight, place in zip(weights, self.places, strict=True):
                loads[place] = max(loads[place] - weight, 0.0)
            move = relieving_move(loads, weights, self.places)
            # Two runs on one processor see the same load; chance decides which of them moves.
            if move is not None and self._random.getrandbits(1):
                stack, place = move
                self.places = (*self.places[:stack], place, *self.places[stack + 1 :])
                self._repeats = REPEATS
        if self._repeats > 0:
            self._repeats -= 1
            self._bind()
        self._free_others()

    def _bind(self) -> None:
        """Bind every thread of the flight stacks; threads that they create later are bound as well."""
        for stack, place in zip(self._stacks, self.places, strict=True):
            if stack.poll() is None:
                _bind(_threads_of(stack.pid), {place})
        if self._lockstep is not None:
            _bind([self._lockstep], {self.places[0]})

    def _free_others(self) -> None:
        """Free the threads that the lockstep thread has created for sensors: they inherit its processor."""
        if self._lockstep is not None:
            own = set(_threads_of(os.getpid())) - {self._lockstep}
            _bind([thread for thread in own if _is_bound(thread)], self._available)
