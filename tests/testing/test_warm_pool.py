"""The warm pool: what waits is ready, is taken once, and leaves nothing behind, whatever ends it."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from sitl_bridge.core.vehicle.airframe_file import load_airframe
from sitl_bridge.core.world.world import WorldSpecification
from sitl_bridge.testing.flight_choice import FlightChoice
from sitl_bridge.testing.flight_desk import FlightDesk
from sitl_bridge.testing.linked_flight import LinkedFlight


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def desk(tmp_path: Path, lines: list[str]) -> Iterator[FlightDesk]:
    made = FlightDesk(tmp_path, warm=1, notify=lines.append)
    yield made
    made.close()


def choice() -> FlightChoice:
    return FlightChoice((load_airframe("iris"),), WorldSpecification())


def children() -> set[psutil.Process]:
    """The living child processes of this test process, those that other tests left running included."""
    return {p for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE}


def runs(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir() if path.is_dir() and not path.is_symlink())


def test_a_flight_takes_what_waits_for_it_and_flies_at_once(desk: FlightDesk, tmp_path: Path) -> None:
    before = children()
    desk.prepare(choice(), "first")
    assert len(desk.pool) == 1
    desk.prepare(choice(), "no-room")
    assert len(desk.pool) == 1
    [waiting] = [one.session for one in desk.pool._waiting]
    flight = desk.open(choice(), "first", linked=True)
    assert isinstance(flight, LinkedFlight)
    assert flight.session is waiting
    assert len(desk.pool) == 0
    assert flight.time == 0.0
    waiting._moved = (waiting.server.status().steps, -math.inf)
    waiting.refuse_trouble()  # it may stand there for any time
    assert (waiting.now - waiting.simulation.start) % 5_000_000 == 0
    flight.arm()
    flight.takeoff(3.0)
    flight.goto((5, 0, -3), within=1.0)
    assert flight.reached((5, 0, -3), within=2.0)
    assert not flight.stayed_inside(north=(-1, 2))
    assert math.isfinite(flight.track.time[-1])
    flight.land()
    assert flight.landed_within(2.5, of=(5, 0))
    flight.close()
    assert children() <= before
    assert [name.partition("-first")[1] for name in runs(tmp_path)] == ["-first"]


def test_one_that_dies_while_it_waits_is_reported_once_and_replaced(
    desk: FlightDesk, lines: list[str], tmp_path: Path, wait_for: Callable[..., None]
) -> None:
    before = children()
    desk.prepare(choice(), "test")
    [one] = desk.pool._waiting
    wait_for(one.settled.is_set, "the session to settle")
    stack = one.session.vehicles[0].flight_stack
    assert stack is not None
    os.kill(stack.pid, signal.SIGKILL)
    wait_for(lambda: bool(one.fault), "the death to be noticed")
    flight = desk.open(choice(), "test", linked=True)
    assert isinstance(flight, LinkedFlight)
    assert flight.session is not one.session
    flight.close()
    assert len(lines) == 1
    assert "ended while it waited for its flight, and another is started" in lines[0]
    assert children() <= before
    assert len(runs(tmp_path)) == 1


def test_what_nobody_took_is_stopped_and_its_directory_removed(desk: FlightDesk, tmp_path: Path) -> None:
    before = children()
    desk.prepare(choice(), "never")
    assert len(runs(tmp_path)) == 1
    desk.close()
    desk.close()
    assert children() <= before
    assert runs(tmp_path) == []
