"""Flight stacks keep to one processor each."""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sitl_bridge.base.system.child_process import ChildProcess
from sitl_bridge.base.system.processor_placement import (
    GAIN,
    ProcessorPlacement,
    place,
    sort_by_frequency,
)
from sitl_bridge.core.simulation.simulation import Simulation, VehicleSetup
from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import World
from sitl_bridge.link.hil.server import LockstepServer

Wait = Callable[..., None]

REPORT = """
import os, resource, threading, time
print("policy", os.sched_getscheduler(0), flush=True)
print("limit", *resource.getrlimit(resource.RLIMIT_RTPRIO), flush=True)
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    print("real time", flush=True)
except PermissionError:
    print("no real time", flush=True)
"""

THREADS = """
import threading, time
started = time.monotonic()
for _ in range(3):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("loads", "count", "expected"),
    [
        ({0: 0.0, 1: 0.0}, 1, (0,)),
        ({0: 0.9, 1: 0.0}, 1, (1,)),
        ({0: GAIN / 2, 1: 0.0}, 1, (0,)),  # no telling difference: the quickest
        ({0: 0.1, 1: 0.0, 2: 0.1}, 3, (0, 1, 2)),
        ({0: 0.0, 1: 0.0}, 9, (0, 1) * 4 + (0,)),
    ],
)
def test_flight_stacks_go_to_the_least_loaded_processors(
    loads: dict[int, float], count: int, expected: tuple[int, ...]
) -> None:
    assert place(loads, count, sorted(loads)) == expected


def test_the_quickest_cores_come_first_and_their_second_threads_last(tmp_path: Path) -> None:
    cores = {0: ("3000000", "0-1"), 1: ("3000000", "0-1"), 2: ("4000000", "2,3"), 3: ("4000000", "2,3")}
    for number, (frequency, siblings) in cores.items():
        for name, value in (
            ("cpufreq/cpuinfo_max_freq", frequency),
            ("topology/thread_siblings_list", siblings),
        ):
            file = tmp_path / f"cpu{number}" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(value + "\n")
    assert sort_by_frequency([0, 1, 2, 3], tmp_path) == [2, 3, 0, 1]
    assert sort_by_frequency([4, 1, 0], tmp_path / "nothing") == [0, 1, 4]


@pytest.mark.parametrize("own_thread", [False, True])
def test_a_flight_stack_is_scheduled_as_batch_and_cannot_become_real_time(
    tmp_path: Path, own_thread: bool
) -> None:
    lines: list[str] = []
    limit = resource.getrlimit(resource.RLIMIT_RTPRIO)

    def run() -> None:
        command = [sys.executable, "-c", REPORT]
        with ChildProcess("report", command, tmp_path, dict(os.environ), lines.append, batch=True) as child:
            end = time.monotonic() + 30.0
            while not child.describe_end() and time.monotonic() < end:
                time.sleep(0.01)

    if own_thread:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    else:
        run()
    assert lines == [f"policy {os.SCHED_BATCH}", "limit 0 0", "no real time"]
    assert os.sched_getscheduler(0) != os.SCHED_BATCH
    assert resource.getrlimit(resource.RLIMIT_RTPRIO) == limit


def test_every_thread_of_a_flight_stack_is_bound_to_one_processor(tmp_path: Path, wait_for: Wait) -> None:
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        pytest.skip("one processor")
    lines: list[str] = []
    command = [sys.executable, "-c", THREADS]
    with ChildProcess("threads", command, tmp_path, dict(os.environ), lines.append, batch=True) as child:
        wait_for(lambda: bool(lines), "its threads")
        try:
            with ProcessorPlacement([child], threading.get_native_id()) as placement:

                def bound() -> bool:
                    threads = [int(entry.name) for entry in Path(f"/proc/{child.pid}/task").iterdir()]
                    assert len(threads) == 4
                    return bool(placement.places) and all(
                        os.sched_getaffinity(thread) == set(placement.places) for thread in threads
                    )

                wait_for(bound, "its threads to be bound")
                assert os.sched_getaffinity(threading.get_native_id()) == set(placement.places)
        finally:
            os.sched_setaffinity(0, before)
        assert child.poll() is None


def test_the_lockstep_thread_is_scheduled_as_batch_and_others_are_not() -> None:
    frame = load_airframe("iris")
    setup = VehicleSetup(frame.vehicle(), frame.sensor_records())
    with LockstepServer(Simulation(World(), [setup]), ports=[0]) as server:
        number = server.thread_id
        assert number is not None
        done = threading.Event()
        server.call(done.set)
        assert done.wait(30.0)
        assert os.sched_getscheduler(number) == os.SCHED_BATCH
        assert os.sched_getscheduler(0) == os.SCHED_OTHER
    assert server.thread_id is None
