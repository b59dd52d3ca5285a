"""Keeps each flight stack on one processor.  Linux.

In a lockstep step a sample passes through some ten threads of a flight stack, one after the other.  Left to
the kernel, each wakes up on another processor, which costs more than the work that it could do meanwhile
(docs/performance.md).  On one processor they follow one another, and vehicles stay out of each other's
caches.  A single flight stack shares its processor with the bridge's lockstep thread, since these two take
turns; the other processors are left to missions, displays and sensors that see.

One look at the load of the processors at the start decides.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from sitl_bridge.base.system.child_process import ChildProcess
from sitl_bridge.base.system.launch import threads_of

LOOK = 0.1
"""s of wall time over which the load is measured: the kernel counts in ticks of 10 ms."""
PERIOD = 0.5
"""s of wall time from one binding of threads to the next."""
REPEATS = 4
"""Times that the flight stacks' threads are bound, for those that were just being created."""
GAIN = 0.25
"""Difference in load that tells one processor from another.  Ten times the resolution of the measurement."""
STACK_LOAD = 2 * GAIN
"""Load by which a flight stack counts when it is placed: it has only just started then."""

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_TOPOLOGY = Path("/sys/devices/system/cpu")


def place(loads: Mapping[int, float], count: int, order: Sequence[int]) -> tuple[int, ...]:
    """Choose a processor for each flight stack: the least loaded, and among those within GAIN the quickest.

    Args:
        loads: of each processor by other programs, 0 to 1.
        count: of flight stacks.
        order: the processors, the quickest first.
    """
    total = dict(loads)
    chosen = []
    for _ in range(count):
        least = min(total[processor] for processor in order)
        processor = next(p for p in order if total[p] < least + GAIN)
        total[processor] += STACK_LOAD
        chosen.append(processor)
    return tuple(chosen)


def sort_by_frequency(processors: Iterable[int], topology: Path = _TOPOLOGY) -> list[int]:
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
    with open("/proc/stat", encoding="ascii") as file:  # noqa: PTH123  (a special file)
        for line in file:
            name, _, rest = line.partition(" ")
            if name.startswith("cpu") and name != "cpu":
                user, nice, system, _idle, _wait, interrupt, soft, stolen, *_ = map(int, rest.split())
                found[int(name[3:])] = (user + nice + system + interrupt + soft + stolen) / _TICKS
    return found


def _bind(threads: Iterable[int], processors: Iterable[int]) -> None:
    for thread in threads:
        with contextlib.suppress(OSError):  # it has ended
            os.sched_setaffinity(thread, processors)


def _is_bound(thread: int) -> bool:
    try:
        return len(os.sched_getaffinity(thread)) == 1
    except OSError:
        return False


class ProcessorPlacement:
    """Places flight stacks on the processors that this program may use, in a ``with`` block.

    A thread of its own binds them, and keeps threads of sensors off the lockstep thread's processor.  Does
    nothing if there is only one processor, or on a system without processor affinity.

    Args:
        stacks: running flight stacks.
        lockstep: id of the bridge's lockstep thread; it is placed with a single flight stack.
    """

    def __init__(self, stacks: Sequence[ChildProcess], lockstep: int | None) -> None:
        self._stacks = tuple(stacks)
        self._lockstep = lockstep if len(stacks) == 1 else None
        self._available = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
        self._order = sort_by_frequency(self._available)
        self.places: tuple[int, ...] = ()
        """The processor of each flight stack; empty until they are placed."""
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

    def _run(self) -> None:
        before = _busy_times()
        if self._stop.wait(LOOK):
            return
        now = _busy_times()
        loads = {p: (now.get(p, 0.0) - before.get(p, 0.0)) / LOOK for p in self._order}
        self.places = place(loads, len(self._stacks), self._order)
        for k in itertools.count():
            if k < REPEATS:
                self._bind()
            self._free_others()
            if self._stop.wait(PERIOD):
                return

    def _bind(self) -> None:
        """Bind every thread of the flight stacks; threads that they create later are bound as well."""
        for stack, place in zip(self._stacks, self.places, strict=True):
            if stack.poll() is None:
                _bind(threads_of(stack.pid), {place})
        if self._lockstep is not None:
            _bind([self._lockstep], {self.places[0]})

    def _free_others(self) -> None:
        """Free the threads that the lockstep thread has created for sensors: they inherit its processor."""
        if self._lockstep is not None:
            own = set(threads_of(os.getpid())) - {self._lockstep}
            _bind([thread for thread in own if _is_bound(thread)], self._available)
