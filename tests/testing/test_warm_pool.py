"""The warm pool: what waits is ready, is taken once, and leaves nothing behind, whatever ends it."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from sitl_bridge.api.linked import LinkedStacks
from sitl_bridge.api.pool import FlightPool
from sitl_bridge.session import ready_session
from sitl_bridge.session.stacks import ROUND
from sitl_bridge.testing.flights import ChosenFlight, flight_of


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def pool(lines: list[str]) -> Iterator[FlightPool]:
    made = FlightPool(warm=1, notify=lines.append)
    yield made
    made.close()


def flight(name: str, runs: Path) -> ChosenFlight:
    return flight_of(["iris"], None, None, (), {}, None, alone=True, name=name, runs=runs, speed=math.inf)


def children() -> set[psutil.Process]:
    """The living child processes of this test process, those that other tests left running included."""
    return {p for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE}


def runs(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir() if path.is_dir() and not path.is_symlink())


def test_a_flight_takes_what_waits_for_it_and_flies_at_once(
    pool: FlightPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = children()
    pool.prepare(flight("first", tmp_path).settings)
    assert len(pool.waiting) == 1
    pool.prepare(flight("no-room", tmp_path).settings)
    assert len(pool.waiting) == 1
    [waiting] = [one.session for one in pool.waiting]
    sitl = flight("first", tmp_path).open(pool, linked=True)
    assert isinstance(sitl.stacks, LinkedStacks)
    assert sitl.stacks.session is waiting
    assert len(pool.waiting) == 0
    assert sitl.time == 0.0
    with monkeypatch.context() as much_later:
        much_later.setattr(ready_session, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + 1e6))
        waiting.raise_failure()  # it may stand there for any time
    assert (waiting.now - waiting.simulation.start) % ROUND == 0
    sitl.arm()
    sitl.take_off(3.0)
    sitl.go_to((5, 0, -3), within=1.0)
    assert sitl.reached((5, 0, -3), within=2.0)
    assert not sitl.stayed_inside(north=(-1, 2))
    assert math.isfinite(sitl.truth.time[-1])
    sitl.land()
    assert sitl.landed_within(2.5, of=(5, 0))
    sitl.close()
    assert children() <= before
    assert [name.partition("-first")[1] for name in runs(tmp_path)] == ["-first"]


def test_one_that_dies_while_it_waits_is_reported_once_and_replaced(
    pool: FlightPool, lines: list[str], tmp_path: Path, wait_for: Callable[..., None]
) -> None:
    before = children()
    pool.prepare(flight("test", tmp_path).settings)
    [one] = pool.waiting
    wait_for(one.settled.is_set, "the session to settle")
    stack = one.session.vehicles[0].flight_stack
    assert stack is not None
    os.kill(stack.pid, signal.SIGKILL)
    wait_for(lambda: bool(one.fault), "the death to be noticed")
    sitl = flight("test", tmp_path).open(pool, linked=True)
    assert isinstance(sitl.stacks, LinkedStacks)
    assert sitl.stacks.session is not one.session
    sitl.close()
    assert len(lines) == 1
    assert "ended while it waited for its flight, and another is started" in lines[0]
    assert children() <= before
    assert len(runs(tmp_path)) == 1


def test_what_nobody_took_is_stopped_and_its_directory_removed(pool: FlightPool, tmp_path: Path) -> None:
    before = children()
    pool.prepare(flight("never", tmp_path).settings)
    assert len(runs(tmp_path)) == 1
    pool.close()
    pool.close()
    pool.prepare(flight("late", tmp_path).settings)  # nobody would settle or end it
    assert len(pool.waiting) == 0
    assert children() <= before
    assert runs(tmp_path) == []
